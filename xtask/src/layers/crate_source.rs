//! Rules for the source of one crate: unique type names, names of files, no circles.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::checkout;
use crate::workspace::Member;

use super::circles::Circle;
use super::rules::{KNOWN_CIRCLES, KnownCircle};
use super::{circles, file_names, imports, type_names};
use crate::module_tree::ModuleTree;

/// Every broken rule in the source of a crate; `files` are those of the checkout.
pub(super) fn broken(member: &Member, files: &BTreeSet<PathBuf>) -> Result<Vec<String>, String> {
    let root = checkout::root();
    let trees = ["src/lib.rs", "src/main.rs"]
        .iter()
        .map(|file| member.folder.join(file))
        .filter(|file| file.is_file())
        .map(|file| ModuleTree::read(&file))
        .collect::<Result<Vec<_>, String>>()?;
    let types = type_names::duplicates(&trees, root);
    let mut problems: Vec<String> =
        types.into_iter().map(|name| format!("duplicate type name {name}")).collect();
    problems.extend(file_names::bad_names(files, &member.folder, root));
    let mut known: Vec<_> = KNOWN_CIRCLES.iter().filter(|known| known.package == member.name).collect();
    for tree in &trees {
        let uses = imports::uses_between_files(tree);
        let new =
            new_circles(circles::circles(&uses), &mut known, |circle| circle.paths(tree, &member.folder));
        problems.extend(new.iter().map(|circle| circle.describe(tree, &uses, root)));
    }
    problems.extend(known.iter().map(|KnownCircle { files, .. }| {
        format!(
            "no circle of {}; remove it from KNOWN_CIRCLES in xtask/src/layers/rules.rs",
            files.join(", ")
        )
    }));
    Ok(problems.into_iter().map(|problem| format!("{}: {problem}", member.name)).collect())
}

/// The circles that are not among the `known`, from which those that were found are taken.
fn new_circles(
    found: Vec<Circle>,
    known: &mut Vec<&KnownCircle>,
    paths: impl Fn(&Circle) -> Vec<String>,
) -> Vec<Circle> {
    let is_new = |circle: &Circle| {
        let (before, paths) = (known.len(), paths(circle));
        known.retain(|known| known.files != paths);
        known.len() == before
    };
    found.into_iter().filter(is_new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: KnownCircle = KnownCircle { package: "p", files: &["a.rs", "b.rs"] };

    #[test]
    fn a_circle_is_new_unless_it_is_known_with_all_its_files() {
        let (pair, triple) = (Circle { files: vec![0, 1] }, Circle { files: vec![0, 1, 2] });
        let paths = |circle: &Circle| -> Vec<String> {
            circle.files.iter().map(|file| ["a.rs", "b.rs", "c.rs"][*file].to_owned()).collect()
        };
        let mut known = vec![&KNOWN];
        assert_eq!(new_circles(vec![triple.clone()], &mut known, paths), [triple]);
        assert_eq!(known.len(), 1, "it is stale");
        assert_eq!(new_circles(vec![pair], &mut known, paths), []);
        assert!(known.is_empty());
    }
}
