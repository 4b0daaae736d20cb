//! The answer to a request: a status for each descriptor, and the headers and the body for its
//! sender.

use core::time::Duration;
use std::borrow::Cow;

use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderName};
use prost_types::value::Kind;
use prost_types::{Struct, Value};
use tidegate_core::{Refusal, Retry, Timestamp};

use super::metadata::value;
use super::{Code, DescriptorStatus, HeaderValue, RateLimit, RateLimitResponse, unit};
use crate::answer::AccessUnits;
use crate::headers::{OlderHeaders, ShownFeature, ShownLoad, ShownTicket, limit_headers, refusal_headers};
use crate::problem::{MEDIA_TYPE, RefusalBody};
use crate::problem_details::details_of;
use crate::ratelimit::Allowance;
use crate::retry_after::{millis_of, seconds_up};

/// The status that a client of Envoy gets for every refusal.
const TOO_MANY_REQUESTS: u16 = 429;

/// The outcome of one descriptor.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It is within all of its limits, of which there may be none.
    Within {
        /// The units left of its limits.
        limits: Vec<Left>,
        /// The units of its access to a table; `None` without one.
        access: Option<AccessUnits>,
        /// The level of its feature; `None` without one that has levels.
        feature: Option<ShownFeature<'static>>,
    },
    /// It is over one of them.
    Over(Refusal),
}

/// The remaining units of one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Its name.
    pub name: Cow<'static, str>,
    /// The largest number of units it admits at once.
    pub limit: u64,
    /// Units left.
    pub remaining: u64,
    /// The span it counts over; `None` for concurrency.
    pub window: Option<Duration>,
    /// When nothing of it is used any more.
    pub reset_at: Timestamp,
}

impl Left {
    fn allowance(&self, now: Timestamp) -> Allowance<'_> {
        Allowance {
            name: &self.name,
            limit: self.limit,
            remaining: self.remaining,
            wait_seconds: self.window.map(|_| seconds_up(self.reset_at.saturating_since(now))),
            window: self.window,
        }
    }
}

impl Outcome {
    /// Within these limits, without an access to a table and without a feature.
    pub const fn within(limits: Vec<Left>) -> Self {
        Self::Within { limits, access: None, feature: None }
    }

    fn status(&self, now: Timestamp) -> DescriptorStatus {
        match self {
            Self::Within { limits, .. } => {
                let longest = |one: &&Left| core::cmp::Reverse(one.reset_at);
                let tightest = limits.iter().min_by_key(|one| (one.remaining, longest(one)));
                DescriptorStatus {
                    code: Code::Ok.into(),
                    current_limit: tightest.map(|one| current_limit(&one.name, one.limit, one.window)),
                    limit_remaining: tightest.map_or(0, |one| saturated(one.remaining)),
                    duration_until_reset: tightest
                        .filter(|one| one.window.is_some())
                        .map(|one| whole_seconds(seconds_up(one.reset_at.saturating_since(now)))),
                    quota: None,
                }
            }
            Self::Over(refusal) => {
                // Envoy makes `X-RateLimit-*` of this, which only a limit has.
                let shown = refusal.violated.iter().find_map(|one| Allowance::from_violated(one, now));
                DescriptorStatus {
                    code: Code::OverLimit.into(),
                    current_limit: shown.map(|one| current_limit(one.name, one.limit, one.window)),
                    limit_remaining: shown.map_or(0, |one| saturated(one.remaining)),
                    duration_until_reset: shown.and_then(|one| one.wait_seconds).map(whole_seconds),
                    quota: None,
                }
            }
        }
    }
}

/// The answer to a request whose descriptors became this at `now`.
///
/// A request is over its limits if one of its descriptors is. Its sender then gets the header
/// fields and the body of the refusal that lasts longest, as HTTP callers of Tidegate do.
pub fn answer(outcomes: &[Outcome], now: Timestamp, older: OlderHeaders) -> RateLimitResponse {
    let mut answer = RateLimitResponse {
        overall_code: Code::Ok.into(),
        statuses: outcomes.iter().map(|one| one.status(now)).collect(),
        ..RateLimitResponse::default()
    };
    let mut headers = HeaderMap::new();
    if let Some(refusal) = longest_refusal(outcomes) {
        answer.overall_code = Code::OverLimit.into();
        refusal_headers(&mut headers, refusal, now, older);
        headers.insert(CONTENT_TYPE, http::HeaderValue::from_static(MEDIA_TYPE));
        let mut body = Vec::with_capacity(1024);
        crate::answer::write(&RefusalBody::new(refusal, TOO_MANY_REQUESTS, now), &mut body);
        answer.raw_body = Bytes::from(body);
        answer.dynamic_metadata = Some(metadata(refusal, now));
    } else {
        let limits = outcomes.iter().flat_map(|one| match one {
            Outcome::Within { limits, .. } => limits.as_slice(),
            Outcome::Over(_) => &[],
        });
        limit_headers(&mut headers, limits.map(|one| one.allowance(now)), older);
        // Of several accesses the first one: the answer has one set of headers.
        let access = outcomes.iter().find_map(|one| match one {
            Outcome::Within { access, .. } => access.as_ref(),
            Outcome::Over(_) => None,
        });
        if let Some(access) = access {
            access.write(&mut headers);
        }
        let features = || {
            outcomes.iter().filter_map(|one| match one {
                Outcome::Within { feature, .. } => feature.as_ref(),
                Outcome::Over(_) => None,
            })
        };
        ShownFeature::write_all(features(), &mut headers);
        // Of several features the first one, for filters that look for a name that they know.
        answer.dynamic_metadata = features().next().map(|feature| {
            let mut metadata = Struct::default();
            add_feature(feature, &mut metadata);
            metadata
        });
    }
    answer.response_headers_to_add = headers.iter().map(header).collect();
    answer
}

