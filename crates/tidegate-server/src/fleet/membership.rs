//! The part of a member in its fleet: it joins the members that share the store, sends heartbeats,
//! applies the settings of the others, and leaves.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_core::{Cost, error_chain};
use tidegate_engine::{BuildError, LeaseBatch, Lineage, NoteError};
use tidegate_store::{
    Batch, BatchMode, DynStore as _, HolderId, Kind, NoteChange, NoteKind, Operation, StoreError,
};

use crate::context::DaemonContext;
use crate::fleet::members::{changes, key, places};
use crate::fleet::shared_store::kept;
use crate::fleet::stored_overrides::overrides_in;

/// How often the settings of other members are read although no change was announced.
const REFRESH_EVERY: Duration = Duration::from_mins(5);

/// How often it is seen whether it is time to say that this member is there.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How soon a store that was away is asked again, so that it is found within a second of its
/// return.
const RETRY_EVERY: Duration = Duration::from_millis(250);

/// Why a member has not joined those that are there, or does not see them.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotJoined {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Engine(#[from] BuildError),
    #[error(transparent)]
    Note(#[from] NoteError),
}

/// Joins the members that share the store, and applies the settings of the others, until the daemon
/// ends.
pub(crate) async fn keep_joined(daemon: Arc<DaemonContext>) {
    let mut is_away = false;
    loop {
        let joined = daemon.join_and_beat().await;
        if joined.is_ok() && !daemon.has_joined.swap(true, Ordering::Relaxed) {
            tracing::info!(target: "tidegate::store", "the store answers; this member has joined the others");
            if let Some(shared) = &daemon.shared {
                shared.check_eviction().await;
            }
        } else if joined.is_ok() && is_away {
            tracing::info!(target: "tidegate::store", "the store answers again");
        }
        daemon.tell_readiness().await;
        match joined {
            Ok(()) => {
                is_away = false;
                // Ignore the error; the next attempt reports it.
                let _ = daemon.wait_for_changes().await;
            }
            Err(error) => {
                if !is_away {
                    let error = error_chain(&error);
                    let unready = daemon.unready();
                    tracing::warn!(target: "tidegate::store", error, unready, "the store does not answer; it is asked again four times a second");
                }
                is_away = true;
                tokio::time::sleep(RETRY_EVERY).await;
            }
        }
    }
}

impl DaemonContext {
    async fn join_and_beat(&self) -> Result<(), NotJoined> {
        self.beat().await?;
        self.see_members().await?;
        self.join().await
    }

