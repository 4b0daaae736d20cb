//! Reports in and out of bounds, and the bytes of assignments as Envoy reads them.

use super::*;

fn usage(pairs: &[(&str, &str)], allowed: u64, denied: u64) -> BucketQuotaUsage {
    let bucket = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    BucketQuotaUsage {
        bucket_id: Some(BucketId { bucket }),
        time_elapsed: Some(prost_types::Duration { seconds: 5, nanos: 0 }),
        num_requests_allowed: allowed,
        num_requests_denied: denied,
    }
}

fn report(usages: impl IntoIterator<Item = BucketQuotaUsage>) -> RateLimitQuotaUsageReports {
    RateLimitQuotaUsageReports { domain: "api".to_owned(), bucket_quota_usages: usages.into_iter().collect() }
}

/// How many of these buckets are read, and how many are passed over.
fn counted(usages: impl IntoIterator<Item = BucketQuotaUsage>) -> (usize, usize) {
    let report = report(usages);
    let read = ParsedReport::read(&report).unwrap();
    (read.buckets.len(), read.ignored)
}

#[test]
fn a_report_is_read_with_its_attributes_in_the_order_of_their_names() {
    let sent = report([usage(&[("user", "ada"), ("env", "live")], 3, u64::MAX)]);
    let read = ParsedReport::read(&sent).unwrap();
    assert_eq!((read.domain, read.ignored), (Some("api"), 0));
    let [bucket] = &read.buckets[..] else { panic!("{read:?}") };
    assert_eq!(bucket.attributes[..], [("env", "live"), ("user", "ada")]);
    assert_eq!((bucket.allowed, bucket.denied), (3, u64::MAX));
    assert_eq!(bucket.elapsed, Duration::from_secs(5));
}

/// Envoy 1.40 sends it every 5 s when it has no bucket.
#[test]
fn an_empty_report_is_one_and_so_is_a_bucket_without_identifier() {
    let empty = RateLimitQuotaUsageReports::default();
    let read = ParsedReport::read(&empty).unwrap();
    assert_eq!(read, ParsedReport { domain: None, buckets: Vec::new(), ignored: 0 });
    let nameless = BucketQuotaUsage { num_requests_denied: 1, ..BucketQuotaUsage::default() };
    let sent = report([nameless, usage(&[], 1, 0)]);
    let read = ParsedReport::read(&sent).unwrap();
    assert_eq!(read.buckets[0].elapsed, Duration::ZERO);
    let counts = read.buckets.iter().map(|one| (one.attributes.len(), one.allowed, one.denied));
    assert_eq!(counts.collect::<Vec<_>>(), [(0, 0, 1), (0, 1, 0)]);
}

#[test]
fn a_span_of_any_length_is_read_and_one_before_zero_is_none() {
    let elapsed = |seconds, nanos| {
        let time_elapsed = Some(prost_types::Duration { seconds, nanos });
        let sent = report([BucketQuotaUsage { time_elapsed, ..usage(&[], 1, 0) }]);
        ParsedReport::read(&sent).unwrap().buckets[0].elapsed
    };
    assert_eq!(elapsed(4, 990_000_000), Duration::from_secs(4));
    assert_eq!(elapsed(i64::MAX, i32::MAX), ELAPSED_MAX);
    for (seconds, nanos) in [(-1, 0), (0, -1), (i64::MIN, i32::MIN)] {
        assert_eq!(elapsed(seconds, nanos), Duration::ZERO, "{seconds} s {nanos} ns");
    }
}

#[test]
fn a_bucket_that_exceeds_a_bound_is_passed_over_and_the_others_are_read() {
    let long = "x".repeat(ATTRIBUTE_BYTES_MAX);
    let longer = "x".repeat(ATTRIBUTE_BYTES_MAX + 1);
    let good = || usage(&[("user", "ada")], 1, 0);
    assert_eq!(counted([good(), usage(&[("user", &long)], 1, 0)]), (2, 0));
    assert_eq!(counted([good(), usage(&[("user", &longer)], 1, 0)]), (1, 1));
    assert_eq!(counted([good(), usage(&[(&longer, "ada")], 1, 0)]), (1, 1));
    // Four values of 1 KiB leave nothing for their names.
    let four = ["a", "b", "c", "d"].map(|name| (name, &*long));
    assert_eq!(counted([good(), usage(&four, 1, 0)]), (1, 1));
    assert_eq!(counted([good(), usage(&four[..3], 1, 0)]), (2, 0));
    let names: Vec<String> = (0..=ATTRIBUTES_MAX).map(|number| number.to_string()).collect();
    let pairs: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "v")).collect();
    assert_eq!(counted([good(), usage(&pairs, 1, 0)]), (1, 1));
    assert_eq!(counted([good(), usage(&pairs[1..], 1, 0)]), (2, 0));
    let many = (0..=USAGES_MAX).map(|number| usage(&[("user", &number.to_string())], 1, 0));
    assert_eq!(counted(many), (USAGES_MAX, 1));
}

#[test]
fn a_message_that_is_no_report_is_told() {
    let said = decode(&[0x10, 5], false).unwrap_err().to_string();
    assert!(said.starts_with("the message cannot be read: ") && said.contains("; send an envoy."), "{said}");
    let whole = report([usage(&[("user", "ada")], 1, 0)]).encode_to_vec();
    let cut = &whole[..whole.len() - 1];
    assert!(decode(cut, false).is_err());
    assert_eq!(decode(cut, true).unwrap(), (report([]), 0));
    assert_eq!(decode(&whole, false).unwrap().0.bucket_quota_usages.len(), 1);
}

