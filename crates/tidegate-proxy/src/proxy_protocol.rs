//! The PROXY protocol, versions 1 and 2: a balancer names its client before the first byte of HTTP.
//!
//! A listener either expects it on every connection or on none: guessing would let a client say who
//! it is. It must be read only from peers that are trusted. Reference: *The PROXY protocol,
//! versions 1 & 2*, haproxy.org.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The longest preamble of version 1 in bytes, with its line end, as the specification has it.
/// Above it: malformed.
pub const VERSION_1_BYTES_MAX: usize = 107;

/// The most bytes of addresses and additions that a preamble of version 2 may announce. Above it:
/// too long. With the 16 bytes before them they are the most that must be held of a connection that
/// has not said who it is.
pub const VERSION_2_BYTES_MAX: usize = 4096;

/// The shortest line that names addresses, with its end: `PROXY TCP6 :: :: 0 0`.
const NAMED_BYTES_MIN: usize = 22;

/// The shortest line of all: `PROXY UNKNOWN`.
const UNNAMED_BYTES_MIN: usize = 15;

const SIGNATURE_1: &[u8] = b"PROXY ";
const SIGNATURE_2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// A preamble: the bytes before the first byte of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preamble {
    /// The source and destination of the connection, with IPv4-mapped IPv6 addresses as IPv4.
    /// `None` when the peer speaks for itself (`UNKNOWN`, `LOCAL`, as health checks do), or for an
    /// address family without IP addresses.
    pub addresses: Option<Addresses>,
    /// The length of the preamble in bytes. The bytes behind it are those of the client.
    pub length: usize,
}

/// The two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The client.
    pub source: SocketAddr,
    /// The address that the client connected to.
    pub destination: SocketAddr,
}

/// Why there is no preamble (yet).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPreamble {
    /// The bytes so far may begin one; read on until there are at least this many, more than there
    /// are now. A reader of no more than that number reads none of the bytes behind the preamble.
    #[error("the preamble of the PROXY protocol is cut off; at least {0} bytes are needed")]
    Incomplete(usize),
    /// The connection does not begin with one.
    #[error(
        "the connection does not begin with the PROXY protocol; have the balancer send it, or do not expect it"
    )]
    Absent,
    /// It begins with one that is not well-formed.
    #[error("the preamble of the PROXY protocol is malformed: {0}; the connection must be closed")]
    Malformed(&'static str),
    /// It announces more than [`VERSION_2_BYTES_MAX`] bytes.
    #[error(
        "the preamble of the PROXY protocol announces {0} bytes, more than {VERSION_2_BYTES_MAX}; have the balancer send fewer additions"
    )]
    TooLong(usize),
}

impl Preamble {
    /// Reads the preamble that `bytes` begin with. Looks at no more bytes than
    /// [`VERSION_2_BYTES_MAX`] and 16.
    pub fn parse(bytes: &[u8]) -> Result<Self, NoPreamble> {
        if begins(bytes, SIGNATURE_2)? { version_2(bytes) } else { version_1(bytes) }
    }
}

/// Whether `bytes` begin with the signature of version 2 rather than of version 1.
fn begins(bytes: &[u8], signature: &[u8]) -> Result<bool, NoPreamble> {
    if bytes.starts_with(signature) {
        return Ok(true);
    }
    if bytes.starts_with(SIGNATURE_1) {
        return Ok(false);
    }
    for known in [signature, SIGNATURE_1] {
        if known.starts_with(bytes) {
            return Err(NoPreamble::Incomplete(known.len()));
        }
    }
    Err(NoPreamble::Absent)
}

