//! Lines for `tidegate::audit` about operations of callers with grants, and about failed
//! logins.
//!
//! A flood of them must not become a flood of lines: each grant, and each peer without one, has its
//! own lines, so that no caller takes the lines of another. The next line of the same kind reports
//! how many were suppressed.

use core::fmt::Write;
use core::net::{IpAddr, Ipv6Addr};
use core::time::Duration;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use http::HeaderMap;
use smallvec::SmallVec;
use tidegate_core::Timestamp;
use tidegate_policy::policy::authorization::{Grant, Verb};
use tidegate_wire::text::shortened;

use crate::authorization::{Caller, token_in};
use crate::protocol::Protocol;

/// How long the lines of a grant or of a peer are counted together.
const SPAN: Duration = Duration::from_secs(10);

/// The most lines of one grant in a [`SPAN`]. The operations above it are counted, and the next
/// line reports their number.
const GRANT_LINES_MAX: u32 = 100;

/// The most grants whose lines are counted apart. A policy has no more; when reloads have brought
/// more names than that, the counts of all begin anew.
const GRANTS_MAX: usize = Grant::COUNT_MAX;

/// The most peers with a line about a failed login in a [`SPAN`], for each protocol; each has one.
/// The failures above it are counted, and the next line reports their number.
const PEERS_MAX: usize = 16;

/// The longest key in a line, in bytes; a longer one is cut.
const KEY_BYTES_MAX: usize = 1024;

/// Counts of the lines that were written in the current [`SPAN`].
#[derive(Debug, Default)]
pub(crate) struct Audit {
    grants: Mutex<HashMap<String, GrantLines>>,
    peers: Mutex<[PeerLines; Protocol::ALL.len()]>,
}

#[derive(Debug, Default)]
struct GrantLines {
    /// The number of the span that the count belongs to.
    span: u64,
    written: u32,
    suppressed: u64,
}

#[derive(Debug, Default)]
struct PeerLines {
    /// The number of the span that the peers belong to.
    span: u64,
    /// The networks of the peers that have had their line.
    peers: SmallVec<[Option<IpAddr>; PEERS_MAX]>,
    suppressed: u64,
}

/// An operation that affects other callers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation<'a> {
    /// The kind of operation.
    pub(crate) verb: Verb,
    /// The namespace of the keys.
    pub(crate) namespace: &'a str,
    /// The limit; `None` for all that match.
    pub(crate) limit: Option<&'a str>,
    /// The attributes that make the key, with their values.
    pub(crate) attributes: &'a [(&'a str, &'a str)],
    /// The result, in words.
    pub(crate) outcome: &'a str,
}

impl Audit {
    /// Writes a line about an operation that succeeded.
    pub(crate) fn operation(&self, caller: &Caller, operation: &Operation<'_>, now: Timestamp) {
        let Operation { verb, namespace, limit, attributes, outcome } = *operation;
        let grant = caller.grant(verb, namespace);
        let Some(suppressed) = self.take_grant_line(grant.unwrap_or_default(), now) else { return };
        let mut key = String::new();
        for (name, value) in attributes {
            if key.len() > KEY_BYTES_MAX {
                break;
            }
            let space = if key.is_empty() { "" } else { " " };
            // Writing to a string does not fail.
            let _ = write!(key, "{space}{name}={value}");
        }
        tracing::info!(
            target: "tidegate::audit",
            operation = verb.as_str(),
            grant,
            namespace,
            limit,
            key = &*shortened(&key, KEY_BYTES_MAX),
            suppressed = (suppressed > 0).then_some(suppressed),
            "{outcome}"
        );
    }

    /// Writes a line about a request whose token or certificate is not one of the policy's. A
    /// request that shows nothing gets none: it is no attempt.
    pub(crate) fn failed_request(
        &self,
        protocol: Protocol,
        peer: Option<IpAddr>,
        names: &[String],
        headers: &HeaderMap,
        now: Timestamp,
    ) {
        if token_in(headers).is_some() || !names.is_empty() {
            self.failed_login(protocol, peer, now);
        }
    }

    /// Writes a line about a token or certificate that is not one of the policy's.
    pub(crate) fn failed_login(&self, protocol: Protocol, peer: Option<IpAddr>, now: Timestamp) {
        let Some(suppressed) = self.take_peer_line(protocol, peer, now) else { return };
        tracing::warn!(
            target: "tidegate::audit",
            protocol = protocol.as_str(),
            peer = peer.map(tracing::field::display),
            suppressed = (suppressed > 0).then_some(suppressed),
            "authentication failed: the token or certificate is not one of the policy's"
        );
    }

