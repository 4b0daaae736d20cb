//! The checks of a limit before it is compiled.

use super::error::GateError;
use crate::algorithm::{Algorithm, WINDOW_MAX, WINDOW_MIN};
use crate::lease::Terms;
use crate::limit::{Consistency, Limit, OnExceed, Override};
use crate::time::Timestamp;

pub(super) fn check_limit(limit: &Limit) -> Result<(), GateError> {
    let name = || limit.name.clone();
    if limit.name.is_empty() {
        return Err(GateError::NameEmpty);
    }
    if limit.name.len() > Limit::NAME_BYTES_MAX {
        let shown = limit.name.chars().take(Limit::NAME_BYTES_MAX).collect();
        return Err(GateError::NameTooLong { limit: shown, bytes: limit.name.len() });
    }
    limit.check_settings()?;
    if limit.key.len() > Limit::KEY_PARTS_MAX {
        return Err(GateError::KeyTooLong { limit: name(), parts: limit.key.len() });
    }
    for (index, part) in limit.key.iter().enumerate() {
        if limit.key[..index].iter().any(|earlier| earlier.attribute == part.attribute) {
            return Err(GateError::DuplicateKeyPart { limit: name(), attribute: part.attribute.clone() });
        }
    }
    if let OnExceed::Block(span) = limit.on_exceed
        && !(WINDOW_MIN..=WINDOW_MAX).contains(&span)
    {
        return Err(GateError::Block(name()));
    }
    if limit.consistency == Consistency::Leased {
        limit.check_leasable(&limit.algorithm)?;
    }
    if limit.zone_from.is_some() && limit.algorithm.name() != "calendar" {
        return Err(GateError::ZoneFrom { limit: name(), algorithm: limit.algorithm.name() });
    }
    limit
        .plans
        .iter()
        .filter_map(|one| one.algorithm.as_ref())
        .try_for_each(|one| limit.check_numbers(one))?;
    limit.overrides.iter().try_for_each(|one| limit.check_override(one))
}

impl Limit {
    /// Whether `algorithm` can be leased, with its numbers and the lease period of the limit.
    fn check_leasable(&self, algorithm: &Algorithm) -> Result<(), GateError> {
        let not_leasable = |why| GateError::NotLeasable { limit: self.name.clone(), why };
        let terms = Terms::for_period(algorithm, self.lease_period, Timestamp::MIN);
        terms.map(drop).map_err(not_leasable)
    }

    /// Whether the limit may have these numbers for some requests, of a plan or an override: they
    /// are of the same algorithm.
    pub fn check_numbers(&self, algorithm: &Algorithm) -> Result<(), GateError> {
        if core::mem::discriminant(algorithm) != core::mem::discriminant(&self.algorithm) {
            return Err(GateError::OverrideAlgorithm {
                limit: self.name.clone(),
                expected: self.algorithm.name(),
                given: algorithm.name(),
            });
        }
        if self.consistency == Consistency::Leased {
            self.check_leasable(algorithm)?;
        }
        Ok(())
    }

    /// Whether `one` may override this limit: it names attributes of the key, at least one, and has
    /// the limit's algorithm with whatever numbers.
    pub fn check_override(&self, one: &Override) -> Result<(), GateError> {
        self.check_numbers(&one.algorithm)?;
        let attribute = |attribute: &str| GateError::OverrideAttribute {
            limit: self.name.clone(),
            attribute: attribute.to_owned(),
        };
        let foreign = one.when.iter().find(|(name, _)| !self.key.iter().any(|part| part.attribute == *name));
        match (foreign, one.when.is_empty()) {
            (Some((name, _)), _) => Err(attribute(name)),
            (None, true) => Err(attribute("")),
            (None, false) => Ok(()),
        }
    }
}
