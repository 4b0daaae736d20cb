//! The `RateLimit` and `RateLimit-Policy` fields of draft-ietf-httpapi-ratelimit-headers-10, and
//! the older ones.
//!
//! Both are lists of strings with parameters (structured fields, RFC 9651), one item for each
//! limit:
//!
//! ```text
//! RateLimit-Policy: "per-user";q=200;w=2, "parallel";q=32;qu="concurrent-requests"
//! RateLimit: "per-user";r=150;t=1, "parallel";r=31
//! ```
//!
//! `q` is the most a limit ever admits at once, `w` its window and `t` the time until it is full
//! again, both in whole seconds rounded up. In a refusal the `t` of a violated limit is the wait
//! until it would admit the request, and the longest of them equals `Retry-After`. Structured
//! fields hold integers of at most 15 digits; larger numbers are shown as [`INTEGER_MAX`].

use core::time::Duration;
use std::borrow::Cow;

use tidegate_core::{Plane, Reason, Timestamp, Violated};

use crate::retry_after::{seconds, seconds_up};

/// The largest integer of a structured field.
pub const INTEGER_MAX: u64 = 999_999_999_999_999;

/// The remaining units of one limit, as the fields show them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance<'a> {
    /// The name of the limit.
    pub name: &'a str,
    /// The most it ever admits at once, in units.
    pub limit: u64,
    /// Units left.
    pub remaining: u64,
    /// Seconds until it is full again, or until it would admit what was refused; `None` when
    /// waiting is of no use.
    pub wait_seconds: Option<u64>,
    /// The span it counts over; `None` for concurrency.
    pub window: Option<Duration>,
}

impl<'a> Allowance<'a> {
    /// Of a limit that was violated; `None` if the refusal did not come from a quota.
    ///
    /// The overload plane has no quota for a caller: the position of a cursor or the number of a
    /// resource's places is not what a caller may use. A request that lacks an attribute has no
    /// counter. A refusal that cannot name its limit (a store that does not say which, a key that
    /// cannot be stored) has 0 units and no window.
    pub fn from_violated(violated: &'a Violated, now: Timestamp) -> Option<Self> {
        let Violated { name, reason, retry, limit, remaining, window } = violated;
        let is_unnamed =
            *limit == 0 && window.is_none() && matches!(reason, Reason::StoreUnavailable | Reason::Blocked);
        if reason.plane() == Plane::Overload || *reason == Reason::AttributeMissing || is_unnamed {
            return None;
        }
        let wait_seconds = seconds(*retry, now);
        Some(Self { name, limit: *limit, remaining: *remaining, wait_seconds, window: *window })
    }
}

/// The limit with the least left; of several the one that takes longest to come back. `None`
/// without any limit.
pub fn tightest<'a>(allowances: impl IntoIterator<Item = Allowance<'a>>) -> Option<Allowance<'a>> {
    allowances.into_iter().min_by_key(|one| (one.remaining, u64::MAX - one.wait_seconds.unwrap_or(u64::MAX)))
}

/// Appends the value of `RateLimit-Policy`; nothing if there are no limits, and then the field must
/// be left out.
pub fn write_policy<'a>(allowances: impl IntoIterator<Item = Allowance<'a>>, out: &mut String) {
    for (index, one) in allowances.into_iter().enumerate() {
        write_item(index, one.name, out);
        write_parameter(";q=", one.limit, out);
        match one.window {
            Some(window) => write_parameter(";w=", seconds_up(window).max(1), out),
            None => out.push_str(";qu=\"concurrent-requests\""),
        }
    }
}

/// Appends the value of `RateLimit`; nothing if there are no limits, and then the field must be
/// left out.
pub fn write_ratelimit<'a>(allowances: impl IntoIterator<Item = Allowance<'a>>, out: &mut String) {
    for (index, one) in allowances.into_iter().enumerate() {
        write_item(index, one.name, out);
        write_parameter(";r=", one.remaining, out);
        if let Some(seconds) = one.wait_seconds {
            write_parameter(";t=", seconds, out);
        }
    }
}

/// A member of a list: a string. Written by hand because every answer has several; the tests parse
/// it back.
fn write_item(index: usize, name: &str, out: &mut String) {
    out.push_str(if index == 0 { "\"" } else { ", \"" });
    for part in policy_name(name).split_inclusive(['"', '\\']) {
        let (plain, escaped) = match part.as_bytes().last() {
            Some(b'"' | b'\\') => part.split_at(part.len() - 1),
            _ => (part, ""),
        };
        out.push_str(plain);
        if !escaped.is_empty() {
            out.push('\\');
            out.push_str(escaped);
        }
    }
    out.push('"');
}

fn write_parameter(key: &str, value: u64, out: &mut String) {
    out.push_str(key);
    out.push_str(itoa::Buffer::new().format(value.min(INTEGER_MAX)));
}

/// The name of a limit as a structured string can hold it.
///
/// Such strings are printable ASCII. Every other byte of the UTF-8 name, and `%` itself, is written
/// as `%` and two hexadecimal digits, so that different names stay different. Quotes and
/// backslashes are escaped when it is written.
pub fn policy_name(name: &str) -> Cow<'_, str> {
    let is_plain = |byte: &u8| matches!(byte, 0x20..=0x7e) && *byte != b'%';
    if name.as_bytes().iter().all(is_plain) {
        return Cow::Borrowed(name);
    }
    let mut encoded = String::with_capacity(name.len() * 3);
    for byte in name.bytes() {
        if is_plain(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            encoded.extend(hex_digits(byte));
        }
    }
    Cow::Owned(encoded)
}

