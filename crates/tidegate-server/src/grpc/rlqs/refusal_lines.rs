//! Log lines about streams that end with an error: one for each cause and namespace, or cause and
//! peer, in ten minutes. An Envoy that is refused tries again every 5 s.

use core::hash::Hash;
use core::net::IpAddr;
use core::time::Duration;
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use tidegate_core::Timestamp;
use tidegate_wire::text::shortened;
use tonic::Status;

use crate::records::audit::network;

/// How long the lines are counted together.
const SPAN: Duration = Duration::from_mins(10);

/// The most lines about namespaces in a [`SPAN`], and as many about peers: those without a token
/// silence no namespace. The ends above it are counted, and the next line reports their number.
const LINES_MAX: usize = 64;

/// The longest text of a caller in a line, in bytes; a longer one is cut.
const SHOWN_BYTES_MAX: usize = 512;

/// The lines that were written in the current [`SPAN`].
#[derive(Debug, Default)]
pub(in crate::grpc) struct RefusalLines(Mutex<WrittenLines>);

#[derive(Debug, Default)]
struct WrittenLines {
    /// The number of the span that they belong to.
    span: u64,
    /// The status, and the namespace of the stream.
    namespaces: HashSet<(i32, Box<str>)>,
    /// The status, and the network of a peer whose stream has no namespace yet.
    peers: HashSet<(i32, Option<IpAddr>)>,
    suppressed: u64,
}

/// A stream that has ended with an error.
#[derive(Clone, Copy, Debug)]
pub(in crate::grpc) struct RefusedStream<'a> {
    /// The word for it in metrics.
    pub(in crate::grpc) cause: &'a str,
    /// The name of the Envoy, if it has a good one.
    pub(in crate::grpc) envoy: Option<&'a str>,
    /// The namespace, if the stream got as far.
    pub(in crate::grpc) namespace: Option<&'a str>,
    /// The address that it came from.
    pub(in crate::grpc) peer: Option<IpAddr>,
    /// Its end, with what to do.
    pub(in crate::grpc) status: &'a Status,
}

impl RefusalLines {
    /// Writes a line about a stream, unless there was one of its kind lately.
    pub(in crate::grpc) fn write(&self, stream: &RefusedStream<'_>, now: Timestamp) {
        let Some(suppressed) = self.take_line(stream, now) else { return };
        let RefusedStream { cause, envoy, namespace, peer, status } = *stream;
        tracing::warn!(
            target: "tidegate::rlqs",
            cause,
            status = ?status.code(),
            namespace,
            envoy,
            peer = peer.map(tracing::field::display),
            why = &*shortened(status.message(), SHOWN_BYTES_MAX),
            suppressed = (suppressed > 0).then_some(suppressed),
            "a stream of an Envoy was ended; Envoy tries again every 5 s, and decides without new assignments"
        );
    }

    /// How many lines were suppressed since the last one, or `None` if this one is.
    fn take_line(&self, stream: &RefusedStream<'_>, now: Timestamp) -> Option<u64> {
        // A panic elsewhere leaves counts of lines, which only thin out a log.
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // One more than its number, so that the first span differs from none.
        let span = now.as_nanos() / SPAN.as_nanos() as u64 + 1;
        if lines.span != span {
            *lines = WrittenLines { span, suppressed: lines.suppressed, ..WrittenLines::default() };
        }
        let status = stream.status.code() as i32;
        let is_first = match stream.namespace {
            Some(namespace) => insert_within(&mut lines.namespaces, (status, namespace.into())),
            None => insert_within(&mut lines.peers, (status, stream.peer.map(network))),
        };
        if !is_first {
            lines.suppressed += 1;
            return None;
        }
        Some(core::mem::take(&mut lines.suppressed))
    }
}

/// Whether a line was not among them before, and they had room for it.
fn insert_within<T: Eq + Hash>(lines: &mut HashSet<T>, line: T) -> bool {
    lines.len() < LINES_MAX && lines.insert(line)
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    #[test]
    fn each_cause_has_a_line_for_each_namespace_or_peer_in_ten_minutes_and_all_together_have_a_bound() {
        let lines = RefusalLines::default();
        let take = |code, namespace: Option<&str>, peer: &str, seconds: u64| {
            let (status, peer) = (Status::new(code, "because"), Some(peer.parse().unwrap()));
            let stream = RefusedStream { cause: "refused", envoy: None, namespace, peer, status: &status };
            lines.take_line(&stream, Timestamp::from_secs(1_200_000 + seconds))
        };
        let (token, domain) = (Code::Unauthenticated, Code::NotFound);
        assert_eq!(take(token, None, "192.0.2.1", 0), Some(0));
        for second in 1..600 {
            assert_eq!(take(token, None, "192.0.2.1", second), None);
        }
        assert_eq!(
            take(domain, None, "192.0.2.1", 599),
            Some(599),
            "another cause, and how many were left out"
        );
        assert_eq!(take(token, None, "192.0.2.2", 599), Some(0), "another peer");
        assert_eq!(take(token, Some("api"), "192.0.2.1", 599), Some(0));
        assert_eq!(take(token, Some("api"), "192.0.2.7", 599), None, "another Envoy of that namespace");
        assert_eq!(take(token, None, "192.0.2.1", 600), Some(1), "ten minutes later");
        let written = (0..1_000_u32).filter(|peer| {
            take(domain, None, &std::net::Ipv4Addr::from_bits(*peer).to_string(), 600).is_some()
        });
        assert_eq!(written.count(), LINES_MAX - 1);
        assert!(take(domain, Some("api"), "192.0.2.1", 600).is_some(), "peers silence no namespace");
    }
}
