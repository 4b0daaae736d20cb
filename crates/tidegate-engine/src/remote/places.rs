//! The places that buckets take at this member: in their namespace, and among the holders of their
//! keys.
//!
//! The buckets of a namespace are divided among the owners of streams (a grant, or an address), and
//! those of an owner among its streams. An owner may have three times as many buckets as are free,
//! and a stream three times as many as its owner may still get. So each leaves a quarter of what it
//! could have: `N` owners that want all of a namespace have `3C / (3N + 1)` of its `C` buckets, and
//! the next one finds `C / (3N + 1)` free.
//!
//! Owners come and go, and nothing bounds their number, so the shares of numbered owners
//! ([`tidegate_core::shares`]) do not fit here. As there, buckets are not taken away again: they
//! come back when they end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use smallvec::SmallVec;

use crate::sync::lock_plain;

/// How many buckets a namespace may have at a member, those of ended streams included whose leases
/// last.
pub(super) const BUCKETS_OF_NAMESPACE_MAX: usize = 10_000;

/// How many buckets may be taken for each one that stays free.
const TAKEN_PER_FREE: usize = 3;

/// The counts of all places.
#[derive(Debug, Default)]
pub(super) struct BucketPlaces(Mutex<PlaceCounts>);

#[derive(Debug, Default)]
struct PlaceCounts {
    namespaces: HashMap<Box<str>, NamespacePlaces>,
    /// How many buckets hold a part of a key.
    holders: HashMap<u64, u32>,
}

#[derive(Debug, Default)]
struct NamespacePlaces {
    total: usize,
    owners: HashMap<Box<str>, OwnerPlaces>,
}

#[derive(Debug, Default)]
struct OwnerPlaces {
    total: usize,
    streams: HashMap<(Box<str>, u32), usize>,
}

/// The stream that places are counted for: one of the same name goes on with the count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlaceOwner {
    pub(super) namespace: Box<str>,
    pub(super) owner: Box<str>,
    /// The name of the peer, and how many open streams had that name before.
    pub(super) stream: (Box<str>, u32),
}

impl BucketPlaces {
    /// A place for one more bucket; `None` if its owner or its stream may have no more.
    pub(super) fn take(self: &Arc<Self>, of: &Arc<PlaceOwner>) -> Option<BucketPlace> {
        let counts = &mut *lock_plain(&self.0);
        let namespace = counts.namespaces.get(&of.namespace);
        let owner = namespace.and_then(|namespace| namespace.owners.get(&of.owner));
        let total = namespace.map_or(0, |namespace| namespace.total);
        let own = owner.map_or(0, |owner| owner.total);
        let of_stream = owner.and_then(|owner| owner.streams.get(&of.stream)).copied().unwrap_or(0);
        let of_others = total - own;
        let most = (BUCKETS_OF_NAMESPACE_MAX - of_others) / (TAKEN_PER_FREE + 1) * TAKEN_PER_FREE;
        if of_stream >= TAKEN_PER_FREE * most.saturating_sub(own) {
            return None;
        }
        let namespace = counts.namespaces.entry(of.namespace.clone()).or_default();
        let owner = namespace.owners.entry(of.owner.clone()).or_default();
        namespace.total += 1;
        owner.total += 1;
        *owner.streams.entry(of.stream.clone()).or_default() += 1;
        Some(BucketPlace { places: Arc::clone(self), of: Arc::clone(of) })
    }

    fn give_back(&self, of: &PlaceOwner) {
        let namespaces = &mut lock_plain(&self.0).namespaces;
        let Some(namespace) = namespaces.get_mut(&of.namespace) else { return };
        namespace.total -= 1;
        if let Some(owner) = namespace.owners.get_mut(&of.owner) {
            owner.total -= 1;
            if let Some(stream) = owner.streams.get_mut(&of.stream) {
                *stream -= 1;
                if *stream == 0 {
                    owner.streams.remove(&of.stream);
                }
            }
            if owner.total == 0 {
                namespace.owners.remove(&of.owner);
            }
        }
        if namespace.total == 0 {
            namespaces.remove(&of.namespace);
        }
    }
}

/// The place of a bucket in its namespace, until this is dropped.
#[derive(Debug)]
pub(super) struct BucketPlace {
    places: Arc<BucketPlaces>,
    of: Arc<PlaceOwner>,
}

impl Drop for BucketPlace {
    fn drop(&mut self) {
        self.places.give_back(&self.of);
    }
}

impl BucketPlace {
    /// The places of a bucket among the holders of keys: none yet.
    pub(super) fn holder_places(&self) -> HolderPlaces {
        HolderPlaces { places: Arc::clone(&self.places), keys: SmallVec::new() }
    }
}

/// The places of a bucket among the holders of its keys, until this is dropped.
#[derive(Debug)]
pub(super) struct HolderPlaces {
    places: Arc<BucketPlaces>,
    keys: SmallVec<[u64; 1]>,
}

