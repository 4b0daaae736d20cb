//! Checks nodes, tables and resources.

use core::time::Duration;
use std::collections::BTreeMap;

use tidegate_core::Class;

use super::name_and_path::check_name;
use crate::measure::{size, span};
use crate::path::Path;
use crate::policy::NamespacePolicy;
use crate::policy::planes::{NodePolicy, QueuePolicy, ResourcePolicy, TablePolicy};
use crate::printable::shown;
use crate::problem::Report;
use crate::raw::planes::{
    NodeConfig, PartitionByConfig, QueueForm, ResourceConfig, TableConfig, TableModeConfig,
};

pub(super) fn nodes(raw: Option<&[NodeConfig]>, path: &Path, report: &mut Report<'_>) -> Vec<NodePolicy> {
    let raw = raw.unwrap_or_default();
    if raw.len() > NodePolicy::COUNT_MAX {
        let what = format!("{} nodes", raw.len());
        report.value(path, what, format!("use at most {}", NodePolicy::COUNT_MAX));
        return Vec::new();
    }
    check_names("node", raw.iter().map(|node| node.name.as_str()), path, report);
    raw.iter().map(|node| NodePolicy { name: node.name.clone(), units: node.units }).collect()
}

pub(super) fn tables(raw: Option<&[TableConfig]>, path: &Path, report: &mut Report<'_>) -> Vec<TablePolicy> {
    let raw = raw.unwrap_or_default();
    check_names("table", raw.iter().map(|table| table.name.as_str()), path, report);
    raw.iter()
        .map(|table| {
            // The only ones so far.
            let PartitionByConfig::Hash = table.partition_by.unwrap_or_default();
            let TableModeConfig::Static = table.mode.unwrap_or_default();
            TablePolicy {
                name: table.name.clone(),
                read_units: table.provisioned.read,
                write_units: table.provisioned.write,
                partitions: table.partitions.as_ref().and_then(|partitions| partitions.min).unwrap_or(1),
            }
        })
        .collect()
}

/// Reports names that are empty, too long, or that an earlier entry has already.
fn check_names<'a>(kind: &str, names: impl Iterator<Item = &'a str>, path: &Path, report: &mut Report<'_>) {
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, name) in names.enumerate() {
        if report.is_full() {
            return;
        }
        let at = path.index(index).key("name");
        check_name(kind, name, NodePolicy::NAME_BYTES_MAX, |what, fix| report.value(&at, what, fix));
        if let Some(first) = known.get(name) {
            let line = report.line_of(&path.index(*first).key("name"));
            let what = format!("duplicate {kind} name \"{}\"", shown(name));
            report.value(&at, what, format!("first defined at line {line}; rename one of them"));
        } else {
            known.insert(name, index);
        }
    }
}

/// Reports nodes whose partitions are promised more than they can do, and more tables than there
/// may be.
pub(super) fn placement(
    nodes: &[NodePolicy],
    namespaces: &[NamespacePolicy],
    path: &Path,
    report: &mut Report<'_>,
) {
    let tables = || namespaces.iter().flat_map(|namespace| &namespace.tables);
    let partitions: usize = tables().map(|table| table.partitions as usize).sum();
    for (what, count, max) in [
        ("tables", tables().count(), TablePolicy::COUNT_MAX),
        ("partitions", partitions, TablePolicy::ALL_PARTITIONS_MAX),
    ] {
        if count > max {
            let what = format!("{count} {what} in all namespaces together");
            report.value(&path.key("namespaces"), what, format!("use at most {max}"));
            return;
        }
    }
    let mut promised = vec![0_u64; nodes.len().max(1)];
    for table in tables() {
        for (partition, on_node) in (0..table.partitions).zip((0..promised.len()).cycle()) {
            promised[on_node] += table.promised(partition);
        }
    }
    if nodes.is_empty() && promised[0] > TablePolicy::UNITS_MAX * 1000 {
        let units = promised[0].div_ceil(1000);
        let what = format!("all tables are promised {units} units a second, more than one node can do");
        report.value(&path.key("namespaces"), what, "add nodes under `nodes:`");
    }
    for (index, (node, promised)) in nodes.iter().zip(promised).enumerate() {
        if promised > node.units * 1000 {
            let what = format!(
                "node \"{}\" can do {} units a second, but its partitions are promised {}",
                shown(&node.name),
                node.units,
                promised.div_ceil(1000)
            );
            let fix = "raise its units, add a node, or lower what tables are provisioned";
            report.value(&path.key("nodes").index(index).key("units"), what, fix);
        }
    }
}

pub(super) fn resources(
    raw: Option<&BTreeMap<String, ResourceConfig>>,
    path: &Path,
    report: &mut Report<'_>,
) -> Vec<ResourcePolicy> {
    let count = raw.map_or(0, BTreeMap::len);
    if count > ResourcePolicy::COUNT_MAX {
        let what = format!("{count} resources");
        report.value(path, what, format!("use at most {}", ResourcePolicy::COUNT_MAX));
        return Vec::new();
    }
    let resource = |(name, raw): (&String, &ResourceConfig)| {
        let at = path.key(name);
        check_name("resource", name, ResourcePolicy::NAME_BYTES_MAX, |what, fix| report.key(&at, what, fix));
        ResourcePolicy {
            name: name.clone(),
            concurrency: raw.concurrency,
            queue: raw.queue.as_ref().map(|raw| queue(raw, &at.key("queue"), report)),
            status: raw.status,
        }
    };
    raw.into_iter().flatten().map(resource).collect()
}

fn queue(raw: &QueueForm, path: &Path, report: &mut Report<'_>) -> QueuePolicy {
    let bytes = raw.bytes.as_deref().map(|text| {
        size("bytes", text, QueuePolicy::BYTES_MIN, QueuePolicy::BYTES_MAX).unwrap_or_else(|(what, fix)| {
            report.value(&path.key("bytes"), what, fix);
            0
        })
    });
    let mut wait = [Duration::ZERO; Class::ALL.len()];
    if let Some(raw) = &raw.wait {
        let by_class = [&raw.sheddable, &raw.sheddable_plus, &raw.critical, &raw.critical_plus];
        for (class, text) in Class::ALL.into_iter().zip(by_class) {
            let Some(text) = text else { continue };
            let at = path.key("wait").key(class.as_str());
            match span("wait", text) {
                Ok(span) if span.is_zero() || span > QueuePolicy::WAIT_MAX => {
                    let what = format!("a wait of {} is out of range", shown(text));
                    report.value(&at, what, "use 1ms to 1h, or remove the class so that it does not wait");
                }
                Ok(span) => wait[class as usize] = span,
                Err((what, fix)) => report.value(&at, what, fix),
            }
        }
    }
    if !report.has_problems() && wait.iter().all(Duration::is_zero) {
        report.warn(path, "no class may wait, so the queue is never used", "add `wait: { critical: 500ms }`");
    }
    QueuePolicy {
        requests: raw.requests.map_or(QueuePolicy::REQUESTS_DEFAULT, |requests| requests as usize),
        bytes: bytes.map_or(QueuePolicy::BYTES_DEFAULT, |bytes| bytes as usize),
        wait,
    }
}
