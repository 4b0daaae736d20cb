//! Checks tables, their indexes and where their partitions lie.

use core::time::Duration;

use tidegate_capacity::on_demand::{OnDemandTerms, Ratchet};
use tidegate_capacity::{
    AccountConfig, CapacityError, NodeConfig, PartitionBy, ReadMembers, TableConfig, TableMode, Units,
    WarmThroughput, WriteCheck, WriteQuorum,
};
use tidegate_core::rate::format_span;

use super::bounded_size::size_between;
use super::planes::check_names;
use crate::measure::span;
use crate::path::Path;
use crate::policy::NamespacePolicy;
use crate::policy::planes::capacity;
use crate::printable::shown;
use crate::problem::Report;
use crate::raw::tables::{
    DirectionsForm, IndexForm, MaxAccessForm, OnDemandForm, PartitionByForm, PartitionsForm, ProvisionedForm,
    ReadsForm, TableForm, TableModeForm, WriteCheckForm, WriteQuorumForm,
};

/// The longest text that all keys of a table begin with, in bytes.
const KEY_PREFIX_BYTES_MAX: usize = 1024;

/// The most indexes of a table: those of `DynamoDB`, global and local together.
const INDEXES_MAX: usize = 25;

/// The shortest and the longest time in which the limit of a table on demand doubles.
const GROWTH_MIN: Duration = Duration::from_secs(1);
const GROWTH_MAX: Duration = Duration::from_hours(1);

/// The tables of a namespace, each followed by its indexes, on no node yet.
pub(super) fn tables(
    namespace: &str,
    raw: Option<&[TableForm]>,
    path: &Path,
    report: &mut Report<'_>,
) -> Vec<TableConfig> {
    let raw = raw.unwrap_or_default();
    check_names("table", raw.iter().map(|table| table.name.as_str()), path, report);
    let mut tables = Vec::with_capacity(raw.len());
    for (position, raw) in raw.iter().enumerate() {
        let at = path.index(position);
        let table = table(namespace, raw, &at, report);
        let indexes = indexes(&table, raw.indexes.as_deref(), &at.key("indexes"), report);
        tables.push(table);
        tables.extend(indexes);
    }
    tables
}

fn table(namespace: &str, raw: &TableForm, path: &Path, report: &mut Report<'_>) -> TableConfig {
    let mut table = match (&raw.provisioned, &raw.on_demand) {
        (Some(ProvisionedForm { read, write }), None) => {
            TableConfig::new(namespace, raw.name.clone(), *read, *write)
        }
        (None, Some(form)) => {
            let terms = on_demand(form, &path.key("on_demand"), report);
            TableConfig::new(namespace, raw.name.clone(), 1, 1).on_demand(terms)
        }
        (Some(_), Some(_)) => {
            let what = "a table has either provisioned throughput or throughput on demand";
            report.key(&path.key("on_demand"), what, "remove `on_demand` or `provisioned`");
            TableConfig::new(namespace, raw.name.clone(), 1, 1)
        }
        (None, None) => {
            let (what, fix) = ("`provisioned` is missing", "add `provisioned:`, or `on_demand: {}`");
            report.value(&path.key("provisioned"), what, fix);
            TableConfig::new(namespace, raw.name.clone(), 1, 1)
        }
    };
    set_mode(&mut table, raw.mode, path, report);
    if let Some(form) = &raw.warm {
        set_warm(&mut table, form, path, report);
    }
    set_partitions(&mut table, raw.partition_by, raw.partitions.as_ref());
    report.effective(&path.key("partitions").key("min"), table.partitions);
    report.effective(&path.key("mode"), table.mode.as_str());
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
    if let Some(form) = &raw.max_access {
        set_max_access(&mut table, form, &path.key("max_access"), report);
    }
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
        set_burst(&mut table, text, &path.key("burst"), report);
    }
    table
}

fn set_mode(table: &mut TableConfig, raw: Option<TableModeForm>, path: &Path, report: &mut Report<'_>) {
    let Some(form) = raw else { return };
    let mode = match form {
        TableModeForm::Static => TableMode::Static,
        TableModeForm::Burst => TableMode::Burst,
        TableModeForm::Adaptive => TableMode::Adaptive,
        TableModeForm::Global => TableMode::Global,
    };
    if table.on_demand.is_some() && mode != TableMode::Global {
        let what = "a table on demand is admitted from the throughput of the whole table";
        report.value(&path.key("mode"), what, "remove `mode`, or use `provisioned`");
        return;
    }
    table.mode = mode;
}

