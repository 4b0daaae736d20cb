//! Rules for the source of one crate: unique type names, names of files, no circles.

use std::path::Path;

use crate::allowances::{Counts, Finding};
use crate::checkout;
use crate::workspace::Member;

use super::{circles, file_names, imports, type_names};
use crate::module_tree::ModuleTree;

/// The findings that this check counts.
pub(super) const KINDS: [Finding; 4] =
    [Finding::Circles, Finding::LargestCircle, Finding::DuplicateTypes, Finding::BadNames];

/// The findings in one crate, with a line or more of text for each.
#[derive(Debug, Default)]
pub(super) struct CrateFindings {
    circles: Vec<String>,
    largest_circle: usize,
    duplicate_types: Vec<String>,
    bad_names: Vec<String>,
}

/// Looks through the source of a crate.
pub(super) fn look_through(member: &Member) -> Result<CrateFindings, String> {
    let root = checkout::root();
    let trees = ["src/lib.rs", "src/main.rs"]
        .iter()
        .map(|file| member.folder.join(file))
        .filter(|file| file.is_file())
        .map(|file| ModuleTree::read(&file))
        .collect::<Result<Vec<_>, String>>()?;
    let mut findings = CrateFindings {
        duplicate_types: type_names::duplicates(&trees, root),
        bad_names: file_names::bad_names(&member.folder, root)?,
        ..CrateFindings::default()
    };
    for tree in &trees {
        findings.add_circles_of(tree, root);
    }
    Ok(findings)
}

impl CrateFindings {
    fn add_circles_of(&mut self, tree: &ModuleTree, root: &Path) {
        let uses = imports::uses_between_files(tree);
        for circle in circles::circles(&uses) {
            self.largest_circle = self.largest_circle.max(circle.files.len());
            self.circles.push(circle.describe(tree, &uses, root));
        }
    }

    /// Adds the numbers of these findings, those of the crate `name`.
    pub(super) fn count(&self, name: &str, counts: &mut Counts) {
        let numbers =
            [self.circles.len(), self.largest_circle, self.duplicate_types.len(), self.bad_names.len()];
        for (kind, number) in KINDS.into_iter().zip(numbers) {
            if number > 0 {
                counts.insert((name.to_owned(), kind), number);
            }
        }
    }

    /// The findings in words.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        let types = self.duplicate_types.iter().map(|name| format!("duplicate type name {name}"));
        self.circles.iter().cloned().chain(types).chain(self.bad_names.iter().cloned())
    }
}
