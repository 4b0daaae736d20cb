//! The entries of a mapping as the peer's reader has them: merged, and each key once.

use std::collections::BTreeMap;

use crate::path::Path;
use crate::printable::shown;
use crate::problem::Report;
use crate::tree::{Content, Node, Position};

/// The key that brings in the entries of another mapping.
const MERGE: &str = "<<";

/// An entry of a mapping.
#[derive(Debug)]
pub(super) struct Field<'n> {
    pub(super) key: &'n str,
    pub(super) key_at: Position,
    pub(super) value: &'n Node,
}

/// The entries of `node`, which is a mapping, in the order of the file.
///
/// Entries of a merge key come last and never replace an entry of the mapping itself. A duplicate
/// key has its last value, and there is a warning.
pub(super) fn fields<'n>(node: &'n Node, path: &Path, report: &mut Report<'_>) -> Vec<Field<'n>> {
    let mut found: Vec<Field<'n>> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    add(node, path, true, &mut found, &mut places, report);
    found
}

fn add<'n>(
    node: &'n Node,
    path: &Path,
    is_own: bool,
    found: &mut Vec<Field<'n>>,
    places: &mut BTreeMap<&'n str, usize>,
    report: &mut Report<'_>,
) {
    let Content::Mapping(entries) = &node.content else { return };
    let own_from = found.len();
    for entry in entries.iter().filter(|entry| &*entry.key != MERGE) {
        let field = Field { key: &entry.key, key_at: entry.key_at, value: &entry.value };
        match places.get(&*entry.key) {
            None => {
                places.insert(&entry.key, found.len());
                found.push(field);
            }
            Some(place) if is_own || *place >= own_from => {
                let what = format!("duplicate key \"{}\"", shown(&entry.key));
                report.warn(&path.key(&entry.key), what, "the last one counts; keep one of them");
                found[*place] = field;
            }
            Some(_) => {}
        }
    }
    for entry in entries.iter().filter(|entry| &*entry.key == MERGE) {
        let merged = match &entry.value.content {
            Content::Mapping(_) => core::slice::from_ref(&entry.value),
            Content::Sequence(items) => items.as_slice(),
            Content::Scalar(_) => &[],
        };
        let is_right = |node: &Node| matches!(node.content, Content::Mapping(_));
        if merged.is_empty() || !merged.iter().all(is_right) {
            let what = "a merge key (\"<<\") without a mapping";
            report.shape(&path.key(MERGE), (entry.key_at, None), what, "give it the alias of a mapping");
        }
        for node in merged {
            add(node, path, false, found, places, report);
        }
    }
}
