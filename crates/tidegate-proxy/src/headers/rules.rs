//! The headers of a request that pass: those that only a proxy may set, those that are counted, and
//! those that `Connection` may name.

use std::collections::HashSet;

use http::header::{
    AUTHORIZATION, CONNECTION, COOKIE, FORWARDED, HOST, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION,
    TE, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, Method};
use tidegate_wire::headers::{FEATURE, TICKET};
use tidegate_wire::text::shortened;

use super::super::rejection::{Rejection, RejectionCode};
use tidegate_policy::grammar::ValueSource;
use tidegate_policy::policy::proxy::Proxy;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

/// The headers that concern one connection only (RFC 9110, 7.6.1), whether or not `Connection`
/// names them.
pub(super) const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    // Part of an upgrade to HTTP/2, which is never passed on.
    HTTP2_SETTINGS,
    KEEP_ALIVE,
    PROXY_CONNECTION,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Headers in which a proxy describes its client, and which applications believe from every sender:
/// the client's address, the scheme, host, port and path that it asked for, and its certificate.
/// Every name that begins with `x-forwarded-` is one of them.
const STATEMENTS: [&str; 37] = [
    "cf-connecting-ip",
    "cf-connecting-ipv6",
    "cf-pseudo-ipv4",
    "client-cert",
    "client-cert-chain",
    "client-ip",
    "fastly-client-ip",
    "fly-client-ip",
    "forwarded",
    "forwarded-for",
    "front-end-https",
    // CGI makes HTTP_PROXY of it, through which many libraries then send their own requests.
    "proxy",
    "true-client-ip",
    "x-accel-mapping",
    "x-appengine-user-ip",
    "x-azure-clientip",
    "x-azure-socketip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-envoy-external-address",
    "x-envoy-internal",
    "x-forwarded",
    "x-host",
    "x-http-host-override",
    "x-original-forwarded-for",
    "x-original-host",
    "x-original-method",
    "x-original-uri",
    "x-original-url",
    "x-proxyuser-ip",
    "x-real-ip",
    "x-remote-addr",
    "x-remote-ip",
    "x-rewrite-url",
    "x-scheme",
    "x-sendfile-type",
    "x-url-scheme",
];

/// The claims of a request, as another Tidegate behind this one reads them. They pass from trusted
/// peers alone, although a route reads them too.
const CLAIMS: [&str; 2] = ["tidegate-attempt", "tidegate-deadline-ms"];

/// Headers that have an application carry out another method than the one that was counted.
const METHOD_OVERRIDES: [&str; 3] = ["x-http-method", "x-http-method-override", "x-method-override"];

/// Headers that are for the server that answers, beside [`STATEMENTS`] and those that begin like
/// one of [`END_TO_END_PREFIXES`]: no sender may say that they concern its connection alone.
const END_TO_END: [&str; 26] = [
    "age",
    "allow",
    "authorization",
    "baggage",
    "cache-control",
    "cookie",
    "date",
    "digest",
    "dpop",
    "etag",
    "expect",
    "expires",
    "from",
    "grpc-timeout",
    "host",
    "idempotency-key",
    "last-modified",
    "max-forwards",
    "origin",
    "pragma",
    "prefer",
    "priority",
    "range",
    "referer",
    "user-agent",
    "via",
];

/// How standard headers begin that are for the server that answers.
const END_TO_END_PREFIXES: [&str; 8] =
    ["accept", "access-control-", "content-", "if-", "sec-", "trace", "x-forwarded-", "x-request-"];

/// Names that `Connection` may hold whatever the policy reads.
const OPTIONS: [&str; 4] = ["close", "http2-settings", "trailer", "trailers"];

/// The treatment of headers by their names under the policy in force.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeaderRules {
    /// The headers that some route reads.
    read: HashSet<HeaderName>,
    /// The same names as an application may see them; see [`spelling`].
    read_as: HashSet<Box<str>>,
    /// Headers that pass from anybody.
    kept: HashSet<HeaderName>,
    /// Whether a route is chosen, or counts, by the method.
    reads_method: bool,
}

