//! The header fields of answers: `Retry-After`, the `RateLimit` fields and Tidegate's own, the same
//! at every protocol.

use bytes::Bytes;
use http::header::{HeaderName, RETRY_AFTER};
use http::{HeaderMap, HeaderValue};
use tidegate_core::{Class, Refusal, Timestamp};

use crate::answer::AccessUnits;
use crate::ratelimit::{Allowance, policy_name, tightest, write_policy, write_ratelimit};
use crate::retry_after;

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// The word of a refusal as a header, for gateways that pass headers but no body.
pub const REASON: HeaderName = HeaderName::from_static("x-tidegate-reason");
/// The limit that bound, as a header.
pub const LIMIT: HeaderName = HeaderName::from_static("x-tidegate-limit");

/// The load level of the resource of an answer: `normal`, `soft`, `brownout`, `hard` or
/// `emergency`.
pub const LEVEL: HeaderName = HeaderName::from_static("tidegate-level");
/// The admission cursor of the resource of an answer, a structured field (RFC 9651): its position
/// with the class and the cohort of the least important request that is served, as
/// `200;class=sheddable_plus;cohort=72`.
pub const CURSOR: HeaderName = HeaderName::from_static("tidegate-cursor");

/// The capacity units that an admitted access to a table was charged, as a header.
pub const UNITS: HeaderName = HeaderName::from_static("x-tidegate-units");
/// The capacity units that the partition of an admitted access has left, as a header.
pub const UNITS_LEFT: HeaderName = HeaderName::from_static("x-tidegate-units-left");

impl AccessUnits {
    /// Writes [`UNITS`] and [`UNITS_LEFT`], in place of what is there.
    pub fn write(&self, headers: &mut HeaderMap) {
        insert(headers, UNITS, Bytes::from(self.units.to_string()));
        insert(headers, UNITS_LEFT, Bytes::from(self.left.to_string()));
    }
}

/// The load of a resource, as answers about it show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownLoad {
    /// The load level in a word.
    pub level: &'static str,
    /// The position of the admission cursor; requests of a lower level of importance are shed.
    pub position: u16,
    /// The class of the least important request that is served.
    pub class: Class,
    /// The lowest cohort of that class that is served.
    pub cohort: u16,
}

impl ShownLoad {
    /// Writes [`LEVEL`] and [`CURSOR`], in place of what is there.
    pub fn write(&self, headers: &mut HeaderMap) {
        let Self { level, position, class, cohort } = self;
        headers.insert(LEVEL, HeaderValue::from_static(level));
        let cursor = format!("{position};class={};cohort={cohort}", class.as_str());
        insert(headers, CURSOR, Bytes::from(cursor));
    }
}

/// Which of the older header families are sent beside `RateLimit`. None by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OlderHeaders {
    /// `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset` (seconds) of the tightest limit.
    pub ratelimit: bool,
    /// `X-RateLimit-Limit`, `-Remaining`, `-Reset` (seconds) of the tightest limit.
    pub x_ratelimit: bool,
}

/// The headers of a refusal, the same with and without a body. The `RateLimit` fields show the
/// violated limits; a refusal that did not come from a limit (see [`Allowance::from_violated`]) has
/// none of these fields.
pub fn refusal_headers(headers: &mut HeaderMap, refusal: &Refusal, now: Timestamp, older: OlderHeaders) {
    if let Some(seconds) = retry_after::seconds_of(&refusal.view(), now) {
        headers.insert(RETRY_AFTER, seconds.into());
    }
    let allowances = refusal.violated.iter().filter_map(|violated| Allowance::from_violated(violated, now));
    limit_headers(headers, allowances, older);
    headers.insert(REASON, HeaderValue::from_static(refusal.reason().as_str()));
    if let Ok(name) = HeaderValue::from_str(&policy_name(refusal.name())) {
        headers.insert(LIMIT, name);
    }
}

/// The `RateLimit` fields, and the older ones where configured. None if there are no limits.
pub fn limit_headers<'a>(
    headers: &mut HeaderMap,
    allowances: impl Iterator<Item = Allowance<'a>> + Clone,
    older: OlderHeaders,
) {
    // Both values share one allocation.
    let mut values = String::with_capacity(192);
    write_policy(allowances.clone(), &mut values);
    let policy_bytes = values.len();
    if policy_bytes == 0 {
        return;
    }
    write_ratelimit(allowances.clone(), &mut values);
    let values = Bytes::from(values);
    insert(headers, RATELIMIT_POLICY, values.slice(..policy_bytes));
    insert(headers, RATELIMIT, values.slice(policy_bytes..));
    if (older.ratelimit || older.x_ratelimit)
        && let Some(one) = tightest(allowances)
    {
        let values = [one.limit, one.remaining, one.wait_seconds.unwrap_or(0)];
        for (is_sent, names) in [(older.ratelimit, RATELIMIT_NAMES), (older.x_ratelimit, X_RATELIMIT_NAMES)] {
            if is_sent {
                for (name, value) in names.into_iter().zip(values) {
                    headers.insert(HeaderName::from_static(name), value.into());
                }
            }
        }
    }
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: Bytes) {
    let value = HeaderValue::from_maybe_shared(value);
    headers.insert(name, value.expect("structured fields are printable ASCII"));
}

const RATELIMIT_NAMES: [&str; 3] = ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"];
const X_RATELIMIT_NAMES: [&str; 3] = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];
