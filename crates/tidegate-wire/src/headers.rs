//! The header fields of answers: `Retry-After`, the `RateLimit` fields and Tidegate's own, the same
//! at every protocol.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{HeaderName, RETRY_AFTER};
use http::{HeaderMap, HeaderValue};
use tidegate_core::{Class, Refusal, RefusalDetails, Timestamp};

use crate::answer::AccessUnits;
use crate::ratelimit::{Allowance, hex_digits, policy_name, tightest, write_policy, write_ratelimit};
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

/// The deferral ticket of a request, and of an answer that defers one.
pub const TICKET: HeaderName = HeaderName::from_static("tidegate-ticket");

/// The level of the feature that a request is for: `thumbnails=480p`. See [`ShownFeature`].
pub const FEATURE: HeaderName = HeaderName::from_static("tidegate-feature");

/// The ticket of a refusal, as answers show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownTicket<'a> {
    /// The ticket.
    pub text: &'a str,
    /// The instant from which it is honoured, as RFC 3339 in UTC.
    pub not_before: String,
    /// The instant from which it is not honoured any more, in the same way.
    pub expires: String,
}

impl<'a> ShownTicket<'a> {
    /// The ticket of a deferred request; `None` for any other refusal.
    pub fn from_refusal(details: Option<&'a RefusalDetails>) -> Option<Self> {
        let ticket = details?.overload()?.ticket.as_deref()?;
        let shown = |at: Timestamp| at.to_whole_millis().to_string();
        let (not_before, expires) = (shown(ticket.not_before), shown(ticket.expires));
        Some(Self { text: &ticket.text, not_before, expires })
    }
}

/// The most bytes of [`FEATURE`] that name several features; one feature has at most 577 bytes.
/// Features that do not fit are left out.
pub const FEATURES_BYTES_MAX: usize = 2048;

/// The level of a feature, as answers show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownFeature<'a> {
    /// The feature.
    pub name: Cow<'a, str>,
    /// The name of its level.
    pub level: Cow<'a, str>,
}

impl<'a> ShownFeature<'a> {
    /// The feature of this name at this level.
    pub fn new(name: impl Into<Cow<'a, str>>, level: impl Into<Cow<'a, str>>) -> Self {
        Self { name: name.into(), level: level.into() }
    }

    /// The feature that refused a request because it is off; `None` for any other refusal.
    pub fn from_refusal(details: Option<&'a RefusalDetails>) -> Option<Self> {
        let details = details?.feature()?;
        Some(Self::new(&*details.feature, &*details.level))
    }

    /// The same with texts of its own.
    pub fn into_owned(self) -> ShownFeature<'static> {
        ShownFeature::new(self.name.into_owned(), self.level.into_owned())
    }

    /// The value of [`FEATURE`]: the name, `=` and the level. Of both, each byte that is not
    /// visible ASCII, and each of `%`, `=`, `,`, `;` and `"`, is written as `%` and two hexadecimal
    /// digits.
    pub fn to_value(&self) -> String {
        let mut value = String::with_capacity(self.name.len() + self.level.len() + 1);
        write_encoded(&self.name, &mut value);
        value.push('=');
        write_encoded(&self.level, &mut value);
        value
    }

    /// Writes [`FEATURE`], in place of what is there.
    pub fn write(&self, headers: &mut HeaderMap) {
        insert(headers, FEATURE, Bytes::from(self.to_value()));
    }

    /// Writes the features of several requests as a list without duplicates, at most
    /// [`FEATURES_BYTES_MAX`] bytes of it; nothing without features.
    pub fn write_all<'f>(features: impl IntoIterator<Item = &'f ShownFeature<'f>>, headers: &mut HeaderMap) {
        let mut list = String::new();
        for feature in features {
            let value = feature.to_value();
            let is_listed = list.split(", ").any(|known| *known == *value);
            if !is_listed && list.len() + ", ".len() + value.len() <= FEATURES_BYTES_MAX {
                list.push_str(if list.is_empty() { "" } else { ", " });
                list.push_str(&value);
            }
        }
        if !list.is_empty() {
            insert(headers, FEATURE, Bytes::from(list));
        }
    }
}

/// Appends a text with the characters percent-encoded that a list of features cannot hold.
fn write_encoded(text: &str, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && !b"%=,;\"".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.extend(hex_digits(byte));
        }
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
    if let Some(feature) = ShownFeature::from_refusal(refusal.details.as_deref()) {
        feature.write(headers);
    }
    if let Some(ticket) = ShownTicket::from_refusal(refusal.details.as_deref()) {
        insert(headers, TICKET, Bytes::copy_from_slice(ticket.text.as_bytes()));
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
    headers.insert(name, value.expect("structured fields and tickets are printable ASCII"));
}

const RATELIMIT_NAMES: [&str; 3] = ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"];
const X_RATELIMIT_NAMES: [&str; 3] = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_is_a_name_and_a_level_whatever_characters_they_have() {
        for (name, level, value) in [
            ("thumbnails", "480p", "thumbnails=480p"),
            ("a-b.c_d~e/f", "off", "a-b.c_d~e/f=off"),
            ("f=1, g", "50%", "f%3D1%2C%20g=50%25"),
            ("f\u{fc}r\n\0", "\u{7f}", "f%C3%BCr%0A%00=%7F"),
        ] {
            let mut headers = HeaderMap::new();
            ShownFeature::new(name, level).write(&mut headers);
            assert_eq!(headers[FEATURE], value, "{name:?}");
        }
    }

    #[test]
    fn features_of_several_requests_are_a_list_of_bounded_length_without_duplicates() {
        let mut headers = HeaderMap::new();
        ShownFeature::write_all([], &mut headers);
        assert!(headers.is_empty());
        let features = [("a", "full"), ("b", "off"), ("a", "full")].map(|(a, b)| ShownFeature::new(a, b));
        ShownFeature::write_all(&features, &mut headers);
        assert_eq!(headers[FEATURE], "a=full, b=off");
        let many: Vec<_> =
            (0..100).map(|index| ShownFeature::new(format!("{index}{}", " ".repeat(126)), "full")).collect();
        ShownFeature::write_all(&many, &mut headers);
        let bytes = headers[FEATURE].len();
        assert!((FEATURES_BYTES_MAX / 2..=FEATURES_BYTES_MAX).contains(&bytes), "{bytes}");
    }
}
