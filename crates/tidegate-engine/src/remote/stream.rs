//! Streams and what is done with them.

use core::task::{Context, Poll};
use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::lease::{Ask, remote_obstacle};
use tidegate_core::limit::Mode;
use tidegate_core::{Attributes, Timestamp};

use super::NotHeld;
use super::bucket::Bucket;
use super::stream_cell::{RemoteAsk, StreamCell};
use super::streams::RemoteStreams;
use super::{
    Action, BucketAction, BucketId, BucketUsage, RemoteConfig, RemotePeer, RemoteTotals, RemoteView,
    ReportTaken,
};
use crate::engine::{Engine, subject_of};
use crate::error::RequestError;
use crate::largest::LargestItems;
use crate::leases::Leases;
use crate::sync::lock_plain;

/// How many steps a bucket takes at once where its ledgers answer at once.
const STEPS_MAX: usize = 3;

/// One open stream. Dropping it closes it: its leases run out, and a stream of the same name takes
/// its holders over.
#[derive(Debug)]
pub struct RemoteStream {
    streams: Arc<RemoteStreams>,
    cell: Arc<StreamCell>,
}

impl Drop for RemoteStream {
    fn drop(&mut self) {
        self.streams.close(&self.cell);
    }
}

impl Engine {
    /// Sets the bounds of streams and the life of assignments, from the next bucket on.
    pub fn set_remote_config(&self, config: RemoteConfig) {
        self.shared.remote.set_config(config);
    }

