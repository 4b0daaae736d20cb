//! Setting, listing and taking away overrides while running.

use tidegate_core::Timestamp;
use tidegate_store::{NoteChange, NoteKind};

use crate::engine::Engine;
use crate::error::{AdminError, BuildError, RequestError};
use crate::notes;
use crate::overrides::{OverrideName, OverrideState, RuntimeOverride};

impl Engine {
    /// Another engine over the same state in which this override applies, and what a store should
    /// remember of it.
    ///
    /// It replaces an override of the same limit and attributes. The usage of a key stays counted.
    /// Which of several overrides counts is told at [`RuntimeOverride`]'s module: those set at run
    /// time win over those of the policy.
    ///
    /// Errors: the limit does not exist or does not take it, a text is too long, its time has
    /// passed, or there are as many as there may be ([`crate::RUNTIME_OVERRIDES_MAX`]), of all
    /// namespaces or of this one. Nothing is changed then.
    pub fn with_override(
        &self,
        mut one: RuntimeOverride,
        now: Timestamp,
    ) -> Result<(Self, NoteChange), AdminError> {
        let gate = self.gate(&one.namespace)?;
        let Some((limit, counts_as)) = gate.identities().find(|(limit, _)| limit.name == one.limit) else {
            let limit = one.limit.chars().take(128).collect();
            return Err(RequestError::UnknownLimit { namespace: one.namespace, limit }.into());
        };
        one.counts_as = Some(counts_as.to_owned());
        check_texts(&one, now)?;
        limit
            .check_override(&one.numbers())
            .map_err(|source| BuildError::Limits { namespace: one.namespace.clone(), source })?;
        let note = one.to_note().ok_or_else(|| AdminError::Override {
            limit: one.limit.clone(),
            why: format!("numbers of a {} limit cannot be stored", one.algorithm.name()),
        })?;
        let namespace = one.namespace.clone();
        let mut overrides = self.overrides.clone();
        if !overrides.contains(&one.identity()) && !overrides.has_share(&namespace, self.namespaces()) {
            return Err(AdminError::TooManyOverridesHere { namespace });
        }
        if !overrides.set(one) {
            return Err(AdminError::TooManyOverrides);
        }
        Ok((self.with_overrides(&namespace, overrides)?, NoteChange::Put(note)))
    }

    /// Another engine over the same state without the override for these attributes, and what a
    /// store should forget.
    ///
    /// `limit` is the name as [`Engine::overrides`] lists it; the order of `when` does not matter.
    pub fn without_override(
        &self,
        namespace: &str,
        limit: &str,
        when: &[(String, String)],
    ) -> Result<(Self, NoteChange), AdminError> {
        let mut when = when.to_vec();
        when.sort();
        let is_meant = |one: &&RuntimeOverride| {
            let OverrideName { when: its, .. } = one.identity();
            one.namespace == namespace && one.limit == limit && its == when
        };
        let Some(found) = self.overrides.iter().find(is_meant).cloned() else {
            return Err(AdminError::UnknownOverride {
                namespace: namespace.chars().take(128).collect(),
                limit: limit.chars().take(128).collect(),
            });
        };
        let mut overrides = self.overrides.clone();
        overrides.remove(&found.identity());
        let note = notes::remove(NoteKind::Override, found.note_name());
        Ok((self.with_overrides(namespace, overrides)?, note))
    }

    /// Another engine over the same state without the overrides that have expired by `now`, which
    /// they are. A store forgets them by itself.
    pub fn without_expired(&self, now: Timestamp) -> Result<(Self, Vec<RuntimeOverride>), BuildError> {
        let mut overrides = self.overrides.clone();
        let expired = overrides.take_expired(now);
        let mut namespaces: Vec<&str> = expired.iter().map(|one| one.namespace.as_str()).collect();
        namespaces.sort_unstable();
        namespaces.dedup();
        let mut engine = self.with_overrides("", overrides.clone())?;
        for namespace in namespaces {
            engine = engine.with_overrides(namespace, overrides.clone())?;
        }
        Ok((engine, expired))
    }

    /// All overrides set at run time, by namespace and limit, each with whether it applies at
    /// `now`.
    pub fn overrides(&self, now: Timestamp) -> impl Iterator<Item = (&RuntimeOverride, OverrideState)> {
        self.overrides.iter().map(move |one| {
            let gate = self.gate(&one.namespace).ok();
            (one, one.state(gate.map(|gate| &**gate), now))
        })
    }
}

fn check_texts(one: &RuntimeOverride, now: Timestamp) -> Result<(), AdminError> {
    let wrong = |why: String| Err(AdminError::Override { limit: one.limit.clone(), why });
    let max = RuntimeOverride::TEXT_BYTES_MAX;
    for (what, text) in [("`reason`", &one.reason), ("`by`", &one.by)] {
        if text.len() > max {
            return wrong(format!("{what} has {} bytes; use at most {max}", text.len()));
        }
    }
    if let Some((name, value)) = one.when.iter().find(|(_, value)| value.len() > max) {
        return wrong(format!("the value of \"{name}\" has {} bytes; use at most {max}", value.len()));
    }
    match one.until {
        Some(until) if until <= now => {
            wrong(format!("`until` {until} has passed; use a later one, or leave it out"))
        }
        _ => Ok(()),
    }
}