fn set_warm(table: &mut TableConfig, raw: &DirectionsForm, path: &Path, report: &mut Report<'_>) {
    let at = path.key("warm");
    if table.mode != TableMode::Global {
        let what = "partitions made for warm throughput would divide the shares of this mode";
        report.key(&at, what, "use `mode: global`, or remove `warm`");
        return;
    }
    if let Some(terms) = table.on_demand {
        for (name, units, max) in [("read", raw.read, terms.read.max), ("write", raw.write, terms.write.max)]
        {
            if let (Some(units), Some(max)) = (units, max)
                && Units::whole(units) > max
            {
                let what = format!("warm throughput of {units} units is above the highest limit of {max}");
                let fix = format!("lower it, or raise `on_demand: {{ max: {{ {name}: .. }} }}`");
                report.value(&at.key(name), what, fix);
            }
        }
    }
    // The initial limits of a table on demand, or what is provisioned.
    let read = raw.read.unwrap_or(table.read_units_per_second);
    let write = raw.write.unwrap_or(table.write_units_per_second);
    report.effective(&at.key("read"), read);
    report.effective(&at.key("write"), write);
    table.warm = Some(WarmThroughput { read, write });
}

fn set_partitions(table: &mut TableConfig, by: Option<PartitionByForm>, raw: Option<&PartitionsForm>) {
    table.partition_by = match by.unwrap_or_default() {
        PartitionByForm::Hash => PartitionBy::Hash,
        PartitionByForm::Range => PartitionBy::Range,
        PartitionByForm::Slot => PartitionBy::Slot,
    };
    let ceiling = raw.and_then(|raw| raw.ceiling.as_ref());
    table.read_ceiling = ceiling.and_then(|ceiling| ceiling.read);
    table.write_ceiling = ceiling.and_then(|ceiling| ceiling.write);
    table.splits = raw.and_then(|raw| raw.split).unwrap_or(true);
    table.merges = raw.and_then(|raw| raw.merge).unwrap_or(true);
    table.partitions = raw.and_then(|raw| raw.min).unwrap_or_else(|| initial_partitions(table));
}

/// The partitions of a table that does not say how many: one, or on demand as many as its initial
/// limits need.
fn initial_partitions(table: &TableConfig) -> u32 {
    let Some(OnDemandTerms { read, write }) = table.on_demand else { return 1 };
    let ceilings = [
        table.read_ceiling.unwrap_or(TableConfig::READ_CEILING),
        table.write_ceiling.unwrap_or(TableConfig::WRITE_CEILING),
    ];
    let [read_ceiling, write_ceiling] = ceilings.map(Units::whole);
    let needed = Ratchet::partitions_for(read.initial, write.initial, read_ceiling, write_ceiling);
    needed.min(TableConfig::PARTITIONS_MAX)
}

fn set_max_access(table: &mut TableConfig, raw: &MaxAccessForm, path: &Path, report: &mut Report<'_>) {
    for (name, text, highest, bytes) in [
        ("read", &raw.read, TableConfig::READ_BYTES_HIGHEST, &mut table.read_bytes_max),
        ("write", &raw.write, TableConfig::WRITE_BYTES_HIGHEST, &mut table.write_bytes_max),
    ] {
        *bytes = size_between((name, text.as_ref()), *bytes, (1, highest), path, report);
    }
}

fn set_burst(table: &mut TableConfig, text: &str, at: &Path, report: &mut Report<'_>) {
    match span("burst", text) {
        Ok(span) if span <= TableConfig::BURST_MAX && span.subsec_nanos() == 0 => {
            report.effective(at, format_span(span));
            table.burst = span;
        }
        Ok(_) => {
            let what = format!("burst {} is out of range", shown(text));
            report.value(at, what, "use whole seconds, 0s to 1h");
        }
        Err((what, fix)) => report.value(at, what, fix),
    }
    if table.mode == TableMode::Static {
        let what = "a table with `mode: static` keeps no unused throughput, so `burst` has no effect";
        report.warn(at, what, "use `mode: burst`, `adaptive` or `global`, or remove `burst`");
    }
}