    /// Opens a stream of a namespace for an Envoy.
    ///
    /// # Errors
    ///
    /// [`RequestError::UnknownNamespace`].
    pub fn open_remote<'a>(
        &self,
        namespace: &str,
        peer: impl Into<RemotePeer<'a>>,
        now: Timestamp,
    ) -> Result<RemoteStream, RequestError> {
        self.gate_called(namespace)?;
        let streams = Arc::clone(&self.shared.remote);
        let cell = streams.open(namespace, peer.into(), now);
        Ok(RemoteStream { streams, cell })
    }

    /// Takes in what an Envoy reports of its buckets. Call
    /// [`poll_remote`](Engine::poll_remote) afterwards.
    pub fn report_remote(
        &self,
        stream: &RemoteStream,
        usages: &[BucketUsage<'_>],
        now: Timestamp,
    ) -> ReportTaken {
        let (cell, streams) = (&stream.cell, &stream.streams);
        let config = streams.config();
        let mut taken = ReportTaken::default();
        let state = &mut *lock_plain(&cell.state);
        state.has_news = true;
        state.former.retain(|_, bucket| !bucket.remote.is_over(now));
        for usage in usages {
            let id = bucket_id(usage.attributes);
            if let Some(mut bucket) = state.former.remove(&id) {
                bucket.remote.opened(now);
                self.locate_bucket(&mut bucket, cell.namespace(), config.holders_max, now);
                state.buckets.insert(Arc::clone(&bucket.id), bucket);
            }
            if !state.buckets.contains_key(&id) {
                let has_room = state.buckets.len() < config.buckets_max;
                let Some(place) = has_room.then(|| streams.take(cell)).flatten() else {
                    taken.ignored += 1;
                    continue;
                };
                let id = Arc::new(id.clone());
                let holder = streams.holder(cell, &id);
                let mut bucket = Bucket::new(Arc::clone(&id), holder, place, config.ttl, now);
                self.locate_bucket(&mut bucket, cell.namespace(), config.holders_max, now);
                state.buckets.insert(id, bucket);
            }
            let Some(bucket) = state.buckets.get_mut(&id) else { continue };
            bucket.remote.report(usage.allowed, usage.denied, usage.elapsed, now);
            bucket.denied = bucket.denied.saturating_add(usage.denied);
            if let Some(not_held) = &bucket.not_held
                && streams.is_news(cell.namespace(), &not_held.limit)
            {
                taken.not_held.push(not_held.clone());
            }
        }
        taken
    }

    /// The actions to send on a stream now, once there are some. Also to be called when
    /// [`next_look_remote`](Engine::next_look_remote) has come, and when another engine is in
    /// force, of which nothing wakes a stream.
    pub fn poll_remote(
        &self,
        stream: &RemoteStream,
        context: &Context<'_>,
        now: Timestamp,
    ) -> Poll<Vec<BucketAction>> {
        let (cell, streams) = (&stream.cell, &stream.streams);
        let members = self.shared.leases().map_or(1, Leases::members);
        let state = &mut *lock_plain(&cell.state);
        let seen = Some((self.generation, streams.acts()));
        let is_other = core::mem::replace(&mut state.seen, seen) != seen;
        let has_news = core::mem::take(&mut state.has_news) || is_other || state.has_watched;
        if !has_news && state.steps_at.is_none_or(|at| at > now) {
            return state.wait(context, now);
        }
        let (mut actions, mut next) = (Vec::new(), None);
        // A reset is an act.
        let resets = if is_other { streams.resets_of(cell.number) } else { Vec::new() };
        let holders_max = streams.config().holders_max;
        state.has_watched = false;
        let buckets = &mut state.buckets;
        buckets.retain(|id, bucket| {
            let is_block_over = bucket.blocked_until.is_some_and(|until| until <= now);
            if is_other || is_block_over || bucket.may_be_blocked || bucket.is_waiting() {
                self.locate_bucket(bucket, cell.namespace(), holders_max, now);
            }
            if bucket.keys.iter().any(|key| resets.contains(&key.number)) {
                bucket.remote.reset(now);
            }
            // The ledgers of this process answer at once, and then there may be more to do.
            for _ in 0..STEPS_MAX {
                let step = bucket.remote.step(members, now);
                let mut is_answered = false;
                for (place, ask) in step.asks {
                    is_answered |= self.carry_ask(cell, bucket, (place, ask), now);
                }
                for assignment in step.tell {
                    let action = bucket.tell(assignment);
                    actions.push(BucketAction { bucket: Arc::clone(id), action });
                }
                next = [next, step.next, bucket.blocked_until].into_iter().flatten().min();
                if !is_answered {
                    break;
                }
            }
            state.has_watched |= bucket.may_be_blocked || bucket.is_waiting();
            !bucket.remote.is_over(now)
        });
        state.steps_at = next;
        let pending = state.wait(context, now);
        if actions.is_empty() { pending } else { Poll::Ready(actions) }
    }

    /// The Envoy has taken all actions of the last [`poll_remote`](Engine::poll_remote), which
    /// [may be known](tidegate_core::lease::TAKEN_WITHIN) only by the time that has passed.
    pub fn taken_remote(&self, stream: &RemoteStream, now: Timestamp) {
        let state = &mut *lock_plain(&stream.cell.state);
        state.has_news = true;
        state.buckets.values_mut().for_each(|bucket| bucket.remote.taken(now));
    }

    /// Finds the limits that a bucket meets under the policy in force.
    fn locate_bucket(&self, bucket: &mut Bucket, namespace: &str, holders_max: u32, now: Timestamp) {
        let pairs: SmallVec<[(&str, &str); 8]> =
            bucket.id.iter().map(|(name, value)| (&**name, &**value)).collect();
        let attributes = Attributes::new(&pairs);
        let (Ok((gate, _)), Some(leases)) = (self.gate_called(namespace), self.shared.leases()) else {
            (bucket.not_held, bucket.keys) = (Some(NotHeld::without_namespace()), SmallVec::new());
            let _none = bucket.holders.replace(&[], holders_max);
            bucket.remote.set_limits(&[], now);
            return;
        };
        let met = gate.met_limits(attributes, now);
        let mut enforced = met.iter().filter(|one| one.limit.mode != Mode::Shadow).peekable();
        bucket.not_held = enforced.peek().is_none().then(NotHeld::without_limit);
        let mut blocked_until = None;
        bucket.may_be_blocked = false;
        for one in enforced {
            bucket.may_be_blocked |= one.limit.blocks_for().is_some();
            blocked_until = blocked_until.max(one.blocked_until);
            if bucket.not_held.is_none()
                && let Some(obstacle) = remote_obstacle(one.algorithm, one.limit.consistency)
            {
                bucket.not_held = Some(NotHeld::from_obstacle(&one.limit.name, &obstacle));
            }
        }
        let located = gate.locate_store_limits(attributes, now);
        let mut limits = SmallVec::<[_; 2]>::new();
        bucket.keys.clear();
        if bucket.not_held.is_none() {
            for limit in gate.leased_limits(&located, now).iter().filter(|limit| !limit.is_shadow) {
                let Ok(key) = Self::leased_key(gate, limit, &located) else { continue };
                limits.push((limit.key(), leases.terms_of(&subject_of(limit))));
                bucket.keys.push(Arc::new(key));
            }
            if limits.len() < met.iter().filter(|one| one.limit.mode != Mode::Shadow).count() {
                bucket.not_held = Some(NotHeld::decided_here(&met, &limits));
            }
        }
        let is_held = bucket.not_held.is_none();
        let keys: SmallVec<[u64; 2]> = limits.iter().filter(|_| is_held).map(|(key, _)| *key).collect();
        if let Err(full) = bucket.holders.replace(&keys, holders_max) {
            bucket.not_held = Some(NotHeld::full(&met, full, holders_max));
        }
        if bucket.not_held.is_some() {
            limits.clear();
            bucket.keys.clear();
        }
        bucket.remote.set_limits(&limits, now);
        bucket.blocked_until = blocked_until;
        bucket.remote.set_blocked(blocked_until.is_some(), now);
    }

    /// Carries an ask of a bucket to its ledger; whether it is answered already.
    fn carry_ask(
        &self,
        cell: &Arc<StreamCell>,
        bucket: &mut Bucket,
        (place, ask): (usize, Ask),
        now: Timestamp,
    ) -> bool {
        let (Some(leases), Some(about)) = (self.shared.leases(), bucket.keys.get(place)) else {
            return false;
        };
        let key = about.number;
        if !leases.has_own_ledgers() {
            let remote = RemoteAsk { cell: Arc::clone(cell), bucket: Arc::clone(&bucket.id), key };
            leases.send_remote(Arc::clone(about), ask, Box::new(remote));
            return false;
        }
        match leases.ask_here(about, ask, now) {
            Some((grant, level)) => bucket.remote.granted(key, &grant, level, now),
            None => bucket.remote.lost(key, now),
        }
        true
    }

    /// When to poll a stream although nothing woke it; `None` for not at all.
    pub fn next_look_remote(&self, stream: &RemoteStream) -> Option<Timestamp> {
        lock_plain(&stream.cell.state).next
    }

    /// The buckets of all streams with the most demand, at most `max`.
    pub fn remote_views(&self, max: usize, now: Timestamp) -> Vec<RemoteView> {
        // By demand, and where that is the same by name.
        let mut largest = LargestItems::new(max, |one: &RankedBucket, other: &RankedBucket| {
            one.0.cmp(&other.0).then_with(|| names_of(other).cmp(&names_of(one)))
        });
        for cell in self.shared.remote.all() {
            let state = lock_plain(&cell.state);
            // There may be tens of thousands, and texts are made for those that are shown.
            for bucket in state.buckets.values() {
                let demand = bucket.remote.demand_each_1000_s();
                largest.add((demand, Arc::clone(&cell), Arc::clone(&bucket.id)));
            }
        }
        let view = |(_, cell, bucket): RankedBucket| {
            Some(view(&cell, lock_plain(&cell.state).buckets.get(&bucket)?, now))
        };
        largest.into_sorted().filter_map(view).collect()
    }

    /// All remote holders in sum.
    pub fn remote_totals(&self, now: Timestamp) -> RemoteTotals {
        let mut totals = RemoteTotals::default();
        for cell in self.shared.remote.all() {
            totals.streams += 1;
            for bucket in lock_plain(&cell.state).buckets.values() {
                totals.buckets += 1;
                totals.not_held += usize::from(bucket.not_held.is_some());
                match (bucket.remote.told(now), bucket.action) {
                    (Some(_), Some(Action::Assign { .. })) => totals.assigned += 1,
                    (Some(_), Some(Action::Deny { .. })) => totals.denied += 1,
                    _ => {}
                }
            }
        }
        totals
    }
}

