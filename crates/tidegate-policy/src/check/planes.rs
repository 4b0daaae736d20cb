//! Checks nodes, accounts, tables and resources.

use core::time::Duration;
use std::collections::BTreeMap;

use tidegate_capacity::{
    AccountConfig, CapacityError, NodeConfig, PartitionBy, ReadMembers, TableConfig, TableMode, WriteCheck,
    WriteQuorum,
};
use tidegate_core::Class;

use super::name_and_path::check_name;
use crate::measure::{size, span};
use crate::path::Path;
use crate::policy::NamespacePolicy;
use crate::policy::planes::{QueuePolicy, ResourcePolicy, capacity};
use crate::printable::shown;
use crate::problem::Report;
use crate::raw::planes::{
    AccountForm, NodeForm, PartitionByForm, ProvisionedForm, QueueForm, ReadsForm, ResourceConfig, TableForm,
    TableModeForm, WriteCheckForm, WriteQuorumForm,
};

pub(super) fn nodes(raw: Option<&[NodeForm]>, path: &Path, report: &mut Report<'_>) -> Vec<NodeConfig> {
    let raw = raw.unwrap_or_default();
    check_names("node", raw.iter().map(|node| node.name.as_str()), path, report);
    let node = |(index, raw): (usize, &NodeForm)| {
        let mut node = NodeConfig::new(raw.name.clone(), raw.units);
        if let Some(text) = &raw.reserve {
            node.reserve_percent = reserve(text, &path.index(index).key("reserve"), report);
        }
        node
    };
    raw.iter().enumerate().map(node).collect()
}

/// A part in hundredths, written as a decimal.
fn reserve(text: &str, path: &Path, report: &mut Report<'_>) -> u8 {
    let places = match text {
        "0" => Some("0"),
        _ => text.strip_prefix("0.").filter(|places| (1..=2).contains(&places.len())),
    };
    let percent = places.and_then(|places| format!("{places:0<2}").parse().ok());
    percent.filter(|percent| *percent <= NodeConfig::RESERVE_PERCENT_MAX).unwrap_or_else(|| {
        let what = format!("reserve \"{}\" is not a part of a node in hundredths", shown(text));
        report.value(path, what, "write a decimal from 0 to 0.9, for example 0.1");
        NodeConfig::RESERVE_PERCENT
    })
}

pub(super) fn accounts(
    raw: Option<&[AccountForm]>,
    path: &Path,
    report: &mut Report<'_>,
) -> Vec<AccountConfig> {
    let raw = raw.unwrap_or_default();
    check_names("account", raw.iter().map(|account| account.name.as_str()), path, report);
    let units = |given: Option<u64>| given.unwrap_or(AccountConfig::UNITS_PER_SECOND);
    let account = |raw: &AccountForm| {
        AccountConfig::new(raw.name.clone()).reads(units(raw.read)).writes(units(raw.write))
    };
    raw.iter().map(account).collect()
}

/// The tables of a namespace, on no node yet.
pub(super) fn tables(
    namespace: &str,
    raw: Option<&[TableForm]>,
    path: &Path,
    report: &mut Report<'_>,
) -> Vec<TableConfig> {
    let raw = raw.unwrap_or_default();
    check_names("table", raw.iter().map(|table| table.name.as_str()), path, report);
    raw.iter().enumerate().map(|(index, raw)| table(namespace, raw, &path.index(index), report)).collect()
}

fn table(namespace: &str, raw: &TableForm, path: &Path, report: &mut Report<'_>) -> TableConfig {
    let ProvisionedForm { read, write } = raw.provisioned;
    let mut table = TableConfig::new(namespace, raw.name.clone(), read, write);
    if let Some(partitions) = &raw.partitions {
        table.partitions = partitions.min.unwrap_or(1);
        let ceiling = partitions.ceiling.as_ref();
        table.read_ceiling = ceiling.and_then(|ceiling| ceiling.read);
        table.write_ceiling = ceiling.and_then(|ceiling| ceiling.write);
    }
    table.partition_by = match raw.partition_by.unwrap_or_default() {
        PartitionByForm::Hash => PartitionBy::Hash,
        PartitionByForm::Range => PartitionBy::Range,
        PartitionByForm::Slot => PartitionBy::Slot,
    };
    table.mode = match raw.mode.unwrap_or_default() {
        TableModeForm::Static => TableMode::Static,
        TableModeForm::Burst => TableMode::Burst,
        TableModeForm::Global => TableMode::Global,
    };
    table.reads = match raw.reads.unwrap_or_default() {
        ReadsForm::Any => ReadMembers::Any,
        ReadsForm::Local => ReadMembers::Local,
    };
    table.write_check = match raw.write_check.unwrap_or_default() {
        WriteCheckForm::BurstOnly => WriteCheck::BurstOnly,
        WriteCheckForm::Always => WriteCheck::Always,
    };
    table.write_quorum = match raw.write_quorum.unwrap_or_default() {
        WriteQuorumForm::All => WriteQuorum::All,
        WriteQuorumForm::Majority => WriteQuorum::Majority,
    };
    table.replicas = raw.replicas.unwrap_or(1);
    table.account.clone_from(&raw.account);
    if let Some(prefix) = &raw.key_prefix {
        let at = path.key("key_prefix");
        if table.partition_by != PartitionBy::Range {
            report.key(&at, "a prefix of keys counts for `partition_by: range` alone", "remove it");
        } else if prefix.len() > KEY_PREFIX_BYTES_MAX {
            let what = format!("a prefix of {} bytes", prefix.len());
            report.value(&at, what, format!("use at most {KEY_PREFIX_BYTES_MAX}"));
        }
        table.key_prefix = prefix.clone().into_bytes();
    }
    if let Some(text) = &raw.burst {
        let at = path.key("burst");
        match span("burst", text) {
            Ok(span) if span <= TableConfig::BURST_MAX && span.subsec_nanos() == 0 => table.burst = span,
            Ok(_) => {
                let what = format!("burst {} is out of range", shown(text));
                report.value(&at, what, "use whole seconds, 0s to 1h");
            }
            Err((what, fix)) => report.value(&at, what, fix),
        }
        if table.mode == TableMode::Static {
            let what = "a table with `mode: static` keeps no unused throughput, so `burst` has no effect";
            report.warn(&at, what, "use `mode: burst` or `mode: global`, or remove `burst`");
        }
    }
    table
}

