//! The address of the client behind the proxies that are trusted.
//!
//! A header that names the client counts only when the peer that sent it is trusted, and then only
//! as far back as every hop is trusted. So the addresses are walked from the right, the end that
//! the nearest proxy wrote: the first one that is not trusted is the client. The client itself may
//! have sent everything to the left of that address, so nothing there is read, and a client cannot
//! choose the address it is counted by.
//!
//! Exactly one header counts, the one the proxies are known to write. The other would come from the
//! client unchanged.

use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;
use http::header::{FORWARDED, HeaderName};
use tidegate_core::matcher::Network;

mod forwarded;

/// The most hops that are walked. Past it the walk ends, and the last address it reached is the
/// client.
pub const HOPS_MAX: usize = 64;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Finds the client of a request behind trusted proxies.
///
/// The default trusts no proxy: the client is the peer.
///
/// ```
/// # use tidegate_wire::client_address::ClientAddress;
/// let behind = ClientAddress::new(["10.0.0.0/8".parse()?]);
/// let mut headers = http::HeaderMap::new();
/// headers.insert("x-forwarded-for", "198.51.100.1, 203.0.113.9, 10.0.0.2".parse()?);
/// assert_eq!(behind.of(&headers, "10.0.0.1".parse()?).to_string(), "203.0.113.9");
/// assert_eq!(behind.of(&headers, "192.0.2.1".parse()?).to_string(), "192.0.2.1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientAddress {
    trusted: Vec<Network>,
    trusts_unix: bool,
    header: ForwardingHeader,
}

/// The header that trusted proxies write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ForwardingHeader {
    #[default]
    XForwardedFor,
    Forwarded,
}

impl ClientAddress {
    /// The client behind proxies in `trusted`, of which none means that no header counts, by
    /// `X-Forwarded-For`.
    pub fn new(trusted: impl IntoIterator<Item = Network>) -> Self {
        Self { trusted: trusted.into_iter().collect(), ..Self::default() }
    }

    /// The same by `Forwarded` (RFC 7239) instead of `X-Forwarded-For`.
    #[must_use]
    pub fn by_forwarded(mut self) -> Self {
        self.header = ForwardingHeader::Forwarded;
        self
    }

    /// The same with one more trusted network.
    #[must_use]
    pub fn trusting(mut self, network: Network) -> Self {
        self.trusted.push(network);
        self
    }

    /// The same, and what peers on a Unix socket say counts as well if `is_trusted`. They have no
    /// address of their own.
    #[must_use]
    pub fn trusting_unix(mut self, is_trusted: bool) -> Self {
        self.trusts_unix = is_trusted;
        self
    }

    /// Whether headers from this address about other addresses are trusted. IPv4 written as IPv6 is
    /// IPv4.
    pub fn is_trusted(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains_address(address))
    }

    /// As [`Self::is_trusted`]; without an address, of peers on a Unix socket.
    pub fn is_trusted_peer(&self, peer: Option<IpAddr>) -> bool {
        peer.map_or(self.trusts_unix, |address| self.is_trusted(address))
    }

    /// As [`Self::of`], for a peer that has no address on a Unix socket; `None` if no trusted proxy
    /// names the client.
    pub fn of_peer(&self, headers: &HeaderMap, peer: Option<IpAddr>) -> Option<IpAddr> {
        match peer {
            Some(peer) => Some(self.of(headers, peer)),
            None if self.trusts_unix => self.walk(headers, None),
            None => None,
        }
    }

    /// The client of a request with `headers` that `peer` sent; IPv4 written as IPv6 comes out as
    /// IPv4.
    ///
    /// An entry that is no address ends the walk at the last one that was good: who wrote that
    /// entry is unknown, and so is whether what stands left of it was sent by the client. When all
    /// hops are trusted, the client is the first of them.
    pub fn of(&self, headers: &HeaderMap, peer: IpAddr) -> IpAddr {
        let peer = peer.to_canonical();
        if !self.is_trusted(peer) {
            return peer;
        }
        self.walk(headers, Some(peer)).unwrap_or(peer)
    }

    /// From `client` on, which is trusted, back to the first address that is not.
    fn walk(&self, headers: &HeaderMap, mut client: Option<IpAddr>) -> Option<IpAddr> {
        let name = match self.header {
            ForwardingHeader::XForwardedFor => X_FORWARDED_FOR,
            ForwardingHeader::Forwarded => FORWARDED,
        };
        let mut hops = 0;
        for line in headers.get_all(name).iter().rev() {
            let mut rest = Some(line.as_bytes());
            while let Some(bytes) = rest {
                let entry;
                (rest, entry) = match self.header {
                    ForwardingHeader::XForwardedFor => last_of_list(bytes),
                    ForwardingHeader::Forwarded => match forwarded::last_element(bytes) {
                        Some(split) => split,
                        None => return client,
                    },
                };
                hops += 1;
                if hops > HOPS_MAX {
                    return client;
                }
                // RFC 9110 has recipients skip empty elements of a list, which proxies that join
                // lines leave behind.
                let entry = entry.trim_ascii();
                if entry.is_empty() {
                    continue;
                }
                let address = match self.header {
                    ForwardingHeader::XForwardedFor => core::str::from_utf8(entry).ok().and_then(address),
                    ForwardingHeader::Forwarded => forwarded::address_of(entry),
                };
                let Some(address) = address else { return client };
                client = Some(address);
                if !self.is_trusted(address) {
                    return client;
                }
            }
        }
        client
    }
}

/// Splits a list at its last comma, if there is one.
fn last_of_list(bytes: &[u8]) -> (Option<&[u8]>, &[u8]) {
    match bytes.iter().rposition(|byte| *byte == b',') {
        Some(comma) => (Some(&bytes[..comma]), &bytes[comma + 1..]),
        None => (None, bytes),
    }
}

/// An address with or without a port: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]`,
/// `[2001:db8::1]:80`.
fn address(text: &str) -> Option<IpAddr> {
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok().map(IpAddr::V6);
    let with_port = || text.parse().ok().map(|address: SocketAddr| address.ip());
    let address: Option<IpAddr> = text.parse().ok().or_else(bracketed).or_else(with_port);
    address.map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests;
