//! The members of a fleet. Each member sends a heartbeat to the shared store every few seconds,
//! with a note of the leases it holds; an ask for leases that is due anyway carries the heartbeat
//! along. The answer says how many members there are and whether a shared setting was changed; only
//! then settings are read.
//!
//! A member without a heartbeat for [`Members::GONE_AFTER`] is gone. Its note outlasts that, so a
//! note that is not there any more was lost with the data of the store: the member is taken to be
//! there for as long again, in which it sends its next heartbeat. Decisions depend on the number
//! of members in two ways only: how a limit is divided with `share: auto`, and by which share a
//! member decides alone while the store does not answer.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::algorithm::{Concurrency, Fixed, WindowStart};
use tidegate_core::limit::Consistency;
use tidegate_core::{Algorithm, Cost, Timestamp};
use tidegate_engine::{Action, Engine, LeaseView, LeasesView, RemoteView};
use tidegate_policy::words;
use tidegate_store::{HolderId, Key, Kind, Note, NoteKind, Operation, Outcome};
use tidegate_wire::leases::{DifferentNumbersBody, EnvoyBody, LeaseBody, LeasesBody, MemberBody};
use tokio::sync::Notify;

use tidegate_policy::policy::Address;

/// How many leases are in the note of a member: those with the most demand.
const LEASES_TOLD: usize = 16;

/// How many leased limits are in the note of a member, and how many that differ are told.
const LIMITS_TOLD: usize = 64;

/// How many limits with different numbers are logged at a time.
const DIFFERENT_LOGGED: usize = 8;

/// The longest value of a key in the note of a member.
const VALUE_CHARS_MAX: usize = 64;

/// The first part of the keys under which members count their places and what they change. The key
/// of a limit has three parts and these have two, so whatever a namespace is called, its limits
/// have other keys.
const NAMESPACE: &[u8] = b"\0members";

/// How long the note of a member is kept after its last heartbeat, so that others can report its
/// leases.
const REMEMBERED: Duration = Duration::from_mins(1);

/// How far ahead of this member's clock the clock of another may be.
const AHEAD_MAX: Duration = Duration::from_hours(1);

/// This member, and its view of the others.
#[derive(Debug, Default)]
pub(crate) struct Members {
    /// This run of this member: a number that no other has.
    pub(crate) id: u64,
    address: String,
    since: Timestamp,
    seen: Mutex<BTreeMap<u64, SeenMember>>,
    beat: Mutex<HeartbeatReply>,
    /// A shared setting has changed, as far as the last heartbeat showed.
    pub(crate) changed: Notify,
    /// Members that were gone without having left.
    pub(crate) gone: AtomicU64,
    /// Tokens that are gone, by the ledgers of this member's leases, when they were looked at last.
    pub(crate) gone_tokens: AtomicU64,
    /// Leased limits that others count by other numbers.
    different: Mutex<BTreeSet<DifferentNumbersBody>>,
}

/// A member as it was seen last.
#[derive(Clone, Debug)]
struct SeenMember {
    body: MemberBody,
    /// How long its last note is kept.
    until: Timestamp,
    /// Whether the store has no note of it any more, so that `until` counts from when that was
    /// noticed.
    is_missing: bool,
}

/// The answer to the last heartbeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct HeartbeatReply {
    at: Timestamp,
    /// How many members hold a place.
    count: u64,
    /// How often a shared setting was changed.
    changes: u64,
}

impl Members {
    /// How often a member sends a heartbeat.
    pub(crate) const BEAT_EVERY: Duration = Duration::from_secs(5);
    /// How soon after the last heartbeat an ask for leases carries the next one along.
    const RIDE_AFTER: Duration = Duration::from_millis(2500);
    /// After how long without a heartbeat a member is taken to be gone.
    pub(crate) const GONE_AFTER: Duration = Duration::from_secs(12);

    /// A member that listens at `address`, and knows of no other yet.
    pub(crate) fn new(id: u64, address: Option<&Address>, now: Timestamp) -> Self {
        Self {
            id,
            address: address.map(ToString::to_string).unwrap_or_default(),
            since: now,
            ..Self::default()
        }
    }

    /// Its id in answers.
    pub(crate) fn name(&self) -> String {
        format!("{:016x}", self.id)
    }

