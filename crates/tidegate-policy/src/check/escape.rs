//! Warns about limits that a caller escapes, and about limits that do nothing.

use tidegate_core::limit::{Limit, Missing, Mode};

use super::matcher::{contradicts_itself, wants_absence};
use crate::path::Path;
use crate::policy::NamespacePolicy;
use crate::printable::shown;
use crate::problem::Report;
use crate::raw::limit::{LimitConfig, MissingConfig};

/// Warns about the limits of a namespace.
pub(super) fn warn(namespace: &NamespacePolicy, raw: &[LimitConfig], path: &Path, report: &mut Report<'_>) {
    let within = path.key("limits");
    for (index, one) in raw.iter().enumerate() {
        never_matches(one, &within.index(index), report);
    }
    if namespace.limits.is_empty() {
        return;
    }
    let name = shown(&namespace.name);
    if namespace.limits.iter().all(|limit| limit.mode == Mode::Shadow) {
        let what = format!("every limit of namespace \"{name}\" is a shadow, so nothing is refused");
        report.warn(path, what, "use `mode: enforce` on those that are to refuse");
    } else if !namespace.limits.iter().any(catches_the_bare_request) {
        let what = format!("a caller that leaves attributes out escapes every limit of namespace \"{name}\"");
        let fix = "use `missing: group` or `missing: refuse` on one of them, or add a limit without `key` and `match`";
        report.warn(path, what, fix);
    }
}

/// Whether a request without any attribute is counted or refused by the limit.
fn catches_the_bare_request(limit: &Limit) -> bool {
    limit.mode == Mode::Enforce
        && (limit.key.is_empty() || limit.missing != Missing::Skip)
        && limit.matches.iter().all(|condition| condition.matcher.matches(None))
}

fn never_matches(raw: &LimitConfig, path: &Path, report: &mut Report<'_>) {
    let skips = raw.missing.unwrap_or_default() == MissingConfig::Skip;
    if raw.key.as_ref().is_some_and(|key| key.len() > Limit::KEY_PARTS_MAX) {
        return;
    }
    for (attribute, matcher) in raw.matches.iter().flatten() {
        let at = path.key("match").key(attribute);
        let counted_by = raw.key.iter().flatten().any(|part| super::limit::attribute_of(part) == attribute);
        if contradicts_itself(matcher) {
            let what = format!(
                "limit \"{}\" never applies: \"{}\" is to be missing and to have a value",
                shown(&raw.name),
                shown(attribute)
            );
            report.warn(&at, what, "remove one of the two");
        } else if skips && counted_by && wants_absence(matcher) {
            let what = format!(
                "limit \"{}\" never applies: it is for requests without \"{}\" and skips requests without it",
                shown(&raw.name),
                shown(attribute)
            );
            report.warn(&at, what, "take the attribute out of `key`, or use `missing: group`");
        }
    }
}
