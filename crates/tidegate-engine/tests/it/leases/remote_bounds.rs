//! How many buckets Envoys may have, and who gets them.

use core::task::{Context, Poll, Waker};
use core::time::Duration;

use tidegate_engine::{
    Action, BucketAction, BucketUsage, RemoteConfig, RemotePeer, RemoteStream, ReportTaken,
};

use super::{Fleet, leased, per_second};

impl Fleet {
    fn stream_of(&self, name: &str, owner: &str) -> RemoteStream {
        self.members[0].open_remote("api", RemotePeer::new(name, owner), self.now()).unwrap()
    }

    /// Reports buckets of these users with so many requests each.
    fn report_users(&self, stream: &RemoteStream, users: &[String], allowed: u64) -> ReportTaken {
        let attributes: Vec<_> = users.iter().map(|user| [("user", user.as_str())]).collect();
        let usages: Vec<_> = attributes
            .iter()
            .map(|attributes| BucketUsage { attributes, allowed, denied: 0, elapsed: Duration::ZERO })
            .collect();
        self.members[0].report_remote(stream, &usages, self.now())
    }

    /// The actions of a stream, once the store has answered.
    fn actions_of(&mut self, stream: &RemoteStream) -> Vec<BucketAction> {
        let context = Context::from_waker(Waker::noop());
        let mut all = Vec::new();
        for _ in 0..3 {
            if let Poll::Ready(actions) = self.members[0].poll_remote(stream, &context, self.now()) {
                all.extend(actions);
            }
            self.drive(0);
        }
        all
    }
}

fn users(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|user| format!("{prefix}-{user}")).collect()
}

/// Issue 48: ten names, or ten connections, filled a namespace.
#[test]
fn an_owner_that_opens_many_streams_leaves_another_its_part_of_the_namespace() {
    let mut fleet = Fleet::new(1, &[leased("rate", per_second(20))]);
    let streams: Vec<_> = (0..12).map(|name| fleet.stream_of(&format!("edge-{name}"), "greedy")).collect();
    let ignored: usize = streams
        .iter()
        .enumerate()
        .map(|(number, stream)| fleet.report_users(stream, &users(&number.to_string(), 1_000), 1).ignored)
        .sum();
    let taken = 12_000 - ignored;
    assert!((7_400..=7_500).contains(&taken), "{taken}");
    let other = fleet.stream_of("other", "modest");
    assert_eq!(fleet.report_users(&other, &users("other", 1_000), 1).ignored, 0);
    for stream in &streams {
        fleet.actions_of(stream);
    }
    // The buckets of a stream that has ended have their places until their leases end.
    drop(streams);
    let third = fleet.stream_of("third", "greedy");
    assert!(fleet.report_users(&third, &users("third", 1_000), 1).ignored > 900);
    fleet.pass(Duration::from_mins(1));
    drop(fleet.stream_of("cleans up", "greedy"));
    assert_eq!(fleet.report_users(&third, &users("third", 1_000), 1).ignored, 0);
    fleet.actions_of(&third);
}

#[test]
fn so_many_buckets_hold_a_part_of_a_key_and_the_next_waits_for_one_to_end() {
    let mut fleet = Fleet::new(1, &[leased("rate", per_second(20))]);
    fleet.members[0].set_remote_config(RemoteConfig::default().holders(2));
    let [one, two, three] = ["one", "two", "three"].map(|name| fleet.stream_of(name, name));
    let ada = users("ada", 1);
    for stream in [&one, &two] {
        assert_eq!(fleet.report_users(stream, &ada, 1), ReportTaken::default());
        let told = fleet.actions_of(stream);
        assert!(matches!(told[..], [BucketAction { action: Action::Assign { .. }, .. }]), "{told:?}");
    }
    let taken = fleet.report_users(&three, &ada, 1);
    assert!(taken.not_held[0].is_full && taken.not_held[0].limit == "rate", "{taken:?}");
    assert!(
        taken.not_held[0].why.contains("2 of 2 holders") && taken.not_held[0].why.contains("rlqs.holders")
    );
    assert!(fleet.actions_of(&three).is_empty(), "`no_assignment_behavior` decides");
    // Another key has places of its own.
    assert!(fleet.report_users(&three, &users("bob", 1), 1).not_held.is_empty());
    assert_eq!(fleet.actions_of(&three).len(), 1);
    assert_eq!(fleet.members[0].remote_totals(fleet.now()).not_held, 1);
    // A stream that ends holds its part until its lease ends.
    drop(one);
    fleet.pass(Duration::from_secs(5));
    assert!(fleet.actions_of(&three).iter().all(|one| &*one.bucket[0].1 != "ada-0"));
    for _ in 0..6 {
        fleet.pass(Duration::from_secs(5));
        fleet.report_users(&two, &ada, 10);
        fleet.actions_of(&two);
        fleet.report_users(&three, &ada, 10);
        fleet.actions_of(&three);
    }
    drop(fleet.stream_of("cleans up", "anybody"));
    fleet.report_users(&three, &ada, 10);
    fleet.actions_of(&three);
    let totals = fleet.members[0].remote_totals(fleet.now());
    assert_eq!((totals.not_held, totals.assigned), (0, 2), "{totals:?}");
}
