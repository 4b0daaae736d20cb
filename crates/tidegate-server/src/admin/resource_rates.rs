//! The last ten seconds of a resource, as answers show them.

use std::collections::BTreeMap;

use tidegate_core::Class;
use tidegate_engine::{Engine, OfferOutcome, RecentActivity, ResourceStats};
use tidegate_overload::{ActivityCounts, TimeCounts};
use tidegate_wire::resources::{
    ClassRatesBody, NamespaceRatesBody, RatesBody, RecentBody, ShedRatesBody, TimesBody, WouldRefuseBody,
};

use crate::admin::figures::{figure, millis};

/// The rates of a resource; `None` without an overload plane.
pub(crate) fn recent(stats: &ResourceStats<'_>, engine: &Engine) -> Option<RecentBody> {
    let recent = engine.recent_activity(stats.id)?;
    let mut waiting = WaitingCounts::new();
    for (namespace, class, count) in engine.waiting_by_namespace(stats.id) {
        *waiting.entry((namespace, class)).or_default() += count;
    }
    let all_waits = RecentActivity::all_of(&recent.waits);
    let all_times = RecentActivity::all_of(&recent.place_times);
    let all = RatesBody {
        waiting: waiting.values().sum(),
        place_time: times(&all_times),
        wait: times(&all_waits),
        ..rates(&recent, &recent.all())
    };
    Some(RecentBody {
        span_ms: u64::try_from(recent.span.as_millis()).unwrap_or(u64::MAX),
        offered_load: recent.offered_load(stats.in_flight_max).map(figure),
        all,
        classes: classes(&recent, &waiting),
        namespaces: namespaces(&recent, &waiting, stats, engine),
    })
}

/// The requests that wait, by namespace and class.
type WaitingCounts = BTreeMap<(Option<u32>, Class), u64>;

fn classes(recent: &RecentActivity, waiting: &WaitingCounts) -> Vec<ClassRatesBody> {
    let body = |class: Class| {
        let counts = recent.class(class);
        let of_class = waiting.iter().filter(|((_, of), _)| *of == class);
        let waiting: u64 = of_class.map(|(_, count)| count).sum();
        if counts == ActivityCounts::default() && waiting == 0 {
            return None;
        }
        let rates = RatesBody {
            waiting,
            place_time: times(&recent.place_times[class as usize]),
            wait: times(&recent.waits[class as usize]),
            ..rates(recent, &counts)
        };
        Some(ClassRatesBody { class: class.as_str().to_owned(), rates })
    };
    Class::ALL.into_iter().rev().filter_map(body).collect()
}

fn namespaces(
    recent: &RecentActivity,
    waiting: &WaitingCounts,
    stats: &ResourceStats<'_>,
    engine: &Engine,
) -> Vec<NamespaceRatesBody> {
    let mut rows: BTreeMap<(Option<u32>, Class), ActivityCounts> = BTreeMap::new();
    rows.extend(waiting.keys().map(|key| (*key, ActivityCounts::default())));
    rows.extend(recent.rows.iter().map(|row| ((row.namespace, row.class), row.counts)));
    let mut bodies: Vec<NamespaceRatesBody> = Vec::new();
    for class in Class::ALL.into_iter().rev() {
        let of_class = rows.iter().filter(|((_, of), _)| *of == class);
        let mut of_class: Vec<_> = of_class
            .map(|(key, counts)| {
                let (number, _) = *key;
                let cursor = number.and_then(|number| engine.namespace_cursor(stats.id, number));
                NamespaceRatesBody {
                    namespace: number.and_then(|number| engine.namespace_name(number)).map(str::to_owned),
                    class: class.as_str().to_owned(),
                    rates: RatesBody {
                        waiting: waiting.get(key).copied().unwrap_or_default(),
                        ..rates(recent, counts)
                    },
                    cursor: cursor.map_or(0, tidegate_engine::Cursor::level),
                }
            })
            .collect();
        of_class.sort_by(|one, other| other.rates.offered.total_cmp(&one.rates.offered));
        bodies.extend(of_class);
    }
    bodies
}

/// The rates of some counts, without times and without what waits.
fn rates(recent: &RecentActivity, counts: &ActivityCounts) -> RatesBody {
    let rate = |count: u64| figure(recent.rate(count));
    let of = |outcome: OfferOutcome| rate(counts.stats.count(outcome));
    let denied =
        [OfferOutcome::Denied, OfferOutcome::Throttled, OfferOutcome::Unavailable, OfferOutcome::Failed];
    let would_refuse = (counts.stats.would_be_refused() > 0).then(|| WouldRefuseBody {
        shed: ShedRatesBody {
            admission_cursor: of(OfferOutcome::WouldBeShed),
            queue_delay: of(OfferOutcome::WouldBeDelayed),
            in_flight: of(OfferOutcome::WouldLackPlace),
            streams: of(OfferOutcome::WouldLackStream),
            queue_full: of(OfferOutcome::WouldFindQueueFull),
            pace: of(OfferOutcome::WouldBeOutOfPace),
        },
        expired: of(OfferOutcome::WouldExpire),
    });
    RatesBody {
        offered: rate(counts.stats.offered),
        admitted: rate(counts.stats.count(OfferOutcome::Admitted) + counts.stats.would_be_refused()),
        would_refuse,
        shed: ShedRatesBody {
            admission_cursor: of(OfferOutcome::Shed),
            queue_delay: of(OfferOutcome::QueueDelay),
            in_flight: of(OfferOutcome::NoPlace),
            streams: of(OfferOutcome::NoStream),
            queue_full: of(OfferOutcome::QueueFull),
            pace: of(OfferOutcome::OutOfPace),
        },
        deferred: of(OfferOutcome::Deferred),
        expired: of(OfferOutcome::Expired),
        cancelled: of(OfferOutcome::Cancelled),
        denied: rate(denied.iter().map(|outcome| counts.stats.count(*outcome)).sum()),
        disabled: of(OfferOutcome::Disabled),
        served: rate(counts.served),
        waiting: 0,
        place_time: None,
        wait: None,
    }
}

fn times(counts: &TimeCounts) -> Option<TimesBody> {
    let of = |percent| counts.percentile(percent).map(millis);
    Some(TimesBody { p50_ms: of(50)?, p99_ms: of(99)? })
}
