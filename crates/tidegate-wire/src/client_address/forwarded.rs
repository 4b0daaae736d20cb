//! The header `Forwarded` (RFC 7239), read from the right.
//!
//! From the left, a quotation mark that the client opened and never closed would swallow what a
//! proxy wrote behind it. From the right, the part that trusted proxies wrote is read first and
//! nothing to the left of it can change it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The longest value of `for` that is looked at, in bytes; no address with a port is as long. Above
/// it: no address.
const NODE_BYTES_MAX: usize = 64;

/// Splits a list at its last comma outside of quotation marks, if there is one.
///
/// `None` when a quotation mark is left open.
pub(super) fn last_element(bytes: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let mut is_quoted = false;
    let mut at = bytes.len();
    while at > 0 {
        at -= 1;
        match bytes[at] {
            b'"' => {
                let slashes = bytes[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
                if slashes % 2 == 0 {
                    is_quoted = !is_quoted;
                } else if !is_quoted {
                    // Outside of a quoted string there is nothing to escape.
                    return None;
                }
                at -= slashes;
            }
            b',' if !is_quoted => return Some((Some(&bytes[..at]), &bytes[at + 1..])),
            _ => {}
        }
    }
    (!is_quoted).then_some((None, bytes))
}

/// The address in `for` of one element; `None` for an element that is malformed, has no `for` or
/// more than one, or hides it (`unknown`, `_name`).
pub(super) fn address_of(element: &[u8]) -> Option<IpAddr> {
    let mut found = None;
    let mut rest = element;
    loop {
        let (name, value, tail) = pair(rest.trim_ascii_start())?;
        if name.eq_ignore_ascii_case(b"for") {
            if found.is_some() {
                return None;
            }
            found = Some(node(core::str::from_utf8(&value).ok()?)?);
        }
        match tail.trim_ascii_start() {
            [] => return found,
            [b';', more @ ..] => rest = more,
            _ => return None,
        }
    }
}

/// Splits off the first `name=value`; a quoted value loses its quotation marks and escapes.
fn pair(bytes: &[u8]) -> Option<(&[u8], Vec<u8>, &[u8])> {
    let equals = bytes.iter().position(|byte| *byte == b'=')?;
    let (name, rest) = (&bytes[..equals], &bytes[equals + 1..]);
    if name.is_empty() || !name.iter().all(|byte| is_token(*byte)) {
        return None;
    }
    let [b'"', quoted @ ..] = rest else {
        let end = rest.iter().position(|byte| matches!(byte, b';' | b' ' | b'\t')).unwrap_or(rest.len());
        // Ports and brackets must be quoted and often are not.
        let is_value = |byte: &u8| is_token(*byte) || matches!(byte, b':' | b'[' | b']');
        let value = &rest[..end];
        return (!value.is_empty() && value.iter().all(is_value))
            .then(|| (name, value.to_vec(), &rest[end..]));
    };
    let mut value = Vec::new();
    let mut at = 0;
    loop {
        match (quoted.get(at)?, quoted.get(at + 1)) {
            (b'"', _) => return Some((name, value, &quoted[at + 1..])),
            (b'\\', Some(escaped)) => {
                value.push(*escaped);
                at += 2;
            }
            (byte, _) => {
                value.push(*byte);
                at += 1;
            }
        }
    }
}

/// A character of a token (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// A node: an IPv4 address or an IPv6 address in brackets, with or without a port, which may be
/// hidden (`_name`).
fn node(text: &str) -> Option<IpAddr> {
    if text.len() > NODE_BYTES_MAX {
        return None;
    }
    let (address, port): (IpAddr, _) = if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        (address.parse::<Ipv6Addr>().ok()?.into(), port)
    } else {
        let (address, port) = text.split_at(text.find(':').unwrap_or(text.len()));
        (address.parse::<Ipv4Addr>().ok()?.into(), port)
    };
    let is_port = |port: &str| {
        let is_number = (1..=5).contains(&port.len())
            && port.bytes().all(|byte| byte.is_ascii_digit())
            && port.parse::<u16>().is_ok();
        let is_hidden = port.strip_prefix('_').is_some_and(|name| {
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        });
        is_number || is_hidden
    };
    (port.is_empty() || port.strip_prefix(':').is_some_and(is_port)).then(|| address.to_canonical())
}