fn version_1(bytes: &[u8]) -> Result<Preamble, NoPreamble> {
    let seen = &bytes[..bytes.len().min(VERSION_1_BYTES_MAX)];
    let Some(end) = seen.windows(2).position(|pair| pair == b"\r\n") else {
        if seen.len() < VERSION_1_BYTES_MAX {
            let shortest = if seen.starts_with(b"PROXY TCP") { NAMED_BYTES_MIN } else { UNNAMED_BYTES_MIN };
            let line_end = if seen.ends_with(b"\r") { 1 } else { 2 };
            return Err(NoPreamble::Incomplete(shortest.max(seen.len() + line_end).min(VERSION_1_BYTES_MAX)));
        }
        return Err(NoPreamble::Malformed("the line does not end within 107 bytes"));
    };
    let length = end + 2;
    let line = core::str::from_utf8(&seen[SIGNATURE_1.len()..end])
        .map_err(|_| NoPreamble::Malformed("the line is not text"))?;
    // The specification says to ignore the rest of an `UNKNOWN` line.
    if line == "UNKNOWN" || line.starts_with("UNKNOWN ") {
        return Ok(Preamble { addresses: None, length });
    }
    let mut words = line.split(' ');
    let mut word = || words.next().ok_or(NoPreamble::Malformed("the line has too few words"));
    let family = word()?;
    let (source, destination) = (word()?, word()?);
    let ports = (port(word()?)?, port(word()?)?);
    if words.next().is_some() {
        return Err(NoPreamble::Malformed("the line has too many words"));
    }
    let parse = |text: &str| match family {
        "TCP4" => text.parse::<Ipv4Addr>().map(IpAddr::from).ok(),
        "TCP6" => text.parse::<Ipv6Addr>().map(IpAddr::from).ok(),
        _ => None,
    };
    if !matches!(family, "TCP4" | "TCP6") {
        return Err(NoPreamble::Malformed("the family is not TCP4, TCP6 or UNKNOWN"));
    }
    let bad_address = NoPreamble::Malformed("an address is not of its family");
    let source = ends(parse(source).ok_or(bad_address)?, ports.0);
    let destination = ends(parse(destination).ok_or(bad_address)?, ports.1);
    Ok(Preamble { addresses: Some(Addresses { source, destination }), length })
}

fn port(text: &str) -> Result<u16, NoPreamble> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    let port = text.parse().ok().filter(|_| is_plain);
    port.ok_or(NoPreamble::Malformed("a port is not a number from 0 to 65535"))
}

fn ends(address: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(address.to_canonical(), port)
}

fn version_2(bytes: &[u8]) -> Result<Preamble, NoPreamble> {
    let [command, family, high, low, rest @ ..] = &bytes[SIGNATURE_2.len()..] else {
        return Err(NoPreamble::Incomplete(SIGNATURE_2.len() + 4));
    };
    if command >> 4 != 2 {
        return Err(NoPreamble::Malformed("the version is not 2"));
    }
    let announced = usize::from(u16::from_be_bytes([*high, *low]));
    if announced > VERSION_2_BYTES_MAX {
        return Err(NoPreamble::TooLong(announced));
    }
    let length = SIGNATURE_2.len() + 4 + announced;
    let body = rest.get(..announced).ok_or(NoPreamble::Incomplete(length))?;
    let addresses = match (command & 0xf, family) {
        // LOCAL: the balancer speaks for itself, whatever addresses it adds. Otherwise: no
        // addresses, or Unix sockets.
        (0, _) | (1, 0x00) => None,
        (1, 0x31 | 0x32) if body.len() >= 216 => None,
        (1, 0x11 | 0x12) => Some(pair::<4>(body)?),
        (1, 0x21 | 0x22) => Some(pair::<16>(body)?),
        (1, 0x31 | 0x32) => return Err(TOO_SHORT),
        (1, _) => return Err(NoPreamble::Malformed("the family of addresses does not exist")),
        _ => return Err(NoPreamble::Malformed("the command is neither LOCAL nor PROXY")),
    };
    Ok(Preamble { addresses, length })
}

const TOO_SHORT: NoPreamble = NoPreamble::Malformed("the addresses are cut off");

/// Two addresses of `N` bytes and two ports, as they begin `body`; additions follow and are not
/// looked at.
fn pair<const N: usize>(body: &[u8]) -> Result<Addresses, NoPreamble>
where
    IpAddr: From<[u8; N]>,
{
    let (source, rest) = body.split_first_chunk::<N>().ok_or(TOO_SHORT)?;
    let (destination, rest) = rest.split_first_chunk::<N>().ok_or(TOO_SHORT)?;
    let (source_port, rest) = rest.split_first_chunk::<2>().ok_or(TOO_SHORT)?;
    let (destination_port, _) = rest.split_first_chunk::<2>().ok_or(TOO_SHORT)?;
    Ok(Addresses {
        source: ends(IpAddr::from(*source), u16::from_be_bytes(*source_port)),
        destination: ends(IpAddr::from(*destination), u16::from_be_bytes(*destination_port)),
    })
}

#[cfg(test)]
mod tests;
