//! Networks of peers.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr};
use core::str::FromStr;

use ipnet::{IpNet, Ipv4Net};

use super::GrammarError;
use crate::printable::shown;

/// A network in CIDR notation, or one address. A network of IPv4 addresses written as IPv6
/// (`::ffff:0:0/96`) is the IPv4 network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(IpNet);

impl Network {
    /// Whether the address is in it. IPv4 written as IPv6 is IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

impl FromStr for Network {
    type Err = GrammarError;

    fn from_str(text: &str) -> Result<Self, GrammarError> {
        let network: Option<IpNet> =
            text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
        let network = network.ok_or_else(|| {
            let what = format!("network \"{}\" is neither CIDR notation nor an address", shown(text));
            GrammarError::new(what, "write 10.0.0.0/8, 2001:db8::/32 or 192.0.2.1")
        })?;
        Ok(Self(canonical(network)))
    }
}

fn canonical(network: IpNet) -> IpNet {
    let IpNet::V6(six) = network else { return network };
    let mapped: Option<Ipv4Addr> = six.network().to_ipv4_mapped();
    match (mapped, six.prefix_len().checked_sub(96)) {
        (Some(four), Some(length)) => Ipv4Net::new(four, length).map_or(network, IpNet::V4),
        _ => network,
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_and_ipv4_within_ipv6_is_ipv4() {
        for (text, shown) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("192.0.2.1", "192.0.2.1/32"),
            ("2001:db8::/32", "2001:db8::/32"),
            ("::1", "::1/128"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:0.0.0.0/96", "0.0.0.0/0"),
            ("::/0", "::/0"),
        ] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), shown);
        }
        for text in ["", "10.0.0.0/33", "10/8", "example.com", "10.0.0.0/-1", "::/129"] {
            assert!(text.parse::<Network>().unwrap_err().to_string().contains("write 10.0.0.0/8"), "{text}");
        }
    }
}
