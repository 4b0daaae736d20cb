//! From a request to what the engine is asked, and in which order.

use core::ops::Range;
use std::borrow::Cow;
use std::collections::BTreeSet;

use tidegate_core::algorithm::Verdict;
use tidegate_core::{CarriedLimit, CarriedStatus, Charging};

use super::limit::Limit;
use super::metric::{self, MetricKey};
use super::request::Descriptor;
use super::tree::{Domain, MatchedRule, Rule};
use super::{Semantics, Settings};

/// A request with the limits that were found for it, on its way to an answer.
///
/// [`Resolved::ask`] says what the engine is to be asked; [`Resolved::told`] takes what it said.
/// When nothing is left to ask, [`Resolved::answer`] is what the caller is told. With
/// [`Semantics::Strict`] one question is enough, unless something is given back.
#[derive(Debug)]
pub struct Resolved<'a> {
    pub(super) settings: &'a Settings,
    pub(super) domain: &'a str,
    pub(super) is_domain_known: bool,
    pub(super) descriptors: &'a [Descriptor<'a>],
    pub(super) hits: u32,
    /// One for each descriptor.
    pub(super) parts: Vec<DescriptorOutcome<'a>>,
    pub(super) charges: Vec<Charge<'a>>,
    stage: ChargeStage,
    /// Whether the limits that can refuse the request by themselves had room, all of them; no
    /// before they were asked.
    had_room: bool,
}

/// The rule that was found for a descriptor.
#[derive(Debug)]
pub(super) enum DescriptorOutcome<'a> {
    /// No limit: an unknown domain, no match, a descriptor that is let pass, or a limit whose place
    /// was taken.
    Free,
    /// A limit that lets everything through.
    Unlimited,
    /// Limits to be charged.
    Limited(LimitedDescriptor<'a>),
}

/// How the limits of a descriptor count.
#[derive(Debug)]
pub(super) struct LimitedDescriptor<'a> {
    /// Which of [`Resolved::charges`] are its limits; at least one.
    charges: Range<usize>,
    /// `None` for a limit that came with the descriptor.
    pub(super) rule: Option<&'a Rule>,
    pub(super) is_shadow: bool,
    pub(super) is_quota: bool,
    pub(super) metric: MetricKey<'a>,
    pub(super) hits: u64,
    pub(super) gives_back: bool,
}

/// A limit with its counter.
#[derive(Debug)]
pub(super) struct Charge<'a> {
    pub(super) descriptor: usize,
    pub(super) limit: Cow<'a, Limit>,
    key: Vec<&'a [u8]>,
    /// Whether it is asked about after those that can refuse the request by themselves.
    is_later: bool,
    /// The hits to charge; 0 only peeks.
    cost: u64,
    pub(super) status: Option<CarriedStatus>,
}

impl Charge<'_> {
    fn carried(&self, cost: u64) -> CarriedLimit<'_> {
        let (key, algorithm) = (Cow::Borrowed(self.key.as_slice()), Cow::Borrowed(&self.limit.algorithm));
        CarriedLimit { key, algorithm, cost }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChargeStage {
    /// Descriptors that give back do so.
    GiveBack,
    /// Limits that can refuse the request by themselves.
    First,
    /// Limits that cannot: what gives back, and under [`Semantics::Tidegate`] what is in shadow or
    /// quota mode.
    Later,
    /// Every limit of quota mode is over: what was charged is taken back.
    TakeBack,
    Done,
}

/// The next call of the engine, for the namespace with the name of the domain.
#[derive(Debug)]
#[non_exhaustive]
pub enum Ask<'r> {
    /// To charge these limits; [`Resolved::told`] takes their statuses, in order.
    Carry {
        /// The charges when one of the limits is over.
        charging: Charging,
        /// The limits.
        limits: Vec<CarriedLimit<'r>>,
    },
    /// To give the cost of each of these back to its counter, never more than is used;
    /// [`Resolved::told`] then takes nothing.
    GiveBack {
        /// The limits.
        limits: Vec<CarriedLimit<'r>>,
    },
}

