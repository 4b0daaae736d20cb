//! Limits that arrive with the request: the request states the limit.
//!
//! `CL.THROTTLE`, Envoy's limit override and descriptor files are of this kind. The numbers of such
//! a limit are not part of its counter's identity: a counter is a namespace, the kind of the limit
//! with its window, and a key, and usage is kept when other numbers arrive. A bucket keeps the
//! instant at which it is full again, as redis-cell does; a window keeps its count. A rate and a
//! quota ([`Algorithm::is_quota`]) of one key are two counters, wherever they are kept.

use core::hash::Hasher;
use core::time::Duration;
use std::borrow::Cow;

use smallvec::SmallVec;

use super::charge::{Backing, Firmness, SlotCharge};
use super::probe::{Answer, Probe};
use crate::algorithm::{Algorithm, Charged, Fixed, State, Verdict, WindowStart};
use crate::cost::Cost;
use crate::refusal::Refusal;
use crate::table::{CarriedSpecs, KeyHash, KeyTable, Spec, SpecId, WhenFull};
use crate::text::Text;
use crate::time::Timestamp;

/// A limit that arrives with a request, and the cost of the request under it.
///
/// ```
/// # use std::borrow::Cow;
/// # use tidegate_core::{Algorithm, CarriedLimit, Charging, KeyTable, Rate, TableConfig};
/// # use tidegate_core::Timestamp;
/// let algorithm = Cow::Owned(Algorithm::bucket(Rate::per_second(10)?)?);
/// let limit = CarriedLimit { key: Cow::Borrowed(&[b"ada"]), algorithm, cost: 8 };
/// let table = KeyTable::new(TableConfig::default());
/// let now = Timestamp::from_secs(1_800_000_000);
/// let carried = table.carry("api", std::slice::from_ref(&limit), Charging::AllOrNone, now)?;
/// assert!(carried.is_admitted);
/// assert_eq!(carried.limits[0].remaining, 2);
/// assert!(!table.carry("api", &[limit], Charging::AllOrNone, now)?.is_admitted);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct CarriedLimit<'a> {
    /// The parts that identify its counter, with the namespace, the algorithm and the window: any
    /// bytes, in order.
    pub key: Cow<'a, [&'a [u8]]>,
    /// How it counts. Not [`Algorithm::Concurrency`], whose permits would never be released.
    pub algorithm: Cow<'a, Algorithm>,
    /// The cost of the request in units. A cost of 0 charges nothing, and is admitted unless the
    /// usage is above the limit.
    pub cost: u64,
}

/// How several carried limits are charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charging {
    /// All of them, or none.
    #[default]
    AllOrNone,
    /// Each by itself; one that refuses is not charged.
    Each,
    /// Each by itself, and a limit that refuses is charged too, as for work already done: the debt
    /// this leaves is bounded by [`crate::algorithm::REPORT_DEBT_LIMITS`].
    Always,
}

/// The status of one carried limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarriedStatus {
    /// Its answer.
    pub verdict: Verdict,
    /// Whether that is because the table has no room for another key.
    pub is_table_full: bool,
    /// The largest number of units it admits at once.
    pub limit: u64,
    /// Units used afterwards, rounded up; above the limit when in debt, or when a lower limit came.
    pub used: u64,
    /// Units left afterwards, rounded down.
    pub remaining: u64,
    /// When nothing is used any more, if nothing else is charged; `now` if nothing is.
    pub reset_at: Timestamp,
    /// The span it counts over.
    pub window: Option<Duration>,
}

/// The result of a request with carried limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Whether all of them admit.
    pub is_admitted: bool,
    /// The status of each limit, in their order.
    pub limits: SmallVec<[CarriedStatus; 1]>,
    /// The refusal by another plane; then no limit was charged, and each says when to come back.
    pub refusal: Option<Refusal>,
    /// The level of its feature that another plane granted the request, if its caller is told one.
    pub feature: Option<CarriedFeature>,
}

/// The level of a feature that a request with carried limits was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarriedFeature {
    /// The feature.
    pub name: Text,
    /// The name of its level.
    pub level: Text,
}

/// A reason why a carried limit cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CarryError {
    /// Concurrency: its permits would never be released.
    #[error("a concurrency limit cannot arrive with a request; write it into the policy")]
    Concurrency,
    /// Too many different windows arrived.
    #[error(
        "more than 65536 different windows arrived with requests; use fewer, or write the limits into the policy"
    )]
    TooManyWindows,
}

