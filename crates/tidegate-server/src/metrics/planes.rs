//! The series of tables, nodes and resources, read when the page is rendered. Their labels are
//! names of the policy and words of closed lists.

use core::fmt;

use tidegate_capacity::TableStatus;
use tidegate_core::{Class, RequestOutcome, Timestamp};
use tidegate_engine::{Engine, OfferOutcome, QueueCounts, ResourceStats};
use tidegate_overload::DeferralCounts;

use super::series::SeriesEncoder;

/// Writes the series of the planes beside the limits; nothing for a policy without them.
pub(super) fn encode(page: &mut SeriesEncoder<'_, '_>, engine: &Engine, now: Timestamp) -> fmt::Result {
    let tables: Vec<_> = engine.table_statuses(0, now).collect();
    if !tables.is_empty() {
        encode_tables(page, &tables)?;
        let nodes = engine.node_statuses(now);
        let nodes = nodes.map(|node| ([("node", node.name)], node.left.as_f64()));
        page.gauges("tidegate_capacity_node_left_units", nodes)?;
    }
    // The default resource has no name and no bound, and is in no policy.
    let resources: Vec<_> =
        engine.resource_stats(now).filter_map(|stats| Some((stats.name?, stats))).collect();
    if resources.is_empty() {
        return Ok(());
    }
    encode_resources(page, &resources)?;
    encode_queues(page, engine, &resources)?;
    encode_tickets(page, engine, &resources)?;
    encode_signals(page, &resources)
}