/// The longest text that all keys of a table begin with, in bytes.
const KEY_PREFIX_BYTES_MAX: usize = 1024;

/// Reports names that are empty, too long, or that an earlier entry has already.
fn check_names<'a>(kind: &str, names: impl Iterator<Item = &'a str>, path: &Path, report: &mut Report<'_>) {
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, name) in names.enumerate() {
        if report.is_full() {
            return;
        }
        let at = path.index(index).key("name");
        check_name(kind, name, TableConfig::NAME_BYTES_MAX, |what, fix| report.value(&at, what, fix));
        if let Some(first) = known.get(name) {
            let line = report.line_of(&path.index(*first).key("name"));
            let what = format!("duplicate {kind} name \"{}\"", shown(name));
            report.value(&at, what, format!("first defined at line {line}; rename one of them"));
        } else {
            known.insert(name, index);
        }
    }
}

/// Reports tables that cannot be laid on the nodes, nodes whose partitions are promised more than
/// they can do, and more of anything than there may be.
pub(super) fn placement(
    nodes: &[NodeConfig],
    accounts: &[AccountConfig],
    namespaces: &[NamespacePolicy],
    path: &Path,
    report: &mut Report<'_>,
) {
    if report.has_problems() {
        return;
    }
    let tables = namespaces.iter().flat_map(|namespace| &namespace.tables);
    let builder = capacity(nodes, accounts, tables);
    let places: Vec<Path> = namespaces
        .iter()
        .flat_map(|namespace| {
            let within = path.key("namespaces").key(&namespace.name).key("tables");
            (0..namespace.tables.len()).map(move |index| within.index(index))
        })
        .collect();
    for (table, error) in builder.table_faults() {
        let at = &places[table];
        let at = match error {
            CapacityError::Replicas { .. } => at.key("replicas"),
            CapacityError::CeilingBelowShare { .. } => at.key("partitions").key("ceiling"),
            CapacityError::UnknownAccount { .. } => at.key("account"),
            _ => at.key("name"),
        };
        report_error(&at, &error, report);
    }
    if report.has_problems() {
        return;
    }
    let Err(error) = builder.check(None) else { return };
    match &error {
        CapacityError::NodeOvercommitted { promised, .. } if nodes.is_empty() => {
            let what =
                format!("all tables are promised {promised} units a second, more than one node can do");
            report.value(&path.key("namespaces"), what, "add nodes under `nodes:`");
        }
        CapacityError::NodeOvercommitted { node, .. } => {
            let index = nodes.iter().position(|one| one.name == *node).unwrap_or_default();
            let (what, _) = parts_of(&error);
            let fix = "raise its units, add a node, or lower what tables are provisioned";
            report.value(&path.key("nodes").index(index).key("units"), what, fix);
        }
        CapacityError::TooMany { what: "nodes", .. } => report_error(&path.key("nodes"), &error, report),
        CapacityError::TooMany { what: "accounts", .. } => {
            report_error(&path.key("accounts"), &error, report);
        }
        _ => report_error(&path.key("namespaces"), &error, report),
    }
}

fn report_error(path: &Path, error: &CapacityError, report: &mut Report<'_>) {
    let (what, fix) = parts_of(error);
    report.value(path, what, fix);
}

/// An error of the capacity plane and its fix, which stands behind the last semicolon.
fn parts_of(error: &CapacityError) -> (String, String) {
    let text = error.to_string();
    let (what, fix) = text.rsplit_once("; ").unwrap_or((&text, "correct it"));
    (what.to_owned(), fix.to_owned())
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
