//! The members of a fleet. Each member sends a heartbeat to the shared store every few seconds,
//! with a note of the leases it holds; an ask for leases that is due anyway carries the heartbeat
//! along. The answer says how many members there are and whether a shared setting was changed; only
//! then settings are read.
//!
//! A member without a heartbeat for [`Members::GONE_AFTER`] is gone. Decisions depend on the number
//! of members in two ways only: how a limit is divided with `share: auto`, and by which share a
//! member decides alone while the store does not answer.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::algorithm::{Concurrency, Fixed, WindowStart};
use tidegate_core::{Algorithm, Cost, Timestamp};
use tidegate_engine::{Engine, LeaseView, LeasesView};
use tidegate_store::{HolderId, Key, Kind, Note, NoteKind, Operation, Outcome};
use tidegate_wire::leases::{LeaseBody, LeasesBody, MemberBody};
use tokio::sync::Notify;

use crate::address::Address;

/// How many leases are in the note of a member: those with the most demand.
const LEASES_TOLD: usize = 16;

/// The longest value of a key in the note of a member.
const VALUE_CHARS_MAX: usize = 64;

/// The first part of the keys under which members count their places and what they change. The key
/// of a limit has three parts and these have two, so whatever a namespace is called, its limits
/// have other keys.
const NAMESPACE: &[u8] = b"\0members";

/// How long the note of a member is kept after its last heartbeat, so that others can report its
/// leases.
const REMEMBERED: Duration = Duration::from_mins(1);

/// This member, and its view of the others.
#[derive(Debug)]
pub(crate) struct Members {
    /// This run of this member: a number that no other has.
    pub(crate) id: u64,
    address: String,
    since: Timestamp,
    seen: Mutex<BTreeMap<u64, MemberBody>>,
    beat: Mutex<HeartbeatReply>,
    /// A shared setting has changed, as far as the last heartbeat showed.
    pub(crate) changed: Notify,
    /// Members that were gone without having left.
    pub(crate) gone: AtomicU64,
    /// Tokens that are gone, by the ledgers of this member's leases, when they were looked at last.
    pub(crate) gone_tokens: AtomicU64,
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
            seen: Mutex::default(),
            beat: Mutex::default(),
            changed: Notify::new(),
            gone: AtomicU64::new(0),
            gone_tokens: AtomicU64::new(0),
        }
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

    fn seen(&self) -> MutexGuard<'_, BTreeMap<u64, MemberBody>> {
        // Every change is one assignment.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many there are, as far as is known; at least this one.
    pub(crate) fn count(&self) -> u64 {
        self.beat().count.max(1)
    }

    fn this(&self, engine: &Engine, is_leaving: bool, now: Timestamp) -> MemberBody {
        let LeasesView { leases, tokens, gone, .. } = engine.leases(LEASES_TOLD, now);
        self.gone_tokens.store(gone, Ordering::Relaxed);
        let totals = engine.lease_totals().unwrap_or_default();
        MemberBody {
            id: format!("{:016x}", self.id),
            address: self.address.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            since: self.since.to_whole_millis().to_string(),
            is_leaving,
            keys: totals.holders,
            tokens,
            asks: totals.asks,
            unanswered: totals.unanswered,
            leases: leases.into_iter().map(|view| lease_answer(view, now)).collect(),
        }
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
            Some((id, (note.until, serde_json::from_slice::<MemberBody>(&note.value).ok()?)))
        };
        let heartbeats: BTreeMap<u64, (Timestamp, MemberBody)> = notes.iter().filter_map(read).collect();
        let is_there =
            |until: Timestamp| now.saturating_add(REMEMBERED) < until.saturating_add(Self::GONE_AFTER);
        let there = heartbeats.iter().filter(|(_, (until, _))| is_there(*until));
        let there: BTreeMap<u64, MemberBody> = there.map(|(id, (_, member))| (*id, member.clone())).collect();
        let before = std::mem::replace(&mut *self.seen(), there.clone());
        for (id, member) in before {
            // Its last note, if that is still there.
            let member = heartbeats.get(&id).map_or(member, |(_, member)| member.clone());
            if there.contains_key(&id) || member.is_leaving || id == self.id {
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

    /// The members and the leases of each.
    pub(crate) fn answer(&self, engine: &Engine, now: Timestamp) -> LeasesBody {
        let mut members = self.seen().clone();
        // This also counts the tokens that are gone.
        members.insert(self.id, self.this(engine, false, now));
        LeasesBody {
            member: format!("{:016x}", self.id),
            count: members.values().filter(|one| !one.is_leaving).count(),
            gone: self.gone.load(Ordering::Relaxed),
            gone_tokens: self.gone_tokens.load(Ordering::Relaxed),
            members: members.into_values().collect(),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn lease_answer(view: LeaseView, now: Timestamp) -> LeaseBody {
    let per_s = |units: u64| (units as f64 / view.period.as_secs_f64() * 10.0).round() / 10.0;
    let shown = |value: String| value.chars().take(VALUE_CHARS_MAX).collect::<String>();
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
        limit: view.limit,
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
