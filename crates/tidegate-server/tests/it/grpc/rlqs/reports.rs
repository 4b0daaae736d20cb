//! Reports of every kind: what is wrong ends the stream with what is wrong, and what is only odd is
//! taken.

use prost::Message;
use tidegate_wire::envoy::rlqs::{BucketQuotaUsage, RateLimitQuotaUsageReports, STREAM_RATE_LIMIT_QUOTAS};
use tokio::net::TcpStream;
use tonic::{Code, Status};

use super::{EnvoyStream, ended, first, grpc_address, metric, metric_becomes, report, usage, world};
use crate::grpc::hostile::{exchange, framed};
use crate::world::World;

/// The status of a stream that begins with this report.
async fn status(world: &World, first: RateLimitQuotaUsageReports) -> Status {
    EnvoyStream::begun(grpc_address(&world.handle), first).await.end().await
}

fn told(status: &Status) -> (Code, &str) {
    (status.code(), status.message())
}

#[tokio::test]
async fn a_first_report_names_a_namespace_of_the_policy() {
    let world = world().await;
    let missing = status(&world, report("", [usage(&[("user", "ada")], 1, 0)])).await;
    let fix = "set `domain` of the filter to a namespace of the policy";
    assert_eq!(
        told(&missing),
        (Code::InvalidArgument, &*format!("domain is empty in the first report; {fix}"))
    );
    // Envoy tries again at its next tick.
    let unknown = status(&world, report("apj", [usage(&[("user", "ada")], 1, 0)])).await;
    assert_eq!(unknown.code(), Code::NotFound);
    assert!(
        unknown.message().starts_with("namespace \"apj\" does not exist; ")
            && unknown.message().contains("did you mean \"api\"?"),
        "{unknown}"
    );
    let long = status(&world, report(&"d".repeat(1025), [])).await;
    assert_eq!(told(&long).0, Code::InvalidArgument);
    assert!(long.message().contains("domain has 1025 bytes"), "{long}");
    assert_eq!(metric(&world.handle, &ended("refused")).await, 3);
    assert_eq!(metric(&world.handle, "tidegate_rlqs_streams").await, 0);
}

#[tokio::test]
async fn a_later_report_may_repeat_the_domain_or_leave_it_out_and_names_no_other() {
    let world = world().await;
    let mut stream = EnvoyStream::begun(grpc_address(&world.handle), first()).await;
    stream.send(first()).await;
    stream.send(report("", [usage(&[("user", "ada")], 3, 0)])).await;
    metric_becomes(&world.handle, "tidegate_rlqs_reports_total", 3).await;
    assert_eq!(metric(&world.handle, "tidegate_rlqs_streams").await, 1);
    stream.send(report("other", [])).await;
    let end = stream.end().await;
    assert_eq!(
        told(&end),
        (Code::InvalidArgument, "domain is \"other\" after \"api\"; open a stream for each domain")
    );
}

/// Reports that an Envoy may send, and some like them. Each is taken, and the stream goes on.
#[tokio::test]
async fn odd_reports_are_taken() {
    let world = world().await;
    let stream = EnvoyStream::begun(grpc_address(&world.handle), first()).await;
    let ada: &[(&str, &str)] = &[("user", "ada")];
    let nothing = BucketQuotaUsage::default();
    let at_once =
        BucketQuotaUsage { time_elapsed: Some(prost_types::Duration::default()), ..usage(ada, 1, 0) };
    let backwards = BucketQuotaUsage {
        time_elapsed: Some(prost_types::Duration { seconds: i64::MIN, nanos: i32::MIN }),
        ..usage(ada, 1, 0)
    };
    let endless = BucketQuotaUsage {
        time_elapsed: Some(prost_types::Duration { seconds: i64::MAX, nanos: i32::MAX }),
        ..usage(ada, u64::MAX, u64::MAX)
    };
    let reports = [
        // Every 5 s where there is no bucket.
        vec![],
        vec![usage(ada, 0, 0)],
        vec![usage(ada, u64::MAX, u64::MAX), usage(ada, u64::MAX, 0), usage(ada, 0, 0)],
        vec![at_once, backwards, endless.clone()],
        vec![BucketQuotaUsage { bucket_id: None, ..endless }],
        // Buckets that no limit is for, without an identifier, and with an empty one.
        vec![usage(&[("colour", "red")], 5, 5)],
        vec![nothing, usage(&[], 1, 1)],
        vec![usage(&[("", "")], 1, 1)],
    ];
    let count = reports.len() as u64 + 1;
    for usages in reports {
        stream.send(report("api", usages)).await;
    }
    metric_becomes(&world.handle, "tidegate_rlqs_reports_total", count).await;
    assert_eq!(metric(&world.handle, "tidegate_rlqs_streams").await, 1);
    assert_eq!(metric(&world.handle, "tidegate_rlqs_buckets_ignored_total").await, 0);
    assert_eq!(metric(&world.handle, "tidegate_panics_total").await, 0);
}

