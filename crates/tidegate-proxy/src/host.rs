//! The host of a request: one canonical spelling, which routes match, attributes count and
//! upstreams receive.
//!
//! `Limited.Example`, `limited.example.` and `limited.example:80` name one host. A host that
//! servers read in different ways (an invalid address in brackets, escapes, user names, `127.1`) is
//! rejected, because a caller who can have a request matched as one host and served as another has
//! no limit.

use core::fmt;
use core::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use http::header::HOST;
use http::request::Parts;
use http::{HeaderValue, Version};
use tidegate_wire::text::shortened;

use crate::rejection::{Rejection, RejectionCode};

/// The longest name of a host in bytes, as the domain name system has it. Above it: 400.
const NAME_BYTES_MAX: usize = 253;

/// A host in its canonical spelling, with the port that was named.
///
/// Names are in lower case and without the dot of a fully qualified name; IPv6 addresses are in
/// brackets and compressed (RFC 5952); ports are plain numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CanonicalHost {
    /// The host and, behind a colon, its port.
    authority: Box<str>,
    name_bytes: usize,
}

/// The reason why a host is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostProblem {
    /// There is no name.
    Empty,
    /// The name is longer than [`NAME_BYTES_MAX`].
    TooLong,
    /// A label of the name is empty.
    EmptyLabel,
    /// There is a character that names of hosts do not have.
    Character,
    /// The text in brackets is no IPv6 address.
    Brackets,
    /// The last label is a number, and the host is no IPv4 address in its usual form.
    Number,
    /// The port is no number from 0 to 65535.
    Port,
}

impl fmt::Display for HostProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "names no host",
            Self::TooLong => "is longer than 253 bytes",
            Self::EmptyLabel => "has an empty label",
            Self::Character => "contains a character other than letters, digits, `-`, `_`, `~` and `.`",
            Self::Brackets => "has brackets around something that is not an IPv6 address",
            Self::Number => "ends in a number and is not an IPv4 address of four decimal numbers",
            Self::Port => "has a port that is not a number up to 65535",
        })
    }
}

impl CanonicalHost {
    /// Reads a host with or without a port.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, HostProblem> {
        if text.is_empty() {
            return Err(HostProblem::Empty);
        }
        let is_address = text.starts_with(b"[");
        let (name, port) = if is_address {
            let end = text.iter().position(|byte| *byte == b']').ok_or(HostProblem::Brackets)?;
            let (address, rest) = (&text[1..end], &text[end + 1..]);
            let port = match rest {
                [] => &[],
                [b':', port @ ..] => port,
                _ => return Err(HostProblem::Brackets),
            };
            (address, port)
        } else {
            match text.iter().position(|byte| *byte == b':') {
                Some(colon) => (&text[..colon], &text[colon + 1..]),
                None => (text, &[][..]),
            }
        };
        let mut authority = String::with_capacity(text.len());
        if is_address {
            let address = core::str::from_utf8(name).ok().and_then(|name| name.parse::<Ipv6Addr>().ok());
            let address = address.ok_or(HostProblem::Brackets)?;
            // Writing to text does not fail.
            let _ = write!(authority, "[{address}]");
        } else {
            push_name(name, &mut authority)?;
        }
        let name_bytes = authority.len();
        if let Some(port) = parse_port(port)? {
            let _ = write!(authority, ":{port}");
        }
        Ok(Self { authority: authority.into(), name_bytes })
    }

    /// The host without its port.
    pub(crate) fn name(&self) -> &str {
        &self.authority[..self.name_bytes]
    }
}

/// Appends the name in lower case and without the dot at its end.
fn push_name(name: &[u8], out: &mut String) -> Result<(), HostProblem> {
    let name = name.strip_suffix(b".").unwrap_or(name);
    if name.is_empty() {
        return Err(HostProblem::Empty);
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(HostProblem::TooLong);
    }
    if !name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(byte)) {
        return Err(HostProblem::Character);
    }
    if name.split(|byte| *byte == b'.').any(<[u8]>::is_empty) {
        return Err(HostProblem::EmptyLabel);
    }
    let last = name.rsplit(|byte| *byte == b'.').next().unwrap_or(name);
    out.extend(name.iter().map(|byte| char::from(byte.to_ascii_lowercase())));
    // Many resolvers take `127.1`, `0x7f000001` and `2130706433` for addresses, each in a way of
    // its own.
    let is_number = last.iter().all(u8::is_ascii_digit)
        || matches!(last, [b'0', b'x' | b'X', rest @ ..] if rest.iter().all(u8::is_ascii_hexdigit));
    if is_number && out.parse::<Ipv4Addr>().is_err() {
        return Err(HostProblem::Number);
    }
    Ok(())
}

/// A port as a number; `None` for an empty one, which means the usual port (RFC 3986, section
/// 3.2.3).
fn parse_port(text: &[u8]) -> Result<Option<u16>, HostProblem> {
    if text.is_empty() {
        return Ok(None);
    }
    let text = core::str::from_utf8(text).map_err(|_| HostProblem::Port)?;
    let is_digits = text.len() <= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_digits).map(Some).ok_or(HostProblem::Port)
}

