//! Which seconds of the horizon still have room: two trees of minima over the slots that are sold.
//!
//! A sale takes the first second with room. A look at every second would cost a full calendar of an
//! hour 3 600 looks for each sale, and a remembered answer is wrong as soon as the capacity rises.
//! The trees hold what was *sold* and no room, so they answer for any capacity and any weight in a
//! dozen steps. The weight that counts a tenant up to its part depends on the part; the tree is
//! built anew when the part changes, which costs some tens of microseconds.

use core::ops::Range;

use super::booked_slot::BookedSlot;
use super::forgotten_slots::ForgottenSlots;
use super::slot_book::SlotBook;

/// The weight that stands for a second that takes no further ticket at all.
const CLOSED: u16 = u16::MAX;
/// How many seconds enter the window one by one; beyond it the trees are built anew.
const STEPS_MAX: u64 = 64;

/// The seconds for sale, and what is sold in each of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlotIndex {
    window: Range<u64>,
    part: u16,
    sold: MinimumTree,
    effective: MinimumTree,
}

impl SlotIndex {
    /// Moves the window to these seconds, and counts tenants up to this part.
    pub(crate) fn follow(
        &mut self,
        book: &SlotBook,
        forgotten: &ForgottenSlots,
        window: &Range<u64>,
        part: u16,
    ) {
        if self.window == *window && self.part == part {
            return;
        }
        let length = window.end - window.start;
        let is_near = window.start >= self.window.start && window.start - self.window.start <= STEPS_MAX;
        let is_same = self.part == part && self.window.end - self.window.start == length;
        let entering = if is_near && is_same {
            self.window.end..window.end
        } else {
            let leaves = usize::try_from(length).unwrap_or(usize::MAX).next_power_of_two();
            self.sold.clear(leaves);
            self.effective.clear(leaves);
            window.clone()
        };
        let is_anew = entering == *window;
        (self.window, self.part) = (window.clone(), part);
        let mut booked = book.starting_at(entering.start).peekable();
        for second in entering {
            let slot = booked.next_if(|slot| slot.second() == second);
            let leaves = if forgotten.contains(second) { [CLOSED; 2] } else { self.leaves_of(slot) };
            self.set(second, leaves, is_anew);
        }
        if is_anew {
            self.sold.build();
            self.effective.build();
        }
    }

    /// The seconds for sale.
    pub(crate) const fn window(&self) -> &Range<u64> {
        &self.window
    }

    /// Takes over what a slot has sold.
    pub(crate) fn update(&mut self, slot: &BookedSlot) {
        if self.window.contains(&slot.second()) {
            self.set(slot.second(), self.leaves_of(Some(slot)), false);
        }
    }

    /// Builds the trees anew before the next sale.
    pub(crate) fn invalidate(&mut self) {
        self.window = 0..0;
    }

    /// The first of these seconds in which at most this weight is sold.
    pub(crate) fn first_sold(&self, seconds: Range<u64>, weight_max: u16) -> Option<u64> {
        self.first(&self.sold, seconds, weight_max)
    }

    /// The first of these seconds in which at most this weight is sold, each bucket of tenants
    /// counted up to the part, and in which at most this weight is sold beyond the room.
    pub(crate) fn first_effective(&self, seconds: Range<u64>, weight_max: u16) -> Option<u64> {
        self.first(&self.effective, seconds, weight_max)
    }

    /// The bytes of the trees.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.sold.nodes) + size_of_val(&*self.effective.nodes)
    }

    fn leaves_of(&self, slot: Option<&BookedSlot>) -> [u16; 2] {
        match slot {
            Some(slot) if slot.is_full() => [CLOSED; 2],
            Some(slot) => [slot.sold(), slot.effective(self.part).max(slot.beyond())],
            None => [0; 2],
        }
    }

    fn set(&mut self, second: u64, [sold, effective]: [u16; 2], is_built_later: bool) {
        let leaf = self.leaf(second);
        if is_built_later {
            self.sold.set_leaf(leaf, sold);
            self.effective.set_leaf(leaf, effective);
        } else {
            self.sold.set(leaf, sold);
            self.effective.set(leaf, effective);
        }
    }

    /// The leaf of a second. Seconds wrap around the leaves; there is a leaf for each second of the
    /// window.
    fn leaf(&self, second: u64) -> usize {
        (second % self.sold.leaves().max(1) as u64) as usize
    }

    fn first(&self, tree: &MinimumTree, seconds: Range<u64>, weight_max: u16) -> Option<u64> {
        let seconds = seconds.start.max(self.window.start)..seconds.end.min(self.window.end);
        if seconds.is_empty() {
            return None;
        }
        let (from, leaves) = (self.leaf(seconds.start), tree.leaves());
        let count = (seconds.end - seconds.start) as usize;
        let ahead = if from + count <= leaves {
            tree.first_at_most(from..from + count, weight_max)? - from
        } else {
            match tree.first_at_most(from..leaves, weight_max) {
                Some(leaf) => leaf - from,
                None => tree.first_at_most(0..from + count - leaves, weight_max)? + leaves - from,
            }
        };
        Some(seconds.start + ahead as u64)
    }
}