#[tokio::test]
async fn buckets_beyond_the_bounds_are_ignored_and_the_others_served() {
    let world = world().await;
    let address = grpc_address(&world.handle);
    let buckets = |range: std::ops::Range<u32>| range.map(|user| usage(&[("user", &user.to_string())], 1, 0));
    let mut many = EnvoyStream::begun(address, report("api", buckets(0..1001))).await;
    metric_becomes(&world.handle, "tidegate_rlqs_buckets_ignored_total", 1).await;
    many.close();
    assert_eq!(many.end().await.code(), Code::Ok);
    // A name that is longer than an attribute may be, and one that does not fit into a report: what
    // comes behind it is passed over.
    let long = "x".repeat(1025);
    let odd = report("api", [usage(&[(&long, "ada")], 1, 0), usage(&[("user", "ada")], 1, 0)]);
    let stream = EnvoyStream::begun(address, odd).await;
    metric_becomes(&world.handle, "tidegate_rlqs_buckets_ignored_total", 2).await;
    assert_eq!(metric(&world.handle, "tidegate_rlqs_reports_cut_total").await, 0);
    let longest = "x".repeat(64 << 10);
    stream.send(report("api", [usage(&[("user", &longest)], 1, 0)])).await;
    metric_becomes(&world.handle, "tidegate_rlqs_reports_cut_total", 1).await;
    stream.send(report("api", [usage(&[("user", "ada")], 1, 0)])).await;
    metric_becomes(&world.handle, "tidegate_rlqs_reports_total", 4).await;
    assert_eq!(metric(&world.handle, "tidegate_rlqs_streams").await, 1);
}

/// Envoy passes on what its clients send.
#[tokio::test]
async fn a_bucket_that_is_not_utf_8_takes_no_other_with_it() {
    let world = world().await;
    let good = report("api", [usage(&[("user", "ada")], 1, 0), usage(&[("user", "bob")], 1, 0)]);
    let mut body = framed(&good.encode_to_vec());
    let at = body.windows(3).position(|part| part == b"bob").unwrap();
    body[at] = 0xff;
    let stream = TcpStream::connect(grpc_address(&world.handle)).await.unwrap();
    let status = exchange(stream, STREAM_RATE_LIMIT_QUOTAS, None, body).await;
    assert_eq!(status, ("0".to_owned(), String::new()));
    assert_eq!(metric(&world.handle, "tidegate_rlqs_buckets_ignored_total").await, 1);
    assert_eq!(metric(&world.handle, &ended("closed")).await, 1);
}

#[tokio::test]
async fn a_message_that_is_no_report_is_told() {
    let world = world().await;
    let address = grpc_address(&world.handle);
    let (compressed, endless) = ([1, 0, 0, 0, 1, 0], [0, 0, 0x40, 0, 1]);
    for (bytes, code, said) in [
        (&[0, 0, 0, 0, 2, 0x10, 5][..], "3", "the message cannot be read: "),
        (&[0, 0, 0, 0, 4, 0x0a, 2, 0xff, 0xfe], "3", "the message cannot be read: "),
        (&compressed, "12", "compressed messages are not read; send them as they are"),
        (&endless, "3", "a report has 4194305 bytes; it takes 4194304; report fewer buckets"),
    ] {
        let stream = TcpStream::connect(address).await.unwrap();
        let (status, message) = exchange(stream, STREAM_RATE_LIMIT_QUOTAS, None, bytes.to_vec()).await;
        assert_eq!(status, code, "{message}");
        assert!(message.starts_with(said), "{message}");
    }
}

#[tokio::test]
async fn a_stream_that_reports_without_end_is_ended_and_others_are_not() {
    let world = world().await;
    let address = grpc_address(&world.handle);
    let good = EnvoyStream::begun(address, first()).await;
    let mut flood = EnvoyStream::begun(address, first()).await;
    for _ in 0..3000 {
        flood.send(first()).await;
    }
    let end = flood.end().await;
    assert_eq!(end.code(), Code::ResourceExhausted, "{end}");
    assert!(end.message().starts_with("too many reports: 100 a second and stream are taken"), "{end}");
    assert_eq!(metric(&world.handle, &ended("too_many_reports")).await, 1);
    let before = metric(&world.handle, "tidegate_rlqs_reports_total").await;
    good.send(first()).await;
    metric_becomes(&world.handle, "tidegate_rlqs_reports_total", before + 1).await;
    assert_eq!(metric(&world.handle, "tidegate_rlqs_streams").await, 1);
}