/// Adds the load of the resource that a request is about to its answer.
pub fn add_load(answer: &mut RateLimitResponse, load: ShownLoad) {
    let mut headers = HeaderMap::new();
    load.write(&mut headers);
    answer.response_headers_to_add.extend(headers.iter().map(header));
}

fn longest_refusal(outcomes: &[Outcome]) -> Option<&Refusal> {
    let refusals = outcomes.iter().filter_map(|one| match one {
        Outcome::Within { .. } => None,
        Outcome::Over(refusal) => Some(refusal),
    });
    refusals.max_by_key(|refusal| match refusal.retry() {
        Retry::Backoff => (0, Timestamp::MIN),
        Retry::At(instant) => (1, instant),
        Retry::Never => (2, Timestamp::MIN),
    })
}

fn current_limit(name: &str, limit: u64, window: Option<Duration>) -> RateLimit {
    let unit = window.map_or(super::Unit::Unknown, unit::from_span);
    RateLimit { name: name.to_owned(), requests_per_unit: saturated(limit), unit: unit.into() }
}

/// Envoy's numbers have 32 bits; larger ones are shown as the largest.
fn saturated(units: u64) -> u32 {
    u32::try_from(units).unwrap_or(u32::MAX)
}

fn whole_seconds(seconds: u64) -> prost_types::Duration {
    prost_types::Duration { seconds: i64::try_from(seconds).unwrap_or(i64::MAX), nanos: 0 }
}

fn header((name, value): (&HeaderName, &http::HeaderValue)) -> HeaderValue {
    let value = value.to_str().unwrap_or_default().to_owned();
    HeaderValue { key: name.as_str().to_owned(), value, raw_value: Vec::new() }
}

fn text(text: &str) -> Value {
    Value { kind: Some(Kind::StringValue(text.to_owned())) }
}

/// Adds a feature and its level to fields for other filters of Envoy.
fn add_feature(feature: &ShownFeature<'_>, fields: &mut Struct) {
    fields.fields.insert("feature".to_owned(), text(&feature.name));
    fields.fields.insert("feature_level".to_owned(), text(&feature.level));
}

/// The fields of a refusal for other filters of Envoy, by their names in the body.
fn metadata(refusal: &Refusal, now: Timestamp) -> Struct {
    let view = refusal.view();
    let mut scope = Struct::default();
    scope.fields.extend(refusal.scope.iter().map(|(name, value)| (name.as_ref().to_owned(), text(value))));
    let mut fields = Struct::default();
    fields.fields.extend([
        ("reason".to_owned(), text(refusal.reason().as_str())),
        ("plane".to_owned(), text(refusal.plane().as_str())),
        ("namespace".to_owned(), text(&refusal.namespace)),
        ("limit".to_owned(), text(refusal.name())),
        ("scope".to_owned(), Value { kind: Some(Kind::StructValue(scope)) }),
    ]);
    if let Some(wait_ms) = millis_of(&view, now) {
        // A double is exact up to 2^53: 285 000 years of milliseconds.
        #[expect(clippy::cast_precision_loss, reason = "waits are far below 2^53 milliseconds")]
        let number = Value { kind: Some(Kind::NumberValue(wait_ms as f64)) };
        fields.fields.insert("retry_after_ms".to_owned(), number);
    }
    if let Some((name, details)) = details_of(&view) {
        fields.fields.insert(name.to_owned(), value(&details));
    }
    if let Some(feature) = ShownFeature::from_refusal(refusal.details.as_deref()) {
        add_feature(&feature, &mut fields);
    }
    if let Some(ticket) = ShownTicket::from_refusal(refusal.details.as_deref()) {
        let ShownTicket { text: ticket, not_before, expires } = ticket;
        fields.fields.extend([
            ("ticket".to_owned(), text(ticket)),
            ("not_before".to_owned(), text(&not_before)),
            ("expires".to_owned(), text(&expires)),
        ]);
    }
    fields
}

#[cfg(test)]
mod tests;
