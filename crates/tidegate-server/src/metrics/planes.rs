//! The series of tables, nodes and resources, read when the page is rendered. Their labels are
//! names of the policy and words of closed lists.

use core::fmt;
use core::time::Duration;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tidegate_capacity::{OperationStatus, TableStatus, Units};
use tidegate_core::{Class, Timestamp};
use tidegate_engine::{Engine, OfferOutcome, QueueCounts, ResourceStats};
use tidegate_overload::SignalStats;

/// The help text of a metric of the table.
type Help = fn(&str) -> &'static str;

/// The name of a gauge and its value for a `T`.
type Gauge<T, V> = (&'static str, fn(&T) -> V);

/// The name of a counter of tables and its value.
type TableCount = (&'static str, fn(&TableStatus<'_>) -> u64);

/// Writes the series of the planes beside the limits; nothing for a policy without them.
pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    engine: &Engine,
    now: Timestamp,
    help: Help,
) -> fmt::Result {
    let tables: Vec<_> = engine.table_statuses(0, now).collect();
    if !tables.is_empty() {
        encode_tables(encoder, &tables, help)?;
        encode_nodes(encoder, engine, now, help)?;
    }
    // The default resource has no name and no bound, and is in no policy.
    let resources: Vec<_> =
        engine.resource_stats(now).filter_map(|stats| Some((stats.name?, stats))).collect();
    if resources.is_empty() {
        return Ok(());
    }
    encode_resources(encoder, &resources, help)?;
    encode_queues(encoder, engine, &resources, help)?;
    encode_signals(encoder, &resources, help)
}

