//! Names of modules and files: domain nouns, neither a gerund nor a pronoun nor an adverb.

use std::fs;
use std::path::Path;

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

/// Folders of a crate that hold no source of ours.
const OTHER_FOLDERS: &[&str] = &["generated", "node_modules", "proto", "target"];

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

/// Every bad name of a Rust or Lua file or of a folder of such files below the crate in `folder`.
pub(super) fn bad_names(folder: &Path, root: &Path) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for part in ["src", "tests", "benches", "examples"] {
        let part = folder.join(part);
        if part.is_dir() {
            look_below(&part, root, &mut found)?;
        }
    }
    found.sort();
    Ok(found)
}

fn look_below(folder: &Path, root: &Path, found: &mut Vec<String>) -> Result<bool, String> {
    let unreadable = |error| format!("{} cannot be read: {error}", folder.display());
    let mut has_source = false;
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        let is_source = if path.is_dir() {
            !OTHER_FOLDERS.contains(&name) && look_below(&path, root, found)?
        } else {
            path.extension().is_some_and(|extension| extension == "rs" || extension == "lua")
        };
        has_source |= is_source;
        // The folder of `x.rs` is one name with it.
        let is_counted_as_file = path.is_dir() && path.with_extension("rs").is_file();
        if let Some(problem) = problem(name).filter(|_| is_source && !is_counted_as_file) {
            let shown = path.strip_prefix(root).unwrap_or(&path).display();
            found.push(format!("{shown}: the name {problem}; use a noun that says what is in the file"));
        }
    }
    Ok(has_source)
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
    fn nouns_are_good_names_those_that_end_in_ing_too() {
        for name in
            ["ring", "string", "logging", "timing", "metering", "buffer_ring", "batch_admission", "it", "lib"]
        {
            assert_eq!(problem(name), None, "{name}");
        }
    }
}
