//! Limits that are spent at Envoys: streams, buckets, and what they are told.

use core::task::{Context, Poll, Waker};
use core::time::Duration;

use tidegate_core::limit::Consistency;
use tidegate_core::{Limit, Timestamp};
use tidegate_engine::{
    Action, BucketAction, BucketUsage, NamespaceConfig, RemoteConfig, RemoteStream, Request, RuntimeOverride,
};

use super::{ADA, Fleet, leased, per_second, window};
use crate::world::bucket;

const SECOND: Duration = Duration::from_secs(1);

impl Fleet {
    fn open(&self, member: usize, name: &str) -> RemoteStream {
        self.members[member].open_remote("api", name, self.now()).unwrap()
    }

    /// Reports a bucket of a user, and the actions that follow.
    fn report(
        &mut self,
        member: usize,
        stream: &RemoteStream,
        user: &str,
        counts: (u64, u64),
    ) -> Vec<Action> {
        let attributes = [("user", user)];
        let (allowed, denied) = counts;
        let elapsed = Duration::ZERO;
        let usage = BucketUsage { attributes: &attributes, allowed, denied, elapsed };
        let taken = self.members[member].report_remote(stream, &[usage], self.now());
        assert_eq!((taken.ignored, taken.not_held.len()), (0, 0));
        self.told(member, stream).into_iter().map(|action| action.action).collect()
    }

    /// The actions to send on a stream now, once the store has answered.
    fn told(&mut self, member: usize, stream: &RemoteStream) -> Vec<BucketAction> {
        let context = Context::from_waker(Waker::noop());
        let mut all = Vec::new();
        for _ in 0..3 {
            if let Poll::Ready(actions) = self.members[member].poll_remote(stream, &context, self.now()) {
                all.extend(actions);
            }
            self.drive(member);
        }
        all
    }

    /// Five seconds, in which the streams are polled as often as they want.
    fn pass_between_reports(&mut self, streams: &[(usize, &RemoteStream)]) -> Vec<Vec<Action>> {
        let mut told = vec![Vec::new(); streams.len()];
        for _ in 0..10 {
            self.pass(SECOND / 2);
            for (told, (member, stream)) in told.iter_mut().zip(streams) {
                told.extend(self.told(*member, stream).into_iter().map(|action| action.action));
            }
        }
        told
    }
}

/// Tokens a second, in hundredths.
fn rate(action: &Action) -> u64 {
    match action {
        Action::Assign { tokens_per_fill, fill_interval, .. } => {
            u64::from(*tokens_per_fill) * 100 / fill_interval.as_secs()
        }
        Action::Deny { .. } | Action::Abandon => 0,
    }
}

fn is_assigned(actions: &[Action]) -> bool {
    matches!(actions.last(), Some(Action::Assign { max_tokens: 1.., .. }))
}

#[test]
fn two_envoys_at_two_members_share_a_rate_by_demand() {
    let mut fleet = Fleet::new(2, &[leased("rate", per_second(20))]);
    let (one, other) = (fleet.open(0, "one"), fleet.open(1, "other"));
    let first = fleet.report(0, &one, "ada", (0, 1));
    assert!(is_assigned(&first), "the first report is answered at once: {first:?}");
    assert!(is_assigned(&fleet.report(1, &other, "ada", (0, 1))));
    let mut last = [0, 0];
    for _ in 0..4 {
        fleet.pass_between_reports(&[(0, &one), (1, &other)]);
        let told = [fleet.report(0, &one, "ada", (50, 100)), fleet.report(1, &other, "ada", (15, 0))];
        last = told.map(|actions| rate(actions.last().expect("a refresh")));
    }
    let [much, little] = last;
    assert!((1_900..=2_000).contains(&(much + little)), "{last:?}");
    assert!((150..=250).contains(&little), "{last:?}");
    let views = fleet.members[0].remote_views(10, fleet.now());
    assert_eq!((&*views[0].envoy, views[0].denied), ("one", 401));
    assert!(views[0].until.is_some_and(|until| until > fleet.now()));
    assert_eq!(fleet.members[0].remote_totals(fleet.now()).assigned, 1);
}

#[test]
fn a_block_denies_at_once_and_its_end_assigns_anew() {
    let mut fleet = Fleet::new(1, &[leased("rate", per_second(20))]);
    let stream = fleet.open(0, "one");
    assert!(is_assigned(&fleet.report(0, &stream, "ada", (0, 1))));
    let until = fleet.now().saturating_add(600 * SECOND);
    let blocked = fleet.members[0].block(&Request::new("api", &ADA), "rate", until, fleet.now()).unwrap();
    fleet.carry(0, blocked);
    let told = fleet.told(0, &stream);
    assert!(matches!(told[..], [BucketAction { action: Action::Deny { .. }, .. }]), "{told:?}");
    fleet.pass_between_reports(&[(0, &stream)]);
    assert!(matches!(fleet.report(0, &stream, "ada", (0, 40))[..], [Action::Deny { .. }]));
    let now = fleet.now();
    let lifted = fleet.members[0].block(&Request::new("api", &ADA), "rate", now, now).unwrap();
    fleet.carry(0, lifted);
    fleet.pass(SECOND);
    let told: Vec<_> = fleet.told(0, &stream).into_iter().map(|action| action.action).collect();
    assert!(is_assigned(&told), "{told:?}");
}

