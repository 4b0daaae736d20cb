//! Functions and crates that one file may use: the step of each plane, which the walk alone calls,
//! and the crate of the store that members share.

use std::fs;
use std::path::Path;

use crate::workspace::Member;

use super::imports::{self, Uses};
use super::rules::{SOLE_IMPORTERS, SOLE_USERS, SoleUser};
use crate::module_tree::ModuleTree;

/// Every use of such a function or crate by another file than its own and the one that may.
pub(super) fn broken(members: &[Member]) -> Result<Vec<String>, String> {
    let mut problems = Vec::new();
    for rule in SOLE_IMPORTERS {
        for member in members.iter().filter(|member| member.name == rule.package) {
            let tree = ModuleTree::read(&member.folder.join("src/lib.rs"))?;
            for path in tree.files.iter().filter(|path| !path.ends_with(rule.file)) {
                let text = fs::read_to_string(path)
                    .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
                if text.contains(rule.import) {
                    let file = path.strip_prefix(&member.folder).unwrap_or(path).display();
                    let (package, import, allowed) = (rule.package, rule.import, rule.file);
                    problems.push(format!("{package}: {file} names {import}, which only {allowed} may"));
                }
            }
        }
    }
    for rule in SOLE_USERS {
        for member in members.iter().filter(|member| member.name == rule.package) {
            let tree = ModuleTree::read(&member.folder.join("src/lib.rs"))?;
            let name = |file: usize| {
                let file = &tree.files[file];
                file.strip_prefix(&member.folder).unwrap_or(file).to_owned()
            };
            problems.extend(broken_in(rule, &imports::uses_between_files(&tree), name));
        }
    }
    Ok(problems)
}

fn broken_in<P: AsRef<Path>>(rule: &SoleUser, uses: &Uses, name: impl Fn(usize) -> P) -> Vec<String> {
    let mut problems = Vec::new();
    let mut is_used = false;
    for (from, of_file) in uses.iter().enumerate() {
        for (to, names) in of_file {
            let (of, at) = (name(from), name(*to));
            let (of, at) = (of.as_ref(), at.as_ref());
            if !at.starts_with(rule.folder) || !names.contains(rule.function) {
                continue;
            }
            is_used |= of == Path::new(rule.user);
            if of != Path::new(rule.user) {
                problems.push(format!(
                    "{}: {} uses `{}` of {}, which only {} may",
                    rule.package,
                    of.display(),
                    rule.function,
                    at.display(),
                    rule.user
                ));
            }
        }
    }
    if !is_used {
        problems.push(format!(
            "{}: {} uses no `{}` of {}; change the rule in xtask/src/layers/rules.rs",
            rule.package, rule.user, rule.function, rule.folder
        ));
    }
    problems
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    const RULE: SoleUser =
        SoleUser { package: "p", folder: "src/planes", function: "step", user: "src/walk.rs" };
    const FILES: [&str; 3] = ["src/walk.rs", "src/planes/place.rs", "src/batch.rs"];

    /// The problems that [`RULE`] finds in these uses, each of a user, a definer and a name.
    fn said(uses: &[(usize, usize, &str)]) -> Vec<String> {
        let mut all: Uses = vec![BTreeMap::new(); FILES.len()];
        for (user, definer, name) in uses {
            let names: &mut BTreeSet<String> = all[*user].entry(*definer).or_default();
            names.insert((*name).to_owned());
        }
        broken_in(&RULE, &all, |file| FILES[file])
    }

    #[test]
    fn a_step_that_another_file_calls_is_named() {
        assert_eq!(said(&[(0, 1, "step"), (2, 1, "take")]), [""; 0]);
        assert_eq!(
            said(&[(0, 1, "step"), (2, 1, "step")]),
            ["p: src/batch.rs uses `step` of src/planes/place.rs, which only src/walk.rs may"]
        );
    }

    #[test]
    fn a_rule_without_a_use_is_outdated() {
        assert_eq!(
            said(&[(0, 1, "other")]),
            ["p: src/walk.rs uses no `step` of src/planes; change the rule in xtask/src/layers/rules.rs"]
        );
    }
}
