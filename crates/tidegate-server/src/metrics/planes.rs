//! The series of tables, nodes and resources, read when the page is rendered. Their labels are
//! names of the policy and words of closed lists.

use core::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tidegate_capacity::{OperationStatus, TableStatus, Units};
use tidegate_core::Timestamp;
use tidegate_engine::{Engine, OfferOutcome, ResourceStats};

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
    if resources.is_empty() { Ok(()) } else { encode_resources(encoder, &resources, help) }
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
    let gauges: [Gauge<ResourceStats<'_>, u64>; 3] = [
        ("tidegate_resource_in_flight", |stats| stats.in_flight),
        ("tidegate_resource_in_flight_max", |stats| stats.in_flight_max),
        ("tidegate_resource_cursor", |stats| stats.cursor.level().into()),
    ];
    for (name, value) in gauges {
        let mut family = encoder.encode_descriptor(name, help(name), None, MetricType::Gauge)?;
        for (resource, stats) in resources {
            ConstGauge::new(value(stats)).encode(family.encode_family(&[("resource", *resource)])?)?;
        }
    }
    let name = "tidegate_resource_offered";
    let mut family = encoder.encode_descriptor(name, help(name), None, MetricType::Counter)?;
    for (resource, stats) in resources {
        ConstCounter::new(stats.offered).encode(family.encode_family(&[("resource", *resource)])?)?;
    }
    let name = "tidegate_resource_outcomes";
    let mut family = encoder.encode_descriptor(name, help(name), None, MetricType::Counter)?;
    for (resource, stats) in resources {
        for outcome in OfferOutcome::ALL {
            let labels = [("resource", *resource), ("outcome", outcome.as_str())];
            ConstCounter::new(stats.count(outcome)).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}
