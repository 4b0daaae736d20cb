//! The counts of clients against the rows of the meter.

use std::collections::{BTreeMap, BTreeSet};

use super::ledger::{ClientCounts, OUTCOMES, RowKey};

/// A row of the meter in one class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MeterCounts {
    pub(super) offered: u64,
    pub(super) under_way: u64,
    /// In the order of [`OUTCOMES`].
    pub(super) outcomes: [u64; OUTCOMES.len()],
    pub(super) units: u64,
}

impl MeterCounts {
    /// The requests with an outcome.
    pub(super) fn decided(&self) -> u64 {
        self.outcomes.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

/// The counts of all rows of the meter.
pub(super) type MeterRows = BTreeMap<RowKey, MeterCounts>;
/// The counts of clients by row.
pub(super) type ClientRows = BTreeMap<RowKey, ClientCounts>;

/// The problem of a row that does not add up by itself.
pub(super) fn sum_problem(row: &impl std::fmt::Display, meter: &MeterCounts) -> Option<String> {
    let MeterCounts { offered, under_way, .. } = *meter;
    let decided = meter.decided();
    (offered != decided.saturating_add(under_way)).then(|| {
        format!("{row}: offered is {offered}, but the outcomes are {decided} and under way are {under_way}")
    })
}

/// The problems when no request is under way, a line each; none if the meter has what clients
/// know.
///
/// Of each outcome, the meter has at least the answered requests, and at most those and the ones
/// that were cut. Over all outcomes of a row, it has no more beyond the answered ones than were
/// cut.
pub(super) fn at_rest(clients: &ClientRows, meter: &MeterRows) -> Vec<String> {
    let rows: BTreeSet<&RowKey> = clients.keys().chain(meter.keys()).collect();
    let (nobody, nothing) = (ClientCounts::default(), MeterCounts::default());
    let mut problems = Vec::new();
    for row in rows {
        let (known, metered) = (clients.get(row).unwrap_or(&nobody), meter.get(row).unwrap_or(&nothing));
        problems.extend(sum_problem(row, metered));
        if metered.under_way != 0 {
            problems.push(format!("{row}: {} are under way at rest", metered.under_way));
        }
        for (outcome, (answered, count)) in
            OUTCOMES.iter().zip(known.outcomes.into_iter().zip(metered.outcomes))
        {
            if !(answered..=answered + known.cut).contains(&count) {
                problems.push(format!(
                    "{row}: the meter has {count} {outcome}; clients were answered {answered}, and {} were cut",
                    known.cut
                ));
            }
        }
        let answered = known.outcomes.iter().sum::<u64>();
        if !(answered..=answered + known.cut).contains(&metered.decided()) {
            problems.push(format!(
                "{row}: the meter has {} requests; clients were answered {answered}, and {} were cut",
                metered.decided(),
                known.cut
            ));
        }
        let (least, most) = (known.units, known.units.saturating_add(known.cut_units));
        if !(least..=most).contains(&metered.units) {
            problems.push(format!(
                "{row}: the meter has {} units; admitted requests had {least}, with those that were cut {most}",
                metered.units
            ));
        }
    }
    problems
}

/// The problems while requests are under way, of rows that were read between two looks at the
/// counts of clients.
///
/// Each request that was answered before has been counted, and nothing is offered that was not
/// begun. An admission that a client has begun to undo meanwhile may be counted or not.
pub(super) fn meanwhile(before: &ClientRows, meter: &MeterRows, after: &ClientRows) -> Vec<String> {
    let nothing = MeterCounts::default();
    let mut problems = Vec::new();
    for (row, known) in before {
        let metered = meter.get(row).unwrap_or(&nothing);
        let reopened = after.get(row).map_or(0, |later| later.reopened) - known.reopened;
        for (outcome, (answered, count)) in
            OUTCOMES.iter().zip(known.outcomes.into_iter().zip(metered.outcomes))
        {
            let undone = if *outcome == "admitted" { reopened } else { 0 };
            if count.saturating_add(undone) < answered {
                problems.push(format!(
                    "{row}: the meter has {count} {outcome}, and clients had been answered {answered} before"
                ));
            }
        }
    }
    for (row, metered) in meter {
        problems.extend(sum_problem(row, metered));
        let begun = after.get(row).map_or(0, |known| known.begun);
        if metered.offered > begun {
            problems.push(format!("{row}: {} are offered, and {begun} were begun", metered.offered));
        }
    }
    problems
}

/// The problems between lists at rest: namespaces, features and resources add up to the same, and
/// the tenants of a namespace to its row.
pub(super) fn list_problems(meter: &MeterRows) -> Vec<String> {
    let sum = |list: &str, class: &str, name: Option<&str>| {
        let mut sum = MeterCounts::default();
        let is_meant =
            |row: &RowKey| row.list == list && row.class == class && name.is_none_or(|name| row.name == name);
        for (_, counts) in meter.iter().filter(|(row, _)| is_meant(row)) {
            sum.offered += counts.offered;
            sum.units += counts.units;
            sum.outcomes.iter_mut().zip(counts.outcomes).for_each(|(all, one)| *all += one);
        }
        sum
    };
    let lists: BTreeSet<&str> = meter.keys().map(|row| &*row.list).collect();
    let classes: BTreeSet<&str> = meter.keys().map(|row| &*row.class).collect();
    let mut problems = Vec::new();
    for (class, list) in classes.iter().flat_map(|class| lists.iter().map(move |list| (*class, *list))) {
        let namespace = list.strip_prefix("tenants of ");
        let (all, of_list) = (sum("namespaces", class, namespace), sum(list, class, None));
        if all != of_list {
            let namespaces = namespace.unwrap_or("namespaces");
            problems.push(format!("{list}, {class}: add up to {of_list:?}, and {namespaces} to {all:?}"));
        }
    }
    problems
}

/// The rows of a page of metrics: of namespaces, features and resources.
pub(super) fn metric_rows(page: &str) -> MeterRows {
    let mut rows = MeterRows::new();
    for line in page.lines() {
        let Some((series, value)) = line.rsplit_once(' ') else { continue };
        let parts: Vec<&str> = series.split('"').collect();
        let [head, name, ",class=", class, tail @ ..] = &parts[..] else { continue };
        let (list, is_units) = match *head {
            "tidegate_usage_requests_total{namespace=" => ("namespaces", false),
            "tidegate_usage_units_total{namespace=" => ("namespaces", true),
            "tidegate_feature_requests_total{feature=" => ("features", false),
            "tidegate_feature_units_total{feature=" => ("features", true),
            "tidegate_resource_requests_total{resource=" => ("resources", false),
            "tidegate_resource_units_total{resource=" => ("resources", true),
            _ => continue,
        };
        let Ok(value) = value.parse() else { continue };
        let row = rows.entry(RowKey::new(list, name, class)).or_default();
        if is_units {
            row.units = value;
        } else if let [",outcome=", outcome, _] = tail
            && let Some(at) = OUTCOMES.iter().position(|word| word == outcome)
        {
            row.outcomes[at] = value;
            row.offered += value;
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::super::ledger::position;
    use super::*;

    fn key() -> RowKey {
        RowKey::new("namespaces", "shop", "critical")
    }

    fn outcomes(counts: &[(&str, u64)]) -> [u64; OUTCOMES.len()] {
        let mut outcomes = [0; OUTCOMES.len()];
        for (outcome, count) in counts {
            outcomes[position(outcome)] = *count;
        }
        outcomes
    }

    /// Clients that were answered this, beside two requests of four units that were cut.
    fn clients(answered: &[(&str, u64)]) -> ClientRows {
        let outcomes = outcomes(answered);
        let begun = outcomes.iter().sum::<u64>() + 2;
        let counts =
            ClientCounts { begun, outcomes, units: 10, cut: 2, cut_units: 4, ..ClientCounts::default() };
        [(key(), counts)].into()
    }

    fn meter(counts: &[(&str, u64)], units: u64) -> MeterRows {
        let outcomes = outcomes(counts);
        let offered = outcomes.iter().sum();
        [(key(), MeterCounts { offered, outcomes, units, under_way: 0 })].into()
    }

    fn only_problem(problems: &[String]) -> &str {
        assert_eq!(problems.len(), 1, "{problems:?}");
        &problems[0]
    }

    #[test]
    fn cut_requests_may_have_any_outcome_or_none() {
        let known = clients(&[("admitted", 5), ("shed", 1)]);
        for metered in [
            meter(&[("admitted", 5), ("shed", 1)], 10),
            meter(&[("admitted", 6), ("shed", 2)], 12),
            meter(&[("admitted", 5), ("shed", 1), ("cancelled", 2)], 10),
            meter(&[("admitted", 7), ("shed", 1)], 14),
        ] {
            assert_eq!(at_rest(&known, &metered), Vec::<String>::new());
        }
    }

    #[test]
    fn an_answer_that_is_in_another_outcome_is_found() {
        let problems = at_rest(&clients(&[("admitted", 5)]), &meter(&[("admitted", 4), ("denied", 1)], 10));
        assert_eq!(
            only_problem(&problems),
            "namespaces, shop, critical: the meter has 4 admitted; clients were answered 5, and 2 were cut"
        );
    }

    #[test]
    fn an_outcome_that_is_counted_twice_is_found() {
        let problems = at_rest(&clients(&[("admitted", 5)]), &meter(&[("admitted", 8)], 10));
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains("the meter has 8 admitted; clients were answered 5"), "{problems:?}");
    }

    #[test]
    fn more_requests_over_all_outcomes_than_were_cut_are_found() {
        let metered = meter(&[("admitted", 5), ("denied", 2), ("cancelled", 1)], 10);
        let problems = at_rest(&clients(&[("admitted", 5)]), &metered);
        assert_eq!(
            only_problem(&problems),
            "namespaces, shop, critical: the meter has 8 requests; clients were answered 5, and 2 were cut"
        );
    }

    #[test]
    fn a_refusal_that_is_in_another_outcome_than_that_of_its_reason_is_found() {
        let mut known = clients(&[("admitted", 5), ("denied", 1)]);
        let counts = known.get_mut(&key()).unwrap();
        (counts.cut, counts.cut_units) = (0, 0);
        for (outcome, is_right) in [("denied", true), ("expired", false), ("shed", false)] {
            let metered = meter(&[("admitted", 5), (outcome, 1)], 10);
            assert_eq!(at_rest(&known, &metered).is_empty(), is_right, "{outcome}");
        }
    }

    #[test]
    fn rows_that_only_one_side_has_are_compared_too() {
        assert!(!at_rest(&ClientRows::new(), &meter(&[("admitted", 1)], 1)).is_empty());
        assert!(!at_rest(&clients(&[("denied", 1)]), &MeterRows::new()).is_empty());
    }

    #[test]
    fn a_row_that_does_not_add_up_or_is_not_at_rest_is_found() {
        let mut metered = meter(&[("admitted", 5)], 10);
        metered.get_mut(&key()).unwrap().under_way = 1;
        let problems = at_rest(&clients(&[("admitted", 5)]), &metered);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains("offered is 5, but the outcomes are 5 and under way are 1"));
        assert!(problems[1].contains("1 are under way at rest"));
    }

    #[test]
    fn units_are_those_of_admitted_requests_and_at_most_of_those_that_were_cut() {
        let known = clients(&[("admitted", 5)]);
        for (units, is_right) in [(9, false), (10, true), (14, true), (15, false)] {
            assert_eq!(
                at_rest(&known, &meter(&[("admitted", 5)], units)).is_empty(),
                is_right,
                "{units} units"
            );
        }
    }

    #[test]
    fn meanwhile_nothing_answered_is_missing_and_nothing_is_offered_that_was_not_begun() {
        let known = clients(&[("admitted", 5)]);
        assert!(meanwhile(&known, &meter(&[("admitted", 7)], 0), &known).is_empty());
        assert_eq!(
            only_problem(&meanwhile(&known, &meter(&[("admitted", 4)], 0), &known)),
            "namespaces, shop, critical: the meter has 4 admitted, and clients had been answered 5 before"
        );
        assert_eq!(
            only_problem(&meanwhile(&known, &meter(&[("admitted", 8)], 0), &known)),
            "namespaces, shop, critical: 8 are offered, and 7 were begun"
        );
        // One of the admissions is being undone.
        let mut later = known.clone();
        later.get_mut(&key()).unwrap().reopened = 1;
        assert!(meanwhile(&known, &meter(&[("admitted", 4)], 0), &later).is_empty());
        assert!(!meanwhile(&known, &meter(&[("admitted", 3)], 0), &later).is_empty());
        // A count below zero wraps round.
        let mut metered = meter(&[("admitted", 5)], 0);
        let row = metered.get_mut(&key()).unwrap();
        (row.offered, row.under_way) = (u64::MAX, u64::MAX);
        assert!(only_problem(&meanwhile(&known, &metered, &known)).contains("7 were begun"));
    }

    #[test]
    fn lists_add_up_to_the_namespaces_and_tenants_to_their_own() {
        let mut rows = meter(&[("admitted", 5)], 10);
        for (list, name) in [("features", "search"), ("resources", "(none)"), ("tenants of shop", "ada")] {
            rows.insert(RowKey::new(list, name, "critical"), rows[&key()].clone());
        }
        assert_eq!(list_problems(&rows), Vec::<String>::new());
        rows.get_mut(&RowKey::new("tenants of shop", "ada", "critical")).unwrap().units = 9;
        assert!(only_problem(&list_problems(&rows)).starts_with("tenants of shop, critical: add up to"));
    }

    #[test]
    fn metrics_are_read_by_row_and_class() {
        let page = "# HELP tidegate_usage_requests_total requests\n\
            tidegate_usage_requests_total{namespace=\"shop\",class=\"critical\",outcome=\"admitted\"} 5\n\
            tidegate_usage_requests_total{namespace=\"shop\",class=\"critical\",outcome=\"shed\"} 2\n\
            tidegate_usage_units_total{namespace=\"shop\",class=\"critical\"} 10\n\
            tidegate_usage_wait_seconds_total{namespace=\"shop\",class=\"critical\"} 0.5\n\
            tidegate_decisions_total{namespace=\"shop\",limit=\"all\"} 7\n";
        let rows = metric_rows(page);
        assert_eq!(rows, meter(&[("admitted", 5), ("shed", 2)], 10));
    }
}