fn on_demand(raw: &OnDemandForm, path: &Path, report: &mut Report<'_>) -> OnDemandTerms {
    let mut terms = OnDemandTerms::default();
    let part = |form: &Option<DirectionsForm>, is_read: bool| {
        let form = form.as_ref()?;
        if is_read { form.read } else { form.write }
    };
    for (is_read, name, one) in [(true, "read", &mut terms.read), (false, "write", &mut terms.write)] {
        if let Some(units) = part(&raw.initial, is_read) {
            one.initial = Units::whole(units);
        }
        report.effective(&path.key("initial").key(name), one.initial.as_f64());
        if let Some(units) = part(&raw.max, is_read) {
            one.max = Some(Units::whole(units));
            if Units::whole(units) < one.initial {
                let initial = one.initial;
                let what =
                    format!("the highest limit of {units} units is below the initial one of {initial}");
                let fix = format!("raise it, or lower `initial: {{ {name}: .. }}`");
                report.value(&path.key("max").key(name), what, fix);
            }
        }
    }
    if let Some(text) = &raw.growth {
        let at = path.key("growth");
        match span("growth", text) {
            Ok(span) if (GROWTH_MIN..=GROWTH_MAX).contains(&span) => {
                report.effective(&at, format_span(span));
                (terms.read.growth, terms.write.growth) = (span, span);
            }
            Ok(_) => {
                let what = format!("growth {} is out of range", shown(text));
                report.value(&at, what, "use 1s to 1h");
            }
            Err((what, fix)) => report.value(&at, what, fix),
        }
    }
    terms
}

/// The indexes of a table. They have its settings but for their own names, orders, throughput and
/// partitions.
fn indexes(
    table: &TableConfig,
    raw: Option<&[IndexForm]>,
    path: &Path,
    report: &mut Report<'_>,
) -> Vec<TableConfig> {
    let raw = raw.unwrap_or_default();
    if !report.check_count(path, raw.len(), "indexes", INDEXES_MAX) {
        return Vec::new();
    }
    check_names("index", raw.iter().map(|index| index.name.as_str()), path, report);
    let index = |(position, raw): (usize, &IndexForm)| {
        if raw.name.contains('/') {
            let what = format!("the name of the index \"{}\" has a slash", shown(&raw.name));
            report.value(&path.index(position).key("name"), what, "write the index's own name alone");
        }
        let mut index = table.clone();
        index.name.clone_from(&raw.name);
        index.key_prefix = Vec::new();
        if let Some(ProvisionedForm { read, write }) = raw.provisioned {
            (index.read_units_per_second, index.write_units_per_second) = (read, write);
            (index.on_demand, index.warm) = (None, None);
        }
        set_partitions(&mut index, raw.partition_by, raw.partitions.as_ref());
        let at = path.index(position);
        report.effective(&at.key("partitions").key("min"), index.partitions);
        if index.on_demand.is_none() {
            let at = at.key("provisioned");
            report.effective(&at.key("read"), index.read_units_per_second);
            report.effective(&at.key("write"), index.write_units_per_second);
        }
        index.index_of(&table.name)
    };
    raw.iter().enumerate().map(index).collect()
}

/// Warns of tables that daemons on one store count apart from each other: each of them admits the
/// whole throughput.
pub(super) fn warn_uncounted(namespace: &NamespacePolicy, path: &Path, report: &mut Report<'_>) {
    let bases = namespace.tables.iter().filter(|table| table.index_of.is_none());
    for (position, table) in bases.enumerate() {
        let at = path.key("tables").index(position);
        if table.mode != TableMode::Global {
            let what = format!(
                "each daemon on the shared store admits all of this table with `mode: {}`",
                table.mode.as_str()
            );
            report.warn(&at.key("mode"), what, "use `mode: global`, which leases the table, or one daemon");
        }
    }
}

/// The paths of tables and indexes, in the order of the tables.
fn places(namespaces: &[NamespacePolicy], path: &Path) -> Vec<Path> {
    let mut places = Vec::new();
    for namespace in namespaces {
        let within = path.key("namespaces").key(&namespace.name).key("tables");
        let (mut tables, mut indexes) = (0, 0);
        for table in &namespace.tables {
            if table.index_of.is_none() {
                places.push(within.index(tables));
                (tables, indexes) = (tables + 1, 0);
            } else {
                places.push(within.index(tables - 1).key("indexes").index(indexes));
                indexes += 1;
            }
        }
    }
    places
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
    let places = places(namespaces, path);
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