#[test]
fn a_block_that_ends_by_itself_ends_at_the_envoy() {
    let mut fleet = Fleet::new(1, &[leased("rate", per_second(20))]);
    let stream = fleet.open(0, "one");
    fleet.report(0, &stream, "ada", (0, 1));
    let until = fleet.now().saturating_add(3 * SECOND);
    let blocked = fleet.members[0].block(&Request::new("api", &ADA), "rate", until, fleet.now()).unwrap();
    fleet.carry(0, blocked);
    assert_eq!(fleet.told(0, &stream).len(), 1);
    let told = fleet.pass_between_reports(&[(0, &stream)]);
    assert!(is_assigned(&told[0]), "{told:?}");
}

#[test]
fn a_reset_fills_the_bucket_and_an_override_changes_it() {
    let mut fleet = Fleet::new(1, &[leased("rate", per_second(20))]);
    let stream = fleet.open(0, "one");
    fleet.report(0, &stream, "ada", (0, 1));
    fleet.pass_between_reports(&[(0, &stream)]);
    fleet.report(0, &stream, "ada", (100, 100));
    let reset = fleet.members[0].reset(&Request::new("api", &ADA), Some("rate"), fleet.now()).unwrap();
    fleet.carry(0, reset);
    let told: Vec<_> = fleet.told(0, &stream).into_iter().map(|action| action.action).collect();
    assert!(matches!(told[..], [Action::Deny { .. }, Action::Assign { .. }]), "{told:?}");

    let when = vec![("user".to_owned(), "ada".to_owned())];
    let faster = RuntimeOverride::new("api", "rate", when, bucket(100, SECOND), fleet.now());
    let (engine, _) = fleet.members[0].with_override(faster, fleet.now()).unwrap();
    fleet.members[0] = engine;
    fleet.pass(SECOND);
    let told: Vec<_> = fleet.told(0, &stream).into_iter().map(|action| action.action).collect();
    assert!(told.last().is_some_and(|action| rate(action) > 2_000), "{told:?}");
}

#[test]
fn what_no_envoy_can_hold_gets_no_assignment_and_is_said_once() {
    let daily = leased("window", window(100, 60 * SECOND));
    let mut fleet = Fleet::new(1, &[leased("rate", per_second(20)), daily]);
    let stream = fleet.open(0, "one");
    let attributes = [("user", "ada")];
    let usage = BucketUsage { attributes: &attributes, allowed: 1, denied: 0, elapsed: Duration::ZERO };
    let taken = fleet.members[0].report_remote(&stream, &[usage], fleet.now());
    assert_eq!(taken.not_held.len(), 1);
    assert_eq!(taken.not_held[0].limit, "window");
    assert!(taken.not_held[0].why.contains("RLS"), "{}", taken.not_held[0].why);
    assert!(fleet.told(0, &stream).is_empty());
    assert!(fleet.members[0].report_remote(&stream, &[usage], fleet.now()).not_held.is_empty());
    assert_eq!(fleet.members[0].remote_totals(fleet.now()).not_held, 1);

    let none = BucketUsage { attributes: &[], ..usage };
    let taken = fleet.members[0].report_remote(&stream, &[none], fleet.now());
    assert!(taken.not_held[0].why.contains("no limit applies"), "{:?}", taken.not_held);
}

#[test]
fn a_stream_has_so_many_buckets_and_numbers_have_bounds() {
    let mut fleet = Fleet::new(1, &[leased("rate", per_second(20))]);
    let config = RemoteConfig::default();
    fleet.members[0].set_remote_config(config);
    let (stream, other) = (fleet.open(0, "one"), fleet.open(0, "one"));
    let users: Vec<String> = (0..=config.buckets_max).map(|user| format!("user-{user}")).collect();
    let attributes: Vec<_> = users.iter().map(|user| [("user", user.as_str())]).collect();
    let usages: Vec<_> = attributes
        .iter()
        .map(|attributes| BucketUsage { attributes, allowed: u64::MAX, denied: u64::MAX, elapsed: SECOND })
        .collect();
    assert_eq!(fleet.members[0].report_remote(&stream, &usages, fleet.now()).ignored, 1);
    fleet.told(0, &stream);
    // Two streams of one name are two holders, and the largest number takes no more than its part.
    for _ in 0..4 {
        fleet.pass_between_reports(&[(0, &stream), (0, &other)]);
        fleet.report(0, &stream, "user-1", (u64::MAX, u64::MAX));
        fleet.report(0, &other, "user-1", (100, 0));
    }
    fleet.pass_between_reports(&[(0, &stream), (0, &other)]);
    let greedy = rate(fleet.report(0, &stream, "user-1", (u64::MAX, 0)).last().unwrap());
    let modest = rate(fleet.report(0, &other, "user-1", (100, 0)).last().unwrap());
    assert!(greedy + modest <= 2_000, "{greedy} {modest}");
    assert!(modest >= 2_000 / 12, "{greedy} {modest}");
}