/// No text of a client of Envoy takes another bucket with it.
#[test]
fn a_bucket_that_is_not_utf_8_is_passed_over_and_the_others_are_read() {
    let sent = report(["ada", "bob", "eve"].map(|user| usage(&[("user", user)], 1, 0)));
    let mut bytes = sent.encode_to_vec();
    let at = bytes.windows(3).position(|part| part == b"bob").unwrap();
    bytes[at] = 0xff;
    let (read, unreadable) = decode(&bytes, false).unwrap();
    let others = [sent.bucket_quota_usages[0].clone(), sent.bucket_quota_usages[2].clone()];
    assert_eq!((read, unreadable), (report(others), 1));
    // Not so a domain, nor a message that breaks off.
    let mut nameless = sent.encode_to_vec();
    nameless[2] = 0xff;
    assert!(decode(&nameless, false).is_err());
    assert!(decode(&bytes[..bytes.len() - 1], false).is_err());
    let (read, unreadable) = decode(&bytes[..bytes.len() - 1], true).unwrap();
    assert_eq!((read.bucket_quota_usages.len(), unreadable), (1, 1));
}

#[test]
fn a_domain_that_is_too_long_missing_or_another_one_is_told() {
    let long = RateLimitQuotaUsageReports { domain: "d".repeat(1025), ..report([]) };
    assert_eq!(
        ParsedReport::read(&long).unwrap_err().to_string(),
        "domain has 1025 bytes; it takes 1024; name a namespace of the policy"
    );
    assert_eq!(
        domain_is_missing().to_string(),
        "domain is empty in the first report; set `domain` of the filter to a namespace of the policy"
    );
    assert_eq!(
        domain_has_changed("api", "b\n").to_string(),
        "domain is \"b\\n\" after \"api\"; open a stream for each domain"
    );
}

/// The bytes that the encoder of `xds-protos` 1.85.0, Envoy's own messages for Python, writes.
#[test]
fn assignments_have_the_bytes_that_envoy_reads() {
    let ttl = Duration::from_secs(10);
    let tokens = Assignment::Tokens {
        max_tokens: 20,
        tokens_per_fill: 10,
        fill_interval: Duration::from_millis(2900),
    };
    let bytes = |action: BucketAction| hex(&action.encode_to_vec());
    let bucket = [("user", "ada")];
    assert_eq!(bytes(assign(bucket, tokens, ttl)), ASSIGNED);
    assert_eq!(bytes(assign(bucket, Assignment::DenyAll, ttl)), DENIED);
    assert_eq!(bytes(abandon(bucket)), ABANDONED);
    let actions = vec![assign(bucket, Assignment::DenyAll, ttl), abandon(bucket)];
    let message = framed(actions.clone());
    let [flag, a, b, c, d, encoded @ ..] = &message[..] else { panic!("{message:?}") };
    assert_eq!((*flag, u32::from_be_bytes([*a, *b, *c, *d]) as usize), (0, encoded.len()));
    assert_eq!(RateLimitQuotaResponse::decode(encoded).unwrap().bucket_action, actions);
}

#[test]
fn a_report_that_was_cut_off_is_read_up_to_the_last_whole_bucket() {
    let whole = report((0..9).map(|number| usage(&[("user", &number.to_string())], number, 0)));
    let bytes = whole.encode_to_vec();
    assert_eq!(whole_fields(&bytes), bytes.len());
    let mut seen = 0;
    for cut in 0..bytes.len() {
        let read = RateLimitQuotaUsageReports::decode(&bytes[..whole_fields(&bytes[..cut])]).unwrap();
        assert!(read.bucket_quota_usages.len() >= seen, "at {cut}");
        seen = read.bucket_quota_usages.len();
        assert!(read.domain == "api" || (cut < 5 && seen == 0), "at {cut}");
        assert_eq!(read.bucket_quota_usages[..], whole.bucket_quota_usages[..seen]);
    }
    assert_eq!(seen, 8, "the last byte belongs to the last bucket");
    // A number, four and eight bytes, a group, and a length beyond all there is.
    let others = [0x18, 0x80, 0x01, 0x25, 1, 2, 3, 4, 0x29, 1, 2, 3, 4, 5, 6, 7, 8, 0x33, 0];
    assert_eq!(whole_fields(&others), 17);
    let endless = [0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0];
    assert_eq!(whole_fields(&endless), 0);
}

#[test]
fn a_report_as_envoy_encodes_it_is_read() {
    let bytes = "0a0361706912200a0d0a0b0a0475736572120361646112020805180320ffffffffffffffffff01";
    assert_eq!(hex(&report([usage(&[("user", "ada")], 3, u64::MAX)]).encode_to_vec()), bytes);
}

/// Envoy takes less than a second of an interval for no limit at all.
#[test]
fn a_span_is_never_less_than_a_second() {
    assert_eq!(whole_seconds(Duration::from_millis(1)).seconds, 1);
    assert_eq!(whole_seconds(Duration::MAX).seconds, i64::MAX);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

const ASSIGNED: &str = "0a0d0a0b0a0475736572120361646112121202080a1a0c1a0a08141202080a1a020802";
const DENIED: &str = "0a0d0a0b0a0475736572120361646112081202080a1a020801";
const ABANDONED: &str = "0a0d0a0b0a047573657212036164611a00";