fn encode_tables(encoder: &mut DescriptorEncoder<'_>, tables: &[TableStatus<'_>], help: Help) -> fmt::Result {
    let series = || {
        tables.iter().flat_map(|table| {
            [("read", table.read), ("write", table.write)].map(|(operation, status)| {
                ([("namespace", table.namespace), ("table", table.name), ("operation", operation)], status)
            })
        })
    };
    let gauges: [Gauge<OperationStatus, Units>; 2] = [
        ("tidegate_capacity_provisioned_units", |status| status.rate),
        ("tidegate_capacity_left_units", |status| status.left),
    ];
    for (name, value) in gauges {
        let mut family = encoder.encode_descriptor(name, help(name), None, MetricType::Gauge)?;
        for (labels, status) in series() {
            ConstGauge::new(value(&status).as_f64()).encode(family.encode_family(&labels)?)?;
        }
    }
    let of_tables =
        || tables.iter().map(|table| ([("namespace", table.namespace), ("table", table.name)], table));
    let name = "tidegate_capacity_partitions";
    let mut family = encoder.encode_descriptor(name, help(name), None, MetricType::Gauge)?;
    for (labels, table) in of_tables() {
        ConstGauge::new(i64::from(table.partitions)).encode(family.encode_family(&labels)?)?;
    }
    let counts: [TableCount; 2] = [
        ("tidegate_capacity_splits", |table| table.splits),
        ("tidegate_capacity_merges", |table| table.merges),
    ];
    for (name, value) in counts {
        let mut family = encoder.encode_descriptor(name, help(name), None, MetricType::Counter)?;
        for (labels, table) in of_tables() {
            ConstCounter::new(value(table)).encode(family.encode_family(&labels)?)?;
        }
    }
    let name = "tidegate_capacity_throttled";
    let mut family = encoder.encode_descriptor(name, help(name), None, MetricType::Counter)?;
    for (labels, status) in series() {
        ConstCounter::new(status.throttled).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

fn encode_nodes(
    encoder: &mut DescriptorEncoder<'_>,
    engine: &Engine,
    now: Timestamp,
    help: Help,
) -> fmt::Result {
    let name = "tidegate_capacity_node_left_units";
    let mut family = encoder.encode_descriptor(name, help(name), None, MetricType::Gauge)?;
    for node in engine.node_statuses(now) {
        ConstGauge::new(node.left.as_f64()).encode(family.encode_family(&[("node", node.name)])?)?;
    }
    Ok(())
}

fn encode_resources(
    encoder: &mut DescriptorEncoder<'_>,
    resources: &[(&str, ResourceStats<'_>)],
    help: Help,
) -> fmt::Result {
    let gauges: [Gauge<ResourceStats<'_>, u64>; 4] = [
        ("tidegate_resource_in_flight", |stats| stats.in_flight),
        ("tidegate_resource_in_flight_max", |stats| stats.in_flight_max),
        ("tidegate_resource_cursor", |stats| stats.cursor.level().into()),
        ("tidegate_resource_level", |stats| stats.level as u64),
    ];
    for (name, value) in gauges {
        let mut family = encoder.encode_descriptor(name, help(name), None, MetricType::Gauge)?;
        for (resource, stats) in resources {
            ConstGauge::new(value(stats)).encode(family.encode_family(&[("resource", *resource)])?)?;
        }
    }
    let name = "tidegate_resource_pressure";
    let mut family = encoder.encode_descriptor(name, help(name), None, MetricType::Gauge)?;
    for (resource, stats) in resources {
        let pressure = ConstGauge::new(stats.pressure.unwrap_or(0.0));
        pressure.encode(family.encode_family(&[("resource", *resource)])?)?;
    }
    let name = "tidegate_resource_offered";
    let mut family = encoder.encode_descriptor(name, help(name), None, MetricType::Counter)?;
    for (resource, stats) in resources {
        ConstCounter::new(stats.offered).encode(family.encode_family(&[("resource", *resource)])?)?;
    }
    let name = "tidegate_resource_places_expired";
    let mut family = encoder.encode_descriptor(name, help(name), None, MetricType::Counter)?;
    for (resource, stats) in resources {
        ConstCounter::new(stats.places_expired).encode(family.encode_family(&[("resource", *resource)])?)?;
    }
    let name = "tidegate_resource_outcomes";
    let mut family = encoder.encode_descriptor(name, help(name), None, MetricType::Counter)?;
    for (resource, stats) in resources {
        for outcome in OfferOutcome::ALL {
            let labels = [("resource", *resource), ("outcome", outcome.as_str())];
            ConstCounter::new(stats.count(outcome)).encode(family.encode_family(&labels)?)?;
        }
    }
    encode_classes(encoder, resources, help)
}

/// The offers and outcomes of each class at each resource.
fn encode_classes(
    encoder: &mut DescriptorEncoder<'_>,
    resources: &[(&str, ResourceStats<'_>)],
    help: Help,
) -> fmt::Result {
    let by_class = || {
        resources.iter().flat_map(|(resource, stats)| {
            Class::ALL.map(|class| ([("resource", *resource), ("class", class.as_str())], stats.class(class)))
        })
    };
    let name = "tidegate_resource_class_offered";
    let mut family = encoder.encode_descriptor(name, help(name), None, MetricType::Counter)?;
    for (labels, counts) in by_class() {
        ConstCounter::new(counts.offered).encode(family.encode_family(&labels)?)?;
    }
    let name = "tidegate_resource_class_outcomes";
    let mut family = encoder.encode_descriptor(name, help(name), None, MetricType::Counter)?;
    for ([resource, class], counts) in by_class() {
        for outcome in OfferOutcome::ALL {
            let labels = [resource, class, ("outcome", outcome.as_str())];
            ConstCounter::new(counts.count(outcome)).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

/// The series of the resources with a queue, by class.
fn encode_queues(
    encoder: &mut DescriptorEncoder<'_>,
    engine: &Engine,
    resources: &[(&str, ResourceStats<'_>)],
    help: Help,
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
    let name = "tidegate_resource_queued";
    let mut family = encoder.encode_descriptor(name, help(name), None, MetricType::Gauge)?;
    for (labels, counts) in by_class() {
        ConstGauge::new(counts.waiting).encode(family.encode_family(&labels)?)?;
    }
    let seconds: [QueueDuration; 2] = [
        ("tidegate_resource_queue_delay_seconds", MetricType::Gauge, |counts| counts.delay),
        ("tidegate_resource_queue_wait_seconds", MetricType::Counter, |counts| counts.wait_sum),
    ];
    for (name, kind, value) in seconds {
        let is_counter = matches!(kind, MetricType::Counter);
        let mut family = encoder.encode_descriptor(name, help(name), None, kind)?;
        for (labels, counts) in by_class() {
            let (value, series) = (value(counts).as_secs_f64(), family.encode_family(&labels)?);
            if is_counter {
                ConstCounter::new(value).encode(series)?;
            } else {
                ConstGauge::new(value).encode(series)?;
            }
        }
    }
    let name = "tidegate_resource_queue_departures";
    let mut family = encoder.encode_descriptor(name, help(name), None, MetricType::Counter)?;
    for ([resource, class], counts) in by_class() {
        for (departure, value) in DEPARTURES {
            let labels = [resource, class, ("departure", departure)];
            ConstCounter::new(value(counts)).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

/// A number of a queue, by the name in its label.
type QueueNumber = (&'static str, fn(&QueueCounts) -> u64);

/// A duration of a queue, by the name and the kind of its series.
type QueueDuration = (&'static str, MetricType, fn(&QueueCounts) -> Duration);

/// The ways in which requests leave a queue, by their names in labels.
const DEPARTURES: [QueueNumber; 7] = [
    ("served", |counts| counts.served),
    ("shed_by_delay", |counts| counts.shed_by_delay),
    ("expired", |counts| counts.expired),
    ("too_late", |counts| counts.too_late),
    ("cancelled", |counts| counts.cancelled),
    ("displaced", |counts| counts.displaced),
    ("moved", |counts| counts.moved),
];

/// The series of the signals of each resource.
fn encode_signals(
    encoder: &mut DescriptorEncoder<'_>,
    resources: &[(&str, ResourceStats<'_>)],
    help: Help,
) -> fmt::Result {
    let gauges: [Gauge<SignalStats, f64>; 2] = [
        ("tidegate_signal_pressure", |signal| signal.pressure.unwrap_or(0.0)),
        ("tidegate_signal_stale", |signal| if signal.is_stale || signal.age.is_none() { 1.0 } else { 0.0 }),
    ];
    for (name, value) in gauges {
        let mut family = encoder.encode_descriptor(name, help(name), None, MetricType::Gauge)?;
        for (resource, stats) in resources {
            for signal in &stats.signals {
                let labels = [("signal", signal.name.as_str()), ("resource", *resource)];
                ConstGauge::new(value(signal)).encode(family.encode_family(&labels)?)?;
            }
        }
    }
    Ok(())
}