fn encode_tables(page: &mut SeriesEncoder<'_, '_>, tables: &[TableStatus<'_>]) -> fmt::Result {
    let by_operation = || {
        tables.iter().flat_map(|table| {
            [("read", &table.read), ("write", &table.write)].map(|(operation, status)| {
                let labels =
                    [("namespace", table.namespace), ("table", table.name), ("operation", operation)];
                (labels, status)
            })
        })
    };
    let by_table = |value: fn(&TableStatus<'_>) -> u64| {
        let tables = tables.iter();
        tables.map(move |table| ([("namespace", table.namespace), ("table", table.name)], value(table)))
    };
    let rates = by_operation().map(|(labels, status)| (labels, status.rate.as_f64()));
    page.gauges("tidegate_capacity_provisioned_units", rates)?;
    let left = by_operation().map(|(labels, status)| (labels, status.left.as_f64()));
    page.gauges("tidegate_capacity_left_units", left)?;
    page.gauges("tidegate_capacity_partitions", by_table(|table| table.partitions.into()))?;
    page.counters("tidegate_capacity_splits", by_table(|table| table.splits))?;
    page.counters("tidegate_capacity_merges", by_table(|table| table.merges))?;
    let throttled = by_operation().map(|(labels, status)| (labels, status.throttled));
    page.counters("tidegate_capacity_throttled", throttled)
}

fn encode_resources(
    page: &mut SeriesEncoder<'_, '_>,
    resources: &[(&str, ResourceStats<'_>)],
) -> fmt::Result {
    let by_resource = |value: fn(&ResourceStats<'_>) -> u64| {
        resources.iter().map(move |(resource, stats)| ([("resource", *resource)], value(stats)))
    };
    page.gauges("tidegate_resource_in_flight", by_resource(|stats| stats.in_flight))?;
    page.gauges("tidegate_resource_in_flight_max", by_resource(|stats| stats.in_flight_max))?;
    let advised = by_resource(|stats| stats.advice.map_or(0, |advice| advice.suggested()));
    page.gauges("tidegate_resource_advised_places", advised)?;
    encode_streams(page, resources)?;
    page.gauges("tidegate_resource_cursor", by_resource(|stats| stats.cursor.level().into()))?;
    page.gauges("tidegate_resource_level", by_resource(|stats| stats.level as u64))?;
    let pressures = resources.iter();
    let pressures =
        pressures.map(|(resource, stats)| ([("resource", *resource)], stats.pressure.unwrap_or(0.0)));
    page.gauges("tidegate_resource_pressure", pressures)?;
    page.counters("tidegate_resource_offered", by_resource(|stats| stats.offered))?;
    page.counters("tidegate_resource_places_expired", by_resource(|stats| stats.places_expired))?;
    let outcomes = resources.iter().flat_map(|(resource, stats)| {
        RequestOutcome::ALL.map(|outcome| {
            let count = with_outcome(outcome, |offer| stats.count(offer));
            ([("resource", *resource), ("outcome", outcome.as_str())], count)
        })
    });
    page.counters("tidegate_resource_outcomes", outcomes)?;
    let by_class = || {
        resources.iter().flat_map(|(resource, stats)| {
            Class::ALL.map(|class| ([("resource", *resource), ("class", class.as_str())], stats.class(class)))
        })
    };
    let offered = by_class().map(|(labels, counts)| (labels, counts.offered));
    page.counters("tidegate_resource_class_offered", offered)?;
    let outcomes = by_class().flat_map(|([resource, class], counts)| {
        RequestOutcome::ALL.map(|outcome| {
            let count = with_outcome(outcome, |offer| counts.count(offer));
            ([resource, class, ("outcome", outcome.as_str())], count)
        })
    });
    page.counters("tidegate_resource_class_outcomes", outcomes)?;
    let would = resources.iter().filter(|(_, stats)| stats.is_shadow).flat_map(|(resource, stats)| {
        let rows =
            Class::ALL.into_iter().flat_map(|class| OfferOutcome::WOULD.map(|outcome| (class, outcome)));
        rows.filter_map(|(class, outcome)| {
            let mechanism = ("mechanism", outcome.would_be_refused_by()?);
            let labels = [("resource", *resource), ("class", class.as_str()), mechanism];
            Some((labels, stats.class(class).count(outcome)))
        })
    });
    page.counters("tidegate_resource_would_refuse", would)
}

/// The series of the resources whose routes have streams.
fn encode_streams(page: &mut SeriesEncoder<'_, '_>, resources: &[(&str, ResourceStats<'_>)]) -> fmt::Result {
    let streams = resources.iter();
    let streams = streams.filter_map(|(resource, stats)| Some(([("resource", *resource)], stats.streams?)));
    let streams: Vec<_> = streams.collect();
    if streams.is_empty() {
        return Ok(());
    }
    page.gauges("tidegate_resource_streams", streams.iter().map(|(labels, one)| (*labels, one.open)))?;
    page.gauges("tidegate_resource_streams_max", streams.iter().map(|(labels, one)| (*labels, one.max)))?;
    let refused = streams.iter().map(|(labels, one)| (*labels, one.refused));
    page.counters("tidegate_resource_streams_refused", refused)
}

/// The offers whose request had this outcome, by the words that the meter counts with: a request
/// without a place or without room to wait was shed.
fn with_outcome(outcome: RequestOutcome, count: impl Fn(OfferOutcome) -> u64) -> u64 {
    OfferOutcome::ALL.into_iter().filter(|offer| offer.of_request() == outcome).map(count).sum()
}

/// The series of the resources with a queue, by class.
fn encode_queues(
    page: &mut SeriesEncoder<'_, '_>,
    engine: &Engine,
    resources: &[(&str, ResourceStats<'_>)],
) -> fmt::Result {
    let queues: Vec<_> = resources
        .iter()
        .filter_map(|(resource, stats)| Some((*resource, engine.queue_counts(stats.id)?)))
        .collect();
    if queues.is_empty() {
        return Ok(());
    }
    let by_class = || {
        queues.iter().flat_map(|(resource, counts)| {
            Class::ALL
                .map(|class| ([("resource", *resource), ("class", class.as_str())], &counts[class as usize]))
        })
    };
    page.gauges("tidegate_resource_queued", by_class().map(|(labels, counts)| (labels, counts.waiting)))?;
    let delays = by_class().map(|(labels, counts)| (labels, counts.delay.as_secs_f64()));
    page.gauges("tidegate_resource_queue_delay_seconds", delays)?;
    let waits = by_class().map(|(labels, counts)| (labels, counts.wait_sum.as_secs_f64()));
    page.counters("tidegate_resource_queue_wait_seconds", waits)?;
    let departures = by_class().flat_map(|([resource, class], counts)| {
        DEPARTURES.map(|(departure, value)| ([resource, class, ("departure", departure)], value(counts)))
    });
    page.counters("tidegate_resource_queue_departures", departures)
}

/// A number of a queue, by the name in its label.
type QueueNumber = (&'static str, fn(&QueueCounts) -> u64);

/// The ways in which requests leave a queue, by their names in labels.
const DEPARTURES: [QueueNumber; 8] = [
    ("served", |counts| counts.served),
    ("shed_by_delay", |counts| counts.shed_by_delay),
    ("expired", |counts| counts.expired),
    ("too_late", |counts| counts.too_late),
    ("cancelled", |counts| counts.cancelled),
    ("refused", |counts| counts.refused),
    ("displaced", |counts| counts.displaced),
    ("moved", |counts| counts.moved),
];

/// The series of the resources that defer requests.
fn encode_tickets(
    page: &mut SeriesEncoder<'_, '_>,
    engine: &Engine,
    resources: &[(&str, ResourceStats<'_>)],
) -> fmt::Result {
    let deferrals = resources.iter();
    let deferrals =
        deferrals.filter_map(|(resource, stats)| Some(([("resource", *resource)], stats.deferral?)));
    let deferrals: Vec<_> = deferrals.collect();
    if deferrals.is_empty() {
        return Ok(());
    }
    let events = deferrals.iter().flat_map(|([resource], stats)| {
        TICKET_EVENTS.map(|(event, value)| ([*resource, ("event", event)], value(&stats.counts)))
    });
    page.counters("tidegate_resource_tickets", events)?;
    let booked = deferrals.iter().map(|(labels, stats)| (*labels, stats.calendar.booked));
    page.gauges("tidegate_resource_tickets_booked", booked)?;
    let shown = deferrals.iter().map(|(labels, stats)| (*labels, stats.capacity));
    page.gauges("tidegate_resource_shown_capacity", shown)?;
    let faults = engine.ticket_faults().map(|(fault, count)| ([("fault", fault.as_str())], count));
    page.counters("tidegate_ticket_faults", faults)
}

/// A number of deferral, by the name in its label.
type DeferralNumber = (&'static str, fn(&DeferralCounts) -> u64);

/// The events of tickets, by their names in labels.
const TICKET_EVENTS: [DeferralNumber; 8] = [
    ("sold", |counts| counts.sold),
    ("full", |counts| counts.full),
    ("redeemed", |counts| counts.redeemed),
    ("given_back", |counts| counts.given_back),
    ("early", |counts| counts.early),
    ("expired", |counts| counts.expired),
    ("replayed", |counts| counts.replayed),
    ("unremembered", |counts| counts.unremembered),
];

/// The series of the signals of each resource.
fn encode_signals(page: &mut SeriesEncoder<'_, '_>, resources: &[(&str, ResourceStats<'_>)]) -> fmt::Result {
    let by_signal = || {
        resources.iter().flat_map(|(resource, stats)| {
            let signals = stats.signals.iter();
            signals.map(|signal| ([("signal", signal.name.as_str()), ("resource", *resource)], signal))
        })
    };
    let pressures = by_signal().map(|(labels, signal)| (labels, signal.pressure.unwrap_or(0.0)));
    page.gauges("tidegate_signal_pressure", pressures)?;
    let stale =
        by_signal().map(|(labels, signal)| (labels, f64::from(signal.is_stale || signal.age.is_none())));
    page.gauges("tidegate_signal_stale", stale)
}
