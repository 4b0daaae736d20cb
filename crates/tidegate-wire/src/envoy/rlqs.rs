//! Envoy's rate limit quota service (RLQS): how a report is understood, and how an assignment is
//! written.
//!
//! A caller reports the requests of its *buckets*, and is *assigned* a part of the limits for each.
//! The identifier of a bucket is a set of names with values: the attributes of its requests. Envoy
//! makes it of what its clients send, so a bucket that is out of bounds is passed over rather than
//! an error, which would take all other buckets of that Envoy with it.

use core::time::Duration;
use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use smallvec::SmallVec;
use tidegate_core::Attributes;

use super::envoy::service::rate_limit_quota::v3::rate_limit_quota_response::bucket_action;
use super::envoy::r#type::v3::rate_limit_strategy::{BlanketRule, Strategy};
use super::envoy::r#type::v3::{RateLimitStrategy, TokenBucket};
use super::request::{BadRequest, NAME_BYTES_MAX, bad, too_long};

pub use super::envoy::service::rate_limit_quota::v3::rate_limit_quota_response::BucketAction;
pub use super::envoy::service::rate_limit_quota::v3::rate_limit_quota_response::bucket_action::{
    AbandonAction, QuotaAssignmentAction,
};
pub use super::envoy::service::rate_limit_quota::v3::rate_limit_quota_usage_reports::BucketQuotaUsage;
pub use super::envoy::service::rate_limit_quota::v3::{
    BucketId, RateLimitQuotaResponse, RateLimitQuotaUsageReports,
};

/// The name of the service.
pub const SERVICE: &str = "envoy.service.rate_limit_quota.v3.RateLimitQuotaService";

/// The path of its only method.
pub const STREAM_RATE_LIMIT_QUOTAS: &str =
    "/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas";

/// The bytes of a report that are read. Decoded they take at most 40 times as much. The buckets
/// behind them are passed over: Envoy reports all of its buckets in one message, and an error would
/// come again with each of its reports.
pub const REPORT_BYTES_MAX: usize = 64 << 10;

/// The most buckets of a report. Further ones are passed over.
pub const USAGES_MAX: usize = 1000;

/// The most attributes of a bucket: as many as a request may have. A bucket with more is passed
/// over.
pub const ATTRIBUTES_MAX: usize = Attributes::MAX;

/// The longest name or value of an attribute in bytes, as at the HTTP API. A bucket with a longer
/// one is passed over.
pub const ATTRIBUTE_BYTES_MAX: usize = 1 << 10;

/// The names and values of a bucket together, in bytes: they are kept as long as the bucket is. A
/// larger bucket is passed over.
pub const BUCKET_BYTES_MAX: usize = 4 << 10;

/// A report that can be taken in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedReport<'a> {
    /// The name of the namespace; `None` if this report does not say it.
    pub domain: Option<&'a str>,
    /// The buckets in the order of the report, which may name one several times; at most
    /// [`USAGES_MAX`]. There may be none.
    pub buckets: Vec<ReportedBucket<'a>>,
    /// How many buckets were passed over, because they exceed a bound.
    pub ignored: usize,
}

/// A longer time between two reports counts as so much.
const ELAPSED_MAX: Duration = Duration::from_mins(1);

/// The requests of one bucket since the last report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedBucket<'a> {
    /// The attributes in the order of their names, each name once. There may be none.
    pub attributes: SmallVec<[(&'a str, &'a str); 4]>,
    /// Requests that went ahead.
    pub allowed: u64,
    /// Requests that were refused.
    pub denied: u64,
    /// The time since the last report as the peer says it, which cuts it to whole seconds; nothing
    /// in the first report of a bucket. At most a minute.
    pub elapsed: Duration,
}