impl CarriedLimit<'_> {
    /// The identity of the counter, as bytes that no limit of a policy has: two carried limits of
    /// one key and one identity share a counter.
    pub fn identity(&self) -> Vec<u8> {
        self.identity_as(self.algorithm.is_quota())
    }

    /// The identities of all counters that the key may have under this algorithm and window,
    /// whatever other numbers come with it.
    pub fn identities(&self) -> impl Iterator<Item = Vec<u8>> {
        let other = matches!(*self.algorithm, Algorithm::Bucket(_)).then(|| !self.algorithm.is_quota());
        [Some(self.algorithm.is_quota()), other]
            .into_iter()
            .flatten()
            .map(|is_quota| self.identity_as(is_quota))
    }

    fn identity_as(&self, is_quota: bool) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(40);
        // Where a limit of a policy has the length of its name.
        bytes.extend(u64::MAX.to_be_bytes());
        bytes.extend(self.algorithm.name().as_bytes());
        bytes.push(0);
        match &*self.algorithm {
            Algorithm::Bucket(_) if !is_quota => bytes.extend(b"rate"),
            Algorithm::Bucket(_) | Algorithm::Concurrency(_) => {}
            #[cfg(feature = "calendar")]
            Algorithm::Calendar(calendar) => bytes.extend(calendar.unit().as_str().as_bytes()),
            Algorithm::SlidingCounter(_) => bytes.extend(b"approximate"),
            Algorithm::Rolling(rolling) => bytes.extend(rolling.window().as_nanos().to_be_bytes()),
            Algorithm::Fixed(fixed) => {
                bytes.extend(fixed.window().as_nanos().to_be_bytes());
                bytes.push(u8::from(fixed.start() == WindowStart::FirstHit));
            }
        }
        bytes
    }

    /// The key as bytes that no other key gives, for a store that keeps whole keys.
    pub fn key_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        for part in &*self.key {
            bytes.extend((part.len() as u64).to_be_bytes());
            bytes.extend(*part);
        }
        bytes
    }

    fn hash(&self, namespace: &str, identity: &[u8], table: &KeyTable) -> KeyHash {
        let mut hasher = table.hasher();
        // Where the key of a limit of a policy has the hash of an identity.
        hasher.write_u64(u64::MAX);
        for part in [namespace.as_bytes(), identity].into_iter().chain(self.key.iter().copied()) {
            hasher.write_u64(part.len() as u64);
            hasher.write(part);
        }
        KeyHash(hasher.finish())
    }
}

/// A carried limit as it is charged.
struct Line<'l> {
    probe: Probe<'l>,
    cost: Option<Cost>,
    /// The charge, for taking it back.
    charge: Option<Held>,
    /// The state that counts for its status.
    state: State,
}

/// A charge that can be taken back.
enum Held {
    Word { before: State, after: State },
    Ring(SlotCharge),
}

