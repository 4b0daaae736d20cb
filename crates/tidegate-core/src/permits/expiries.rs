//! Permits ordered by expiry: a search tree whose nodes know how many are below them.
//!
//! A treap: ordered by expiry (and place, among equals), heap-ordered by a fixed hash of the place,
//! which keeps it about `2 ln n` deep whatever comes. Knowing the sizes, it finds the nth to
//! expire, and how many have, in O(log n), which is what a limit that was lowered below what is
//! held asks for at every refusal.

/// The bytes of a permit.
pub(super) const PERMIT_BYTES: usize = size_of::<Node>();

/// No node.
const NIL: u32 = u32::MAX;

/// Expiries, each with the place it keeps while it is here.
#[derive(Debug)]
pub(super) struct Expiries {
    nodes: Vec<Node>,
    root: u32,
    /// The first of the places that are free, linked by `left`.
    free: u32,
    len: u32,
    /// How many nodes were taken out of the budget; at most the vector's own capacity.
    capacity: usize,
    /// The stamp of the next permit; in four thousand million permits of one key the first comes
    /// again, and then a copy of it must also agree on place and expiry to be taken for the new
    /// one.
    next_stamp: u32,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    expires: u64,
    stamp: u32,
    left: u32,
    right: u32,
    /// Nodes in this subtree; 0 if the place is free.
    size: u32,
}

impl Default for Expiries {
    fn default() -> Self {
        Self { nodes: Vec::new(), root: NIL, free: NIL, len: 0, capacity: 0, next_stamp: 0 }
    }
}

impl Expiries {
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn is_full(&self) -> bool {
        self.len as usize == self.capacity
    }

    /// Makes room for `more`.
    pub(super) fn reserve(&mut self, more: usize) {
        self.capacity += more;
        self.nodes.reserve_exact(self.capacity - self.nodes.len());
    }

    /// Takes everything out; keeps room for `keep` and returns the bytes that were given back.
    pub(super) fn clear(&mut self, keep: usize) -> usize {
        self.nodes.clear();
        (self.root, self.free, self.len) = (NIL, NIL, 0);
        let keep = keep.min(self.capacity);
        let freed = (self.capacity - keep) * PERMIT_BYTES;
        if freed > 0 {
            self.nodes.shrink_to(keep);
            self.capacity = keep;
        }
        freed
    }

    /// Adds an expiry; there must be room. Its place and stamp.
    pub(super) fn insert(&mut self, expires: u64) -> (u32, u32) {
        let stamp = self.next_stamp;
        self.next_stamp = stamp.wrapping_add(1);
        let node = Node { expires, stamp, left: NIL, right: NIL, size: 1 };
        let place = if self.free == NIL {
            self.nodes.push(node);
            self.nodes.len() as u32 - 1
        } else {
            let place = self.free;
            self.free = self.nodes[place as usize].left;
            self.nodes[place as usize] = node;
            place
        };
        self.len += 1;
        self.root = self.insert_below(self.root, place);
        (place, stamp)
    }

    /// Lets those that expire after `explained` expire at `latest`, which is earlier. Whether there
    /// were any.
    pub(super) fn bring_back(&mut self, explained: u64, latest: u64) -> bool {
        let mut lay_ahead = false;
        while let Some(place) = self.len.checked_sub(1).and_then(|last| self.nth_place(last)) {
            if self.nodes[place as usize].expires <= explained {
                break;
            }
            lay_ahead = true;
            self.root = self.remove_below(self.root, place);
            let node = &mut self.nodes[place as usize];
            *node = Node { expires: latest.min(explained), left: NIL, right: NIL, size: 1, ..*node };
            self.root = self.insert_below(self.root, place);
        }
        lay_ahead
    }

    /// Takes the permit at `place` out, if it is still the one with that stamp and expiry, which
    /// may have been brought back.
    pub(super) fn remove(&mut self, place: u32, stamp: u32, expires: u64) -> bool {
        let is_it = |node: &Node| node.size > 0 && node.stamp == stamp && node.expires <= expires;
        if !self.nodes.get(place as usize).is_some_and(is_it) {
            return false;
        }
        self.root = self.remove_below(self.root, place);
        self.nodes[place as usize].size = 0;
        self.nodes[place as usize].left = self.free;
        self.free = place;
        self.len -= 1;
        true
    }

    /// Takes the first to expire out, if it has at `at`.
    pub(super) fn remove_expired(&mut self, at: u64) -> bool {
        let Some(place) = self.nth_place(0) else { return false };
        let Node { expires, stamp, .. } = self.nodes[place as usize];
        expires <= at && self.remove(place, stamp, expires)
    }

