//! Checks `was`: a limit takes over what another name counted, and no two limits take over the
//! same.

use std::collections::BTreeMap;

use crate::path::Path;
use crate::printable::shown;
use crate::problem::Report;
use crate::raw::limit::LimitConfig;

/// Checks the renames among the limits of one namespace.
///
/// A limit may have been called what another limit is called now only if that one was renamed too:
/// otherwise both would claim one usage. So two limits may swap their names, and a name may be
/// passed on along a chain.
pub(super) fn check(raw: &[LimitConfig], path: &Path, report: &mut Report<'_>) {
    let mut present: BTreeMap<&str, &LimitConfig> = BTreeMap::new();
    for one in raw {
        present.entry(&one.name).or_insert(one);
    }
    let mut claimed: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, one) in raw.iter().enumerate() {
        let Some(was) = one.was.as_deref().filter(|was| !was.is_empty()) else { continue };
        let at = path.index(index).key("was");
        let fix = "remove `was`, or give the name it had before";
        if was == one.name {
            report.value(&at, format!("`was` is the name the limit still has, \"{}\"", shown(was)), fix);
        } else if let Some(first) = claimed.get(was) {
            let what = format!("limits[{first}] was \"{}\" too", shown(was));
            report.value(&at, what, "keep `was` on the one that goes on with what was used");
        } else if present.get(was).is_some_and(|other| other.was.is_none()) {
            let what = format!("`was` is the name of another limit, \"{}\"", shown(was));
            report.value(&at, what, "remove `was`, or give that limit, if it was renamed too, its own `was`");
        }
        claimed.entry(was).or_insert(index);
    }
}
