//! The state of the tree that a run of the gate met, and the time that is committed for it.

use std::fs;

use crate::checkout;

/// The document with the times, from the root of the checkout.
const DOCUMENT: &str = "docs/internals/gate.md";

/// The column of the document's table that has the times of this version.
const COLUMN: usize = 2;

/// How much of the tree was compiled already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TreeState {
    /// Next to nothing: the dependencies were compiled too.
    Cold,
    /// The dependencies, and not all crates of this workspace.
    Edited,
    /// Everything.
    Warm,
}

impl TreeState {
    /// The state in which a build made so many targets and found so many others as they were.
    pub(crate) fn of_build(built: usize, unchanged: usize) -> Self {
        match built {
            0 => Self::Warm,
            // This program and its dependencies are compiled already.
            _ if built > unchanged => Self::Cold,
            _ => Self::Edited,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Edited => "edited",
            Self::Warm => "warm",
        }
    }

    /// The committed time of this state, in a line for the end of a run.
    pub(crate) fn committed(self) -> String {
        let word = self.word();
        let text = fs::read_to_string(checkout::root().join(DOCUMENT)).unwrap_or_default();
        match time_in(&text, word) {
            Some(time) => format!("{word}; {DOCUMENT} has for that: {time}"),
            None => format!("{word}; {DOCUMENT} has no time for that"),
        }
    }
}

/// The time in the row of a table that is called by this word.
fn time_in<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
        if cells.next()? == word { cells.nth(COLUMN - 1) } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_tells_the_state() {
        assert_eq!(TreeState::of_build(0, 900), TreeState::Warm);
        assert_eq!(TreeState::of_build(90, 700), TreeState::Edited);
        assert_eq!(TreeState::of_build(880, 40), TreeState::Cold);
    }

    #[test]
    fn every_state_has_a_committed_time() {
        for state in [TreeState::Cold, TreeState::Edited, TreeState::Warm] {
            let line = state.committed();
            assert!(line.contains(" has for that: ") && line.contains(" min "), "{line}");
        }
        let table = "| state | before | now |\n|---|---|---|\n| cold | 40 min | 12 min |\n";
        assert_eq!(time_in(table, "cold"), Some("12 min"));
        assert_eq!(time_in(table, "warm"), None);
    }
}
