//! Where in a configuration something stands: `namespaces.api.limits[2].rate`.

use core::fmt;
use std::sync::Arc;

use crate::printable::shown;

/// The way from the top of the file to a value. The top itself is the empty path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Path(Vec<Segment>);

/// Whether a problem is about a value, or about the key that leads to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProblemSpot {
    Key,
    Value,
}

/// One step down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// Into the entry of a mapping with this key.
    Key(Arc<str>),
    /// Into the entry of a list with this index.
    Index(usize),
}

impl Path {
    /// The path of the entry `key` under this one.
    pub(crate) fn key(&self, key: &str) -> Self {
        self.with(Segment::Key(key.into()))
    }

    /// The path of the entry `index` under this one.
    pub(crate) fn index(&self, index: usize) -> Self {
        self.with(Segment::Index(index))
    }

    fn with(&self, segment: Segment) -> Self {
        let mut segments = Vec::with_capacity(self.0.len() + 1);
        segments.extend_from_slice(&self.0);
        segments.push(segment);
        Self(segments)
    }

    /// The steps from the top.
    pub(crate) fn segments(&self) -> &[Segment] {
        &self.0
    }

    /// Whether one of the two stands under the other, or both are the same.
    pub(crate) fn is_in_line_with(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(one, two)| one == two)
    }

    /// Whether its keys are these, where `*` is any key; entries of lists do not count.
    pub(crate) fn is_keys(&self, keys: &[&str]) -> bool {
        let own = self.0.iter().filter_map(|segment| match segment {
            Segment::Key(key) => Some(&**key),
            Segment::Index(_) => None,
        });
        own.clone().count() == keys.len() && own.zip(keys).all(|(own, key)| *key == "*" || own == *key)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Key(key) => {
                    if position > 0 {
                        f.write_str(".")?;
                    }
                    let plain = |c: char| c.is_ascii_alphanumeric() || "_-/".contains(c);
                    if !key.is_empty() && key.chars().all(plain) {
                        f.write_str(key)?;
                    } else {
                        write!(f, "\"{}\"", shown(key))?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_as_one_would_point() {
        let path = Path::default().key("namespaces").key("a.b").key("limits").index(2).key("rate");
        assert_eq!(path.to_string(), "namespaces.\"a.b\".limits[2].rate");
        assert_eq!(Path::default().to_string(), "");
    }

    #[test]
    fn paths_are_in_line_when_one_leads_to_the_other() {
        let limits = Path::default().key("limits");
        assert!(limits.is_in_line_with(&limits.index(0)) && limits.index(0).is_in_line_with(&limits));
        assert!(!limits.index(0).is_in_line_with(&limits.index(1)));
    }
}