impl HeaderRules {
    /// The rules that follow from a configuration.
    pub(crate) fn new(settings: &Proxy) -> Self {
        let mut rules = Self { kept: settings.keep_headers.iter().cloned().collect(), ..Self::default() };
        for route in &settings.routes {
            rules.reads_method |= !route.methods.is_empty();
            for source in route.sources() {
                match source {
                    ValueSource::Header(name) => rules.reads(name.clone()),
                    ValueSource::Cookie(_) => rules.reads(COOKIE),
                    ValueSource::Claim(_) => rules.reads(AUTHORIZATION),
                    ValueSource::Host => rules.reads(HOST),
                    ValueSource::Method => rules.reads_method = true,
                    _ => {}
                }
            }
        }
        rules
    }

    fn reads(&mut self, name: HeaderName) {
        self.read_as.insert(spelling(name.as_str()));
        self.read.insert(name);
    }

    /// Whether a header goes on to the upstream.
    ///
    /// A route's own header passes, so that the upstream sees the value that was counted. From
    /// every peer, another spelling of such a header does not (`x_user` beside `x-user`):
    /// applications behind CGI, WSGI, Rack or PHP cannot tell the two apart. From a peer that is
    /// not trusted, neither do the statements of proxies, nor names of other characters than
    /// letters, digits and hyphens, which nginx drops as well. The decisions of this proxy and the
    /// tickets for it pass from nobody.
    pub(crate) fn passes(&self, name: &HeaderName, is_trusted: bool) -> bool {
        let text = name.as_str();
        if self.kept.contains(name) {
            return true;
        }
        if is_own(text) {
            return false;
        }
        if CLAIMS.contains(&text) {
            return is_trusted;
        }
        if !is_plain(text) {
            return self.read.contains(name) || is_trusted && !self.read_as.contains(&spelling(text));
        }
        if self.read_as.contains(text) {
            if !self.read.contains(name) {
                return false;
            }
            // A header that the proxy writes itself must not be mixed with the client's.
            if *name != FORWARDED && !text.starts_with("x-forwarded-") {
                return true;
            }
        }
        is_trusted || !(is_statement(text) || self.reads_method && METHOD_OVERRIDES.contains(&text))
    }

    /// Whether a trailer of a request goes on. Applications that merge trailers into the headers
    /// must not find a header there that was counted with another value, or that only a proxy may
    /// set.
    pub(crate) fn passes_as_trailer(&self, name: &HeaderName) -> bool {
        let text = name.as_str();
        is_plain(text)
            && !self.read_as.contains(text)
            && !is_statement(text)
            && !CLAIMS.contains(&text)
            && !is_own(text)
            && !is_end_to_end(text)
            && !HOP_BY_HOP.contains(name)
    }

    /// Whether `Connection` names only headers that may be taken out of the request: those that no
    /// route reads and that are not for the server that answers. Otherwise a client could be
    /// counted by a header that the server never sees.
    pub(crate) fn check_connection(&self, headers: &HeaderMap) -> Result<(), Rejection> {
        let lines = headers.get_all(CONNECTION).iter();
        for option in lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b',')) {
            let Ok(name) = HeaderName::from_bytes(option.trim_ascii()) else { continue };
            let text = name.as_str();
            if OPTIONS.contains(&text) || HOP_BY_HOP.contains(&name) {
                continue;
            }
            let seen_as = spelling(text);
            let is_needed =
                self.read_as.contains(&seen_as) || is_statement(&seen_as) || is_end_to_end(&seen_as);
            if is_needed {
                let detail = format!(
                    "header connection lists \"{}\", which has to reach the server",
                    shortened(text, 64)
                );
                return Err(Rejection::new(RejectionCode::MalformedHeader, detail)
                    .fix("list only what concerns one connection there, such as close or keep-alive"));
            }
        }
        Ok(())
    }
}

/// A name as applications see it that turn headers into variables: everything but letters and
/// digits becomes one character.
fn spelling(name: &str) -> Box<str> {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect()
}

fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Whether a header tells the upstream a decision of this proxy or holds a ticket for it, in this
/// spelling or another one that an application cannot tell from it.
fn is_own(name: &str) -> bool {
    let is_like = |(byte, own): (u8, u8)| byte == own || own == b'-' && !byte.is_ascii_alphanumeric();
    let is = |own: &str| name.len() == own.len() && name.bytes().zip(own.bytes()).all(is_like);
    [FEATURE, TICKET].iter().any(|own| is(own.as_str()))
}

fn is_statement(name: &str) -> bool {
    name.starts_with("x-forwarded-") || STATEMENTS.binary_search(&name).is_ok()
}

fn is_end_to_end(name: &str) -> bool {
    END_TO_END.binary_search(&name).is_ok()
        || END_TO_END_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether the proxy answers a method itself, with 405: `CONNECT` would open a tunnel, and `TRACE`
/// and `TRACK` show a script in a browser the headers that the browser and the proxy added.
pub(crate) fn is_refused_method(method: &Method) -> bool {
    matches!(*method, Method::CONNECT | Method::TRACE) || method.as_str().eq_ignore_ascii_case("TRACK")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_policy::policy::proxy::Route;

    fn rules(sources: &[&str], kept: &[&'static str]) -> HeaderRules {
        let mut route = Route::new("all", "app");
        let sources = sources.iter().enumerate();
        let sources = sources.map(|(index, text)| (format!("a{index}"), text.parse().unwrap()));
        route.attributes = sources.collect();
        let mut config = Proxy::default();
        config.routes.push(route);
        config.keep_headers = kept.iter().map(|name| HeaderName::from_static(name)).collect();
        HeaderRules::new(&config)
    }

    #[test]
    fn lists_of_names_are_sorted_and_plain() {
        assert!(STATEMENTS.is_sorted() && END_TO_END.is_sorted());
        assert!(STATEMENTS.iter().chain(&END_TO_END).all(|name| is_plain(name)));
    }

    #[test]
    fn a_header_passes_by_who_sent_it_and_whether_it_is_counted() {
        let rules =
            rules(&["header.x-user", "header.x_app", "header.x-real-ip"], &["x_kept", "x-original-url"]);
        for (name, from_trusted, from_others) in [
            ("accept", true, true),
            ("x-user", true, true),
            ("x_user", false, false),
            ("x.user", false, false),
            ("x_app", true, true),
            ("x-app", false, false),
            ("x_other", true, false),
            ("x_kept", true, true),
            ("x-original-url", true, true),
            ("x-rewrite-url", true, false),
            // A route reads it, so the upstream must see the counted value.
            ("x-real-ip", true, true),
            ("x-forwarded-for", true, false),
            ("x-forwarded-anything", true, false),
            ("forwarded", true, false),
            ("tidegate-attempt", true, false),
            ("tidegate-units", true, true),
            ("tidegate-feature", false, false),
            ("tidegate_feature", false, false),
            ("tidegate-features", true, true),
            ("tidegate-ticket", false, false),
            ("tidegate_ticket", false, false),
            ("tidegate-tickets", true, true),
            // Nothing is counted by the method.
            ("x-http-method-override", true, true),
        ] {
            let name = HeaderName::from_static(name);
            let passes = [rules.passes(&name, true), rules.passes(&name, false)];
            assert_eq!(passes, [from_trusted, from_others], "{name}");
        }
    }

    #[test]
    fn the_method_cannot_be_overridden_where_it_is_counted() {
        let rules = rules(&["method"], &[]);
        let name = HeaderName::from_static("x-http-method-override");
        assert!(rules.passes(&name, true) && !rules.passes(&name, false));
    }

    #[test]
    fn a_trailer_is_neither_counted_nor_a_statement_nor_a_standard_header() {
        let rules = rules(&["header.x-user"], &[]);
        for (name, passes) in [
            ("grpc-status", true),
            ("x-sum", true),
            ("x-user", false),
            ("x_user", false),
            ("x-real-ip", false),
            ("content-length", false),
            ("transfer-encoding", false),
            ("host", false),
            ("tidegate-ticket", false),
            ("tidegate_ticket", false),
        ] {
            assert_eq!(rules.passes_as_trailer(&HeaderName::from_static(name)), passes, "{name}");
        }
    }
}
