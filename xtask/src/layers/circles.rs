//! Circles: files of a crate that use each other's names, directly or through further files.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use super::imports::Uses;
use crate::module_tree::ModuleTree;

/// A circle, largest first in lists of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Circle {
    /// Positions of its files, ascending; at least two.
    pub(super) files: Vec<usize>,
}

/// Every circle among the files: each set of files of which every one reaches every other.
pub(super) fn circles(uses: &Uses) -> Vec<Circle> {
    let reached: Vec<BTreeSet<usize>> = (0..uses.len()).map(|file| reached_from(file, uses)).collect();
    let mut circles = Vec::new();
    for file in 0..uses.len() {
        let files: Vec<usize> =
            reached[file].iter().copied().filter(|other| reached[*other].contains(&file)).collect();
        // Each circle is taken once, at its first file. A file that reaches itself reaches another.
        if files.len() > 1 && files[0] == file {
            circles.push(Circle { files });
        }
    }
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.files.len()));
    circles
}

/// The files that `file` uses, at any distance.
fn reached_from(file: usize, uses: &Uses) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut left = vec![file];
    while let Some(file) = left.pop() {
        left.extend(uses[file].keys().filter(|next| reached.insert(**next)));
    }
    reached
}

impl Circle {
    /// The paths of its files from `root`, in order.
    pub(super) fn paths(&self, tree: &ModuleTree, root: &Path) -> Vec<String> {
        let path = |file: &usize| tree.files[*file].strip_prefix(root).unwrap_or(&tree.files[*file]);
        let mut paths: Vec<String> = self.files.iter().map(|file| path(file).display().to_string()).collect();
        paths.sort_unstable();
        paths
    }

    /// The files of the circle, and the names by which each uses another.
    pub(super) fn describe(&self, tree: &ModuleTree, uses: &Uses, root: &Path) -> String {
        let name = |file: usize| tree.files[file].strip_prefix(root).unwrap_or(&tree.files[file]).display();
        let mut text = format!("circle of {} files:", self.files.len());
        for &file in &self.files {
            for (&used, names) in uses[file].iter().filter(|(used, _)| self.files.contains(used)) {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let _ = write!(text, "\n    {} -> {}: {}", name(file), name(used), names.join(", "));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn uses(arrows: &[(usize, usize)], files: usize) -> Uses {
        let mut uses: Uses = vec![BTreeMap::new(); files];
        for (from, to) in arrows {
            uses[*from].entry(*to).or_default().insert("Name".to_owned());
        }
        uses
    }

    fn found(arrows: &[(usize, usize)], files: usize) -> Vec<Vec<usize>> {
        circles(&uses(arrows, files)).into_iter().map(|circle| circle.files).collect()
    }

    #[test]
    fn arrows_in_one_direction_are_no_circle() {
        assert!(found(&[(0, 1), (1, 2), (0, 2)], 3).is_empty());
    }

    #[test]
    fn two_files_that_use_each_other_are_a_circle_and_their_users_are_outside_it() {
        assert_eq!(found(&[(0, 1), (1, 2), (2, 1), (2, 3)], 4), [vec![1, 2]]);
    }

    #[test]
    fn a_long_way_back_is_one_circle_and_the_largest_circle_is_first() {
        let arrows = [(0, 1), (1, 0), (2, 3), (3, 4), (4, 2), (1, 2)];
        assert_eq!(found(&arrows, 5), [vec![2, 3, 4], vec![0, 1]]);
    }

    #[test]
    fn circles_that_share_a_file_are_one() {
        assert_eq!(found(&[(0, 1), (1, 0), (1, 2), (2, 1)], 3), [vec![0, 1, 2]]);
    }
}