    fn beat(&self) -> MutexGuard<'_, HeartbeatReply> {
        // Every change is one assignment.
        self.beat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is time to say that this member is there.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        now.saturating_since(self.beat().at) >= Self::BEAT_EVERY
    }

    /// Whether it may be sent with an ask that goes now.
    pub(crate) fn may_ride(&self, now: Timestamp) -> bool {
        now.saturating_since(self.beat().at) >= Self::RIDE_AFTER
    }

    /// The operations of a heartbeat: take or keep a place among the members, and look how often a
    /// setting was changed.
    pub(crate) fn beating(&self) -> [Operation; 2] {
        [
            Operation::new(key(b"places"), places(), Kind::Acquire { holder: HolderId(self.id.into()) }),
            Operation::new(key(b"changes"), changes(), Kind::Peek { cost: Cost::ONE }),
        ]
    }

    /// Takes in the answer to a heartbeat.
    pub(crate) fn heard(&self, outcomes: &[Outcome], now: Timestamp) {
        let [.., places, changes] = outcomes else { return };
        let reply = HeartbeatReply { at: now, count: places.used, changes: changes.used };
        let before = std::mem::replace(&mut *self.beat(), reply);
        if (before.count, before.changes) != (reply.count, reply.changes) {
            self.changed.notify_one();
        }
    }

    fn seen(&self) -> MutexGuard<'_, BTreeMap<u64, SeenMember>> {
        // Every change is one assignment.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many there are, as far as is known; at least this one, and those whose notes the store
    /// has lost.
    pub(crate) fn count(&self) -> u64 {
        let told = self.beat().count.max(1);
        let seen = self.seen();
        if seen.values().any(|one| one.is_missing) {
            return told.max(seen.values().filter(|one| !one.body.is_leaving).count() as u64);
        }
        told
    }

    /// Whether the store has lost the note of a member that is taken to be there.
    pub(crate) fn misses_others(&self) -> bool {
        self.seen().values().any(|one| one.is_missing)
    }

    fn this(&self, engine: &Engine, is_leaving: bool, now: Timestamp) -> MemberBody {
        let view = engine.leases(LEASES_TOLD, now);
        self.gone_tokens.store(view.gone, Ordering::Relaxed);
        let body = member_body((self.name(), self.address.clone()), self.since, engine, view, now);
        MemberBody { is_leaving, ..body }
    }

    /// The note of this member.
    pub(crate) fn note(&self, engine: &Engine, is_leaving: bool, now: Timestamp) -> Note {
        let value = serde_json::to_vec(&self.this(engine, is_leaving, now)).unwrap_or_default();
        Note {
            kind: NoteKind::Member,
            name: self.id.to_be_bytes().into(),
            value: value.into(),
            until: now.saturating_add(REMEMBERED),
        }
    }

    /// Takes in the notes of the members, and logs the members that are gone.
    pub(crate) fn saw(&self, notes: &[Note], now: Timestamp) {
        let read = |note: &Note| {
            let id = u64::from_be_bytes((&*note.name).try_into().ok()?);
            let body = serde_json::from_slice::<MemberBody>(&note.value).ok()?;
            Some((id, SeenMember { body, until: note.until, is_missing: false }))
        };
        let mut known: BTreeMap<u64, SeenMember> = notes.iter().filter_map(read).collect();
        let mut seen = self.seen();
        for (id, member) in &*seen {
            let until = if member.is_missing { member.until } else { now.saturating_add(REMEMBERED) };
            let missing = || SeenMember { until, is_missing: true, ..member.clone() };
            known.entry(*id).or_insert_with(missing);
        }
        let remembered = now.saturating_add(REMEMBERED);
        let is_there = |one: &SeenMember| {
            let beats = remembered < one.until.saturating_add(Self::GONE_AFTER);
            // A note that lasts longer was written under a clock that was ahead, by a member that
            // has written none since.
            beats && one.until <= remembered.saturating_add(AHEAD_MAX)
        };
        let (there, silent): (BTreeMap<_, _>, BTreeMap<_, _>) =
            known.into_iter().partition(|(_, member)| is_there(member));
        self.compare_numbers(&there);
        let before = std::mem::replace(&mut *seen, there);
        drop(seen);
        for (id, SeenMember { body: member, .. }) in silent {
            if !before.contains_key(&id) || member.is_leaving || id == self.id {
                continue;
            }
            self.gone.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                target: "tidegate::store",
                member = member.id,
                address = member.address,
                keys = member.keys,
                "a member is gone without having left; tokens of windows that it had in hand are lost until they end, and are counted as gone"
            );
        }
    }

    fn different(&self) -> MutexGuard<'_, BTreeSet<DifferentNumbersBody>> {
        // Every change is one assignment.
        self.different.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many leased limits another member counts by other numbers.
    pub(crate) fn different_limits(&self) -> usize {
        let different = self.different();
        different.iter().map(|one| &one.limit).collect::<BTreeSet<_>>().len()
    }

    /// Compares the numbers of leased limits with those of the other members, and logs what is new.
    fn compare_numbers(&self, there: &BTreeMap<u64, SeenMember>) {
        let Some(here) = there.get(&self.id) else { return };
        let others = there.iter().filter(|(id, one)| **id != self.id && !one.body.is_leaving);
        let different = others.flat_map(|(_, one)| {
            here.body.leased.iter().filter_map(|(limit, here)| {
                let there = one.body.leased.get(limit).filter(|there| *there != here)?;
                Some(DifferentNumbersBody {
                    limit: limit.clone(),
                    here: here.clone(),
                    member: one.body.id.clone(),
                    there: there.clone(),
                })
            })
        });
        let different: BTreeSet<_> = different.take(LIMITS_TOLD).collect();
        let before = std::mem::replace(&mut *self.different(), different.clone());
        for DifferentNumbersBody { limit, here, member, there } in
            different.difference(&before).take(DIFFERENT_LOGGED)
        {
            tracing::warn!(
                target: "tidegate::store",
                limit, here, member, there,
                "two members lend a limit by different numbers; give both the same policy"
            );
        }
    }

    /// The members and the leases of each.
    pub(crate) fn answer(&self, engine: &Engine, now: Timestamp) -> LeasesBody {
        let seen = self.seen();
        let mut members: BTreeMap<u64, MemberBody> =
            seen.iter().map(|(id, member)| (*id, member.body.clone())).collect();
        drop(seen);
        // This also counts the tokens that are gone.
        members.insert(self.id, self.this(engine, false, now));
        LeasesBody {
            member: format!("{:016x}", self.id),
            is_alone: false,
            count: members.values().filter(|one| !one.is_leaving).count(),
            gone: self.gone.load(Ordering::Relaxed),
            gone_tokens: self.gone_tokens.load(Ordering::Relaxed),
            members: members.into_values().collect(),
            different: self.different().iter().cloned().collect(),
        }
    }
}

