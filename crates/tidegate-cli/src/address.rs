//! The address of a daemon, written as a URL; the scheme says which protocol it is asked in.

use core::fmt;
use core::str::FromStr;
use std::path::PathBuf;

use http::uri::Authority;

/// The environment variable with the token to ask with.
pub(crate) const TOKEN_VARIABLE: &str = "TIDEGATE_TOKEN";

/// The address of one listener of a daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DaemonAddress {
    pub(crate) protocol: Protocol,
    pub(crate) endpoint: Endpoint,
    pub(crate) is_tls: bool,
    written: String,
}

/// The protocol of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http,
    Resp,
    Grpc,
}

/// Where a listener accepts connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

impl DaemonAddress {
    /// `http`, `resp` or `grpc`.
    pub(crate) const fn name(&self) -> &'static str {
        match self.protocol {
            Protocol::Http => "http",
            Protocol::Resp => "resp",
            Protocol::Grpc => "grpc",
        }
    }

    /// The value of the `host` field of a request.
    pub(crate) fn authority(&self) -> String {
        match &self.endpoint {
            Endpoint::Tcp { host, port } if host.contains(':') => format!("[{host}]:{port}"),
            Endpoint::Tcp { host, port } => format!("{host}:{port}"),
            Endpoint::Unix(_) => "localhost".to_owned(),
        }
    }
}

impl FromStr for DaemonAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let written = text.to_owned();
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err("a Unix socket has a path; write unix:/run/tidegate.sock".to_owned());
            }
            let endpoint = Endpoint::Unix(PathBuf::from(path));
            return Ok(Self { protocol: Protocol::Http, endpoint, is_tls: false, written });
        }
        let wrong = || {
            "invalid address; expected http://host:port, https://, unix:/path, redis://, rediss://, grpc:// or grpcs://"
                .to_owned()
        };
        let (scheme, rest) = text.split_once("://").ok_or_else(|| match text.parse::<Authority>() {
            Ok(authority) if authority.port_u16().is_some() => {
                format!("it has no protocol; write http://{text}, or grpc:// or redis:// for their ports")
            }
            _ => wrong(),
        })?;
        let (protocol, is_tls, port) = match scheme {
            "http" => (Protocol::Http, false, 8080),
            "https" => (Protocol::Http, true, 443),
            "redis" => (Protocol::Resp, false, 6380),
            "rediss" => (Protocol::Resp, true, 6380),
            "grpc" => (Protocol::Grpc, false, 8081),
            "grpcs" => (Protocol::Grpc, true, 443),
            _ => return Err(wrong()),
        };
        let authority: Authority = rest.strip_suffix('/').unwrap_or(rest).parse().map_err(|_| {
            format!("after {scheme}:// there is a host, a port, and nothing else; write {scheme}://127.0.0.1:{port}")
        })?;
        if authority.as_str().contains('@') {
            return Err(format!(
                "credentials are not accepted in the address; use --token-file or {TOKEN_VARIABLE}"
            ));
        }
        if authority.host().is_empty() {
            return Err(format!("it has no host; write {scheme}://127.0.0.1:{port}"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let has_port = authority.as_str().len() > authority.host().len();
        let port = match authority.port_u16() {
            Some(port) => port,
            None if has_port => return Err(format!("invalid port; expected {scheme}://{host}:{port}")),
            None => port,
        };
        Ok(Self { protocol, endpoint: Endpoint::Tcp { host, port }, is_tls, written })
    }
}

impl fmt::Display for DaemonAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (Protocol, bool, String) {
        let address: DaemonAddress = text.parse().unwrap();
        assert_eq!(address.to_string(), text);
        let place = match &address.endpoint {
            Endpoint::Tcp { .. } => address.authority(),
            Endpoint::Unix(path) => path.display().to_string(),
        };
        (address.protocol, address.is_tls, place)
    }

    #[test]
    fn the_scheme_says_which_door_is_meant() {
        for (text, protocol, is_tls, place) in [
            ("http://127.0.0.1:9", Protocol::Http, false, "127.0.0.1:9"),
            ("http://localhost", Protocol::Http, false, "localhost:8080"),
            ("https://gate.example/", Protocol::Http, true, "gate.example:443"),
            ("unix:/run/t.sock", Protocol::Http, false, "/run/t.sock"),
            ("redis://[::1]:7", Protocol::Resp, false, "[::1]:7"),
            ("rediss://h", Protocol::Resp, true, "h:6380"),
            ("grpc://h", Protocol::Grpc, false, "h:8081"),
            ("grpcs://h:1", Protocol::Grpc, true, "h:1"),
        ] {
            assert_eq!(parsed(text), (protocol, is_tls, place.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_is_no_door_says_what_to_write() {
        for (text, hint) in [
            ("127.0.0.1:8080", "write http://127.0.0.1:8080, or grpc://"),
            ("127.0.0.1", "http://host:port"),
            ("ftp://h", "http://host:port"),
            ("unix:", "unix:/run/tidegate.sock"),
            ("http://h/v1", "http://127.0.0.1:8080"),
            ("http://", "http://127.0.0.1:8080"),
            ("http://h:99999999", "http://h:8080"),
            ("redis://:secret@h", "--token-file"),
        ] {
            let why = text.parse::<DaemonAddress>().unwrap_err();
            assert!(why.contains(hint) && !why.contains("secret"), "{text}: {why}");
        }
    }
}
