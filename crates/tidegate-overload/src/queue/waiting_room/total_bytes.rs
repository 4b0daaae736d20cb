//! The bound on the bytes of all that waits, in whatever room, and the share of each namespace.
//!
//! Half of the bound is guaranteed to the namespaces in equal shares, the other half goes to the
//! first that asks. So a namespace that holds less than its share always has room, whatever others
//! hold and wherever.

use std::collections::BTreeMap;

/// The bytes of all waiting requests.
#[derive(Clone, Debug)]
pub(super) struct TotalBytes {
    max: usize,
    namespaces: usize,
    /// The share of one namespace.
    share: usize,
    used: usize,
    /// The sum of what namespaces use beyond their shares.
    beyond: usize,
    by_namespace: BTreeMap<u32, usize>,
}

impl TotalBytes {
    /// At most `max` bytes, divided among so many namespaces.
    pub(super) fn new(max: usize, namespaces: usize) -> Self {
        let namespaces = namespaces.max(1);
        let share = max / 2 / namespaces;
        Self { max, namespaces, share, used: 0, beyond: 0, by_namespace: BTreeMap::new() }
    }

    /// The same bounds with nothing in use.
    pub(super) fn emptied(&self) -> Self {
        Self::new(self.max, self.namespaces)
    }

    fn used_by(&self, namespace: u32) -> usize {
        self.by_namespace.get(&namespace).copied().unwrap_or(0)
    }

    /// Whether there is room for so many bytes more of a namespace.
    pub(super) fn has_room(&self, namespace: u32, more: usize) -> bool {
        let before = self.used_by(namespace);
        let after = before.saturating_add(more);
        let beyond = (self.beyond - before.saturating_sub(self.share))
            .saturating_add(after.saturating_sub(self.share));
        let pool = self.max - self.share * self.namespaces;
        self.used.saturating_add(more) <= self.max && (after <= self.share || beyond <= pool)
    }

    /// A namespace uses `after` bytes in a group in which it used `before`.
    pub(super) fn change(&mut self, namespace: u32, before: usize, after: usize) {
        let used = self.used_by(namespace);
        let now = (used - before).saturating_add(after);
        self.used = (self.used - before).saturating_add(after);
        self.beyond = self.beyond - used.saturating_sub(self.share) + now.saturating_sub(self.share);
        if now > 0 {
            self.by_namespace.insert(namespace, now);
        } else {
            self.by_namespace.remove(&namespace);
        }
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    fn take(total: &mut TotalBytes, namespace: u32, bytes: usize) -> bool {
        let has_room = total.has_room(namespace, bytes);
        if has_room {
            total.change(namespace, 0, bytes);
        }
        has_room
    }

    #[test]
    fn a_namespace_below_its_share_has_room_whatever_the_others_hold() {
        let mut total = TotalBytes::new(1200, 3);
        let greedy = (0..100).filter(|_| take(&mut total, 1, 100)).count();
        assert_eq!(greedy, 8, "its share of 200 and the pool of 600");
        assert!(take(&mut total, 2, 200) && take(&mut total, 3, 150));
        assert!(!take(&mut total, 3, 51) && take(&mut total, 3, 50));
        total.change(1, 500, 0);
        assert!(take(&mut total, 2, 500) && !take(&mut total, 2, 1));
        assert!(
            !take(&mut total, 4, 1),
            "a namespace more than there are has what is left, which is nothing"
        );
    }

    #[test]
    fn one_namespace_alone_has_all_and_no_sum_wraps() {
        let mut total = TotalBytes::new(1000, 0);
        assert!(take(&mut total, 7, 1000) && !take(&mut total, 7, 1) && !take(&mut total, 7, usize::MAX));
        let mut endless = TotalBytes::new(usize::MAX, 2);
        assert!(take(&mut endless, 1, usize::MAX / 2) && take(&mut endless, 2, 1 << 20));
        assert_eq!(endless.emptied().used, 0);
    }
}
