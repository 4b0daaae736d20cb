//! Envoy's rate limit quota service: a report as it comes over the wire, and the answer to it.

use core::time::Duration;

use prost::Message;
use tidegate_wire::envoy::request::NAME_BYTES_MAX;
use tidegate_wire::envoy::rlqs::{
    ATTRIBUTE_BYTES_MAX, ATTRIBUTES_MAX, Assignment, BUCKET_BYTES_MAX, BucketAction, ParsedReport,
    RateLimitQuotaResponse, RateLimitQuotaUsageReports, ReportedBucket, USAGES_MAX, abandon, assign, decode,
    domain_has_changed,
};

use crate::Taken;
use crate::draws::Draws;

/// Reads a serialized report, and answers each of its buckets with a made-up action.
///
/// The buckets that are read are those of the message, in its order, and within the bounds; the
/// others are counted. The answer is read back, and its buckets are those of the report.
pub fn rlqs(bytes: &[u8]) -> Taken {
    let strict = RateLimitQuotaUsageReports::decode(bytes);
    let report = match decode(bytes, false) {
        Ok((report, unreadable)) => {
            assert!(unreadable <= bytes.len() / 2, "{unreadable} buckets in {} bytes", bytes.len());
            assert_eq!(strict.as_ref().ok(), (unreadable == 0).then_some(&report));
            report
        }
        Err(bad) => {
            assert!(strict.is_err(), "{strict:?}");
            assert_is_line(&bad.to_string());
            return Taken::Refused;
        }
    };
    // The bytes may have been cut off anywhere.
    let part = decode(&bytes[..bytes.len() / 2], true);
    let (part, _) = part.expect("the whole fields of a message that can be read are one");
    assert!(report.bucket_quota_usages.starts_with(&part.bucket_quota_usages), "{part:?}");
    let read = match ParsedReport::read(&report) {
        Ok(read) => read,
        Err(bad) => {
            assert_is_line(&bad.to_string());
            return Taken::Refused;
        }
    };
    assert_as_sent(&report, &read);
    assert_is_line(&domain_has_changed("api", &report.domain).to_string());
    assert_answered(&read, &mut Draws::new(bytes));
    Taken::Accepted
}

fn assert_is_line(line: &str) {
    assert!(line.len() < 1024 && !line.contains(char::is_control), "{line:?}");
}

fn assert_as_sent(report: &RateLimitQuotaUsageReports, read: &ParsedReport<'_>) {
    assert_eq!(read.domain.unwrap_or_default(), report.domain);
    assert!(report.domain.len() <= NAME_BYTES_MAX, "{} bytes of a domain", report.domain.len());
    assert!(read.buckets.len() <= USAGES_MAX, "{} buckets", read.buckets.len());
    assert_eq!(read.buckets.len() + read.ignored, report.bucket_quota_usages.len());
    let mut sent = report.bucket_quota_usages.iter();
    for bucket in &read.buckets {
        let is_it = |sent: &&_| is_bucket(sent, bucket);
        assert!(sent.find(is_it).is_some(), "{bucket:?} was not sent, or in another order");
        assert!(bucket.attributes.is_sorted_by(|one, next| one.0 < next.0), "{bucket:?}");
        assert!(bucket.attributes.len() <= ATTRIBUTES_MAX, "{} attributes", bucket.attributes.len());
        let long = bucket.attributes.iter().flat_map(|(name, value)| [name.len(), value.len()]);
        assert!(long.clone().max().unwrap_or(0) <= ATTRIBUTE_BYTES_MAX, "{bucket:?}");
        assert!(long.sum::<usize>() <= BUCKET_BYTES_MAX, "{bucket:?}");
    }
}

fn is_bucket(sent: &tidegate_wire::envoy::rlqs::BucketQuotaUsage, read: &ReportedBucket<'_>) -> bool {
    let id = sent.bucket_id.as_ref().map(|id| &id.bucket);
    let pairs = id.into_iter().flatten().map(|(name, value)| (name.as_str(), value.as_str()));
    pairs.eq(read.attributes.iter().copied())
        && (sent.num_requests_allowed, sent.num_requests_denied) == (read.allowed, read.denied)
}

fn assert_answered(read: &ParsedReport<'_>, draws: &mut Draws) {
    let mut action = |bucket: &ReportedBucket<'_>| -> BucketAction {
        let pairs = bucket.attributes.iter().copied();
        let ttl = Duration::from_nanos(draws.bits());
        match draws.below(3) {
            0 => abandon(pairs),
            1 => assign(pairs, Assignment::DenyAll, ttl),
            _ => {
                let tokens = |draws: &mut Draws| u32::try_from(draws.below(1 << 20)).unwrap_or(1).max(1);
                let (max_tokens, tokens_per_fill) = (tokens(draws), tokens(draws));
                let fill_interval = Duration::from_nanos(draws.bits());
                assign(pairs, Assignment::Tokens { max_tokens, tokens_per_fill, fill_interval }, ttl)
            }
        }
    };
    let answer = RateLimitQuotaResponse { bucket_action: read.buckets.iter().map(&mut action).collect() };
    let again = RateLimitQuotaResponse::decode(&*answer.encode_to_vec());
    assert_eq!(again.as_ref(), Ok(&answer));
    for (action, bucket) in answer.bucket_action.iter().zip(&read.buckets) {
        let id = action.bucket_id.iter().flat_map(|id| &id.bucket);
        let pairs = id.map(|(name, value)| (name.as_str(), value.as_str()));
        assert!(pairs.eq(bucket.attributes.iter().copied()), "{action:?} for {bucket:?}");
    }
}