impl HolderPlaces {
    /// Takes a place at each of these keys in place of those before, where at most `max` buckets
    /// hold a part of a key; a place that the bucket has already stays. `Err` with the first key
    /// without a free place: the bucket then holds none.
    pub(super) fn replace(&mut self, keys: &[u64], max: u32) -> Result<(), u64> {
        if *self.keys == *keys {
            return Ok(());
        }
        let holders = &mut lock_plain(&self.places.0).holders;
        let former = core::mem::take(&mut self.keys);
        let is_full =
            |key: &&u64| !former.contains(key) && holders.get(key).is_some_and(|count| *count >= max);
        let full = keys.iter().find(is_full).copied();
        for key in if full.is_none() { keys } else { &[] } {
            *holders.entry(*key).or_default() += 1;
            self.keys.push(*key);
        }
        give_back(holders, &former);
        full.map_or(Ok(()), Err)
    }
}

impl Drop for HolderPlaces {
    fn drop(&mut self) {
        if !self.keys.is_empty() {
            give_back(&mut lock_plain(&self.places.0).holders, &self.keys);
        }
    }
}

fn give_back(holders: &mut HashMap<u64, u32>, keys: &[u64]) {
    for key in keys {
        if let Some(count) = holders.get_mut(key) {
            *count -= 1;
            if *count == 0 {
                holders.remove(key);
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    fn owner(owner: &str, stream: &str) -> Arc<PlaceOwner> {
        Arc::new(PlaceOwner { namespace: "api".into(), owner: owner.into(), stream: (stream.into(), 0) })
    }

    /// As many places as are to be had, at most `most`.
    fn fill(places: &Arc<BucketPlaces>, of: &Arc<PlaceOwner>, most: usize) -> Vec<BucketPlace> {
        core::iter::from_fn(|| places.take(of)).take(most).collect()
    }

    #[test]
    fn an_owner_with_any_number_of_streams_leaves_a_quarter_to_others() {
        let places = Arc::new(BucketPlaces::default());
        let greedy = |stream: usize| owner("greedy", &stream.to_string());
        let mut held: Vec<_> = (0..100).map(|stream| fill(&places, &greedy(stream), 1_000)).collect();
        assert_eq!(held.iter().map(Vec::len).sum::<usize>(), 7_500);
        assert!(held[..7].iter().all(|held| held.len() == 1_000), "seven streams have all they may have");
        let other = fill(&places, &owner("other", "one"), 1_000);
        assert_eq!(other.len(), 1_000);
        assert!(!fill(&places, &owner("third", "one"), 1_000).is_empty());
        // Places come back one by one, to whoever has less than its part.
        held.clear();
        assert_eq!(fill(&places, &owner("third", "one"), 9_000).len(), 5_063);
        drop(other);
    }

    #[test]
    fn owners_that_want_all_of_a_namespace_have_equal_parts_of_it() {
        let places = Arc::new(BucketPlaces::default());
        let owners: Vec<_> = (0..20).map(|number| owner(&number.to_string(), "one")).collect();
        let mut held: Vec<Vec<BucketPlace>> = owners.iter().map(|_| Vec::new()).collect();
        for _ in 0..1_000 {
            for (owner, held) in owners.iter().zip(&mut held) {
                held.extend(places.take(owner));
            }
        }
        let counts: Vec<usize> = held.iter().map(Vec::len).collect();
        assert!(counts.iter().all(|count| (430..=500).contains(count)), "{counts:?}");
        let streams: Vec<_> = (0..10).map(|stream| owner("late", &stream.to_string())).collect();
        let mut of_streams = vec![0; 10];
        let mut late = Vec::new();
        for _ in 0..1_000 {
            for (stream, count) in streams.iter().zip(&mut of_streams) {
                let taken = places.take(stream);
                *count += usize::from(taken.is_some());
                late.extend(taken);
            }
        }
        assert!(
            of_streams.iter().all(|count| *count >= 5 && count.abs_diff(of_streams[0]) <= 1),
            "{of_streams:?}"
        );
        drop((held, late));
        assert!(lock_plain(&places.0).namespaces.is_empty(), "nothing is left of them");
    }

    #[test]
    fn a_key_has_so_many_holders_and_a_bucket_has_a_place_at_all_of_its_keys_or_none() {
        let places = Arc::new(BucketPlaces::default());
        let bucket = places.take(&owner("one", "one")).unwrap();
        let [mut one, mut two, mut three] = core::array::from_fn(|_| bucket.holder_places());
        assert_eq!((one.replace(&[1, 2], 2), two.replace(&[2, 3], 2)), (Ok(()), Ok(())));
        assert_eq!(three.replace(&[3, 2], 2), Err(2));
        // With a lower bound those that are there stay.
        assert_eq!((one.replace(&[2], 1), three.replace(&[1], 1)), (Ok(()), Ok(())));
        assert_eq!(three.replace(&[1, 2], 2), Err(2), "and its own place is given back");
        drop(two);
        assert_eq!(three.replace(&[1, 2, 3], 2), Ok(()));
        drop((one, three));
        assert!(lock_plain(&places.0).holders.is_empty());
    }
}