pub(crate) fn hex_digits(byte: u8) -> [char; 2] {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    [byte >> 4, byte & 15].map(|digit| char::from(DIGITS[usize::from(digit)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sfv::{BareItem, KeyRef, ListEntry, Parser};
    use tidegate_core::Retry;

    fn allowance(name: &str) -> Allowance<'_> {
        Allowance {
            name,
            limit: 200,
            remaining: 150,
            wait_seconds: Some(1),
            window: Some(Duration::from_secs(2)),
        }
    }

    fn fields(allowances: &[Allowance<'_>]) -> (String, String) {
        let (mut policy, mut current) = (String::new(), String::new());
        write_policy(allowances.iter().copied(), &mut policy);
        write_ratelimit(allowances.iter().copied(), &mut current);
        (policy, current)
    }

    #[test]
    fn a_refusal_shows_an_allowance_only_where_a_quota_refused() {
        let now = Timestamp::from_secs(1_800_000_000);
        let violated = |reason, limit, window| Violated {
            name: "some".into(),
            reason,
            retry: Retry::Backoff,
            limit,
            remaining: 0,
            window,
        };
        for reason in Reason::ALL {
            let has_quota = !matches!(
                reason,
                Reason::AttributeMissing
                    | Reason::OverloadShed
                    | Reason::QueueFull
                    | Reason::Deferred
                    | Reason::FeatureDisabled
                    | Reason::DeadlineUnmeetable
            );
            for (limit, window) in [(4, None), (0, Some(Duration::from_secs(1)))] {
                let violated = violated(reason, limit, window);
                assert_eq!(Allowance::from_violated(&violated, now).is_some(), has_quota, "{violated:?}");
            }
        }
        // Not a limit of parallel requests, but no limit at all.
        for reason in [Reason::StoreUnavailable, Reason::Blocked] {
            assert_eq!(Allowance::from_violated(&violated(reason, 0, None), now), None);
        }
        let closed = violated(Reason::ConcurrencyExceeded, 0, None);
        assert_eq!(Allowance::from_violated(&closed, now).unwrap().limit, 0);
    }

    #[test]
    fn one_item_stands_for_each_limit() {
        let parallel =
            Allowance { name: "parallel", limit: 32, remaining: 31, wait_seconds: None, window: None };
        let (policy, current) = fields(&[allowance("per-user"), parallel]);
        assert_eq!(policy, r#""per-user";q=200;w=2, "parallel";q=32;qu="concurrent-requests""#);
        assert_eq!(current, r#""per-user";r=150;t=1, "parallel";r=31"#);
        assert_eq!(fields(&[]), (String::new(), String::new()));
    }

    #[test]
    fn windows_below_a_second_count_as_one_and_numbers_above_15_digits_as_the_largest() {
        let one = Allowance {
            limit: u64::MAX,
            remaining: u64::MAX,
            wait_seconds: Some(u64::MAX),
            window: Some(Duration::from_millis(250)),
            ..allowance("a")
        };
        let (policy, current) = fields(&[one]);
        assert_eq!(policy, r#""a";q=999999999999999;w=1"#);
        assert_eq!(current, r#""a";r=999999999999999;t=999999999999999"#);
    }

    #[test]
    fn names_that_a_header_cannot_hold_are_encoded_and_stay_different() {
        let (policy, _) = fields(&[allowance("a\"b\\c"), allowance("gr\u{fc}n\r\nx: y"), allowance("100%")]);
        assert_eq!(policy, r#""a\"b\\c";q=200;w=2, "gr%C3%BCn%0D%0Ax: y";q=200;w=2, "100%25";q=200;w=2"#);
    }

    #[test]
    fn the_tightest_limit_has_the_least_left_and_then_takes_longest() {
        let loose = allowance("loose");
        let short = Allowance { remaining: 3, ..allowance("short") };
        let long = Allowance { remaining: 3, wait_seconds: Some(60), ..allowance("long") };
        assert_eq!(tightest([loose, short, long]).unwrap().name, "long");
        assert_eq!(tightest([]), None);
    }

    proptest! {
        #[test]
        fn any_names_and_numbers_give_fields_that_parse_back(
            names in proptest::collection::vec(any::<String>(), 1..5), limit: u64, remaining: u64, wait: Option<u64>,
        ) {
            let items: Vec<_> = names
                .iter()
                .map(|name| Allowance { limit, remaining, wait_seconds: wait, ..allowance(name) })
                .collect();
            let (policy, current) = fields(&items);
            for (field, parameter, value) in [(policy, "q", limit), (current, "r", remaining)] {
                prop_assert!(field.bytes().all(|byte| matches!(byte, 0x20..=0x7e)));
                let parsed: sfv::List = Parser::new(&field).parse().unwrap();
                prop_assert_eq!(parsed.len(), names.len());
                for (entry, name) in parsed.iter().zip(&names) {
                    let ListEntry::Item(item) = entry else { panic!("no inner lists") };
                    let BareItem::String(shown) = &item.bare_item else { panic!("a string") };
                    prop_assert_eq!(shown.as_str(), policy_name(name));
                    let BareItem::Integer(number) = item.params[KeyRef::constant(parameter)] else { panic!() };
                    prop_assert_eq!(i64::from(number), i64::try_from(value.min(INTEGER_MAX)).unwrap());
                }
            }
        }
    }
}
