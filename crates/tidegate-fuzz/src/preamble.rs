//! The PROXY protocol: the bytes before the first request of a connection.

use std::net::{IpAddr, SocketAddr};

use tidegate_proxy::proxy_protocol::{Addresses, NoPreamble, Preamble, VERSION_2_BYTES_MAX};

use crate::Taken;

/// The bytes before the addresses of version 2.
const HEAD_BYTES: usize = 16;

/// Reads the preamble of a connection.
///
/// Pieces of a preamble are incomplete, each announces no more bytes than the preamble has, and the
/// bytes behind it change nothing. Addresses that were read are read again from both versions.
pub fn preamble(bytes: &[u8]) -> Taken {
    let whole = Preamble::parse(bytes);
    let length = whole.map_or(bytes.len(), |preamble| preamble.length);
    assert!(length <= bytes.len(), "a preamble of {length} in {} bytes", bytes.len());
    for cut in 0..length {
        match (Preamble::parse(&bytes[..cut]), &whole) {
            (Err(NoPreamble::Incomplete(needed)), Ok(preamble)) => {
                assert!((cut + 1..=preamble.length).contains(&needed), "{needed} after {cut}");
            }
            (Err(NoPreamble::Incomplete(needed)), _) => {
                assert!(needed > cut && needed <= HEAD_BYTES + VERSION_2_BYTES_MAX, "{needed} after {cut}");
            }
            (Err(early), Err(late)) => assert_eq!(early, *late, "after {cut} bytes"),
            (early, late) => panic!("{early:?} after {cut} bytes, {late:?} after all"),
        }
    }
    match whole {
        Ok(preamble) => {
            assert!((1..=HEAD_BYTES + VERSION_2_BYTES_MAX).contains(&preamble.length), "{preamble:?}");
            assert_eq!(Preamble::parse(&bytes[..length]), whole, "what follows a preamble changes it");
            if let Some(addresses) = preamble.addresses {
                for written in [version_1(addresses), version_2(addresses)] {
                    let again = Preamble { addresses: Some(addresses), length: written.len() };
                    assert_eq!(Preamble::parse(&written), Ok(again), "{}", written.escape_ascii());
                }
            }
            Taken::Accepted
        }
        Err(error) => {
            let line = error.to_string();
            assert!(line.len() < 256 && !line.contains(char::is_control), "{line:?}");
            Taken::Refused
        }
    }
}

fn are_ipv4(addresses: Addresses) -> bool {
    addresses.source.is_ipv4() && addresses.destination.is_ipv4()
}

fn version_1(addresses: Addresses) -> Vec<u8> {
    let family = if are_ipv4(addresses) { "TCP4" } else { "TCP6" };
    let text = |end: SocketAddr| match end.ip() {
        IpAddr::V4(ip) if !are_ipv4(addresses) => ip.to_ipv6_mapped().to_string(),
        ip => ip.to_string(),
    };
    let Addresses { source, destination } = addresses;
    let (from, to) = (source.port(), destination.port());
    format!("PROXY {family} {} {} {from} {to}\r\n", text(source), text(destination)).into_bytes()
}

fn version_2(addresses: Addresses) -> Vec<u8> {
    let mut body = Vec::new();
    let ends = [addresses.source, addresses.destination];
    for end in ends {
        match end.ip() {
            IpAddr::V4(ip) if are_ipv4(addresses) => body.extend(ip.octets()),
            IpAddr::V4(ip) => body.extend(ip.to_ipv6_mapped().octets()),
            IpAddr::V6(ip) => body.extend(ip.octets()),
        }
    }
    for end in ends {
        body.extend(end.port().to_be_bytes());
    }
    let family = if are_ipv4(addresses) { 0x11 } else { 0x21 };
    [&b"\r\n\r\n\0\r\nQUIT\n\x21"[..], &[family, 0, body.len() as u8], &body].concat()
}
