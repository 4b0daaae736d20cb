//! Attacks on TLS: expired certificates that resume, and renegotiation.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use tidegate_test_support::TemporaryFolder;

use crate::attack::{AttackResult, Failure, RunContext, require};
use crate::daemon::Daemon;
use crate::tls::{self, Authority};
use crate::upstream::{Manner, Upstream};

/// How long the client's certificate is valid.
const VALID: Duration = Duration::from_secs(3);
/// How long the attack waits for it to expire; validity counts in whole seconds.
const EXPIRED_AFTER: Duration = Duration::from_millis(4_500);

fn policy(tls: &str, upstream: &Upstream) -> String {
    format!(
        "listen:\n  http: {{ address: '127.0.0.1:0', tls: {tls} }}\n  proxy: {{ address: '127.0.0.1:0', tls: {tls} }}\n\
         namespaces: {{ honest: {{ limits: [{{ name: rate, rate: 1000/s }}] }} }}\n\
         proxy: {{ upstreams: {{ app: ['{}'] }}, routes: [{{ upstream: app }}] }}\n",
        upstream.url()
    )
}

/// An expired client certificate does not come back by resuming a session.
pub(crate) fn resumed_sessions(context: &RunContext) -> AttackResult {
    let (upstream, authority, folder) =
        (Upstream::start(Manner::Plain)?, Authority::new()?, TemporaryFolder::new());
    let tls = authority.listener_setting(&folder, true)?;
    let daemon = Daemon::start_in(context, folder, &policy(&tls, &upstream))?;
    let issued = authority.issue_to_client(VALID)?;
    let listeners = [("HTTP", daemon.http()?), ("the proxy", daemon.proxy()?)];
    let versions = [("TLS 1.2", &rustls::version::TLS12), ("TLS 1.3", &rustls::version::TLS13)];
    let mut sessions = Vec::new();
    for (listener, address) in listeners {
        for (version, protocol) in versions {
            let config = authority.client(Some(&issued), &[protocol])?;
            let status = tls::ask(address, &config);
            if status != Ok(200) {
                let text = format!("{listener}, {version}: {status:?} before it expires");
                return Err(Failure::Unfinished(text));
            }
            sessions.push((listener, address, version, config));
        }
    }
    thread::sleep(EXPIRED_AFTER);
    let fresh = authority.client(Some(&issued), &[&rustls::version::TLS13])?;
    let control = tls::ask(daemon.http()?, &fresh);
    require!(control.is_err(), "an expired certificate is taken without any resumption")?;
    let mut resumed = Vec::new();
    for (listener, address, version, config) in sessions {
        if tls::ask(address, &config).is_ok() {
            resumed.push(format!("{listener} with {version}"));
        }
    }
    require!(resumed.is_empty(), "an expired certificate is served by {}", resumed.join(", "))?;
    Ok("an expired certificate is refused by both versions of TLS, with a session to resume and without"
        .to_owned())
}

/// TLS 1.2 is not renegotiated.
pub(crate) fn renegotiation(context: &RunContext) -> AttackResult {
    let (upstream, authority, folder) =
        (Upstream::start(Manner::Plain)?, Authority::new()?, TemporaryFolder::new());
    let tls = authority.listener_setting(&folder, false)?;
    let daemon = Daemon::start_in(context, folder, &policy(&tls, &upstream))?;
    let mut command = Command::new("openssl");
    command.args(["s_client", "-tls1_2", "-connect", &daemon.http()?.to_string()]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child =
        command.spawn().map_err(|error| Failure::Skipped(format!("openssl cannot be started ({error})")))?;
    thread::sleep(Duration::from_millis(500));
    let mut input = child.stdin.take().ok_or_else(|| Failure::Unfinished("no pipe to openssl".to_owned()))?;
    // A line that is R alone asks for a renegotiation, Q ends the client.
    let _ = input.write_all(b"R\n");
    thread::sleep(Duration::from_secs(1));
    let _ = input.write_all(b"Q\n");
    drop(input);
    // The client waits for the renegotiation, so it may have to be stopped.
    thread::sleep(Duration::from_millis(500));
    let _ = child.kill();
    let mut text = String::new();
    for output in [child.stdout.take().map(read_all), child.stderr.take().map(read_all)].into_iter().flatten()
    {
        text.push_str(&output);
    }
    let _ = child.wait();
    if !text.contains("RENEGOTIATING") {
        return Err(Failure::Unfinished(format!("openssl did not ask for a renegotiation: {}", text.trim())));
    }
    // The client prints `verify return:` in each full handshake, in which it verifies the
    // certificate of the server.
    let after = text.rsplit("RENEGOTIATING").next().unwrap_or_default();
    require!(!after.contains("verify return:"), "the daemon renegotiates: {}", after.trim())?;
    let config = authority.client(Some(&authority.issue_to_client(VALID)?), &[&rustls::version::TLS12])?;
    let status = tls::ask(daemon.http()?, &config);
    require!(status == Ok(200), "after that the daemon answers {status:?}")?;
    Ok("openssl asks for a renegotiation and gets none; a new connection is served".to_owned())
}

fn read_all(mut output: impl Read) -> String {
    let mut bytes = Vec::new();
    let _ = output.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}