impl KeyTable {
    /// Charges limits that arrived with a request of `namespace`, as `charging` says.
    ///
    /// `now` may step back or ahead; see [`Algorithm`]. An error means that nothing was charged.
    pub fn carry(
        &self,
        namespace: &str,
        limits: &[CarriedLimit<'_>],
        charging: Charging,
        now: Timestamp,
    ) -> Result<Carried, CarryError> {
        let mut numbers: SmallVec<[CarriedAlgorithm<'_>; 1]> = SmallVec::with_capacity(limits.len());
        for limit in limits {
            numbers.push(self.numbers_of(namespace, limit)?);
        }
        let mut lines: SmallVec<[Line<'_>; 1]> = SmallVec::with_capacity(limits.len());
        for (limit, numbers) in limits.iter().zip(&numbers) {
            lines.push(Line::new(self, namespace, limit, numbers));
        }
        if lines.len() > 1 {
            // All of their counters, so that waiting for memory overlaps.
            self.touch(lines.iter().map(|line| line.probe.line));
        }
        let mut is_admitted = true;
        if charging == Charging::AllOrNone {
            for line in &mut lines {
                self.assess_carried(line, now);
            }
            is_admitted = lines.iter().all(Line::is_admitted) && self.carry_all(&mut lines, now);
        } else {
            for line in &mut lines {
                // Only now: an earlier line may have charged the same counter.
                self.assess_carried(line, now);
                let is_refused = !self.charge_carried(line, now);
                is_admitted &= !is_refused;
                if let (true, Charging::Always, Some(cost)) = (is_refused, charging, line.cost) {
                    match self.charge_firmly(&mut line.probe, cost, now) {
                        Ok(state) => line.state = state,
                        Err(answer) => line.probe.answer = answer,
                    }
                }
            }
        }
        for line in &lines {
            if matches!(line.probe.answer, Answer::Full { .. }) {
                self.count_full();
            }
        }
        let limits = lines.iter().map(|line| self.carried_status(line, now)).collect();
        Ok(Carried { is_admitted, limits, ..Carried::default() })
    }

    /// The answer of [`KeyTable::carry`] for all or none of them, without changing anything.
    pub fn peek_carried(
        &self,
        namespace: &str,
        limits: &[CarriedLimit<'_>],
        now: Timestamp,
    ) -> Result<Carried, CarryError> {
        let mut is_admitted = true;
        let mut statuses = SmallVec::with_capacity(limits.len());
        for limit in limits {
            let numbers = self.numbers_of(namespace, limit)?;
            let mut line = Line::new(self, namespace, limit, &numbers);
            self.assess_carried(&mut line, now);
            is_admitted &= line.is_admitted();
            statuses.push(self.carried_status(&line, now));
        }
        Ok(Carried { is_admitted, limits: statuses, ..Carried::default() })
    }

    /// Gives the cost of a carried limit back, never more than is used, and returns its new status.
    pub fn refund_carried(
        &self,
        namespace: &str,
        limit: &CarriedLimit<'_>,
        now: Timestamp,
    ) -> Result<CarriedStatus, CarryError> {
        let numbers = self.numbers_of(namespace, limit)?;
        let mut line = Line::new(self, namespace, limit, &numbers);
        if let Some(cost) = line.cost.take() {
            self.refund_units(&mut line.probe, cost, now);
        }
        self.assess_carried(&mut line, now);
        Ok(self.carried_status(&line, now))
    }

    /// Resets a carried limit, whatever its numbers, and returns whether anything was used.
    pub fn reset_carried(&self, namespace: &str, limit: &CarriedLimit<'_>, now: Timestamp) -> bool {
        let forget = |identity: Vec<u8>| self.forget(limit.hash(namespace, &identity, self), now);
        limit.identities().map(forget).fold(false, |any, was_used| any | was_used)
    }

    /// The algorithm that a carried limit is decided by, and the spec of its states.
    fn numbers_of<'l>(
        &self,
        namespace: &str,
        limit: &'l CarriedLimit<'_>,
    ) -> Result<CarriedAlgorithm<'l>, CarryError> {
        let owner = self.find_owner(namespace);
        let find = |spec, max| self.carried_specs.find(&self.specs, owner, spec, max);
        let algorithm = Cow::Borrowed(&*limit.algorithm);
        let spec = match &*limit.algorithm {
            Algorithm::Concurrency(_) => return Err(CarryError::Concurrency),
            Algorithm::Bucket(bucket) => {
                if let Some(spec) = find(Spec::Bucket(bucket.clock()), CarriedSpecs::WITH_OWN_CLOCK_MAX) {
                    return Ok(CarriedAlgorithm { algorithm, spec });
                }
                let bucket = bucket.on_shared_clock();
                let spec =
                    find(Spec::Bucket(bucket.clock()), usize::MAX).ok_or(CarryError::TooManyWindows)?;
                return Ok(CarriedAlgorithm { algorithm: Cow::Owned(Algorithm::Bucket(bucket)), spec });
            }
            // A window is read without its limit.
            Algorithm::Fixed(fixed) => match Fixed::new(0, fixed.window(), fixed.start()) {
                Ok(fixed) => Spec::Algorithm(Algorithm::Fixed(fixed)),
                Err(_) => Spec::Algorithm(Algorithm::Fixed(fixed.clone())),
            },
            other => Spec::Algorithm(other.clone()),
        };
        Ok(CarriedAlgorithm {
            algorithm,
            spec: find(spec, CarriedSpecs::MAX).ok_or(CarryError::TooManyWindows)?,
        })
    }

    /// Reads the counter of a line and decides, writing nothing.
    fn assess_carried(&self, line: &mut Line<'_>, now: Timestamp) {
        let probe = &mut line.probe;
        probe.entry = self.look(probe.key);
        if let Some(cost) = line.cost {
            self.answer(probe, cost, now);
            line.state = self.state(probe, now);
            return;
        }
        line.state = self.state(probe, now);
        let is_over = self.state_used(probe.algorithm, line.state, now) > probe.algorithm.limit();
        let until = probe.algorithm.room_at(0, self.state_resets_at(probe.algorithm, line.state, now));
        probe.answer = if is_over { Answer::Wait { until } } else { Answer::Admit };
    }

    /// Charges all lines, or takes back its charges; then the lines say which limit refused.
    fn carry_all(&self, lines: &mut [Line<'_>], now: Timestamp) -> bool {
        let Some(refused) = lines.iter_mut().position(|line| !self.charge_carried(line, now)) else {
            return true;
        };
        for line in lines[..refused].iter_mut().rev() {
            self.take_back_carried(line, now);
        }
        for line in &mut lines[..refused] {
            self.assess_carried(line, now);
        }
        false
    }

    /// Charges an assessed line if it admits, and returns whether it does.
    fn charge_carried(&self, line: &mut Line<'_>, now: Timestamp) -> bool {
        let probe = &mut line.probe;
        let (true, Some(cost)) = (probe.answer == Answer::Admit, line.cost) else {
            return probe.answer == Answer::Admit;
        };
        let charged = match probe.algorithm {
            Algorithm::Rolling(rolling) => {
                self.charge_ring(probe, rolling, cost, now, Firmness::Check).map(|(backing, charge)| {
                    let Backing { handle: ring, is_new } = backing;
                    line.state = State::from_bits(ring.to_bits().get());
                    Held::Ring(SlotCharge::Ring { ring, charge, is_new })
                })
            }
            _ => self.charge_word(probe, cost, now).map(|charge| {
                line.state = charge.after;
                Held::Word { before: charge.before, after: charge.after }
            }),
        };
        match charged {
            Ok(charge) => line.charge = Some(charge),
            Err(Answer::Full { .. }) if self.when_full() == WhenFull::Admit => self.count_full(),
            Err(answer) => {
                line.probe.answer = answer;
                line.state = self.state(&line.probe, now);
                return false;
            }
        }
        true
    }

    fn take_back_carried(&self, line: &mut Line<'_>, now: Timestamp) {
        match (line.charge.take(), line.cost) {
            (Some(Held::Word { before, after }), Some(cost)) => {
                self.undo_word(&mut line.probe, &Charged { before, after, cost }, now);
            }
            (Some(Held::Ring(slot_charge)), _) => {
                slot_charge.take_back(self, line.probe.key, now);
            }
            _ => {}
        }
    }

    fn carried_status(&self, line: &Line<'_>, now: Timestamp) -> CarriedStatus {
        let (algorithm, state) = (line.probe.algorithm, line.state);
        let verdict = match line.probe.answer {
            Answer::Never { largest } => Verdict::Never { largest },
            Answer::Wait { until } | Answer::Blocked { until } | Answer::Full { until } => {
                Verdict::Wait { until }
            }
            Answer::Admit | Answer::Lacks { .. } => Verdict::Admit,
        };
        CarriedStatus {
            verdict,
            is_table_full: matches!(line.probe.answer, Answer::Full { .. }),
            limit: algorithm.limit(),
            used: self.state_used(algorithm, state, now),
            remaining: self.state_remaining(algorithm, state, now),
            reset_at: self.state_resets_at(algorithm, state, now),
            window: algorithm.window(),
        }
    }
}

/// The algorithm a carried limit is decided by, and how its states are read.
struct CarriedAlgorithm<'l> {
    algorithm: Cow<'l, Algorithm>,
    spec: SpecId,
}

impl<'l> Line<'l> {
    /// A line of a limit, before its counter is read.
    fn new(
        table: &KeyTable,
        namespace: &str,
        limit: &CarriedLimit<'_>,
        numbers: &'l CarriedAlgorithm<'_>,
    ) -> Self {
        let key = limit.hash(namespace, &limit.identity(), table);
        let probe = Probe::new((0, key), &numbers.algorithm, numbers.spec, table);
        Self { probe, cost: Cost::new(limit.cost), charge: None, state: State::EMPTY }
    }

    fn is_admitted(&self) -> bool {
        self.probe.answer == Answer::Admit
    }
}