    /// Waits until something that members share has changed, or may have; says meanwhile that this
    /// member is there.
    async fn wait_for_changes(&self) -> Result<(), StoreError> {
        let Some(members) = &self.members else { return Ok(()) };
        let until = self.clock.now().saturating_add(REFRESH_EVERY);
        while self.clock.now() < until {
            tokio::select! {
                () = members.changed.notified() => return Ok(()),
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            if members.is_due(self.clock.now()) {
                self.beat().await?;
                if members.misses_others() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Takes over settings that the store has and this member does not.
    async fn join(&self) -> Result<(), NotJoined> {
        let _turn = self.changes.turn.lock().await;
        let before = self.in_force.load_full();
        let is_first = !self.has_joined.load(Ordering::Relaxed);
        let read = async |kind| self.store.notes_boxed(kind).await;
        // Only at the first join: while policies are being exchanged member by member, each member
        // goes by its own names.
        let lineage = if is_first {
            Lineage::from_notes(&read(NoteKind::Lineage).await?)?
        } else {
            before.engine.lineage().clone()
        };
        let overrides = read(NoteKind::Override).await?;
        let limits_of = |name: &str| before.engine.limits(name).into_iter().flatten().collect();
        let (overrides, rewritten) = overrides_in(&overrides, limits_of);
        let mut engine = Arc::clone(&before.engine);
        if let Some((joined, notes)) = before.engine.joined(&lineage, overrides)? {
            self.store_notes(&joined, &notes).await?;
            self.put_in_force(&before, joined, before.config.clone(), before.version.clone());
            engine = Arc::clone(&self.in_force.load().engine);
        }
        self.store_notes(&engine, &rewritten).await?;
        // Lifts first: a key that is blocked again meanwhile is blocked in the end.
        let lifts = read(NoteKind::LiftedBlock).await?;
        let blocks = read(NoteKind::Block).await?;
        let now = self.clock.now();
        let lifted = engine.lift_blocks(&lifts, now);
        if lifted > 0 && !is_first {
            tracing::info!(target: "tidegate::audit", keys = lifted, "other members have lifted blocks");
        }
        for note in &blocks {
            kept(engine.restore_block(note, now));
        }
        kept(engine.restore_feature_pins(&read(NoteKind::FeaturePin).await?, now));
        if is_first {
            self.history.restore(&read(NoteKind::Audit).await?);
        }
        Ok(())
    }
}

impl DaemonContext {
    /// Sends a heartbeat.
    pub(crate) async fn beat(&self) -> Result<(), StoreError> {
        let Some(members) = &self.members else { return Ok(()) };
        let engine = Arc::clone(&self.in_force.load().engine);
        let note = NoteChange::Put(members.note(&engine, false, self.clock.now()));
        for mut batch in engine.note_batches(&[note]) {
            batch.operations.extend(members.beating());
            let answer = self.driver.call_store(&batch).await?;
            members.heard(&answer.outcomes, self.clock.now());
        }
        Ok(())
    }

    /// Reads the notes of the members, and takes this member's part of divided limits.
    pub(crate) async fn see_members(&self) -> Result<(), NotJoined> {
        let Some(members) = &self.members else { return Ok(()) };
        members.saw(&self.store.notes_boxed(NoteKind::Member).await?, self.clock.now());
        let _turn = self.changes.turn.lock().await;
        let before = self.in_force.load_full();
        let count = u32::try_from(members.count()).unwrap_or(u32::MAX);
        if let Some(engine) = before.engine.with_members(count)? {
            tracing::info!(target: "tidegate::store", members = count, "limits are divided among the members anew");
            self.put_in_force(&before, engine, before.config.clone(), before.version.clone());
        }
        Ok(())
    }

    /// Adds a heartbeat to a batch of asks if one is due; whether it was added.
    pub(crate) fn ride(&self, asked: &mut LeaseBatch) -> bool {
        let now = self.clock.now();
        let Some(members) = self.members.as_ref().filter(|members| members.may_ride(now)) else {
            return false;
        };
        let engine = Arc::clone(&self.in_force.load().engine);
        let note = NoteChange::Put(members.note(&engine, false, now));
        asked.ride(members.beating().into_iter(), note)
    }

    /// The batch that is sent in place of `batch` if that changes a shared setting: it also
    /// announces the change to the other members. `None` where the store is not shared.
    pub(crate) fn telling(&self, batch: &Batch) -> Option<Batch> {
        self.members.as_ref()?;
        let is_shared = |change: &NoteChange| {
            let kind = match change {
                NoteChange::Put(note) | NoteChange::Create(note) => note.kind,
                NoteChange::Remove { kind, .. } => *kind,
            };
            matches!(
                kind,
                NoteKind::Override | NoteKind::Block | NoteKind::LiftedBlock | NoteKind::FeaturePin
            )
        };
        let has_room = batch.mode == BatchMode::Each && batch.operations.len() < Batch::OPERATIONS_MAX;
        if !has_room || !batch.notes.iter().any(is_shared) {
            return None;
        }
        let mut telling = batch.clone();
        telling.operations.push(Operation::new(key(b"changes"), changes(), Kind::Report { cost: Cost::ONE }));
        Some(telling)
    }

    /// Gives the leases of this member back, and announces that it stops.
    pub(crate) async fn leave(&self) {
        let Some(members) = &self.members else { return };
        let engine = Arc::clone(&self.in_force.load().engine);
        if !self.driver.return_leases().await {
            // The other leases end by themselves.
            tracing::warn!(target: "tidegate::store", "the store does not answer; leases are not given back but end by themselves");
            return;
        }
        let note = NoteChange::Put(members.note(&engine, true, self.clock.now()));
        for mut batch in engine.note_batches(&[note]) {
            let place = Kind::Release { holder: HolderId(members.id.into()) };
            batch.operations.push(Operation::new(key(b"places"), places(), place));
            if let Err(error) = self.driver.call_store(&batch).await {
                tracing::debug!(target: "tidegate::store", %error, "the other members were not told that this member stops");
            }
        }
    }
}
