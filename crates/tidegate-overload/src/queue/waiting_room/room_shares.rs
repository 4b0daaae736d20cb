//! The bounds of the room, and the shares of its groups.
//!
//! A bound is divided in equal shares among the namespaces, and half of a namespace's share in
//! equal parts among its resources. A share is reserved: as much of it as its group does not use
//! stays free. With `B` requests in all, `N` namespaces and `R` resources of each:
//!
//! - A namespace that has fewer than `B / N` requests in the room gets another one in, except into
//!   the parts of its own resources.
//! - A resource that has fewer than `B / N / 2R` requests of a namespace in the room (`B / N` if
//!   the namespace has only one) always gets another one in.
//! - The remainder of `B / N` goes to the namespace that asks first.
//!
//! The same holds for bytes. A resource with its own bounds has its own room: its requests, in
//! whatever namespace, take nothing of what the others share, and only its bounds keep them out. In
//! there the bounds are divided among the namespaces that have requests, by the
//! [shares](NamespaceShares) of the resource, and nothing is kept free for absent ones: a namespace
//! below its part displaces a request of the namespace that is most over its own, of whatever
//! class, and only a namespace over its part gives way to another.
//!
//! All rooms together have one bound on bytes more, which is [divided](super::total_bytes) among
//! the namespaces.
//!
//! A group never loses what it already uses: after a change of the bounds
//! the guarantees hold again as soon as the room is within them.

use std::collections::BTreeMap;

use super::entrant::Group;
use super::total_bytes::TotalBytes;
use crate::namespaces::{NamespaceKey, NamespaceShares};
use crate::resource_id::ResourceId;

/// The bounds of the room.
///
/// ```
/// # use tidegate_core::{Class, Timestamp};
/// # use tidegate_overload::{Entrant, Group, Obstacle, RoomBounds, WaitingRoom};
/// let now = Timestamp::from_secs(1_800_000_000);
/// let bounds = RoomBounds::new(4, 1 << 20).shared_by(2, 1);
/// let mut room: WaitingRoom = WaitingRoom::new(bounds);
/// let class = Class::Critical;
/// let has_entered = [1, 1, 1, 2].map(|namespace| {
///     let group = Group { namespace, resource: None };
///     room.enter(Entrant::new(group, class, Obstacle::Counter(7)).bytes(512), now).is_ok()
/// });
/// // One namespace cannot use up the share of another.
/// assert_eq!(has_entered, [true, true, false, true]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RoomBounds {
    /// The most requests that wait; 0: none may wait.
    pub requests: usize,
    /// The most bytes that they occupy together.
    pub bytes: usize,
    /// The namespaces whose requests may wait; requests of more than these share the remainder. 0:
    /// all that an engine has, and one for a room by itself.
    pub namespaces: usize,
    /// The resources for which the requests of one namespace may wait. 0: all that an engine has,
    /// and one for a room by itself.
    pub resources: usize,
}

impl RoomBounds {
    /// The bounds of a room for all namespaces and resources that there are.
    pub const fn new(requests: usize, bytes: usize) -> Self {
        Self { requests, bytes, namespaces: 0, resources: 0 }
    }

    /// The same bounds, shared by so many namespaces with so many resources each.
    #[must_use]
    pub const fn shared_by(self, namespaces: usize, resources: usize) -> Self {
        Self { namespaces, resources, ..self }
    }
}

/// The part of the room that is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RoomUse {
    /// The waiting requests.
    pub requests: usize,
    /// The bytes that they occupy.
    pub bytes: usize,
}

impl RoomUse {
    /// So many requests of so many bytes together.
    pub const fn new(requests: usize, bytes: usize) -> Self {
        Self { requests, bytes }
    }

    /// One request of so many bytes.
    pub(super) const fn from_bytes(bytes: usize) -> Self {
        Self { requests: 1, bytes }
    }

    fn combine(self, other: Self, of: impl Fn(usize, usize) -> usize) -> Self {
        Self { requests: of(self.requests, other.requests), bytes: of(self.bytes, other.bytes) }
    }

    fn plus(self, other: Self) -> Self {
        self.combine(other, usize::saturating_add)
    }

    fn minus(self, other: Self) -> Self {
        self.combine(other, usize::saturating_sub)
    }

    fn max(self, other: Self) -> Self {
        self.combine(other, usize::max)
    }

