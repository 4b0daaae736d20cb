//! The namespaces between which the seconds of a calendar are divided.

use tidegate_core::Timestamp;

/// The largest number of namespaces that are remembered. A further one takes the place of the one
/// that asked longest ago.
const NAMESPACES_MAX: usize = 64;
/// For how many seconds a namespace counts after it asked for a ticket.
const ASKED_SECS: u64 = 10;

/// The namespaces that ask for tickets, or hold tickets of seconds to come.
///
/// The instants are whole seconds: a namespace that stops asking is forgotten after 10 to 11 s,
/// also when the clock steps.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamespaceAsks {
    asks: Vec<NamespaceAsk>,
    /// The number of namespaces that asked within the last 10 s.
    asking: u16,
    second: u64,
}

#[derive(Clone, Copy, Debug)]
struct NamespaceAsk {
    namespace: u32,
    /// The second of the last ask.
    asked: u64,
    /// The latest second of which the namespace was sold a ticket; 0: none.
    last_sold: u64,
    is_asking: bool,
}

impl NamespaceAsks {
    /// A namespace asks; true if fewer namespaces count than before, so that parts may be larger.
    pub(crate) fn ask(&mut self, namespace: u32, now: Timestamp) -> bool {
        let second = now.as_secs();
        let is_fewer = second != self.second && self.forget(second);
        self.second = second;
        let found = self.asks.iter_mut().find(|ask| ask.namespace == namespace);
        if let Some(ask) = found {
            self.asking += u16::from(!ask.is_asking);
            (ask.asked, ask.is_asking) = (second, true);
            return is_fewer;
        }
        if self.asks.len() >= NAMESPACES_MAX {
            let eldest = self.asks.iter().enumerate().min_by_key(|(_, ask)| (ask.is_asking, ask.asked));
            let eldest = eldest.map_or(0, |(place, _)| place);
            self.asking -= u16::from(self.asks.swap_remove(eldest).is_asking);
        }
        self.asks.push(NamespaceAsk { namespace, asked: second, last_sold: 0, is_asking: true });
        self.asking += 1;
        is_fewer
    }

    /// A namespace that has asked was sold a ticket.
    pub(crate) fn sold(&mut self, namespace: u32, slot: u64) {
        if let Some(ask) = self.asks.iter_mut().find(|ask| ask.namespace == namespace) {
            ask.last_sold = ask.last_sold.max(slot);
        }
    }

    /// The number of namespaces that asked within the last 10 s, at most 64.
    pub(crate) const fn asking(&self) -> u16 {
        self.asking
    }

    /// Whether one namespace has all tickets of seconds to come, and no other one asks.
    pub(crate) fn is_lone(&self) -> bool {
        self.asks.len() <= 1
    }

    /// The bytes of the table.
    pub(crate) fn bytes(&self) -> usize {
        self.asks.capacity() * size_of::<NamespaceAsk>()
    }

    /// Forgets what is over; whether that leaves fewer namespaces.
    fn forget(&mut self, now: u64) -> bool {
        let before = (self.asks.len(), self.asking);
        for ask in &mut self.asks {
            ask.is_asking &= now.abs_diff(ask.asked) <= ASKED_SECS;
        }
        self.asks.retain(|ask| ask.is_asking || ask.last_sold > now);
        self.asking = self.asks.iter().map(|ask| u16::from(ask.is_asking)).sum();
        self.asks.len() < before.0 || self.asking < before.1
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    fn at(second: u64) -> Timestamp {
        Timestamp::from_secs(1_800_000_000 + second)
    }

    #[test]
    fn a_namespace_counts_for_ten_seconds_after_it_asked() {
        let mut asks = NamespaceAsks::default();
        assert!(!asks.ask(1, at(0)) && asks.is_lone());
        assert!(!asks.ask(2, at(5)) && !asks.is_lone());
        assert!(!asks.ask(2, at(10)));
        assert_eq!(asks.asking(), 2);
        assert!(asks.ask(2, at(11)), "the first one is forgotten");
        assert_eq!((asks.asking(), asks.is_lone()), (1, true));
        assert!(asks.ask(3, at(0).saturating_sub(core::time::Duration::from_hours(1))));
        assert_eq!((asks.asking(), asks.is_lone()), (1, true), "the clock was set back");
    }

    #[test]
    fn a_namespace_with_tickets_of_seconds_to_come_is_known_until_they_are_over() {
        let mut asks = NamespaceAsks::default();
        asks.ask(1, at(0));
        asks.sold(1, at(100).as_secs());
        asks.ask(2, at(99));
        assert_eq!((asks.asking(), asks.is_lone()), (1, false));
        assert!(asks.ask(2, at(100)));
        assert!(asks.is_lone());
    }

    #[test]
    fn at_most_64_namespaces_are_remembered_and_the_one_that_asked_longest_ago_goes_first() {
        let mut asks = NamespaceAsks::default();
        (0..1_000).for_each(|namespace| _ = asks.ask(namespace, at(u64::from(namespace) / 200)));
        assert_eq!((asks.asking(), asks.asks.len()), (64, NAMESPACES_MAX));
        assert!(asks.bytes() <= 4 << 10);
        assert!(asks.asks.iter().all(|ask| ask.asked == at(4).as_secs()));
    }
}
