//! Addresses as keys: every way to write one address gives one key, and an IPv6 address counts by
//! its network.
//!
//! Otherwise a client with a /64 network could escape a limit per address by using a new address
//! for each request, and any client could escape it by changing the spelling of one address (`::1`,
//! `0:0:0:0:0:0:0:1`, `[::1]:443`).

use core::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IPv4 address, or the network of an IPv6 address: what requests are counted by.
///
/// Equal for all spellings of an address, and for all IPv6 addresses of a network. As bytes 4 long
/// for IPv4 and 16 for IPv6, so that the length tells the families apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AddressKey {
    /// The address itself.
    V4([u8; 4]),
    /// The first address of the network, and its length in bits, at most 128.
    V6([u8; 16], u8),
}

impl AsRef<[u8]> for AddressKey {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::V4(bytes) => bytes,
            Self::V6(bytes, _) => bytes,
        }
    }
}

impl fmt::Display for AddressKey {
    /// `10.0.0.1`, `2001:db8:1:2::/64`; a whole IPv6 address without `/128`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::V4(bytes) => Ipv4Addr::from(bytes).fmt(f),
            Self::V6(bytes, 128) => Ipv6Addr::from(bytes).fmt(f),
            Self::V6(bytes, prefix) => write!(f, "{}/{prefix}", Ipv6Addr::from(bytes)),
        }
    }
}

/// The key of the address in `value`, or `None` if it is no address. Allocates nothing.
///
/// Blanks around it do not count. Understood are `10.0.0.1`, `10.0.0.1:443`, `2001:db8::1`,
/// `[2001:db8::1]`, `[2001:db8::1]:443`, and an IPv6 address with a zone (`fe80::1%eth0`), which is
/// left out. An IPv4-mapped IPv6 address is its IPv4 address. Other IPv6 addresses keep their first
/// `ipv6_prefix` bits: 0 makes all of them one key, 128 and above keeps them whole. The network as
/// a key is shown, `2001:db8::/64`, is that key.
pub(crate) fn network_of(value: &str, ipv6_prefix: u8) -> Option<AddressKey> {
    let value = value.trim_ascii();
    if let Some((address, length)) = value.rsplit_once('/') {
        // The standard parser also takes a plus sign.
        if !length.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let key = AddressKey::V6(address.parse::<Ipv6Addr>().ok()?.octets(), length.parse().ok()?);
        return (network_of(address, ipv6_prefix) == Some(key) && ipv6_prefix < 128).then_some(key);
    }
    match parse(value)?.to_canonical() {
        IpAddr::V4(address) => Some(AddressKey::V4(address.octets())),
        IpAddr::V6(address) => {
            let prefix = ipv6_prefix.min(128);
            // A shift by all 128 bits does not exist; what it would leave is nothing.
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            Some(AddressKey::V6((address.to_bits() & mask).to_be_bytes(), prefix))
        }
    }
}

fn parse(value: &str) -> Option<IpAddr> {
    if let Some(bracketed) = value.strip_prefix('[') {
        let (inside, after) = bracketed.split_once(']')?;
        if !(after.is_empty() || after.strip_prefix(':').is_some_and(is_port)) {
            return None;
        }
        return parse_v6(inside);
    }
    match value.bytes().position(|byte| byte == b':') {
        None => value.parse().ok().map(IpAddr::V4),
        Some(colon) if value[colon + 1..].contains(':') => parse_v6(value),
        Some(colon) if is_port(&value[colon + 1..]) => value[..colon].parse().ok().map(IpAddr::V4),
        Some(_) => None,
    }
}

fn parse_v6(text: &str) -> Option<IpAddr> {
    let address = text.split_once('%').map_or(text, |(address, _zone)| address);
    address.parse().ok().map(IpAddr::V6)
}

fn is_port(text: &str) -> bool {
    // The standard parser also takes a plus sign.
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;