    /// How many lines were suppressed since the last one, or `None` if this one is.
    fn take_grant_line(&self, grant: &str, now: Timestamp) -> Option<u64> {
        // A panic elsewhere leaves counts of lines, which only thin out a log.
        let mut grants = self.grants.lock().unwrap_or_else(PoisonError::into_inner);
        if !grants.contains_key(grant) {
            if grants.len() > GRANTS_MAX {
                grants.clear();
            }
            grants.insert(grant.to_owned(), GrantLines::default());
        }
        let lines = grants.get_mut(grant)?;
        let span = span(now);
        if lines.span != span {
            (lines.span, lines.written) = (span, 0);
        }
        if lines.written >= GRANT_LINES_MAX {
            lines.suppressed += 1;
            return None;
        }
        lines.written += 1;
        Some(core::mem::take(&mut lines.suppressed))
    }

    /// As [`Audit::take_grant_line`], for a peer.
    fn take_peer_line(&self, protocol: Protocol, peer: Option<IpAddr>, now: Timestamp) -> Option<u64> {
        let position = Protocol::ALL.iter().position(|known| *known == protocol)?;
        let mut protocols = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = protocols.get_mut(position)?;
        let span = span(now);
        if lines.span != span {
            lines.span = span;
            lines.peers.clear();
        }
        let network = peer.map(network);
        if lines.peers.len() >= PEERS_MAX || lines.peers.contains(&network) {
            lines.suppressed += 1;
            return None;
        }
        lines.peers.push(network);
        Some(core::mem::take(&mut lines.suppressed))
    }
}

/// One more than its number, so that the first span differs from none.
fn span(now: Timestamp) -> u64 {
    now.as_nanos() / SPAN.as_nanos() as u64 + 1
}

/// The part of an address that one customer of a network has: the whole IPv4 address, or the first
/// 64 bits of an IPv6 address.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_secs(1_000_000 + seconds)
    }

    #[test]
    fn a_peer_has_one_line_in_ten_seconds_and_takes_no_line_of_another() {
        let audit = Audit::default();
        let take = |peer: &str, seconds| {
            audit.take_peer_line(Protocol::Resp, Some(peer.parse().unwrap()), at(seconds))
        };
        assert_eq!(take("192.0.2.1", 0), Some(0));
        for _ in 0..1_000_000 {
            assert_eq!(take("192.0.2.1", 9), None);
        }
        assert_eq!(take("192.0.2.2", 9), Some(1_000_000), "another peer, and the number of lines left out");
        assert_eq!(take("192.0.2.1", 10), Some(0), "the next span");
        assert_eq!(take("2001:db8::1", 20), Some(0));
        assert_eq!(take("2001:db8::ffff:0:1", 20), None, "the same network");
        assert_eq!(take("2001:db8:0:1::1", 20), Some(1));
    }

    #[test]
    fn many_peers_together_have_no_more_lines_than_the_bound() {
        let audit = Audit::default();
        let lines = (0..10_000_u32).filter(|peer| {
            let peer = IpAddr::V4((*peer).into());
            audit.take_peer_line(Protocol::Http, Some(peer), at(0)).is_some()
        });
        assert_eq!(lines.count(), PEERS_MAX);
        assert!(audit.take_peer_line(Protocol::Resp, None, at(0)).is_some(), "protocols are counted apart");
    }

    #[test]
    fn a_grant_takes_no_line_of_another_and_names_are_bounded() {
        let audit = Audit::default();
        let taken = |grant: &str, times: u32| {
            (0..times).filter(|_| audit.take_grant_line(grant, at(0)).is_some()).count()
        };
        assert_eq!(taken("ada", 5 * GRANT_LINES_MAX), GRANT_LINES_MAX as usize);
        assert_eq!(taken("bob", 1), 1);
        assert_eq!(audit.take_grant_line("ada", at(10)), Some(u64::from(4 * GRANT_LINES_MAX)));
        for grant in 0..3 * GRANTS_MAX {
            taken(&grant.to_string(), 1);
        }
        assert!(audit.grants.lock().unwrap().len() <= GRANTS_MAX + 1);
    }
}
