//! Checks the cost table of a namespace.

use tidegate_core::Cost;
use tidegate_core::limit::{CostRow, Limit, Mode};

use super::limit::conditions;
use super::routes_and_limits::is_admitted_at_once;
use crate::path::Path;
use crate::printable::shown;
use crate::problem::Report;
use crate::raw::name_map::NameMap;
use crate::raw::plans::CostRowConfig;

/// The rows of the cost table; `path` is that of `costs`.
pub(super) fn costs(raw: Option<&Vec<CostRowConfig>>, path: &Path, report: &mut Report<'_>) -> Vec<CostRow> {
    let rows = raw.map(Vec::as_slice).unwrap_or_default();
    if rows.len() > CostRow::MAX {
        let what = format!("{} rows in one cost table", rows.len());
        report.value(path, what, format!("use at most {}, or a glob for several paths", CostRow::MAX));
        return Vec::new();
    }
    let mut all = Vec::with_capacity(rows.len());
    let mut takes_the_rest: Option<usize> = None;
    for (index, row) in rows.iter().enumerate() {
        if report.is_full() {
            break;
        }
        let at = path.index(index);
        if let Some(first) = takes_the_rest {
            let what = format!("costs[{first}] takes every request, so this row is of no effect");
            report.warn(&at, what, "move the row without `match` to the end");
        }
        if row.matches.as_ref().is_none_or(NameMap::is_empty) {
            takes_the_rest = takes_the_rest.or(Some(index));
        }
        let matches = conditions(row.matches.as_ref(), &at.key("match"), report);
        let Some(cost) = Cost::new(row.cost) else { continue };
        let mut row = CostRow::new(cost);
        for (attribute, matcher) in matches {
            row = row.when(attribute, matcher);
        }
        all.push(row);
    }
    all
}

/// Warns about rows that cost more than a limit for every request ever admits at once.
pub(super) fn warn(costs: &[CostRow], limits: &[Limit], path: &Path, report: &mut Report<'_>) {
    let fits = is_admitted_at_once;
    for (index, row) in costs.iter().enumerate() {
        let never = limits.iter().find(|limit| {
            let others = limit.overrides.iter().map(|one| Some(&one.algorithm));
            let others = others.chain(limit.plans.iter().map(|one| one.algorithm.as_ref()));
            limit.mode == Mode::Enforce
                && limit.matches.is_empty()
                // A limit of 0 is warned about by itself.
                && limit.algorithm.limit() > 0
                && !fits(&limit.algorithm, row.cost)
                && !others.into_iter().any(|other| other.is_none_or(|other| fits(other, row.cost)))
        });
        if let Some(limit) = never {
            let what = format!(
                "limit \"{}\" never admits a request of this cost, {}: it admits at most {} units at once",
                shown(&limit.name),
                row.cost.units(),
                limit.algorithm.largest_cost(),
            );
            report.warn(&path.index(index).key("cost"), what, "lower the cost, or raise the limit");
        }
    }
}
