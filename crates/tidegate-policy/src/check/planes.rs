//! Checks nodes and accounts.

use std::collections::BTreeMap;

use tidegate_capacity::{AccountConfig, NodeConfig, TableConfig};

use super::name_and_path::check_name;
use crate::measure::percent;
use crate::path::Path;
use crate::printable::shown;
use crate::problem::Report;
use crate::raw::planes::{AccountForm, NodeForm};

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

fn reserve(text: &str, path: &Path, report: &mut Report<'_>) -> u8 {
    percent(text).filter(|percent| *percent <= NodeConfig::RESERVE_PERCENT_MAX).unwrap_or_else(|| {
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