impl<'a> ParsedReport<'a> {
    /// Reads a report, or says what is wrong with it. Whether the first one of a stream names a
    /// domain is for the stream to say.
    pub fn read(report: &'a RateLimitQuotaUsageReports) -> Result<Self, BadRequest> {
        let RateLimitQuotaUsageReports { domain, bucket_quota_usages: usages } = report;
        if domain.len() > NAME_BYTES_MAX {
            return Err(too_long("domain", domain.len(), NAME_BYTES_MAX, "name a namespace of the policy"));
        }
        let read = &usages[..usages.len().min(USAGES_MAX)];
        let buckets: Vec<_> = read.iter().filter_map(ReportedBucket::read).collect();
        let ignored = usages.len() - buckets.len();
        Ok(Self { domain: (!domain.is_empty()).then_some(domain), buckets, ignored })
    }
}

impl<'a> ReportedBucket<'a> {
    /// Reads one; `None` if it exceeds a bound.
    fn read(usage: &'a BucketQuotaUsage) -> Option<Self> {
        // An absent identifier is an empty one.
        let id = usage.bucket_id.as_ref().map(|id| &id.bucket);
        if id.is_some_and(|id| id.len() > ATTRIBUTES_MAX) {
            return None;
        }
        let pairs = id.into_iter().flatten().map(|(name, value)| (name.as_str(), value.as_str()));
        let attributes: SmallVec<[(&str, &str); 4]> = pairs.collect();
        let is_long = |(name, value): &(&str, &str)| name.len().max(value.len()) > ATTRIBUTE_BYTES_MAX;
        let bytes: usize = attributes.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > BUCKET_BYTES_MAX || attributes.iter().any(is_long) {
            return None;
        }
        let seconds = usage.time_elapsed.as_ref().map_or(0, |elapsed| elapsed.seconds);
        let elapsed = Duration::from_secs(u64::try_from(seconds).unwrap_or(0)).min(ELAPSED_MAX);
        let (allowed, denied) = (usage.num_requests_allowed, usage.num_requests_denied);
        Some(Self { attributes, allowed, denied, elapsed })
    }
}

/// Reads the message of a report, and says how many of its buckets cannot be read; if it was cut
/// off, the whole fields.
///
/// Envoy 1.40 sends what its clients send, also where it is not UTF-8, and sends it again with each
/// report.
pub fn decode(message: &[u8], is_cut: bool) -> Result<(RateLimitQuotaUsageReports, usize), BadRequest> {
    let message = if is_cut { &message[..whole_fields(message)] } else { message };
    let report = RateLimitQuotaUsageReports::decode(message).map(|report| (report, 0));
    report.or_else(|error| readable_buckets(message).ok_or(error)).map_err(|error| {
        let fix =
            "send an envoy.service.rate_limit_quota.v3.RateLimitQuotaUsageReports, with UTF-8 in its domain";
        bad("the message", format!("cannot be read: {error}"), fix)
    })
}

/// A report without the buckets that cannot be read, and how many these are; `None` if something
/// else of it cannot be read.
fn readable_buckets(message: &[u8]) -> Option<(RateLimitQuotaUsageReports, usize)> {
    /// The first byte of a bucket: field 2, which has a length.
    const BUCKET: u8 = 2 << 3 | 2;
    let (mut report, mut unreadable, mut left) = (RateLimitQuotaUsageReports::default(), 0, message);
    while !left.is_empty() {
        let rest = after_field(left)?;
        let field = &left[..left.len() - rest.len()];
        // A field of a message is a message, too.
        match report.merge(field) {
            Ok(()) => {}
            Err(_) if field.first() == Some(&BUCKET) => unreadable += 1,
            Err(_) => return None,
        }
        left = rest;
    }
    Some((report, unreadable))
}

/// The message of these actions as it goes over a stream of gRPC: behind the five bytes that say
/// that it is not compressed, and how long it is.
pub fn framed(actions: Vec<BucketAction>) -> Bytes {
    let response = RateLimitQuotaResponse { bucket_action: actions };
    let length = response.encoded_len();
    let mut bytes = BytesMut::with_capacity(length + 5);
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    response.encode(&mut bytes).expect("there is room for its length");
    bytes.freeze()
}