/// The demand of a bucket, its stream, and its id.
type RankedBucket = (u64, Arc<StreamCell>, Arc<BucketId>);

fn names_of((_, cell, bucket): &RankedBucket) -> (&str, &str, &BucketId) {
    (cell.namespace(), &cell.of.stream.0, bucket)
}

fn view(cell: &StreamCell, bucket: &Bucket, now: Timestamp) -> RemoteView {
    let told = bucket.remote.told(now);
    RemoteView {
        namespace: cell.namespace().to_owned(),
        envoy: cell.of.stream.0.to_string(),
        bucket: Arc::clone(&bucket.id),
        demand_each_1000_s: bucket.remote.demand_each_1000_s(),
        action: bucket.action.filter(|_| told.is_some()),
        until: told.map(|(_, until)| until),
        is_alone: bucket.remote.is_alone(),
        denied: bucket.denied,
        not_held: bucket.not_held.clone(),
    }
}

/// The id of a bucket with these attributes; of two values of one name the last counts.
fn bucket_id(attributes: &[(&str, &str)]) -> BucketId {
    let mut entries: Vec<(Box<str>, Box<str>)> =
        attributes.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    entries.sort_by(|one, other| one.0.cmp(&other.0));
    entries.dedup_by(|later, kept| {
        let is_same = later.0 == kept.0;
        if is_same {
            core::mem::swap(&mut later.1, &mut kept.1);
        }
        is_same
    });
    entries.into_boxed_slice()
}