    fn times(self, factor: usize) -> Self {
        Self { requests: self.requests.saturating_mul(factor), bytes: self.bytes.saturating_mul(factor) }
    }

    const fn divided_by(self, divisor: usize) -> Self {
        Self { requests: self.requests / divisor, bytes: self.bytes / divisor }
    }

    const fn is_within(self, most: Self) -> bool {
        self.requests <= most.requests && self.bytes <= most.bytes
    }
}

/// The use of all groups, and the parts of the room reserved for them.
#[derive(Clone, Debug)]
pub(super) struct RoomShares {
    bounds: RoomBounds,
    /// The share of a namespace.
    of_namespace: RoomUse,
    /// The share of one resource within its namespace's.
    of_resource: RoomUse,
    /// The use by groups that share the bounds.
    used: RoomUse,
    /// The use by groups whose resource has bounds of its own.
    used_apart: RoomUse,
    /// The bytes of all groups.
    total: TotalBytes,
    /// Used or reserved, over all namespaces that have requests in the room.
    claimed: RoomUse,
    by_group: BTreeMap<Group, RoomUse>,
    by_namespace: BTreeMap<u32, NamespaceUse>,
    /// The use of each resource that has bounds of its own, with these bounds.
    by_resource: BTreeMap<ResourceId, BoundedUse>,
}

/// The use of a resource that has bounds of its own.
#[derive(Clone, Debug)]
struct BoundedUse {
    used: RoomUse,
    max: RoomUse,
    by_namespace: BTreeMap<u32, RoomUse>,
    shares: NamespaceShares,
}

impl BoundedUse {
    fn none_of(max: RoomUse, shares: NamespaceShares) -> Self {
        Self { used: RoomUse::default(), max, by_namespace: BTreeMap::new(), shares }
    }

    fn weight(&self, namespace: u32) -> u64 {
        u64::from(self.shares.weight(NamespaceKey::Exact(namespace)))
    }

    /// The sum of the weights of the namespaces that have requests here, `entering` included.
    fn weights_with(&self, entering: u32) -> u64 {
        let present: u64 = self.by_namespace.keys().map(|one| self.weight(*one)).sum();
        if self.by_namespace.contains_key(&entering) { present } else { present + self.weight(entering) }
    }

    /// The part of a namespace whose weight is one of `all`.
    fn part_of(&self, namespace: u32, all: u64) -> RoomUse {
        let own = self.weight(namespace);
        let part = |whole: usize| (whole as u128 * u128::from(own) / u128::from(all)) as usize;
        RoomUse { requests: part(self.max.requests), bytes: part(self.max.bytes) }
    }

    fn used_by(&self, namespace: u32) -> RoomUse {
        self.by_namespace.get(&namespace).copied().unwrap_or_default()
    }

    /// Whether a namespace has more than its part of requests or bytes among weights of `all`.
    fn is_over_part(&self, namespace: u32, all: u64) -> bool {
        !self.used_by(namespace).is_within(self.part_of(namespace, all))
    }

    /// The other namespace that has most of its part, if the part of `namespace` has room for one
    /// more request.
    fn most_over_part(&self, namespace: u32, bytes: usize) -> Option<u32> {
        let after = self.used_by(namespace).plus(RoomUse::from_bytes(bytes));
        let all = self.weights_with(namespace);
        if !after.is_within(self.part_of(namespace, all)) {
            return None;
        }
        let over = self.by_namespace.iter().filter(|(other, _)| **other != namespace);
        let over = over.filter(|(other, _)| self.is_over_part(**other, all));
        // Parts of the bounds in millionths, so that requests and bytes compare.
        let part = |used: usize, max: usize| (used as u128 * 1_000_000 / max.max(1) as u128) as u64;
        let most = over.max_by_key(|(other, used)| {
            let used = part(used.requests, self.max.requests).max(part(used.bytes, self.max.bytes));
            used / self.weight(**other)
        });
        most.map(|(other, _)| *other)
    }

    fn change(&mut self, namespace: u32, before: RoomUse, after: RoomUse) {
        self.used = self.used.minus(before).plus(after);
        let used = self.used_by(namespace).minus(before).plus(after);
        if used.requests > 0 {
            self.by_namespace.insert(namespace, used);
        } else {
            self.by_namespace.remove(&namespace);
        }
    }
}