/// How many bytes at the beginning of a message are whole fields of it: where a report that was cut
/// off can be read up to. A field that is no protocol buffer's ends them, too.
fn whole_fields(message: &[u8]) -> usize {
    let mut left = message;
    while let Some(rest) = after_field(left) {
        left = rest;
    }
    message.len() - left.len()
}

/// The bytes behind the first field; `None` without a whole field.
fn after_field(message: &[u8]) -> Option<&[u8]> {
    let (key, rest) = varint(message)?;
    let length = match key & 7 {
        0 => return varint(rest).map(|(_, rest)| rest),
        1 => 8,
        2 => {
            let (length, rest) = varint(rest)?;
            return rest.get(usize::try_from(length).ok()?..);
        }
        5 => 4,
        _ => return None,
    };
    rest.get(length..)
}

/// A number and the bytes behind it.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut rest = bytes;
    let number = prost::encoding::decode_varint(&mut rest).ok()?;
    Some((number, rest))
}

/// The first report of a stream names no domain.
pub fn domain_is_missing() -> BadRequest {
    bad("domain", "is empty in the first report", "set `domain` of the filter to a namespace of the policy")
}

/// A later report of a stream names another domain than the first one.
pub fn domain_has_changed(from: &str, to: &str) -> BadRequest {
    let shown = |name| crate::text::shortened(name, 128);
    let what = format!("is {:?} after {:?}", shown(to), shown(from));
    bad("domain", what, "open a stream for each domain")
}

/// How the requests of a bucket are decided by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assignment {
    /// Each request takes a token.
    Tokens {
        /// The tokens of a full bucket; not 0.
        max_tokens: u32,
        /// The tokens that arrive in each interval; not 0.
        tokens_per_fill: u32,
        /// The interval, in whole seconds, since Envoy cuts it; at least one.
        fill_interval: Duration,
    },
    /// None may go ahead.
    DenyAll,
}

/// Assigns a part for `ttl`, which is whole seconds, since Envoy cuts it; at least one.
pub fn assign<'a>(
    bucket: impl IntoIterator<Item = (&'a str, &'a str)>,
    assignment: Assignment,
    ttl: Duration,
) -> BucketAction {
    let strategy = match assignment {
        Assignment::Tokens { max_tokens, tokens_per_fill, fill_interval } => {
            Strategy::TokenBucket(TokenBucket {
                max_tokens,
                tokens_per_fill: Some(tokens_per_fill),
                fill_interval: Some(whole_seconds(fill_interval)),
            })
        }
        Assignment::DenyAll => Strategy::BlanketRule(BlanketRule::DenyAll.into()),
    };
    let action = QuotaAssignmentAction {
        assignment_time_to_live: Some(whole_seconds(ttl)),
        rate_limit_strategy: Some(RateLimitStrategy { strategy: Some(strategy) }),
    };
    action_on(bucket, bucket_action::BucketAction::QuotaAssignmentAction(action))
}

/// Has the caller forget a bucket, until a request comes for it.
pub fn abandon<'a>(bucket: impl IntoIterator<Item = (&'a str, &'a str)>) -> BucketAction {
    action_on(bucket, bucket_action::BucketAction::AbandonAction(AbandonAction {}))
}

fn action_on<'a>(
    bucket: impl IntoIterator<Item = (&'a str, &'a str)>,
    action: bucket_action::BucketAction,
) -> BucketAction {
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let bucket: BTreeMap<String, String> = bucket.into_iter().map(owned).collect();
    BucketAction { bucket_id: Some(BucketId { bucket }), bucket_action: Some(action) }
}

/// Rounded down, but a second at least: Envoy takes less for no limit, or for one that has ended.
fn whole_seconds(span: Duration) -> prost_types::Duration {
    let seconds = i64::try_from(span.as_secs().max(1)).unwrap_or(i64::MAX);
    prost_types::Duration { seconds, nanos: 0 }
}

#[cfg(test)]
mod tests;
