//! Checks the levels of a feature.

use std::collections::BTreeMap;

use tidegate_overload::{FeatureConfig, FeatureLevelConfig};

use crate::check::name_and_path::check_name;
use crate::path::Path;
use crate::printable::shown;
use crate::problem::Report;
use crate::raw::features::FeatureLevelForm;

/// The levels from best to worst; `raw` has at least one.
pub(super) fn levels(
    raw: &[FeatureLevelForm],
    path: &Path,
    report: &mut Report<'_>,
) -> Vec<FeatureLevelConfig> {
    let count = raw.len();
    if count == 1 {
        let fix = "add a cheaper level, as `{ name: off, cost: 0 }`, or keep the name of the feature alone";
        report.value(path, "1 level cannot change", fix);
    }
    if !report.check_count(path, count, "levels", FeatureConfig::LEVELS_MAX) {
        return Vec::new();
    }
    names(raw, path, report);
    // A cost that was not understood says nothing about its neighbours.
    if !report.is_misshapen(path) {
        costs(raw, path, report);
    }
    raw.iter().map(|level| FeatureLevelConfig::new(&level.name, level.cost)).collect()
}

fn names(raw: &[FeatureLevelForm], path: &Path, report: &mut Report<'_>) {
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, level) in raw.iter().enumerate() {
        let at = path.index(index).key("name");
        check_name("level", &level.name, FeatureConfig::LEVEL_NAME_BYTES_MAX, |what, fix| {
            report.value(&at, what, fix);
        });
        check_header_text("level", &level.name, &at, report);
        if let Some(first) = known.get(level.name.as_str()) {
            let line = report.line_of(&path.index(*first).key("name"));
            let what = format!("duplicate level name \"{}\"", shown(&level.name));
            report.value(&at, what, format!("first defined at line {line}; rename one of them"));
        } else {
            known.insert(&level.name, index);
        }
    }
}

/// Reports costs that do not fall from 1 on.
fn costs(raw: &[FeatureLevelForm], path: &Path, report: &mut Report<'_>) {
    let mut above: Option<&FeatureLevelForm> = None;
    for (index, level) in raw.iter().enumerate() {
        let at = path.index(index).key("cost");
        let (name, cost) = (shown(&level.name), level.cost);
        match above {
            None if cost < 1.0 => {
                let what = format!("the first level, \"{name}\", has cost {cost}");
                report.value(&at, what, "use `cost: 1`; the costs of the others are parts of it");
            }
            Some(above) if cost >= above.cost => {
                let (other, most) = (shown(&above.name), above.cost);
                let what = format!(
                    "level \"{name}\" has cost {cost}, not less than the {most} of level \"{other}\" before it"
                );
                report.value(&at, what, "list the levels from best to worst, each with a lower cost");
            }
            _ if level.name == FeatureLevelConfig::OFF && cost > 0.0 => {
                let what = format!("level \"off\" has cost {cost}, so it refuses no request");
                report.value(&at, what, "use `cost: 0`, or another name");
            }
            _ => {}
        }
        above = Some(level);
    }
}

/// Reports a name that the header `tidegate-feature: thumbnails=480p` cannot carry. Empty and
/// control characters are reported with every other name.
pub(super) fn check_header_text(kind: &str, name: &str, path: &Path, report: &mut Report<'_>) {
    let is_carried = |c: char| c.is_ascii_graphic() && !"=,;\"".contains(c);
    if let Some(c) = name.chars().find(|c| !is_carried(*c) && !c.is_control()) {
        let what = format!(
            "the name of the {kind}, \"{}\", contains '{}', which the header `tidegate-feature` cannot carry",
            shown(name),
            shown(c.encode_utf8(&mut [0; 4]))
        );
        report.value(path, what, "use letters, digits, `-`, `_` and `.`, as in 480p");
    }
}
