//! Requests through the reverse proxy that are counted as one thing and would be served as another.

use crate::attack::{AttackResult, Failure, RunContext, require};
use crate::daemon::Daemon;
use crate::upstream::{Manner, Upstream};
use crate::{http2, raw};

/// Headers that only a trusted proxy in front may send.
const IDENTITY_HEADERS: [&str; 6] =
    ["X-Real-IP", "True-Client-IP", "X-Forwarded-Port", "X-Forwarded-Prefix", "X-Original-URL", "x_user"];

fn policy(upstream: &Upstream) -> String {
    format!(
        "listen: {{ http: '127.0.0.1:0', proxy: '127.0.0.1:0' }}\n\
         namespaces:\n  \
           limited: {{ limits: [{{ name: few, fixed: {{ limit: 1, window: 50m }} }}] }}\n  \
           keyed: {{ limits: [{{ name: each, key: [key], missing: refuse, rate: 1000/s }}] }}\n\
         proxy:\n  upstreams: {{ app: ['{}'] }}\n  routes:\n    \
           - {{ match: {{ host: limited.example }}, upstream: app, namespace: limited }}\n    \
           - {{ match: {{ path: '/keyed' }}, upstream: app, namespace: keyed, attributes: {{ key: header.x-api-key }} }}\n    \
           - {{ upstream: app }}\n",
        upstream.url()
    )
}

fn request(method: &str, path: &str, host: &str, headers: &str) -> Vec<u8> {
    format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n").into_bytes()
}

/// No upgrade but that to WebSocket becomes a tunnel.
pub(crate) fn upgrades_to_h2c(context: &RunContext) -> AttackResult {
    let upstream = Upstream::start(Manner::Upgrades)?;
    let daemon = Daemon::start(context, &policy(&upstream))?;
    let mut through = Vec::new();
    for upgrade in [
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
        "Connection: Upgrade\r\nUpgrade: h2c\r\n",
        "Connection: Upgrade\r\nUpgrade: H2C\r\n",
        "Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n",
        "Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n",
        "Connection: Upgrade\r\nUpgrade: TLS/1.0\r\n",
        "HTTP2-Settings: AAMAAABkAAQAAP__\r\n",
    ] {
        // The answer is of no matter: what the service was asked to speak decides what the tunnel
        // carries.
        raw::ask(daemon.proxy()?, &request("GET", "/", "a.example", upgrade))?;
        let is_through = upstream.take_received().iter().any(|(parts, _)| {
            let upgrades: Vec<_> = parts.headers.get_all("upgrade").iter().collect();
            let is_other =
                upgrades.iter().any(|protocol| !protocol.as_bytes().eq_ignore_ascii_case(b"websocket"));
            is_other || upgrades.len() > 1 || parts.headers.contains_key("http2-settings")
        });
        if is_through {
            through.push(upgrade.trim().replace("\r\n", " | "));
        }
    }
    require!(through.is_empty(), "through to the service: {}", through.join("; "))?;
    let websocket = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n";
    let status = raw::ask(daemon.proxy()?, &request("GET", "/", "a.example", websocket))?.status;
    require!(status == 101, "an upgrade to WebSocket is answered {status}")?;
    Ok("no upgrade but that to WebSocket reaches the service".to_owned())
}

/// Every spelling of a host meets the route of that host.
pub(crate) fn spellings_of_a_host(context: &RunContext) -> AttackResult {
    let upstream = Upstream::start(Manner::Plain)?;
    let daemon = Daemon::start(context, &policy(&upstream))?;
    let status = |host: &str| -> Result<u16, Failure> {
        Ok(raw::ask(daemon.proxy()?, &request("GET", "/", host, ""))?.status)
    };
    let first = status("limited.example")?;
    require!(first == 200, "the first request of the limited host is answered {first}")?;
    let mut passed = Vec::new();
    for host in [
        "limited.example",
        "limited.example.",
        "[limited.example]",
        "LIMITED.Example",
        "limited.example:80",
        "limited.example.:80",
        "user@limited.example",
        "limited%2eexample",
    ] {
        if status(host)? == 200 {
            passed.push(host);
        }
    }
    for (authority, host) in [("limited.example.", None), ("a.example", Some("limited.example"))] {
        let headers: Vec<(&str, &str)> = host.map(|host| ("host", host)).into_iter().collect();
        let answer = http2::ask(daemon.proxy()?, "GET", "/", authority, &headers, None);
        if answer.is_ok_and(|status| status == 200) {
            passed.push(authority);
        }
    }
    let absolute = b"GET http://limited.example./ HTTP/1.1\r\nHost: a.example\r\n\r\n";
    if raw::ask(daemon.proxy()?, absolute)?.status == 200 {
        passed.push("http://limited.example./");
    }
    require!(passed.is_empty(), "the limit of the host is missed by: {}", passed.join(", "))?;
    Ok("every spelling of the host is refused by its limit or as malformed".to_owned())
}