/// The use of one namespace.
#[derive(Clone, Copy, Debug, Default)]
struct NamespaceUse {
    /// The groups that have requests in the room.
    groups: usize,
    /// The sum over them of the use of each, or of its share if that is larger.
    claimed: RoomUse,
}

impl RoomShares {
    pub(super) fn new(bounds: RoomBounds) -> Self {
        let (namespaces, resources) = (bounds.namespaces.max(1), bounds.resources.max(1));
        let of_namespace = RoomUse { requests: bounds.requests, bytes: bounds.bytes }.divided_by(namespaces);
        let of_resource =
            if resources == 1 { of_namespace } else { of_namespace.divided_by(2).divided_by(resources) };
        Self {
            bounds: RoomBounds { namespaces, resources, ..bounds },
            of_namespace,
            of_resource,
            used: RoomUse::default(),
            used_apart: RoomUse::default(),
            total: TotalBytes::new(usize::MAX, 1),
            claimed: RoomUse::default(),
            by_group: BTreeMap::new(),
            by_namespace: BTreeMap::new(),
            by_resource: BTreeMap::new(),
        }
    }

    pub(super) const fn bounds(&self) -> RoomBounds {
        self.bounds
    }

    /// The bounds that hold for a group: those of its resource, or those that all share.
    pub(super) fn bounds_of(&self, group: Group) -> RoomBounds {
        self.own_room(group).map_or(self.bounds, |own| RoomBounds::new(own.max.requests, own.max.bytes))
    }

    pub(super) fn used(&self) -> RoomUse {
        self.used.plus(self.used_apart)
    }

    /// Sets the bounds of the resources that have some, in place of their parts of the room.
    pub(super) fn set_resource_bounds(&mut self, bounds: impl IntoIterator<Item = (ResourceId, RoomUse)>) {
        let mut before = core::mem::take(&mut self.by_resource);
        let mut room = |id, max| {
            let shares = before.remove(&id).map(|own| own.shares).unwrap_or_default();
            (id, BoundedUse::none_of(max, shares))
        };
        self.become_of(self.bounds, bounds.into_iter().map(|(id, max)| room(id, max)).collect());
    }

    /// Sets the shares of the namespaces in the room of a resource that has one of its own.
    pub(super) fn set_shares(&mut self, resource: ResourceId, shares: NamespaceShares) {
        if let Some(own) = self.by_resource.get_mut(&resource) {
            own.shares = shares;
        }
    }

    /// Whether a request of `group` may take the position of one of `victim`. Requests of one
    /// namespace displace each other, and another namespace's give way in a resource's own room
    /// only while that namespace is over its part.
    pub(super) fn may_displace(&self, group: Group, victim: Group) -> bool {
        let own = self.own_room(victim).filter(|_| group.namespace != victim.namespace);
        own.is_none_or(|own| own.is_over_part(victim.namespace, own.weights_with(group.namespace)))
    }

    /// The namespace whose request makes room for one of `group` in the room of its resource,
    /// because it is most over its part and the namespace of `group` is within its own.
    pub(super) fn over_part(&self, group: Group, bytes: usize) -> Option<u32> {
        self.own_room(group)?.most_over_part(group.namespace, bytes)
    }

    /// Sets the bound on the bytes of all that waits, of which half is guaranteed to so many
    /// namespaces in equal shares.
    pub(super) fn set_total_bytes(&mut self, max: usize, namespaces: usize) {
        let mut total = TotalBytes::new(max, namespaces);
        self.by_group.iter().for_each(|(group, used)| total.change(group.namespace, 0, used.bytes));
        self.total = total;
    }

    /// The same use under other bounds.
    pub(super) fn set_bounds(&mut self, bounds: RoomBounds) {
        let by_resource = core::mem::take(&mut self.by_resource).into_iter();
        let room = |one: BoundedUse| BoundedUse::none_of(one.max, one.shares);
        self.become_of(bounds, by_resource.map(|(id, one)| (id, room(one))).collect());
    }

    /// Accounts for all groups anew.
    fn become_of(&mut self, bounds: RoomBounds, by_resource: BTreeMap<ResourceId, BoundedUse>) {
        let groups = core::mem::take(&mut self.by_group);
        *self = Self { by_resource, total: self.total.emptied(), ..Self::new(bounds) };
        for (group, used) in groups {
            self.change(group, RoomUse::default(), used);
        }
    }