/// The leases of a daemon that shares no store, and lends limits by itself.
pub(crate) fn alone(member: &str, since: Timestamp, engine: &Engine, now: Timestamp) -> LeasesBody {
    let view = engine.leases(LEASES_TOLD, now);
    let names = (member.to_owned(), member.to_owned());
    LeasesBody {
        member: member.to_owned(),
        is_alone: true,
        count: 1,
        gone: 0,
        gone_tokens: 0,
        members: vec![member_body(names, since, engine, view, now)],
        different: Vec::new(),
    }
}

/// A member with this id and address.
fn member_body(
    (id, address): (String, String),
    since: Timestamp,
    engine: &Engine,
    view: LeasesView,
    now: Timestamp,
) -> MemberBody {
    let totals = engine.lease_totals().unwrap_or_default();
    MemberBody {
        id,
        address,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        since: since.to_whole_millis().to_string(),
        is_leaving: false,
        keys: totals.holders,
        tokens: view.tokens,
        asks: totals.asks,
        unanswered: totals.unanswered,
        leases: view.leases.into_iter().map(|view| lease_answer(view, now)).collect(),
        envoys: engine.remote_views(LEASES_TOLD, now).into_iter().map(|view| envoy(view, now)).collect(),
        leased: leased_limits(engine),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn envoy(view: RemoteView, now: Timestamp) -> EnvoyBody {
    let shown = |value: &str| value.chars().take(VALUE_CHARS_MAX).collect::<String>();
    let (rate_per_s, max_tokens) = match view.action {
        Some(Action::Assign { max_tokens, tokens_per_fill, fill_interval, .. }) => {
            ((f64::from(tokens_per_fill) / fill_interval.as_secs_f64() * 100.0).round() / 100.0, max_tokens)
        }
        Some(Action::Deny { .. } | Action::Abandon) | None => (0.0, 0),
    };
    let ends_in = view.until.unwrap_or(now).saturating_since(now);
    EnvoyBody {
        envoy: shown(&view.envoy),
        bucket: view.bucket.iter().map(|(name, value)| (shown(name), shown(value))).collect(),
        demand_per_s: (view.demand_each_1000_s as f64 / 100.0).round() / 10.0,
        reported_denied: view.denied,
        rate_per_s,
        max_tokens,
        ends_in_ms: u64::try_from(ends_in.as_millis()).unwrap_or(u64::MAX),
        is_denied: matches!(view.action, Some(Action::Deny { .. })),
        is_alone: view.is_alone,
        not_held: view.not_held.map(|one| match &*one.limit {
            "" => one.why,
            limit => format!("{limit}: {}", one.why),
        }),
        namespace: view.namespace,
    }
}

/// The leased limits of an engine with their numbers.
fn leased_limits(engine: &Engine) -> BTreeMap<String, String> {
    let all = engine.namespaces().flat_map(|namespace| {
        let limits = engine.limits(namespace).into_iter().flatten();
        let leased = limits.filter(|limit| limit.consistency == Consistency::Leased);
        leased.map(move |limit| (format!("{namespace}/{}", limit.name), words(&limit.algorithm)))
    });
    all.take(LIMITS_TOLD).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn lease_answer(view: LeaseView, now: Timestamp) -> LeaseBody {
    let per_s = |units: u64| (units as f64 / view.period.as_secs_f64() * 10.0).round() / 10.0;
    let shown = |value: String| value.chars().take(VALUE_CHARS_MAX).collect::<String>();
    let (limit, table) = if view.is_table { (None, Some(view.name)) } else { (Some(view.name), None) };
    LeaseBody {
        scope: view.scope.into_iter().map(|(name, value)| (shown(name), shown(value))).collect(),
        demand_per_s: per_s(view.demand),
        rate_per_s: per_s(view.rate),
        tokens: view.tokens,
        idle: view.tokens.saturating_sub(view.demand),
        ends_in_ms: u64::try_from(view.until.saturating_since(now).as_millis()).unwrap_or(u64::MAX),
        is_unanswered: view.is_unanswered,
        gone: view.gone,
        namespace: view.namespace,
        limit,
        table,
    }
}

/// A key that no limit has.
pub(crate) fn key(name: &[u8]) -> Key {
    Key::from_parts([Some(NAMESPACE), Some(name)]).expect("it is short")
}

/// A place for each member.
pub(crate) fn places() -> Algorithm {
    Algorithm::Concurrency(
        Concurrency::new(Concurrency::LIMIT_MAX, Members::GONE_AFTER).expect("the numbers are in range"),
    )
}

/// How often a setting was changed, within a window of an hour less a minute; when a window begins,
/// every member looks once.
pub(crate) fn changes() -> Algorithm {
    let window = Fixed::new(1_000_000_000, Duration::from_mins(59), WindowStart::FirstHit);
    Algorithm::Fixed(window.expect("the numbers are in range"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_secs(1_800_000_000);

    fn engine() -> Engine {
        Engine::builder(tidegate_engine::EngineConfig::seeded([1, 2, 3, 4])).build().unwrap()
    }

    /// The answer to a heartbeat that finds so many places taken.
    fn heard(members: &Members, count: u64, now: Timestamp) {
        let mut places = Outcome::unused(100, now);
        places.used = count;
        members.heard(&[places, Outcome::unused(100, now)], now);
    }

    #[test]
    fn a_member_whose_note_the_store_has_lost_is_there_until_its_next_heartbeat_is_overdue() {
        let engine = engine();
        let (one, other) = (Members::new(1, None, START), Members::new(2, None, START));
        let note = |members: &Members, now| members.note(&engine, false, now);
        heard(&one, 2, START);
        one.saw(&[note(&one, START), note(&other, START)], START);
        // The store loses everything, five minutes after the notes were read last.
        let lost = START.saturating_add(Duration::from_mins(5));
        heard(&one, 1, lost);
        one.saw(&[note(&one, lost)], lost);
        let gone = || one.gone.load(Ordering::Relaxed);
        assert_eq!(
            (one.count(), gone(), one.misses_others()),
            (2, 0, true),
            "it runs, and has not yet said so"
        );
        let later = lost.saturating_add(Members::BEAT_EVERY);
        heard(&one, 2, later);
        one.saw(&[note(&one, later), note(&other, later)], later);
        assert_eq!((one.count(), gone(), one.misses_others()), (2, 0, false));

        // Another loss, and this time the other member has died with it.
        let lost = later.saturating_add(Duration::from_mins(5));
        heard(&one, 1, lost);
        for seconds in [0, 5, 10] {
            let now = lost.saturating_add(Duration::from_secs(seconds));
            one.saw(&[note(&one, now)], now);
            assert_eq!((one.count(), gone()), (2, 0), "{seconds} s after the loss");
        }
        let now = lost.saturating_add(Members::GONE_AFTER);
        one.saw(&[note(&one, now)], now);
        assert_eq!((one.count(), gone(), one.misses_others()), (1, 1, false));
    }

    #[test]
    fn a_member_that_dies_is_gone_when_its_note_is_old_and_one_that_leaves_never_is() {
        let engine = engine();
        let (one, other) = (Members::new(1, None, START), Members::new(2, None, START));
        one.saw(&[one.note(&engine, false, START), other.note(&engine, false, START)], START);
        let later = START.saturating_add(Members::GONE_AFTER);
        one.saw(&[one.note(&engine, false, later), other.note(&engine, false, START)], later);
        assert_eq!(one.gone.load(Ordering::Relaxed), 1);
        let third = Members::new(3, None, START);
        one.saw(&[third.note(&engine, false, later)], later);
        one.saw(&[third.note(&engine, true, later)], later);
        one.saw(&[third.note(&engine, true, later)], later.saturating_add(Members::GONE_AFTER));
        assert_eq!(one.gone.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_member_that_left_while_the_clock_was_ahead_is_not_there_when_it_is_back() {
        let engine = engine();
        let (one, other) = (Members::new(1, None, START), Members::new(2, None, START));
        let ahead = START.saturating_add(Duration::from_hours(4 * 366 * 24));
        let notes = [one.note(&engine, false, START), other.note(&engine, false, ahead)];
        one.saw(&notes, START);
        let told: Vec<String> = one.answer(&engine, START).members.into_iter().map(|one| one.id).collect();
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(one.gone.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_leased_limit_with_other_numbers_at_another_member_is_told_with_both() {
        let lends = |per_second: u64| {
            let bucket = Algorithm::bucket(tidegate_core::Rate::per_second(per_second).unwrap()).unwrap();
            let limit = tidegate_core::Limit::new("per-user", bucket).key(["user"]);
            let limit = limit.consistency(Consistency::Leased);
            let namespace = tidegate_engine::NamespaceConfig::new("api", [limit]);
            let config = tidegate_engine::EngineConfig::seeded([1, 2, 3, 4]);
            Engine::builder(config).namespaces([namespace]).build().unwrap()
        };
        let (one, other) = (Members::new(1, None, START), Members::new(2, None, START));
        let (here, there) = (lends(100), lends(50));
        one.saw(&[one.note(&here, false, START), other.note(&there, false, START)], START);
        assert_eq!(one.different_limits(), 1);
        let told = one.answer(&here, START).different;
        let expected = DifferentNumbersBody {
            limit: "api/per-user".to_owned(),
            here: "rate: 100/s".to_owned(),
            member: "0000000000000002".to_owned(),
            there: "rate: 50/s".to_owned(),
        };
        assert_eq!(told, [expected]);
        // Not once both have the same, or the other leaves.
        one.saw(&[one.note(&here, false, START), other.note(&here, false, START)], START);
        assert_eq!(one.different_limits(), 0);
        one.saw(&[one.note(&here, false, START), other.note(&there, true, START)], START);
        assert_eq!(one.answer(&here, START).different, []);
    }
}