/// A complete binary tree, each of whose nodes is the smaller one of its two children. The root is
/// node 1, and the children of node `n` are `2n` and `2n + 1`.
#[derive(Clone, Debug, Default)]
struct MinimumTree {
    nodes: Box<[u16]>,
}

impl MinimumTree {
    const fn leaves(&self) -> usize {
        self.nodes.len() / 2
    }

    /// Sets so many leaves, a power of two, to zero.
    fn clear(&mut self, leaves: usize) {
        if self.leaves() == leaves {
            self.nodes.fill(0);
        } else {
            self.nodes = vec![0; 2 * leaves].into_boxed_slice();
        }
    }

    /// Sets a leaf without its ancestors, before [`MinimumTree::build`].
    fn set_leaf(&mut self, leaf: usize, value: u16) {
        let node = self.leaves() + leaf;
        self.nodes[node] = value;
    }

    /// Computes all nodes from the leaves.
    fn build(&mut self) {
        for node in (1..self.leaves()).rev() {
            self.nodes[node] = self.nodes[2 * node].min(self.nodes[2 * node + 1]);
        }
    }

    fn set(&mut self, leaf: usize, value: u16) {
        self.set_leaf(leaf, value);
        let mut node = (self.leaves() + leaf) >> 1;
        while node > 0 {
            let smaller = self.nodes[2 * node].min(self.nodes[2 * node + 1]);
            if self.nodes[node] == smaller {
                break;
            }
            self.nodes[node] = smaller;
            node /= 2;
        }
    }

    /// The first of these leaves whose value is at most `most`.
    fn first_at_most(&self, leaves: Range<usize>, most: u16) -> Option<usize> {
        let mut node = self.leaves() + leaves.start;
        while self.nodes[node] > most {
            // The subtree has no such leaf. The next one begins right of the lowest ancestor that
            // is a left child.
            while node % 2 == 1 {
                node /= 2;
            }
            if node == 0 {
                return None;
            }
            node += 1;
        }
        while node < self.leaves() {
            node *= 2;
            node += usize::from(self.nodes[node] > most);
        }
        let leaf = node - self.leaves();
        (leaf < leaves.end).then_some(leaf)
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use tidegate_test_support::SplitMix64;

    use super::super::ticket_number::TicketIssuer;
    use super::super::ticket_sale::TicketSale;
    use super::*;

    #[test]
    fn the_first_leaf_of_a_range_is_that_of_a_walk_over_all() {
        let mut random = SplitMix64::new(1);
        for leaves in [1, 2, 16, 64] {
            let (mut tree, mut model) = (MinimumTree::default(), vec![0; leaves]);
            tree.clear(leaves);
            for _ in 0..5_000 {
                let (leaf, value) = (random.below(leaves as u64) as usize, random.below(20) as u16);
                tree.set(leaf, value);
                model[leaf] = value;
                let from = random.below(leaves as u64) as usize;
                let to = from + random.below((leaves - from) as u64 + 1) as usize;
                let most = random.below(20) as u16;
                let expected = (from..to).find(|leaf| model[*leaf] <= most);
                assert_eq!(tree.first_at_most(from..to, most), expected, "{from}..{to} at most {most}");
            }
        }
    }

    #[test]
    fn a_window_that_moves_in_steps_or_leaps_shows_what_the_book_has_sold() {
        let mut random = SplitMix64::new(2);
        let issuer = TicketIssuer { member: 1, start: 1 };
        let (mut book, mut index) = (SlotBook::default(), SlotIndex::default());
        let mut forgotten = ForgottenSlots::default();
        forgotten.add(1_010);
        let (mut start, mut length, mut part) = (1_000, 10, 4);
        for _ in 0..5_000 {
            match random.below(20) {
                0 => start = 1_000 + random.below(500),
                1 => length = 10 + random.below(50),
                2 => part = 4 + random.below(9) as u16,
                3..8 => start += random.below(3),
                _ => {
                    let second = start + random.below(length);
                    let slot = book.get_or_add(second);
                    if !forgotten.contains(second) && !slot.is_full() {
                        let tenant = random.below(5);
                        let sale = TicketSale { namespace: 0, tenant, weight: 4, room: 20, asking: 1 };
                        slot.sell(issuer, &sale);
                        index.update(slot);
                    }
                }
            }
            index.follow(&book, &forgotten, &(start..start + length), part);
            let most = random.below(60) as u16;
            let is_sold = |second: &u64| {
                !forgotten.contains(*second) && { book.get(*second).map_or(0, BookedSlot::sold) <= most }
            };
            assert_eq!(index.first_sold(0..u64::MAX, most), (start..start + length).find(is_sold));
            let from = start + random.below(length);
            let is_effective = |second: &u64| {
                !forgotten.contains(*second) && {
                    book.get(*second).map_or(0, |slot| slot.effective(part).max(slot.beyond())) <= most
                }
            };
            let expected = (from..start + length).find(is_effective);
            assert_eq!(index.first_effective(from..u64::MAX, most), expected);
        }
    }
}
