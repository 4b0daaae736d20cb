//! The address of a server of an upstream.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};
use core::str::FromStr;

use http::uri::{Authority, Scheme};

use super::GrammarError;
use crate::printable::shown;

const WRITE: &str = "write http://HOST:PORT or https://HOST:PORT";

/// The address of a server, as `http://10.0.0.7:3000` or `https://app.internal`.
///
/// ```
/// # use tidegate_policy::grammar::ServerUrl;
/// let server: ServerUrl = "https://app.internal:8443".parse()?;
/// assert!(server.is_https());
/// assert_eq!(server.authority().as_str(), "app.internal:8443");
/// assert!("app.internal:8443".parse::<ServerUrl>().is_err(), "a scheme is needed");
/// # Ok::<(), tidegate_policy::grammar::GrammarError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerUrl {
    scheme: Scheme,
    authority: Authority,
}

impl ServerUrl {
    /// `http`, or `https` for a connection with TLS.
    pub fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    /// Whether it is connected to with TLS.
    pub fn is_https(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    /// Where it listens: host and port. Without a port it is 80, and 443 with https.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }
}

impl FromStr for ServerUrl {
    type Err = GrammarError;

    fn from_str(text: &str) -> Result<Self, GrammarError> {
        let wrong =
            |what: &str, fix: &str| GrammarError::new(format!("server \"{}\" {what}", shown(text)), fix);
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(wrong("has no scheme", &format!("write http://{}", shown(text))));
        };
        let scheme = match scheme {
            "http" => Scheme::HTTP,
            "https" => Scheme::HTTPS,
            _ => return Err(wrong("is of a scheme that is neither http nor https", WRITE)),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '?', '#', '@']) {
            return Err(wrong("has more than a host and a port", WRITE));
        }
        let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) => {
                if host.parse::<Ipv6Addr>().is_err() {
                    return Err(wrong("has no address between its brackets", "write http://[::1]:3000"));
                }
                (host, port.strip_prefix(':'))
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
        if host.is_empty() || !host.chars().all(is_plain) {
            return Err(wrong("has no host", WRITE));
        }
        if port.is_some_and(|port| port.parse::<u16>().is_err() || port == "0") {
            return Err(wrong("has no port from 1 to 65535", WRITE));
        }
        let authority = authority.parse().map_err(|_| wrong("has no host", WRITE))?;
        Ok(Self { scheme, authority })
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.authority)
    }
}

/// Whether a certificate can be for `name`: an address, or the name of a host.
pub(crate) fn is_server_name(name: &str) -> bool {
    if name.parse::<IpAddr>().is_ok() {
        return true;
    }
    let whole = name.strip_suffix('.').unwrap_or(name);
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    };
    let last = whole.rsplit('.').next().unwrap_or_default();
    // A host whose last label is numeric would be parsed as an invalid IPv4 address.
    whole.len() <= 253 && whole.split('.').all(is_label) && !last.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_scheme_a_host_and_a_port() {
        for good in ["http://127.0.0.1:3000", "http://app", "http://[::1]:80/", "https://app.internal:8443"] {
            let url: ServerUrl = good.parse().unwrap();
            assert_eq!(url.is_https(), good.starts_with("https"));
            assert_eq!(url.to_string(), good.trim_end_matches('/'));
        }
        for (bad, hint) in [
            ("127.0.0.1:3000", "has no scheme"),
            ("ftp://app", "neither http nor https"),
            ("http://user@app", "more than a host and a port"),
            ("http://app/v1", "more than a host and a port"),
            ("http://app/?q", "more than a host and a port"),
            ("http://app:0", "no port"),
            ("http://[::1", "no host"),
            ("", "has no scheme"),
            ("http://", "no host"),
        ] {
            let error = bad.parse::<ServerUrl>().unwrap_err();
            assert!(error.to_string().contains(hint), "{bad}: {error}");
        }
    }
}
