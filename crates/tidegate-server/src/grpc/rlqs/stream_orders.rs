//! Orders to all open streams at once: to look at the policy again, or to end.

use tokio::sync::watch;

/// Tells all open streams.
#[derive(Debug)]
pub(in crate::grpc) struct StreamOrders(watch::Sender<StreamOrder>);

/// The last order to a stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StreamOrder {
    /// How often the policy has changed.
    changes: u64,
    /// Whether streams are to end.
    pub(super) is_ending: bool,
}

impl Default for StreamOrders {
    fn default() -> Self {
        Self(watch::Sender::new(StreamOrder::default()))
    }
}

impl StreamOrders {
    /// Has them look again: another policy is in force.
    pub(in crate::grpc) fn look_again(&self) {
        self.0.send_modify(|order| order.changes += 1);
    }

    /// Ends them, and those that begin from now on.
    pub(in crate::grpc) fn end(&self) {
        self.0.send_modify(|order| order.is_ending = true);
    }

    /// The ear of a new stream.
    pub(super) fn listen(&self) -> watch::Receiver<StreamOrder> {
        self.0.subscribe()
    }
}
