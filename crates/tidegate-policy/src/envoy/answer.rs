//! The answer to the caller.

use core::time::Duration;
use std::borrow::Cow;

use serde_json::{Map, Value, json};
use tidegate_core::algorithm::Verdict;
use tidegate_core::{Algorithm, CarriedStatus, Charging, Reason, Retry, Timestamp};

use super::metric::{Counts, near};
use super::resolve::{Charge, DescriptorOutcome, LimitedDescriptor, Resolved, is_charge_over};
use super::{Descriptor, Unit};

/// Whether something goes ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// It does.
    Ok = 1,
    /// It is over its limit.
    OverLimit = 2,
}

/// The limit that a status speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrentLimit {
    /// How many hits in each unit, as the file has it.
    pub requests_per_unit: u32,
    /// The unit; `None`, which is UNKNOWN in a message, for a window of a length that no unit has.
    pub unit: Option<Unit>,
    /// Its name; empty for none.
    pub name: String,
}

/// How one descriptor stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Whether it lets the request go ahead.
    pub code: Code,
    /// Its limit; `None` for a descriptor without one, and for an unlimited one.
    pub current_limit: Option<CurrentLimit>,
    /// Hits left; 0 when it is over, in shadow mode too, and without a limit; [`u32::MAX`] for an
    /// unlimited one.
    pub limit_remaining: u32,
    /// How long until the limit's window ends, in whole seconds; `None` without a limit.
    pub duration_until_reset: Option<Duration>,
}

impl Status {
    const fn free(limit_remaining: u32) -> Self {
        Self { code: Code::Ok, current_limit: None, limit_remaining, duration_until_reset: None }
    }
}

/// The answer to the caller, and the counts of metrics.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Answer<'a> {
    /// Whether the request goes ahead.
    pub overall_code: Code,
    /// One for each descriptor, in their order.
    pub statuses: Vec<Status>,
    /// Headers to add to the response, names and values; none unless they are asked for.
    pub headers: Vec<(&'a str, String)>,
    /// Dynamic metadata, a mapping; `None` unless it is asked for.
    pub dynamic_metadata: Option<Value>,
    /// The counts, one for each descriptor with a limit.
    pub counts: Vec<Counts<'a>>,
    /// Whether the domain is one of the files'; requests for others are counted.
    pub is_domain_known: bool,
    /// Whether it goes ahead only because everything is in shadow mode.
    pub is_shadowed: bool,
}

/// How one descriptor stands to the limit that decides it, for logs, metrics, and protocols that
/// answer in their own way.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DescriptorDecision<'a> {
    /// Which of the descriptors.
    pub descriptor: usize,
    /// The name of its rule: the domain and the keys and values on the way to it, joined by dots.
    /// `None` for a limit that came with the descriptor.
    pub rule: Option<&'a str>,
    /// Whether it is over its limit, although its rule only says so.
    pub is_shadow: bool,
    /// Why it is over its limit and when there is room again; `None` if it is not over.
    pub refusal: Option<(Reason, Retry)>,
    /// The most hits that the limit admits at once: the number that the file has, or the burst of a
    /// bucket.
    pub limit: u64,
    /// Hits left, which may be too few for the hits that were asked for.
    pub remaining: u64,
    /// Hits used, more than the limit where refused hits count.
    pub used: u64,
    /// When nothing is used any more.
    pub reset_at: Timestamp,
    /// The length of the limit's window.
    pub window: Option<Duration>,
    /// The algorithm with its numbers; `None` for a limit that came with the descriptor.
    pub algorithm: Option<&'a Algorithm>,
    /// The hits that it asked for.
    pub hits: u64,
}

