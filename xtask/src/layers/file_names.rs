//! Names of modules and files: domain nouns, neither a gerund nor a pronoun nor an adverb.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Words in -ing that are nouns of the domain or of the language.
const NOUNS_IN_ING: &[&str] = &["logging", "metering", "ring", "string", "timing"];

/// Pronouns, adverbs and words used like them. They say nothing about the content of a file.
const EMPTY_NAMES: &[&str] = &[
    "above",
    "across",
    "after",
    "afterwards",
    "again",
    "ahead",
    "alike",
    "all",
    "alone",
    "along",
    "already",
    "always",
    "another",
    "any",
    "anyone",
    "anything",
    "anywhere",
    "apart",
    "around",
    "aside",
    "away",
    "before",
    "behind",
    "below",
    "beneath",
    "beside",
    "besides",
    "beyond",
    "both",
    "each",
    "early",
    "either",
    "else",
    "elsewhere",
    "everyone",
    "everything",
    "everywhere",
    "forth",
    "he",
    "hence",
    "her",
    "here",
    "hers",
    "herself",
    "him",
    "himself",
    "his",
    "how",
    "itself",
    "its",
    "late",
    "later",
    "many",
    "me",
    "meanwhile",
    "mine",
    "myself",
    "neither",
    "never",
    "nobody",
    "none",
    "nothing",
    "now",
    "nowhere",
    "often",
    "once",
    "only",
    "other",
    "others",
    "otherwise",
    "our",
    "ours",
    "ourselves",
    "out",
    "over",
    "she",
    "since",
    "some",
    "somebody",
    "someone",
    "something",
    "somewhere",
    "soon",
    "still",
    "such",
    "that",
    "their",
    "theirs",
    "them",
    "themselves",
    "then",
    "there",
    "these",
    "they",
    "this",
    "those",
    "thus",
    "together",
    "told",
    "too",
    "twice",
    "under",
    "us",
    "we",
    "what",
    "whatever",
    "when",
    "where",
    "whichever",
    "who",
    "whoever",
    "whole",
    "whom",
    "whose",
    "why",
    "within",
    "without",
    "you",
    "your",
    "yours",
];

/// The problem with `name`, a file name without its extension; `None` for a good name.
///
/// `it` is allowed: every crate's integration tests are `tests/it`.
pub(super) fn problem(name: &str) -> Option<&'static str> {
    if EMPTY_NAMES.contains(&name) {
        return Some("is a pronoun or an adverb");
    }
    let last = name.rsplit('_').next().unwrap_or(name);
    (last.ends_with("ing") && !NOUNS_IN_ING.contains(&last)).then_some("ends in -ing")
}

/// Every bad name of a Rust or Lua file among `files`, or of a folder of such files, below the
/// crate in `folder`.
pub(super) fn bad_names(files: &BTreeSet<PathBuf>, folder: &Path, root: &Path) -> Vec<String> {
    let is_source = |file: &&PathBuf| file.extension().is_some_and(|it| it == "rs" || it == "lua");
    let mut paths = BTreeSet::new();
    for part in ["src", "tests", "benches", "examples"].map(|part| folder.join(part)) {
        for file in files.iter().filter(|file| file.starts_with(&part)).filter(is_source) {
            paths.extend(file.ancestors().take_while(|path| *path != part));
        }
    }
    // The folder of `x.rs` is one name with it.
    paths.retain(|path| path.extension().is_some() || !path.with_extension("rs").is_file());
    let problem_of = |path: &Path| {
        let problem = problem(path.file_stem()?.to_str()?)?;
        let shown = path.strip_prefix(root).unwrap_or(path).display();
        Some(format!("{shown}: the name {problem}; use a noun that says what is in the file"))
    };
    paths.into_iter().filter_map(problem_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gerunds_pronouns_and_adverbs_are_bad_names() {
        for name in ["waiting", "lease_keeping", "rolling", "together", "across", "ours", "told"] {
            assert!(problem(name).is_some(), "{name}");
        }
    }

    #[test]
    fn a_folder_of_source_is_named_unless_its_file_is() {
        let files = ["/c/a/src/waiting/ring.rs", "/c/a/src/waiting/doing/other.lua", "/c/a/src/text/us.txt"];
        let files: BTreeSet<PathBuf> = files.map(PathBuf::from).into();
        let found = bad_names(&files, Path::new("/c/a"), Path::new("/c"));
        let starts = ["a/src/waiting: ", "a/src/waiting/doing: ", "a/src/waiting/doing/other.lua: "];
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found.iter().zip(starts).all(|(one, start)| one.starts_with(start)), "{found:?}");
    }

    #[test]
    fn nouns_are_good_names_those_that_end_in_ing_too() {
        for name in
            ["ring", "string", "logging", "timing", "metering", "buffer_ring", "batch_admission", "it", "lib"]
        {
            assert_eq!(problem(name), None, "{name}");
        }
    }
}