    /// The `n`th to expire, from 0.
    pub(super) fn nth(&self, n: u32) -> Option<u64> {
        self.nth_place(n).map(|place| self.nodes[place as usize].expires)
    }

    /// The last to expire.
    pub(super) fn max(&self) -> Option<u64> {
        self.nth(self.len.checked_sub(1)?)
    }

    /// How many have expired at `at`.
    pub(super) fn expired(&self, at: u64) -> u32 {
        let (mut place, mut count) = (self.root, 0);
        while place != NIL {
            let node = &self.nodes[place as usize];
            if node.expires <= at {
                count += self.size(node.left) + 1;
                place = node.right;
            } else {
                place = node.left;
            }
        }
        count
    }

    fn nth_place(&self, mut n: u32) -> Option<u32> {
        let mut place = self.root;
        while place != NIL {
            let node = &self.nodes[place as usize];
            let before = self.size(node.left);
            match n.cmp(&before) {
                core::cmp::Ordering::Less => place = node.left,
                core::cmp::Ordering::Equal => return Some(place),
                core::cmp::Ordering::Greater => {
                    n -= before + 1;
                    place = node.right;
                }
            }
        }
        None
    }

    fn size(&self, place: u32) -> u32 {
        self.nodes.get(place as usize).map_or(0, |node| node.size)
    }

    /// The sort key of the tree.
    fn key(&self, place: u32) -> (u64, u32) {
        (self.nodes[place as usize].expires, place)
    }

    /// The root of the subtree at `root` with `place` added.
    fn insert_below(&mut self, root: u32, place: u32) -> u32 {
        if root == NIL {
            return place;
        }
        if priority(place) > priority(root) {
            let (left, right) = self.split(root, self.key(place));
            self.link(place, left, right);
            return place;
        }
        let Node { left, right, .. } = self.nodes[root as usize];
        if self.key(place) < self.key(root) {
            let left = self.insert_below(left, place);
            self.link(root, left, right);
        } else {
            let right = self.insert_below(right, place);
            self.link(root, left, right);
        }
        root
    }

    /// The root of the subtree at `root` without `place`, which is in it.
    fn remove_below(&mut self, root: u32, place: u32) -> u32 {
        let Node { left, right, .. } = self.nodes[root as usize];
        if root == place {
            return self.merge(left, right);
        }
        if self.key(place) < self.key(root) {
            let left = self.remove_below(left, place);
            self.link(root, left, right);
        } else {
            let right = self.remove_below(right, place);
            self.link(root, left, right);
        }
        root
    }

    /// The subtrees of what is below `root` and before `key`, and of what is not.
    fn split(&mut self, root: u32, key: (u64, u32)) -> (u32, u32) {
        if root == NIL {
            return (NIL, NIL);
        }
        let Node { left, right, .. } = self.nodes[root as usize];
        if self.key(root) < key {
            let (before, after) = self.split(right, key);
            self.link(root, left, before);
            (root, after)
        } else {
            let (before, after) = self.split(left, key);
            self.link(root, after, right);
            (before, root)
        }
    }

    /// One subtree out of two, all of `before` being before all of `after`.
    fn merge(&mut self, before: u32, after: u32) -> u32 {
        if before == NIL {
            return after;
        }
        if after == NIL {
            return before;
        }
        if priority(before) > priority(after) {
            let Node { left, right, .. } = self.nodes[before as usize];
            let right = self.merge(right, after);
            self.link(before, left, right);
            before
        } else {
            let Node { left, right, .. } = self.nodes[after as usize];
            let left = self.merge(before, left);
            self.link(after, left, right);
            after
        }
    }

    fn link(&mut self, place: u32, left: u32, right: u32) {
        let size = self.size(left) + self.size(right) + 1;
        let node = &mut self.nodes[place as usize];
        (node.left, node.right, node.size) = (left, right, size);
    }
}

/// Where in the heap order a place stands: the finaliser of `MurmurHash3`, which is a permutation,
/// so no two are equal.
const fn priority(place: u32) -> u32 {
    let mut hash = place.wrapping_add(0x9e37_79b9);
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

#[cfg(all(test, not(tidegate_loom)))]
impl Expiries {
    /// How many nodes there are on the longest way down.
    pub(super) fn depth(&self) -> usize {
        let (mut level, mut depth) = (vec![self.root], 0);
        loop {
            level.retain(|&place| place != NIL);
            if level.is_empty() {
                return depth;
            }
            depth += 1;
            level = level
                .iter()
                .flat_map(|&place| [self.nodes[place as usize].left, self.nodes[place as usize].right])
                .collect();
        }
    }
}