#[test]
fn of_several_limits_the_tightest_decides_and_an_idle_bucket_is_abandoned() {
    let all = Limit::new("all", per_second(1_000)).consistency(Consistency::Leased);
    let mut fleet = Fleet::new(1, &[leased("rate", per_second(20)), all]);
    let stream = fleet.open(0, "one");
    fleet.report(0, &stream, "ada", (0, 1));
    let mut told = Vec::new();
    for _ in 0..3 {
        fleet.pass_between_reports(&[(0, &stream)]);
        told = fleet.report(0, &stream, "ada", (100, 200));
    }
    assert!((1_800..=2_000).contains(&rate(told.last().unwrap())), "{told:?}");
    for _ in 0..3 {
        fleet.pass_between_reports(&[(0, &stream)]);
        told = fleet.report(0, &stream, "ada", (0, 0));
    }
    assert_eq!(told, [Action::Abandon]);
    for _ in 0..3 {
        fleet.pass_between_reports(&[(0, &stream)]);
    }
    assert_eq!(fleet.members[0].remote_totals(fleet.now()).buckets, 0);
    // All is given back: a member gets the whole burst of the next second.
    fleet.pass(2 * SECOND);
    assert!(fleet.burst(0) >= 18, "the lease was not given back");
}

#[test]
fn a_silent_store_leaves_each_envoy_its_share() {
    let mut fleet = Fleet::new(1, &[leased("rate", per_second(20))]);
    let (one, other) = (fleet.open(0, "one"), fleet.open(0, "other"));
    fleet.report(0, &one, "ada", (0, 1));
    fleet.report(0, &other, "ada", (0, 1));
    for _ in 0..2 {
        fleet.pass_between_reports(&[(0, &one), (0, &other)]);
        fleet.report(0, &one, "ada", (100, 0));
        fleet.report(0, &other, "ada", (100, 0));
    }
    fleet.is_down = true;
    let mut rates = [0, 0];
    for _ in 0..6 {
        fleet.pass_between_reports(&[(0, &one), (0, &other)]);
        let told = [fleet.report(0, &one, "ada", (100, 0)), fleet.report(0, &other, "ada", (100, 0))];
        assert!(told.iter().all(|actions| is_assigned(actions)), "{told:?}");
        rates = told.map(|actions| rate(actions.last().unwrap()));
    }
    assert!(rates.iter().all(|rate| (600..=1_000).contains(rate)), "{rates:?}");
    assert!(fleet.members[0].remote_views(1, fleet.now())[0].is_alone);
    fleet.is_down = false;
    fleet.pass_between_reports(&[(0, &one), (0, &other)]);
    // It may go on by what it has while more is owed to it, which comes before that ends.
    let mut told = fleet.report(0, &one, "ada", (100, 0));
    told.extend(fleet.pass_between_reports(&[(0, &one), (0, &other)]).swap_remove(0));
    assert!(is_assigned(&told), "{told:?}");
    assert!(!fleet.members[0].remote_views(2, fleet.now()).iter().all(|view| view.is_alone));
}

#[test]
fn a_reload_reaches_open_streams() {
    let mut fleet = Fleet::new(1, &[leased("rate", per_second(20))]);
    let stream = fleet.open(0, "one");
    fleet.report(0, &stream, "ada", (0, 1));
    let slower = NamespaceConfig::new("api", [leased("rate", per_second(5)).key(["user"])]);
    let (engine, _) = fleet.members[0].reconfigured(vec![slower]).unwrap();
    fleet.members[0] = engine;
    fleet.pass(SECOND);
    // A burst of 5 is too little to share.
    let views = fleet.members[0].remote_views(1, fleet.now());
    assert!(fleet.told(0, &stream).is_empty());
    let views_after = fleet.members[0].remote_views(1, fleet.now());
    assert!(views[0].not_held.is_none() && views_after[0].not_held.is_some());
    let gone = NamespaceConfig::new("other", []);
    let (engine, _) = fleet.members[0].reconfigured(vec![gone]).unwrap();
    fleet.members[0] = engine;
    assert!(fleet.told(0, &stream).is_empty());
    assert!(fleet.members[0].open_remote("api", "one", Timestamp::MIN).is_err());
}
