//! The members of a fleet: each says every two seconds, in the store that all share, that it is there and what it holds.
//!
//! Who has not said so for [`Members::GONE_AFTER`] is gone. Nothing that is decided depends on it but how a limit is divided with
//! `share: auto`, and how much a member may go on spending when the store falls silent.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate::Timestamp;
use tidegate::lease::Terms;
use tidegate_engine::{Engine, EngineError, LeaseView};
use tidegate_store::{DynStore as _, Note, NoteChange, NoteKind, StoreError};
use tidegate_wire::leases::{LeaseBody, LeasesBody, MemberBody};

use crate::address::Address;
use crate::daemon::Daemon;

/// How many leases a member tells the others of: those with the most demand.
const LEASES_TOLD: usize = 16;

/// The longest value of a key that is told.
const VALUE_CHARS_MAX: usize = 64;

/// This member, and what it knows of the others.
#[derive(Debug)]
pub(crate) struct Members {
    /// This run of this member: a number that no other has.
    pub(crate) id: u64,
    address: String,
    since: Timestamp,
    seen: Mutex<BTreeMap<u64, MemberBody>>,
    /// Members that were gone without having left, and what they had in hand then.
    pub(crate) gone: AtomicU64,
    pub(crate) gone_tokens: AtomicU64,
}

impl Members {
    /// After how long a member that has not said that it is there is taken to be gone.
    pub(crate) const GONE_AFTER: Duration = Duration::from_secs(7);

    /// A member that listens there, and knows of nobody else yet.
    pub(crate) fn new(id: u64, address: Option<&Address>, now: Timestamp) -> Self {
        Self {
            id,
            address: address.map(ToString::to_string).unwrap_or_default(),
            since: now,
            seen: Mutex::default(),
            gone: AtomicU64::new(0),
            gone_tokens: AtomicU64::new(0),
        }
    }

    fn seen(&self) -> MutexGuard<'_, BTreeMap<u64, MemberBody>> {
        // Every change is one assignment.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many there are, as far as is known; at least this one.
    pub(crate) fn count(&self) -> usize {
        self.seen().values().filter(|one| !one.is_leaving).count().max(1)
    }

    fn this(&self, engine: &Engine, is_leaving: bool, now: Timestamp) -> MemberBody {
        let (views, tokens) = engine.leases(LEASES_TOLD, now);
        let totals = engine.lease_totals().unwrap_or_default();
        MemberBody {
            id: format!("{:016x}", self.id),
            address: self.address.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            since: self.since.to_string(),
            is_leaving,
            keys: totals.holders,
            tokens,
            asks: totals.asks,
            unanswered: totals.unanswered,
            leases: views.into_iter().map(|view| lease_answer(view, now)).collect(),
        }
    }

    /// What this member tells the others.
    fn note(&self, engine: &Engine, is_leaving: bool, now: Timestamp) -> Note {
        let value = serde_json::to_vec(&self.this(engine, is_leaving, now)).unwrap_or_default();
        Note {
            kind: NoteKind::Member,
            name: self.id.to_be_bytes().into(),
            value: value.into(),
            until: now.saturating_add(Self::GONE_AFTER),
        }
    }

    /// Takes in who is there, and says who is not any more.
    fn saw(&self, notes: &[Note]) {
        let read = |note: &Note| {
            let id = u64::from_be_bytes((&*note.name).try_into().ok()?);
            Some((id, serde_json::from_slice(&note.value).ok()?))
        };
        let now: BTreeMap<u64, MemberBody> = notes.iter().filter_map(read).collect();
        let before = std::mem::replace(&mut *self.seen(), now.clone());
        for (id, member) in before {
            if now.contains_key(&id) || member.is_leaving || id == self.id {
                continue;
            }
            self.gone.fetch_add(1, Ordering::Relaxed);
            self.gone_tokens.fetch_add(member.tokens, Ordering::Relaxed);
            tracing::warn!(
                target: "tidegate::store",
                member = member.id,
                address = member.address,
                keys = member.keys,
                tokens = member.tokens,
                "a member is gone without having left; tokens of windows that it had in hand are lost until they end"
            );
        }
    }

    /// Who is there and what each holds.
    pub(crate) fn answer(&self, engine: &Engine, now: Timestamp) -> LeasesBody {
        let mut members = self.seen().clone();
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
    let per_s = |units: u64| (units as f64 / Terms::PERIOD.as_secs_f64() * 10.0).round() / 10.0;
    let shown = |value: String| value.chars().take(VALUE_CHARS_MAX).collect::<String>();
    LeaseBody {
        scope: view.scope.into_iter().map(|(name, value)| (shown(name), shown(value))).collect(),
        demand_per_s: per_s(view.demand),
        rate_per_s: per_s(view.rate),
        tokens: view.tokens,
        idle: view.tokens.saturating_sub(view.demand),
        ends_in_ms: u64::try_from(view.until.saturating_since(now).as_millis()).unwrap_or(u64::MAX),
        is_unanswered: view.is_unanswered,
        namespace: view.namespace,
        limit: view.limit,
    }
}

/// Why a member could not say that it is there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotSaid {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl Daemon {
    /// Says that this member is there, sees who else is, and takes the part of divided limits that follows.
    pub(crate) async fn beat(&self) -> Result<(), NotSaid> {
        let Some(members) = &self.members else { return Ok(()) };
        self.say(members, false).await?;
        members.saw(&self.store.notes_boxed(NoteKind::Member).await?);
        let _turn = self.changes.turn.lock().await;
        let before = self.in_force.load_full();
        let count = u32::try_from(members.count()).unwrap_or(u32::MAX);
        if let Some(engine) = before.engine.with_members(count)? {
            tracing::info!(target: "tidegate::store", members = count, "limits are divided among the members anew");
            self.put_in_force(&before, engine, before.config.clone(), before.version.clone());
        }
        Ok(())
    }

    /// Says that this member stops, and gives its leases back.
    pub(crate) async fn leave(&self) {
        let Some(members) = &self.members else { return };
        let engine = std::sync::Arc::clone(&self.in_force.load().engine);
        for asked in engine.leave_leases(self.clock.now()) {
            let answer = self.ask(asked.batch()).await;
            let is_away = answer.is_err();
            engine.lease_answered(asked, answer, self.clock.now());
            if is_away {
                // What is left ends by itself.
                tracing::warn!(target: "tidegate::store", "the store does not answer; leases are not given back but end by themselves");
                return;
            }
        }
        if let Err(error) = self.say(members, true).await {
            tracing::debug!(target: "tidegate::store", %error, "the others are not told that this member stops");
        }
    }

    async fn say(&self, members: &Members, is_leaving: bool) -> Result<(), StoreError> {
        let engine = std::sync::Arc::clone(&self.in_force.load().engine);
        let change = NoteChange::Put(members.note(&engine, is_leaving, self.clock.now()));
        for batch in engine.note_batches(&[change]) {
            self.ask(&batch).await?;
        }
        Ok(())
    }
}