/// The host that a request asks for. The header `host` is made to name it in its canonical
/// spelling.
///
/// The target names the host before the header does: in HTTP/1.1 an absolute target replaces the
/// header (RFC 9112, section 3.2.2), and in HTTP/2 both must name the same host (RFC 9113, section
/// 8.3.1). Only a request of HTTP/1.0 may name none.
pub(super) fn host_of(head: &mut Parts) -> Result<Option<CanonicalHost>, Rejection> {
    let mut lines = head.headers.get_all(HOST).iter();
    let header = lines.next().map(|value| parsed(value.as_bytes())).transpose()?;
    if lines.next().is_some() {
        return Err(malformed("duplicate header host").fix("send it once"));
    }
    let target = head.uri.authority().map(|authority| parsed(authority.as_str().as_bytes())).transpose()?;
    let host = match (target, header) {
        (Some(target), Some(header)) if head.version >= Version::HTTP_2 && target != header => {
            let (target, header) = (target.authority, header.authority);
            let detail = format_args!(":authority \"{target}\" and host \"{header}\" name different hosts");
            return Err(malformed(detail).fix("send one of them"));
        }
        (None, None) if head.version <= Version::HTTP_10 => return Ok(None),
        (_, None) if head.version == Version::HTTP_11 => {
            return Err(malformed("header host is missing").fix("send the host that you ask for"));
        }
        (None, None) => return Err(malformed("the request names no host").fix("send :authority")),
        (target, header) => target.or(header),
    };
    if let Some(host) = &host {
        let value =
            HeaderValue::from_str(&host.authority).map_err(|_| malformed("host cannot be sent on"))?;
        head.headers.insert(HOST, value);
    }
    Ok(host)
}

fn parsed(text: &[u8]) -> Result<CanonicalHost, Rejection> {
    CanonicalHost::parse(text).map_err(|problem| {
        let shown = String::from_utf8_lossy(text);
        malformed(format_args!("host \"{}\" {problem}", shortened(&shown, 64)))
            .fix("name one host, with or without a port")
    })
}

fn malformed(detail: impl fmt::Display) -> Rejection {
    Rejection::new(RejectionCode::MalformedHeader, detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn canonical(text: &str) -> Result<String, HostProblem> {
        CanonicalHost::parse(text.as_bytes()).map(|host| host.authority.into())
    }

    #[test]
    fn a_host_has_one_spelling() {
        for (text, expected) in [
            ("a.example", "a.example"),
            ("A.Example.", "a.example"),
            ("a.example:", "a.example"),
            ("a.example.:0443", "a.example:443"),
            ("my_app-1", "my_app-1"),
            ("192.0.2.7:80", "192.0.2.7:80"),
            ("192.0.2.7.", "192.0.2.7"),
            ("7a.example", "7a.example"),
            ("[::1]", "[::1]"),
            ("[2001:DB8:0::1]:8080", "[2001:db8::1]:8080"),
            ("[::ffff:192.0.2.1]", "[::ffff:192.0.2.1]"),
        ] {
            assert_eq!(canonical(text).as_deref(), Ok(expected), "{text}");
        }
        assert_eq!(CanonicalHost::parse(b"A.example:80").unwrap().name(), "a.example");
        assert_eq!(CanonicalHost::parse(b"[::1]:80").unwrap().name(), "[::1]");
    }

    #[test]
    fn a_host_that_is_none_says_what_is_wrong() {
        for (text, problem) in [
            ("", HostProblem::Empty),
            (".", HostProblem::Empty),
            (":80", HostProblem::Empty),
            ("a..b", HostProblem::EmptyLabel),
            ("a..", HostProblem::EmptyLabel),
            (".a", HostProblem::EmptyLabel),
            ("u@a", HostProblem::Character),
            ("a%2eb", HostProblem::Character),
            ("\u{e4}", HostProblem::Character),
            ("a, b", HostProblem::Character),
            ("[a]", HostProblem::Brackets),
            ("[::1", HostProblem::Brackets),
            ("[::1]x", HostProblem::Brackets),
            ("[fe80::1%25lo]", HostProblem::Brackets),
            ("[v1.x]", HostProblem::Brackets),
            ("127.1", HostProblem::Number),
            ("127.0.0.01", HostProblem::Number),
            ("2130706433", HostProblem::Number),
            ("0x7f", HostProblem::Number),
            ("a.0x", HostProblem::Number),
            ("a:b", HostProblem::Port),
            ("a:65536", HostProblem::Port),
            ("a:+1", HostProblem::Port),
            ("a:80:80", HostProblem::Port),
            ("::1", HostProblem::Empty),
        ] {
            assert_eq!(canonical(text), Err(problem), "{text}");
        }
        assert_eq!(canonical(&"a".repeat(254)), Err(HostProblem::TooLong));
    }

    proptest! {
        #[test]
        fn a_canonical_host_is_its_own_canonical_spelling(bytes in "[a-zA-Z0-9._:\\[\\]%@-]{0,24}") {
            if let Ok(host) = canonical(&bytes) {
                prop_assert_eq!(canonical(&host), Ok(host));
            }
        }
    }
}