/// A header that was counted cannot be taken out by `Connection`.
pub(crate) fn headers_named_by_connection(context: &RunContext) -> AttackResult {
    let upstream = Upstream::start(Manner::Plain)?;
    let daemon = Daemon::start(context, &policy(&upstream))?;
    let mut passed = Vec::new();
    for name in ["x-api-key", "Authorization", "Cookie", "X-Forwarded-For", "Host", "Content-Length"] {
        let headers =
            format!("x-api-key: k\r\nAuthorization: a\r\nCookie: a=b\r\nConnection: close, {name}\r\n");
        let answer = raw::ask(daemon.proxy()?, &request("GET", "/keyed", "a.example", &headers))?;
        if answer.status != 400 {
            passed.push(name);
        }
    }
    require!(passed.is_empty(), "Connection may name: {}", passed.join(", "))?;
    let ordinary = request("GET", "/keyed", "a.example", "x-api-key: k\r\nConnection: close\r\n");
    let status = raw::ask(daemon.proxy()?, &ordinary)?.status;
    require!(status == 200, "`Connection: close` alone is answered {status}")?;
    Ok("a Connection header that names an end-to-end header is answered 400".to_owned())
}

/// Bodies of GET and HEAD arrive, or are refused.
pub(crate) fn bodies_of_get(context: &RunContext) -> AttackResult {
    let upstream = Upstream::start(Manner::Plain)?;
    let daemon = Daemon::start(context, &policy(&upstream))?;
    let mut lost = Vec::new();
    for method in ["GET", "HEAD", "DELETE", "OPTIONS", "POST"] {
        let mut chunked = request(method, "/", "a.example", "Transfer-Encoding: chunked\r\n");
        chunked.extend_from_slice(b"4\r\nbody\r\n0\r\n\r\n");
        let mut connection = raw::RawConnection::open(daemon.proxy()?)?;
        connection.send(&chunked)?;
        let head = connection.head()?;
        note_loss(&upstream, &mut lost, &format!("{method} with HTTP/1.1"), head.contains(" 200 "));
        let answer = http2::ask(daemon.proxy()?, method, "/", "a.example", &[], Some(b"body"));
        let is_passed = answer.is_ok_and(|status| status == 200);
        note_loss(&upstream, &mut lost, &format!("{method} with HTTP/2"), is_passed);
    }
    require!(lost.is_empty(), "the body is lost of: {}", lost.join(", "))?;
    Ok("a body without a length reaches the service with every method, or is refused".to_owned())
}

fn note_loss(upstream: &Upstream, lost: &mut Vec<String>, name: &str, is_passed: bool) {
    let arrived = upstream.take_received().iter().any(|(_, body)| &body[..] == b"body");
    if is_passed && !arrived {
        lost.push(name.to_owned());
    }
}

/// Cookies that HTTP/2 splits arrive as one.
pub(crate) fn cookie_crumbs(context: &RunContext) -> AttackResult {
    let upstream = Upstream::start(Manner::Plain)?;
    let daemon = Daemon::start(context, &policy(&upstream))?;
    let crumbs = [("cookie", "a=1"), ("cookie", "b=2")];
    let status = http2::ask(daemon.proxy()?, "GET", "/", "a.example", &crumbs, None)?;
    let received = upstream.take_received();
    let heads = received.iter().map(|(parts, _)| &parts.headers);
    let cookies: Vec<_> = heads.flat_map(|headers| headers.get_all("cookie")).collect();
    require!(
        cookies.len() == 1 && cookies[0] == "a=1; b=2",
        "the answer is {status}, and the service receives {cookies:?}"
    )?;
    Ok(format!("the service receives {cookies:?}"))
}

/// Headers that identify the client do not pass from untrusted peers.
pub(crate) fn headers_of_identity(context: &RunContext) -> AttackResult {
    let upstream = Upstream::start(Manner::Plain)?;
    let daemon = Daemon::start(context, &policy(&upstream))?;
    let mut headers = String::from("x-user: ada\r\n");
    for name in IDENTITY_HEADERS {
        headers.push_str(name);
        headers.push_str(": forged\r\n");
    }
    let answer = raw::ask(daemon.proxy()?, &request("GET", "/", "a.example", &headers))?;
    let received = upstream.take_received();
    let is_forged = |name: &&str| {
        received.iter().any(|(parts, _)| parts.headers.get(*name).is_some_and(|value| value == "forged"))
    };
    let passed: Vec<&str> = IDENTITY_HEADERS.into_iter().filter(is_forged).collect();
    require!(passed.is_empty(), "forged, and passed on: {}", passed.join(", "))?;
    Ok(format!("none of {} passes (answered {})", IDENTITY_HEADERS.join(", "), answer.status))
}

/// TRACE does not pass.
pub(crate) fn trace(context: &RunContext) -> AttackResult {
    let upstream = Upstream::start(Manner::Plain)?;
    let daemon = Daemon::start(context, &policy(&upstream))?;
    let status = raw::ask(daemon.proxy()?, &request("TRACE", "/", "a.example", ""))?.status;
    let received = upstream.take_received().len();
    require!(received == 0, "TRACE reaches the service and is answered {status}")?;
    Ok(format!("TRACE is answered {status}"))
}

/// A client that wants no HTML gets none.
pub(crate) fn refusals_in_html(context: &RunContext) -> AttackResult {
    let upstream = Upstream::start(Manner::Plain)?;
    let daemon = Daemon::start(context, &policy(&upstream))?;
    let accept = "Accept: text/html;q=0, application/json\r\n";
    let ask =
        || raw::ask(daemon.proxy()?, &request("GET", "/", "limited.example", accept)).map_err(Failure::from);
    ask()?;
    let refused = ask()?;
    let kind = refused.header("content-type").unwrap_or("nothing").to_owned();
    require!(refused.status == 429, "the second request is answered {}", refused.status)?;
    require!(!kind.contains("html"), "`text/html;q=0` is answered with {kind}")?;
    Ok(format!("`text/html;q=0` is answered with {kind}"))
}