    /// The room of a group whose resource has bounds of its own.
    fn own_room(&self, group: Group) -> Option<&BoundedUse> {
        self.by_resource.get(&group.resource?)
    }

    /// Lets a request in if the bounds and the shares of the others allow it.
    pub(super) fn take(&mut self, group: Group, bytes: usize) -> bool {
        if !self.total.has_room(group.namespace, bytes) {
            return false;
        }
        let before = self.by_group.get(&group).copied().unwrap_or_default();
        let after = before.plus(RoomUse::from_bytes(bytes));
        if let Some(own) = self.own_room(group) {
            let is_in = own.used.plus(RoomUse::from_bytes(bytes)).is_within(own.max);
            if is_in {
                self.change(group, before, after);
            }
            return is_in;
        }
        let claimed_before = self.claimed_in_all();
        self.change(group, before, after);
        // A request within its reservations claims nothing more. It fits even where other claims
        // exceed the bounds, because these have shrunk.
        let most = RoomUse { requests: self.bounds.requests, bytes: self.bounds.bytes };
        let claimed = self.claimed_in_all();
        let fits = |of: fn(&RoomUse) -> usize| {
            of(&claimed) <= of(&most) || (of(&claimed) == of(&claimed_before) && of(&self.used) <= of(&most))
        };
        let is_in = fits(|room| room.requests) && fits(|room| room.bytes);
        if !is_in {
            self.change(group, after, before);
        }
        debug_assert!(!is_in || self.used.is_within(most));
        is_in
    }

    /// Lets a request in, whatever the bounds are.
    pub(super) fn take_anyway(&mut self, group: Group, bytes: usize) {
        let before = self.by_group.get(&group).copied().unwrap_or_default();
        self.change(group, before, before.plus(RoomUse::from_bytes(bytes)));
    }

    /// A request has left.
    pub(super) fn give_back(&mut self, group: Group, bytes: usize) {
        if let Some(before) = self.by_group.get(&group).copied() {
            self.change(group, before, before.minus(RoomUse::from_bytes(bytes)));
        }
    }

    /// A request of a group is charged `after` bytes instead of `before`, whatever the bounds are.
    pub(super) fn change_bytes(&mut self, group: Group, before: usize, after: usize) {
        if let Some(used) = self.by_group.get(&group).copied() {
            let bytes = |bytes| RoomUse { requests: 0, bytes };
            self.change(group, used, used.minus(bytes(before)).plus(bytes(after)));
        }
    }

    /// Used or reserved, the shares of absent namespaces included.
    fn claimed_in_all(&self) -> RoomUse {
        let absent = self.bounds.namespaces.saturating_sub(self.by_namespace.len());
        self.claimed.plus(self.of_namespace.times(absent))
    }

    fn change(&mut self, group: Group, before: RoomUse, after: RoomUse) {
        if after.requests > 0 {
            self.by_group.insert(group, after);
        } else {
            self.by_group.remove(&group);
        }
        self.total.change(group.namespace, before.bytes, after.bytes);
        if let Some(own) = group.resource.and_then(|resource| self.by_resource.get_mut(&resource)) {
            own.change(group.namespace, before, after);
            self.used_apart = self.used_apart.minus(before).plus(after);
            return;
        }
        let namespace = self.by_namespace.get(&group.namespace).copied().unwrap_or_default();
        if namespace.groups > 0 {
            self.claimed = self.claimed.minus(self.claim_of(namespace));
        }
        let mut changed = namespace;
        if before.requests > 0 {
            changed.groups -= 1;
            changed.claimed = changed.claimed.minus(before.max(self.of_resource));
        }
        if after.requests > 0 {
            changed.groups += 1;
            changed.claimed = changed.claimed.plus(after.max(self.of_resource));
        }
        if changed.groups > 0 {
            self.claimed = self.claimed.plus(self.claim_of(changed));
            self.by_namespace.insert(group.namespace, changed);
        } else {
            self.by_namespace.remove(&group.namespace);
        }
        self.used = self.used.minus(before).plus(after);
    }

    /// Used by or reserved for a namespace: the sum, over its resources, of the larger of use and
    /// share; at least the share of the namespace.
    fn claim_of(&self, namespace: NamespaceUse) -> RoomUse {
        let absent = self.bounds.resources.saturating_sub(namespace.groups);
        namespace.claimed.plus(self.of_resource.times(absent)).max(self.of_namespace)
    }
}