impl<'a> Resolved<'a> {
    /// How each descriptor with a limit stands, once nothing is [left to ask](Resolved::ask).
    pub fn decisions(&self, now: Timestamp) -> Vec<DescriptorDecision<'a>> {
        let limited = self.parts.iter().enumerate().filter_map(|(at, part)| match part {
            DescriptorOutcome::Limited(limited) if !limited.gives_back => Some((at, limited)),
            _ => None,
        });
        limited.map(|(at, limited)| self.decision(at, limited, now)).collect()
    }

    fn decision(&self, at: usize, limited: &LimitedDescriptor<'a>, now: Timestamp) -> DescriptorDecision<'a> {
        let charge = self.deciding(limited);
        let status = charge.status.as_ref();
        let is_over = is_charge_over(charge, limited);
        DescriptorDecision {
            descriptor: at,
            rule: limited.rule.map(|rule| rule.metric_key.as_str()),
            is_shadow: limited.is_shadow || self.settings.shadow,
            refusal: is_over.then(|| refusal(charge, limited.hits, now)),
            limit: most(charge),
            remaining: status.map_or(0, |status| left(charge, status)),
            used: status.map_or(0, |status| status.used),
            reset_at: status.map_or(now, |status| status.reset_at),
            window: charge.limit.algorithm.window(),
            algorithm: match &charge.limit {
                Cow::Borrowed(limit) => Some(&limit.algorithm),
                Cow::Owned(_) => None,
            },
            hits: limited.hits,
        }
    }

    /// The answer to the caller, once nothing is [left to ask](Resolved::ask). Before that, limits
    /// that have not been asked about count as over.
    pub fn answer(&self, now: Timestamp) -> Answer<'a> {
        let mut counts = Vec::new();
        let mut statuses = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            statuses.push(match part {
                DescriptorOutcome::Free => Status::free(0),
                DescriptorOutcome::Unlimited => Status::free(u32::MAX),
                DescriptorOutcome::Limited(limited) => {
                    let deciding = self.deciding(limited);
                    counts.push(self.counts(deciding, limited));
                    Self::status(deciding, limited, now)
                }
            });
        }
        let is_over = self.is_refused() || self.is_quota_exhausted();
        let is_shadowed = is_over && self.settings.shadow;
        Answer {
            overall_code: if is_over && !is_shadowed { Code::OverLimit } else { Code::Ok },
            headers: self.headers(&statuses),
            dynamic_metadata: self.settings.dynamic_metadata.then(|| self.metadata(&statuses)),
            statuses,
            counts,
            is_domain_known: self.is_domain_known,
            is_shadowed,
        }
    }

    /// The limit that speaks for a descriptor: of those that are over the one that is so for
    /// longest, else the one with the least left.
    fn deciding(&self, limited: &LimitedDescriptor<'_>) -> &Charge<'a> {
        let rank = |charge: &&Charge<'_>| {
            let is_over = is_charge_over(charge, limited);
            let status = charge.status.as_ref();
            let longest = status.filter(|_| is_over).map(|status| until(status, Timestamp::MIN));
            (is_over, longest, core::cmp::Reverse(status.map(|status| left(charge, status))))
        };
        self.charges_of(limited).iter().max_by_key(rank).expect("a descriptor that is limited has a limit")
    }

    fn status(charge: &Charge<'_>, limited: &LimitedDescriptor<'_>, now: Timestamp) -> Status {
        let is_over = is_charge_over(charge, limited);
        let remaining = charge.status.as_ref().filter(|_| !is_over).map_or(0, |status| left(charge, status));
        Status {
            code: if is_over && !limited.is_shadow { Code::OverLimit } else { Code::Ok },
            current_limit: Some(CurrentLimit {
                requests_per_unit: charge.limit.requests_per_unit,
                unit: charge.limit.unit,
                name: charge.limit.name.to_string(),
            }),
            limit_remaining: u32::try_from(remaining).unwrap_or(u32::MAX),
            duration_until_reset: charge.status.as_ref().map(|status| reset(charge, status, now)),
        }
    }

    fn counts(&self, charge: &Charge<'_>, limited: &LimitedDescriptor<'a>) -> Counts<'a> {
        let mut counts = Counts::none(limited.metric.clone());
        let hits = limited.hits;
        if limited.gives_back {
            counts.total_negative_hits = hits;
            return counts;
        }
        counts.total_hits = hits;
        let charging = self.charging(charge);
        let is_over = is_charge_over(charge, limited);
        if is_over && charging != Charging::Always {
            // Refused whole, and nothing was charged.
            counts.over_limit = hits;
        } else if let Some(status) = &charge.status {
            let most = u64::from(charge.limit.requests_per_unit);
            let near = near(&charge.limit, self.settings.near_limit_ratio);
            let before = if self.is_charged(charge) { status.used.saturating_sub(hits) } else { status.used };
            counts.charged(hits, before, before.saturating_add(hits), most, near);
        }
        if is_over && limited.is_shadow {
            counts.shadow_mode = hits;
        }
        counts
    }

    /// The headers, from the descriptor with the least left; one that is over and refuses by itself
    /// goes before.
    fn headers(&self, statuses: &[Status]) -> Vec<(&'a str, String)> {
        let names = &self.settings.headers;
        if !names.enabled {
            return Vec::new();
        }
        let limits = statuses.iter().zip(&self.parts).filter(|(status, _)| status.current_limit.is_some());
        let refuses = |status: &Status, part: &DescriptorOutcome<'_>| {
            status.code == Code::OverLimit
                && matches!(part, DescriptorOutcome::Limited(limited) if !limited.is_quota)
        };
        let refusing = limits.clone().rfind(|(status, part)| refuses(status, part));
        let chosen = refusing.or_else(|| limits.min_by_key(|(status, _)| status.limit_remaining));
        let Some((Status { current_limit: Some(limit), limit_remaining, duration_until_reset, .. }, _)) =
            chosen
        else {
            return Vec::new();
        };
        let seconds = duration_until_reset.unwrap_or_default().as_secs();
        vec![
            (&names.limit, limit.requests_per_unit.to_string()),
            (&names.remaining, limit_remaining.to_string()),
            (&names.reset, seconds.to_string()),
        ]
    }

    fn metadata(&self, statuses: &[Status]) -> Value {
        let mut all = Map::new();
        all.insert("domain".to_owned(), self.domain.into());
        all.insert("descriptors".to_owned(), self.descriptors.iter().map(described).collect());
        if self.hits > 0 {
            all.insert("hitsAddend".to_owned(), self.hits.into());
        }
        let mut merged = Map::new();
        for (status, part) in statuses.iter().zip(&self.parts) {
            if let DescriptorOutcome::Limited(LimitedDescriptor { rule: Some(rule), .. }) = part
                && status.code == Code::Ok
            {
                merge(&mut merged, &rule.metadata);
            }
        }
        if !merged.is_empty() {
            all.insert("metadata".to_owned(), Value::Object(merged));
        }
        Value::Object(all)
    }
}

