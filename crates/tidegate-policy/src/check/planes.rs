//! Checks nodes, accounts and resources.

use core::time::Duration;
use std::collections::BTreeMap;

use tidegate_capacity::{AccountConfig, NodeConfig, TableConfig};
use tidegate_core::Class;

use super::name_and_path::check_name;
use crate::measure::{size, span};
use crate::path::Path;
use crate::policy::planes::{QueuePolicy, ResourcePolicy};
use crate::printable::shown;
use crate::problem::Report;
use crate::raw::planes::{AccountForm, NodeForm, QueueForm, ResourceConfig};

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

/// Reports names that are empty, too long, or that an earlier entry has already.
pub(super) fn check_names<'a>(
    kind: &str,
    names: impl Iterator<Item = &'a str>,
    path: &Path,
    report: &mut Report<'_>,
) {
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
