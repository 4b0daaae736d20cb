//! A YAML document with the position of everything in it.
//!
//! Scalars keep their source text: whether `1.10` is a number or a string is decided by who reads
//! it, so nothing is lost on the way. Everything is bounded: a document that would grow beyond the
//! bounds, by aliases of aliases too, is refused before it does.

mod read;

pub(crate) use read::{EMPTY, read};

use crate::path::{Path, ProblemSpot, Segment};

/// The largest document in bytes: 16 MiB.
pub const DOCUMENT_BYTES_MAX: usize = 16 << 20;
/// The deepest nesting of lists and mappings.
pub const DEPTH_MAX: usize = 32;
/// The most values in a document, counting those repeated by aliases.
pub const NODES_MAX: usize = 3_000_000;
/// The longest single value or key in bytes: 16 KiB.
pub const SCALAR_BYTES_MAX: usize = 16 << 10;
/// The most bytes of text in a document after aliases and environment variables are replaced: 16
/// MiB.
pub const TEXT_BYTES_MAX: usize = 16 << 20;

/// A place in the file; both count from 1, the column in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl Position {
    pub(crate) const START: Self = Self { line: 1, column: 1 };
}

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) at: Position,
    pub(crate) content: Content,
    /// A tag other than `!!str`, which has no meaning here.
    pub(crate) tag: Option<Box<str>>,
}

/// The content of a node.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Scalar(Scalar),
    Sequence(Vec<Node>),
    /// In the order of the file; a key may be in it twice, which the reader of the tree reports.
    Mapping(Vec<Entry>),
}

/// A value without parts, as it stands in the file.
#[derive(Clone, Debug)]
pub(crate) struct Scalar {
    pub(crate) text: Box<str>,
    /// In quotes, as a block, or with the tag `!!str`: certainly meant as text.
    pub(crate) quoted: bool,
}

impl Scalar {
    /// Whether it says that there is no value.
    pub(crate) fn is_null(&self) -> bool {
        !self.quoted && matches!(&*self.text, "" | "~" | "null" | "Null" | "NULL")
    }
}

/// An entry of a mapping.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Box<str>,
    pub(crate) key_at: Position,
    pub(crate) value: Node,
}

impl Node {
    /// The position of what `path` leads to, and its text if it is a scalar. Where the path leads
    /// out of the tree, the position of the last value on it.
    pub(crate) fn locate(&self, path: &Path, spot: ProblemSpot) -> (Position, Option<&str>) {
        let mut node = self;
        let mut key_at = self.at;
        for segment in path.segments() {
            let next = match (segment, &node.content) {
                (Segment::Key(key), Content::Mapping(entries)) => {
                    entries.iter().find(|entry| *entry.key == **key).map(|entry| (&entry.value, entry.key_at))
                }
                (Segment::Index(index), Content::Sequence(items)) => {
                    items.get(*index).map(|item| (item, item.at))
                }
                _ => None,
            };
            let Some((value, at)) = next else { return (key_at, None) };
            node = value;
            key_at = at;
        }
        let text = match &node.content {
            Content::Scalar(scalar) => Some(&*scalar.text),
            Content::Sequence(_) | Content::Mapping(_) => None,
        };
        (if spot == ProblemSpot::Key { key_at } else { node.at }, text)
    }
}
