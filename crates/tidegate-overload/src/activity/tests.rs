use core::time::Duration;

use tidegate_core::{Class, Timestamp};

use crate::{
    ClassStats, OfferOutcome, Overload, RecentActivity, RequestRecord, ResourceConfig, ResourceId, TICK,
    TimeCounts, WaitsForPlace,
};

const START: Timestamp = Timestamp::from_secs(1_800_000_000);
const HELD: Duration = Duration::from_millis(20);

struct ServedResource {
    overload: Overload,
    resource: ResourceId,
    tick_due: Timestamp,
}

impl ServedResource {
    fn new(places: u64) -> Self {
        let overload = Overload::builder(7).default_resource(ResourceConfig::new(places)).build().unwrap();
        let resource = overload.find(None).unwrap();
        Self { overload, resource, tick_due: START }
    }

    fn tick_until(&mut self, now: Timestamp) {
        while self.tick_due <= now {
            self.tick_due = self.overload.tick(self.tick_due);
        }
    }

    /// A request that is served at once, and ends after [`HELD`], or has this other outcome.
    fn request(&self, namespace: u32, class: Class, outcome: OfferOutcome, now: Timestamp) {
        let level = self.overload.request_level(namespace, class, None, now);
        let mut record = RequestRecord::new(self.resource, level);
        self.overload.offer(&mut record, now);
        if outcome == OfferOutcome::Admitted {
            let permit = self.overload.take_place(&mut record, WaitsForPlace::No, now).unwrap();
            self.overload.resource(self.resource).count_held(&permit, HELD);
            self.overload.give_back(permit);
        }
        self.overload.end(record, outcome);
    }

    fn recent(&self) -> RecentActivity {
        self.overload.resource(self.resource).recent_activity()
    }
}

fn after(span: Duration) -> Timestamp {
    START.saturating_add(span)
}

#[test]
fn rates_of_classes_and_namespaces_agree_with_those_who_ask_within_two_percent() {
    for rate in [200_u32, 2000] {
        let mut service = ServedResource::new(100);
        for request in 0..60 * rate {
            let now = after(Duration::from_secs(1) * request / rate);
            service.tick_until(now);
            // Of four requests three are of the first namespace; of ten one is refused.
            let namespace = if request % 4 == 0 { 2 } else { 1 };
            let outcome = if request % 10 == 0 { OfferOutcome::QueueDelay } else { OfferOutcome::Admitted };
            service.request(namespace, Class::Critical, outcome, now);
            let recent = service.recent();
            if request < 20 * rate || request % rate != 0 {
                continue;
            }
            let is_near = |found: f64, part: f64| {
                let asked = f64::from(rate) * part;
                assert!((found / asked - 1.0).abs() <= 0.02, "{found} a second of {asked} at {request}");
            };
            let all = recent.class(Class::Critical);
            is_near(recent.rate(all.stats.offered), 1.0);
            is_near(recent.rate(all.stats.count(OfferOutcome::QueueDelay)), 0.1);
            is_near(recent.rate(all.served), 0.9);
            is_near(recent.rate(all.ended), 0.9);
            let of = |namespace: u32| {
                recent.rows.iter().find(|row| row.namespace == Some(namespace)).unwrap().counts
            };
            is_near(recent.rate(of(1).stats.offered), 0.75);
            is_near(recent.rate(of(2).stats.offered), 0.25);
            assert_eq!(recent.class(Class::Sheddable).stats, ClassStats::default());
            let load = recent.offered_load(100).unwrap();
            let asked = f64::from(rate) * HELD.as_secs_f64() / 100.0;
            assert!((load / asked - 1.0).abs() <= 0.02, "{load} of {asked}");
            let p50 = RecentActivity::all_of(&recent.place_times).percentile(50).unwrap();
            assert!(p50 >= HELD && p50 <= HELD * 9 / 8, "{p50:?}");
        }
    }
}

#[test]
fn what_is_older_than_ten_seconds_or_before_a_gap_is_forgotten() {
    let mut service = ServedResource::new(10);
    service.tick_until(START);
    service.request(1, Class::Critical, OfferOutcome::Admitted, START);
    service.tick_until(after(Duration::from_secs(9)));
    assert_eq!(service.recent().all().stats.offered, 1);
    service.tick_until(after(Duration::from_secs(12)));
    let recent = service.recent();
    assert_eq!((recent.all().stats.offered, recent.rows.len()), (0, 0));
    assert!((10.0..=11.2).contains(&recent.span.as_secs_f64()), "{:?}", recent.span);
    service.request(1, Class::Critical, OfferOutcome::Admitted, after(Duration::from_secs(12)));
    // A machine that was suspended: what was counted before is of a time that is not known.
    service.tick_due = service.overload.tick(after(Duration::from_mins(10)));
    assert_eq!((service.recent().all().stats.offered, service.recent().span), (0, Duration::ZERO));
    service.request(1, Class::Critical, OfferOutcome::Admitted, service.tick_due);
    service.tick_until(service.tick_due.saturating_add(TICK));
    assert_eq!(service.recent().all().stats.offered, 1);
    // A clock that steps back by an hour begins anew.
    let back = after(Duration::from_mins(10)).saturating_sub(Duration::from_hours(1));
    service.tick_due = service.overload.tick(back);
    assert_eq!((service.recent().all().stats.offered, service.recent().span), (0, Duration::ZERO));
}

#[test]
fn requests_that_a_limit_refuses_are_no_load_and_waits_are_of_what_was_served() {
    let mut service = ServedResource::new(10);
    service.tick_until(START);
    for _ in 0..10 {
        service.request(1, Class::Critical, OfferOutcome::Denied, START);
        service.request(1, Class::Critical, OfferOutcome::Admitted, START);
    }
    let mut waits: [TimeCounts; 4] = Default::default();
    waits[Class::Critical as usize].add(Duration::from_millis(4));
    service.overload.resource(service.resource).observe_waits(&waits);
    service.tick_until(after(Duration::from_secs(1)));
    let recent = service.recent();
    let load = recent.offered_load(10).unwrap();
    let served = 10.0 * HELD.as_secs_f64() / (10.0 * recent.span.as_secs_f64());
    assert!((load - served).abs() < 1e-9, "{load} of {served}");
    assert_eq!(recent.offered_load(0), None);
    let p99 = recent.waits[Class::Critical as usize].percentile(99).unwrap();
    assert!((4.0..4.6).contains(&(p99.as_secs_f64() * 1e3)), "{p99:?}");
    assert_eq!(recent.waits[Class::Sheddable as usize].count(), 0);
}
