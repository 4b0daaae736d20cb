//! Ranges of addresses.

use core::fmt;
use core::str::FromStr;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};

use super::error::{MatcherError, shortened};

/// A range of addresses of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network(IpNet);

impl FromStr for Network {
    type Err = MatcherError;

    /// As [`Matcher::cidr`](crate::Matcher::cidr) says.
    fn from_str(text: &str) -> Result<Self, MatcherError> {
        let none = || MatcherError::Cidr { text: shortened(text) };
        let written: IpNet = if text.contains('/') {
            text.parse().map_err(|_| none())?
        } else {
            text.parse::<IpAddr>().map_err(|_| none())?.into()
        };
        if written != written.trunc() {
            let network = written.trunc().to_string();
            return Err(MatcherError::CidrHostBits { text: shortened(text), network });
        }
        // Values in the mapped range are looked up as IPv4, so a network inside that range must be
        // IPv4 too.
        let mapped = match written {
            IpNet::V6(net) if net.prefix_len() >= 96 => net.addr().to_ipv4_mapped().map(|addr| {
                Ipv4Net::new(addr, net.prefix_len() - 96).expect("128 - 96 is the length of an IPv4 address")
            }),
            _ => None,
        };
        Ok(Self(mapped.map_or(written, IpNet::V4)))
    }
}

impl Network {
    /// Whether `value` is an address in this network, blanks around it aside; false for what is no
    /// address.
    pub fn contains(&self, value: &str) -> bool {
        value.trim_ascii().parse().is_ok_and(|address| self.contains_address(address))
    }

    /// Whether the address is in this network. IPv4 written as IPv6 is IPv4.
    pub fn contains_address(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

impl fmt::Display for Network {
    /// `10.0.0.0/8`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