/// Why a limit is over, and when there is room for the hits.
fn refusal(charge: &Charge<'_>, hits: u64, now: Timestamp) -> (Reason, Retry) {
    let algorithm = &charge.limit.algorithm;
    let exceeded = if algorithm.is_quota() { Reason::QuotaExceeded } else { Reason::RateExceeded };
    let Some(status) = &charge.status else { return (Reason::StoreUnavailable, Retry::Backoff) };
    match status.verdict {
        _ if hits > status.limit => (Reason::CostExceedsLimit, Retry::Never),
        Verdict::Wait { until } if status.is_table_full => (Reason::TableFull, Retry::At(until)),
        Verdict::Wait { until } => (exceeded, Retry::At(until.max(now))),
        // It was only looked at.
        _ => (exceeded, Retry::At(algorithm.room_at(hits, status.reset_at).max(now))),
    }
}

/// The most hits that a limit admits at once: the number that the file has, but of a bucket its
/// burst.
fn most(charge: &Charge<'_>) -> u64 {
    match &charge.limit.algorithm {
        Algorithm::Bucket(bucket) => bucket.burst(),
        _ => charge.limit.requests_per_unit.into(),
    }
}

/// The remaining hits of a limit.
fn left(charge: &Charge<'_>, status: &CarriedStatus) -> u64 {
    most(charge).saturating_sub(status.used)
}

/// How long until the window ends, in whole seconds, at least one.
fn reset(charge: &Charge<'_>, status: &CarriedStatus, now: Timestamp) -> Duration {
    match charge.limit.aligned() {
        // As the peer calculates it: from the whole second it is in, so that it is the whole unit
        // at its beginning.
        Some(length) if length.subsec_nanos() == 0 => {
            Duration::from_secs(length.as_secs() - now.as_secs() % length.as_secs())
        }
        _ => {
            let span = until(status, now);
            Duration::from_secs(span.as_secs() + u64::from(span.subsec_nanos() > 0))
                .max(Duration::from_secs(1))
        }
    }
}

/// How long until there is room again for what was refused, else until nothing is used any more.
fn until(status: &CarriedStatus, now: Timestamp) -> Duration {
    match status.verdict {
        Verdict::Wait { until } => until.saturating_since(now),
        Verdict::Admit | Verdict::Never { .. } => status.reset_at.saturating_since(now),
    }
}

/// The name of a unit in a message.
pub(super) fn unit_name(unit: Option<Unit>) -> String {
    unit.map_or("unknown", Unit::name).to_uppercase()
}

fn described(descriptor: &Descriptor<'_>) -> Value {
    let entries: Vec<String> =
        descriptor.entries.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let mut described = Map::new();
    described.insert("entries".to_owned(), json!(entries));
    if let Some(limit) = descriptor.limit {
        let text =
            format!("requests_per_unit:{} unit:{}", limit.requests_per_unit, unit_name(Some(limit.unit)));
        described.insert("limit".to_owned(), text.into());
    }
    if let Some(hits) = descriptor.hits {
        described.insert("hitsAddend".to_owned(), hits.into());
    }
    Value::Object(described)
}

/// Adds what `more` has and `all` has not, inside of mappings that both have too.
fn merge(all: &mut Map<String, Value>, more: &Map<String, Value>) {
    for (key, value) in more {
        match (all.get_mut(key), value) {
            (Some(Value::Object(known)), Value::Object(value)) => merge(known, value),
            (Some(_), _) => {}
            (None, value) => {
                all.insert(key.clone(), value.clone());
            }
        }
    }
}
