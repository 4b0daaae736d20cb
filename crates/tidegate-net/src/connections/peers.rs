//! Peers: the number of connections of each, and the choice of connections to evict when a listener
//! is full.

use core::fmt;
use std::collections::{BinaryHeap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::AtomicUsize;

use tokio::time::Instant;

/// The other end of a connection, as far as shares are concerned.
///
/// The addresses of one IPv6 network of 64 bits are one peer: that is the least a site is given,
/// and every machine in it may use as many of them as it likes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PeerKey {
    /// All peers of Unix sockets together.
    #[default]
    Local,
    /// A machine, or an IPv6 network of 64 bits.
    Address(IpAddr),
}

impl PeerKey {
    /// The peer at an address; `None` for a Unix socket.
    pub fn from_address(address: Option<IpAddr>) -> Self {
        let Some(address) = address else { return Self::Local };
        Self::Address(match address.to_canonical() {
            IpAddr::V6(address) if !address.is_loopback() => {
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)))
            }
            address => address,
        })
    }
}

impl fmt::Display for PeerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("Unix sockets"),
            Self::Address(IpAddr::V6(address)) if !address.is_loopback() => write!(f, "{address}/64"),
            Self::Address(address) => address.fmt(f),
        }
    }
}

/// The resources that all connections of one peer use together.
#[derive(Debug, Default)]
pub(super) struct PeerUse {
    /// Bytes that are held for it: see [`super::BufferBudget`].
    pub(super) held: AtomicUsize,
}

/// A connection without a request, which may be closed to make room.
#[derive(Clone, Copy, Debug)]
pub(super) struct IdleConnection {
    pub(super) id: u64,
    pub(super) peer: PeerKey,
    /// Whether it ever had a request.
    pub(super) has_served: bool,
    pub(super) idle_since: Instant,
}

/// Which of the idle connections to close, at most `most`.
///
/// Each is taken from the peer that has the most connections then, busy ones included (`counts`):
/// first those that never had a request, then those that have been idle longest.
pub(super) fn choose(
    counts: &HashMap<PeerKey, usize>,
    mut idle: Vec<IdleConnection>,
    most: usize,
) -> Vec<IdleConnection> {
    // The last of each peer's list is the first to be closed.
    idle.sort_by_key(|one| (one.has_served, one.idle_since, one.id));
    idle.reverse();
    let mut of_peer: HashMap<PeerKey, Vec<IdleConnection>> = HashMap::new();
    for one in idle {
        of_peer.entry(one.peer).or_default().push(one);
    }
    let count = |peer: &PeerKey| counts.get(peer).copied().unwrap_or(0);
    let mut peers: BinaryHeap<_> = of_peer.keys().map(|peer| (count(peer), *peer)).collect();
    let mut chosen = Vec::new();
    while let Some((count, peer)) = peers.pop()
        && chosen.len() < most
    {
        if let Some(one) = of_peer.get_mut(&peer).and_then(Vec::pop) {
            chosen.push(one);
            peers.push((count.saturating_sub(1), peer));
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn a_network_of_64_bits_is_one_peer_and_a_mapped_address_is_the_one_it_maps() {
        let key = |text: &str| PeerKey::from_address(Some(text.parse().unwrap()));
        assert_eq!(key("2001:db8:1:2::7"), key("2001:db8:1:2:ffff::1"));
        assert_ne!(key("2001:db8:1:2::7"), key("2001:db8:1:3::7"));
        assert_eq!(key("::ffff:10.0.0.1"), key("10.0.0.1"));
        assert_eq!(key("2001:db8:1:2::7").to_string(), "2001:db8:1:2::/64");
        assert_eq!([key("::1").to_string(), PeerKey::Local.to_string()], ["::1", "Unix sockets"]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_peer_with_the_most_connections_makes_room_and_first_with_those_that_never_asked() {
        let (flood, honest) = (
            PeerKey::from_address(Some([10, 0, 0, 1].into())),
            PeerKey::from_address(Some([10, 0, 0, 2].into())),
        );
        let start = Instant::now();
        let idle = |id: u64, peer, has_served, seconds| IdleConnection {
            id,
            peer,
            has_served,
            idle_since: start + Duration::from_secs(seconds),
        };
        // The honest peer's are the oldest; it has fewer.
        let connections = vec![
            idle(1, honest, true, 0),
            idle(2, honest, true, 0),
            idle(3, flood, true, 1),
            idle(4, flood, false, 3),
            idle(5, flood, false, 2),
        ];
        let counts = HashMap::from([(honest, 2), (flood, 9)]);
        let ids =
            |most| choose(&counts, connections.clone(), most).iter().map(|one| one.id).collect::<Vec<_>>();
        assert_eq!(ids(2), [5, 4]);
        assert_eq!(ids(3), [5, 4, 3]);
        // Its other connections are busy: then the next peer is asked, whose oldest goes first.
        assert_eq!(ids(4), [5, 4, 3, 1]);
        assert_eq!(ids(99), [5, 4, 3, 1, 2]);
        assert!(choose(&counts, Vec::new(), 4).is_empty());
    }
}
