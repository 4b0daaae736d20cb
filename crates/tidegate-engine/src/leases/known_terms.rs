//! The terms that holders have, each made once.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use tidegate_core::lease::Terms;

use super::subject::{LeaseSubject, TermsId};

/// The terms that holders have now. Others are forgotten, as the numbers of limits change for as
/// long as a member runs.
#[derive(Debug)]
pub(super) struct KnownTerms {
    all: HashMap<TermsId, Weak<Terms>, ahash::RandomState>,
    /// With more than so many, those without a holder are dropped.
    most: usize,
    /// Those asked for last, which the next one asks for, too, more often than not.
    last: Option<(TermsId, Arc<Terms>)>,
}

/// Up to so many terms none is looked for that has no holder.
const TERMS_KEPT: usize = 64;

impl KnownTerms {
    pub(super) fn new(names: ahash::RandomState) -> Self {
        Self { all: HashMap::with_hasher(names), most: TERMS_KEPT, last: None }
    }

    pub(super) fn of(&mut self, subject: &LeaseSubject<'_>) -> Arc<Terms> {
        if let Some((last, terms)) = &self.last
            && *last == subject.terms
        {
            return Arc::clone(terms);
        }
        let terms = self.all.get(&subject.terms).and_then(Weak::upgrade).unwrap_or_else(|| {
            let terms = Arc::new(subject.terms());
            self.all.insert(subject.terms, Arc::downgrade(&terms));
            if self.all.len() > self.most {
                self.all.retain(|_, known| known.strong_count() > 0);
                self.most = TERMS_KEPT.max(2 * self.all.len());
            }
            terms
        });
        self.last = Some((subject.terms, Arc::clone(&terms)));
        terms
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use tidegate_core::{Algorithm, Rate};

    use super::*;

    #[test]
    fn terms_are_forgotten_when_no_holder_has_them() {
        let algorithm = Algorithm::bucket(Rate::per_second(10).unwrap()).unwrap();
        let subject = |number| LeaseSubject {
            key: 1,
            name: "rate",
            algorithm: &algorithm,
            terms: TermsId { algorithm: number, period: Terms::PERIOD },
            is_table: false,
        };
        let mut known = KnownTerms::new(ahash::RandomState::with_seeds(1, 2, 3, 4));
        let held: Vec<_> = (0..100).map(|number| known.of(&subject(number))).collect();
        for number in 100..10_000 {
            known.of(&subject(number));
            assert!(known.all.len() <= 2 * (held.len() + 2), "{} are known", known.all.len());
        }
        for (number, terms) in (0..).zip(&held) {
            assert!(Arc::ptr_eq(&known.of(&subject(number)), terms), "terms of a holder are its own");
        }
    }
}
