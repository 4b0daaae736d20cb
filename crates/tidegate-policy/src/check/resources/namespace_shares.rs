//! Checks the shares of the namespaces at a resource.

use std::collections::BTreeMap;

use tidegate_overload::{NAMESPACES_MAX, NamespaceShares};

use crate::path::Path;
use crate::printable::shown;
use crate::problem::Report;
use crate::raw::NamespaceConfig;
use crate::raw::name_map::NameMap;
use crate::suggestion::nearest;

/// The shares by namespace. The schema bounds each share to [`NamespaceShares::MAX`].
pub(super) fn shares(
    raw: Option<&NameMap<u64>>,
    namespaces: Option<&NameMap<NamespaceConfig>>,
    path: &Path,
    report: &mut Report<'_>,
) -> BTreeMap<String, u32> {
    let count = raw.map_or(0, NameMap::len);
    if count > NAMESPACES_MAX {
        let what = format!("shares of {count} namespaces");
        report.value(path, what, format!("use at most {NAMESPACES_MAX}"));
        return BTreeMap::new();
    }
    let known = || namespaces.into_iter().flatten().map(|(name, _)| name.as_str());
    let mut shares = BTreeMap::new();
    for (name, share) in raw.into_iter().flatten() {
        if !known().any(|known| known == name) {
            let what = format!("namespace \"{}\" is not under `namespaces:`", shown(name));
            let fix = match nearest(name, known()) {
                Some(near) => format!("did you mean {near}?"),
                None => {
                    "add it there, or name one that is; all domains of `envoy_ratelimit` files that are not \
                         there have one share of 1 together"
                        .to_owned()
                }
            };
            report.key(&path.key(name), what, fix);
        }
        let share = u32::try_from(*share).unwrap_or(NamespaceShares::MAX);
        shares.insert(name.clone(), share.clamp(1, NamespaceShares::MAX));
    }
    shares
}
