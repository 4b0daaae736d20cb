//! Features in the report: how often their levels changed, when, and what that was worth.

use super::design_lines::{COLORS, design_chip, line_of};
use crate::kit::chart::{ChartEvent, PlottedLine};
use crate::kit::report::{HtmlTable, escaped, thousands};
use crate::overload::design::OverloadDesign;
use crate::overload::feature_tally::FeatureResult;
use crate::overload::run::{OverloadResult, OverloadRun};
use crate::overload::summary::{VariantDesign, VariantSummary};

/// The most changes of one feature that are listed.
const LISTED_MAX: usize = 8;
/// The most episodes that are marked in a picture.
const MARKED_MAX: usize = 6;

/// The columns of features in the figures of a variant; none without features.
pub(super) fn feature_columns(variant: &VariantSummary) -> Vec<String> {
    let Some(first) = variant.designs.first().filter(|design| !design.features.is_empty()) else {
        return Vec::new();
    };
    let changes = first.features.iter().map(|feature| format!("{}: changes", escaped(&feature.feature)));
    changes.chain(["utility".to_owned()]).collect()
}

/// The cells of these columns.
pub(super) fn feature_cells(design: &VariantDesign) -> Vec<String> {
    let changes = design
        .features
        .iter()
        .map(|feature| format!("{:.0}<small>{:.0}</small>", feature.transitions, feature.transitions_worst));
    let utility = design.utility.map(|utility| thousands(utility as u64));
    changes.chain(utility).collect()
}

/// The changes of each feature under each design.
pub(super) fn feature_changes(html: &mut String, run: &OverloadRun) {
    if run.scenario.features.is_empty() {
        return;
    }
    let columns = [&["design", "feature", "class"][..], &["changes", "released after"], &["when"]];
    let mut table = HtmlTable::open_wide(html, [columns[0], columns[1], columns[2]]);
    for result in &run.designs {
        for (feature, spec) in result.features.iter().zip(&run.scenario.features) {
            let slowest = feature.released_after_ms.iter().copied().reduce(f64::max);
            let cells = [
                design_chip(result.design),
                escaped(&feature.feature),
                spec.config.class.to_string(),
                thousands(feature.transitions.len() as u64),
                slowest.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.0} ms")),
                list_changes(feature),
            ];
            table.row_of(result.design == OverloadDesign::TIDEGATE, cells);
        }
    }
    table.close();
}

/// `off at 95.3 s (0.90), on at 248.6 s (0.53)`.
fn list_changes(feature: &FeatureResult) -> String {
    let first = feature.transitions.iter().take(LISTED_MAX).map(|change| {
        let pressure = change.pressure.map_or_else(String::new, |pressure| format!(" ({pressure:.2})"));
        format!("{} at {:.1} s{pressure}", escaped(&change.to), change.at)
    });
    let mut listed: Vec<String> = first.collect();
    if feature.transitions.len() > LISTED_MAX {
        listed.push("and so on".to_owned());
    }
    if listed.is_empty() { "never".to_owned() } else { listed.join(", ") }
}

/// T1 and T2 of each episode of the product at the first service: from the first feature that is
/// degraded to the last one that is back.
pub(super) fn feature_events(run: &OverloadRun) -> Vec<ChartEvent> {
    let Some(own) = run.of(OverloadDesign::TIDEGATE) else { return Vec::new() };
    let service = run.scenario.services.first().map(|service| service.name.as_str());
    let mut changes: Vec<(f64, usize, bool)> = Vec::new();
    for (place, (feature, spec)) in own.features.iter().zip(&run.scenario.features).enumerate() {
        if spec.config.resource.as_deref() == service {
            let is_degraded = |to: &str| spec.position(to) > 0;
            changes.extend(feature.transitions.iter().map(|one| (one.at, place, is_degraded(&one.to))));
        }
    }
    changes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut degraded = vec![false; own.features.len()];
    let mut events = Vec::new();
    for (at, place, is_degraded) in changes {
        let was_any = degraded.iter().any(|one| *one);
        degraded[place] = is_degraded;
        let text = match (was_any, degraded.iter().any(|one| *one)) {
            (false, true) => "T1",
            (true, false) => "T2",
            _ => continue,
        };
        events.push(ChartEvent { at, name: text.to_owned() });
    }
    if events.len() > 2 * MARKED_MAX { Vec::new() } else { events }
}

/// One line for each feature: its level over time.
pub(super) fn by_feature(run: &OverloadRun, result: &OverloadResult) -> Vec<PlottedLine> {
    let line = |(place, feature): (usize, &FeatureResult)| {
        let color = COLORS[place % COLORS.len()];
        let values: Vec<f64> = feature.steps.iter().map(|step| f64::from(step.level)).collect();
        line_of(format!("s{color}"), color, &feature.feature, &values, run.scenario.seconds)
    };
    result.features.iter().enumerate().map(line).collect()
}