impl<'a> Resolved<'a> {
    pub(super) fn new(
        settings: &'a Settings,
        domain: Option<&'a Domain>,
        name: &'a str,
        descriptors: &'a [Descriptor<'a>],
        hits: u32,
    ) -> Self {
        let mut resolved = Self {
            settings,
            domain: name,
            is_domain_known: domain.is_some(),
            descriptors,
            hits,
            parts: Vec::with_capacity(descriptors.len()),
            charges: Vec::with_capacity(descriptors.len()),
            stage: ChargeStage::GiveBack,
            had_room: false,
        };
        let found: Vec<Option<MatchedRule<'a>>> = descriptors
            .iter()
            .map(|one| domain.filter(|_| one.limit.is_none()).and_then(|domain| domain.find(&one.entries)))
            .collect();
        let replaced: BTreeSet<&str> = found
            .iter()
            .flatten()
            .flat_map(|found| {
                found.rule.limits.iter().flat_map(|limit| &limit.replaces).chain(&found.rule.replaces)
            })
            .map(|name| &**name)
            .collect();
        for (index, found) in found.into_iter().enumerate() {
            let part = match (found, descriptors[index].limit) {
                (None, Some(limit)) if domain.is_some() => {
                    let from = resolved.charges.len();
                    resolved.add(index, Cow::Owned(limit.into()), None);
                    let metric = metric::key_of_request(name, &descriptors[index].entries);
                    resolved.part(index, None, metric, from)
                }
                (None, _) => DescriptorOutcome::Free,
                (Some(found), _) if found.rule.is_unlimited() => DescriptorOutcome::Unlimited,
                (Some(found), _) => resolved.found(index, &found, &replaced),
            };
            resolved.parts.push(part);
        }
        resolved.skip();
        resolved
    }

    fn found(
        &mut self,
        index: usize,
        found: &MatchedRule<'a>,
        replaced: &BTreeSet<&str>,
    ) -> DescriptorOutcome<'a> {
        let rule = found.rule;
        let from = self.charges.len();
        for limit in rule.limits.iter().filter(|limit| !replaced.contains(&*limit.name)) {
            self.add(index, Cow::Borrowed(limit), Some(found));
        }
        if self.charges.len() == from {
            return DescriptorOutcome::Free;
        }
        let metric = found.metric_key(self.domain, &self.descriptors[index].entries);
        self.part(index, Some(rule), metric, from)
    }

    fn part(
        &self,
        index: usize,
        rule: Option<&'a Rule>,
        metric: MetricKey<'a>,
        from: usize,
    ) -> DescriptorOutcome<'a> {
        DescriptorOutcome::Limited(LimitedDescriptor {
            charges: from..self.charges.len(),
            rule,
            is_shadow: rule.is_some_and(|rule| rule.shadow_mode),
            is_quota: self.settings.quota_mode || rule.is_some_and(|rule| rule.quota_mode),
            metric,
            hits: self.hits_of(index),
            gives_back: self.descriptors[index].gives_back,
        })
    }

    /// The domain of the request.
    pub const fn domain(&self) -> &'a str {
        self.domain
    }

    /// The hits of the descriptor at a position, of the request where it has none of its own.
    pub fn hits_of(&self, index: usize) -> u64 {
        self.descriptors[index].hits.unwrap_or_else(|| u64::from(self.hits.max(1)))
    }

    fn add(&mut self, index: usize, limit: Cow<'a, Limit>, found: Option<&MatchedRule<'a>>) {
        let descriptor = &self.descriptors[index];
        let mut key: Vec<&'a [u8]> = Vec::with_capacity(2 * descriptor.entries.len() + 1);
        for (depth, (name, value)) in descriptor.entries.iter().enumerate() {
            // The pattern stands for all values that share its counter.
            let shared = found.map(|found| found.way[depth]).filter(|node| node.shares);
            key.push(name.as_bytes());
            key.push(shared.and_then(|node| node.value.as_deref()).unwrap_or(value).as_bytes());
        }
        if let Cow::Borrowed(Limit { own_key: Some(own), .. }) = &limit {
            // Entries come in pairs, so that the odd part at the end is never taken for one.
            key.push(own.as_bytes());
        }
        let cost = if descriptor.gives_back || descriptor.peeks { 0 } else { self.hits_of(index) };
        let is_later = descriptor.gives_back || (self.is_all_or_none() && !self.refuses_alone(found));
        self.charges.push(Charge { descriptor: index, limit, key, is_later, cost, status: None });
    }

    /// Whether a limit that is over refuses the request whatever others say.
    fn refuses_alone(&self, found: Option<&MatchedRule<'_>>) -> bool {
        let (shadow, quota) =
            found.map_or((false, false), |found| (found.rule.shadow_mode, found.rule.quota_mode));
        !(shadow || quota || self.settings.shadow || self.settings.quota_mode)
    }

    /// Whether a refused request is charged nothing.
    fn is_all_or_none(&self) -> bool {
        self.settings.semantics == Semantics::Tidegate
    }

    /// The charges when a limit of this charge's stage is over.
    pub(super) fn charging(&self, charge: &Charge<'_>) -> Charging {
        match self.settings.semantics {
            _ if charge.is_later => Charging::Each,
            Semantics::Tidegate => Charging::AllOrNone,
            Semantics::Strict if self.settings.stop_increment_when_over_limit => Charging::AllOrNone,
            Semantics::Strict => Charging::Always,
        }
    }

    /// The next call of the engine; `None` when the answer is ready.
    pub fn ask(&self) -> Option<Ask<'_>> {
        let limits: Vec<CarriedLimit<'_>> = self.asked().map(|(charge, cost)| charge.carried(cost)).collect();
        match self.stage {
            ChargeStage::GiveBack | ChargeStage::TakeBack => Some(Ask::GiveBack { limits }),
            ChargeStage::First | ChargeStage::Later => {
                let charging = self.asked().next().map(|(charge, _)| self.charging(charge))?;
                Some(Ask::Carry { charging, limits })
            }
            ChargeStage::Done => None,
        }
    }

    /// Takes what the engine said to the last question: the statuses of what it carried, in order,
    /// and nothing for what it gave back. Statuses that are too few leave their limits unasked,
    /// which counts as over.
    pub fn told(&mut self, statuses: &[CarriedStatus]) {
        let asked: Vec<usize> = self.places().collect();
        match self.stage {
            ChargeStage::First | ChargeStage::Later => {
                for (place, status) in asked.into_iter().zip(statuses) {
                    self.charges[place].status = Some(*status);
                }
            }
            ChargeStage::TakeBack => {
                for place in asked {
                    let charge = &mut self.charges[place];
                    if let Some(status) = &mut charge.status {
                        status.used = status.used.saturating_sub(charge.cost);
                    }
                    charge.cost = 0;
                }
            }
            ChargeStage::GiveBack | ChargeStage::Done => {}
        }
        self.advance();
        self.skip();
    }

    fn advance(&mut self) {
        let admits =
            |charge: &Charge<'_>| charge.status.is_some_and(|status| status.verdict == Verdict::Admit);
        self.stage = match self.stage {
            ChargeStage::GiveBack => ChargeStage::First,
            ChargeStage::First => {
                self.had_room = self.charges.iter().filter(|charge| !charge.is_later).all(admits);
                if !self.had_room {
                    // Limits that cannot refuse are only peeked at, so that a refused request
                    // charges nothing at all.
                    for charge in self.charges.iter_mut().filter(|charge| charge.is_later) {
                        charge.cost = 0;
                    }
                }
                ChargeStage::Later
            }
            ChargeStage::Later if self.is_taken_back() => ChargeStage::TakeBack,
            ChargeStage::Later | ChargeStage::TakeBack | ChargeStage::Done => ChargeStage::Done,
        };
    }

    /// Whether it turned out last that the request is refused, after something was charged.
    fn is_taken_back(&self) -> bool {
        self.is_all_or_none() && self.had_room && !self.settings.shadow && self.is_quota_exhausted()
    }

    /// Goes on while the question would be empty.
    fn skip(&mut self) {
        while self.stage != ChargeStage::Done && self.places().next().is_none() {
            self.advance();
        }
    }

    /// The charges that the question of this stage is about.
    fn places(&self) -> impl Iterator<Item = usize> {
        let is_asked = move |charge: &Charge<'_>| match self.stage {
            ChargeStage::GiveBack => self.descriptors[charge.descriptor].gives_back,
            ChargeStage::First => !charge.is_later,
            ChargeStage::Later => charge.is_later,
            ChargeStage::TakeBack => self.is_charged(charge),
            ChargeStage::Done => false,
        };
        (0..self.charges.len()).filter(move |place| is_asked(&self.charges[*place]))
    }

    /// Whether a limit was charged, and the charge stands.
    pub(super) fn is_charged(&self, charge: &Charge<'_>) -> bool {
        match (&charge.status, self.charging(charge)) {
            (None, _) => false,
            (Some(_), _) if charge.cost == 0 => false,
            (Some(_), Charging::Always) => true,
            (Some(status), Charging::Each) => status.verdict == Verdict::Admit,
            (Some(_), Charging::AllOrNone) => self.had_room,
        }
    }

    fn asked(&self) -> impl Iterator<Item = (&Charge<'a>, u64)> {
        self.places().map(|place| {
            let charge = &self.charges[place];
            let gives_back = self.stage == ChargeStage::GiveBack;
            (charge, if gives_back { self.hits_of(charge.descriptor) } else { charge.cost })
        })
    }

    /// Whether a limit is over that refuses the request by itself.
    pub(super) fn is_refused(&self) -> bool {
        self.limited().any(|limited| !limited.is_quota && self.is_over(limited))
    }

    /// Whether there are descriptors in quota mode and all of them are over.
    pub(super) fn is_quota_exhausted(&self) -> bool {
        let mut quotas = self.parts.iter().filter_map(|part| match part {
            DescriptorOutcome::Limited(limited) if limited.is_quota => Some(self.is_over(limited)),
            // Where everything is in quota mode, what has no limit has passed.
            DescriptorOutcome::Free if self.settings.quota_mode => Some(false),
            _ => None,
        });
        quotas.next().is_some_and(|first| first && quotas.all(|is_over| is_over))
    }

    fn limited(&self) -> impl Iterator<Item = &LimitedDescriptor<'a>> {
        self.parts.iter().filter_map(|part| match part {
            DescriptorOutcome::Limited(limited) => Some(limited),
            DescriptorOutcome::Free | DescriptorOutcome::Unlimited => None,
        })
    }

    /// Whether a descriptor is over one of its limits and says so, which it does not in shadow
    /// mode.
    fn is_over(&self, limited: &LimitedDescriptor<'_>) -> bool {
        !limited.is_shadow && self.charges_of(limited).iter().any(|charge| is_charge_over(charge, limited))
    }

    pub(super) fn charges_of(&self, limited: &LimitedDescriptor<'_>) -> &[Charge<'a>] {
        &self.charges[limited.charges.clone()]
    }
}

/// Whether one limit is over.
pub(super) fn is_charge_over(charge: &Charge<'_>, limited: &LimitedDescriptor<'_>) -> bool {
    if limited.gives_back {
        return false;
    }
    let Some(status) = &charge.status else { return true };
    if charge.cost < limited.hits {
        // It was only looked at: would the hits have had room?
        return status.used.saturating_add(limited.hits) > status.limit;
    }
    status.verdict != Verdict::Admit
}
