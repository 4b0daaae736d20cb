//! The rules for English that a program can check, in comments, messages and documents.
//!
//! A comment sentence does not begin with a question word used as a noun, and two phrases of ours
//! are not used at all. A sentence has "of" at most three times, pages do not say "those of", and
//! lines of comments and prose have at most [`COLUMNS`] columns. Each table of a page has a header.
//! Code blocks, cells of tables and comment lines with an address are left alone.

use std::fs;

use crate::checkout;
use crate::markdown::{self, COLUMNS};

use comment_lines::{CommentLine, Syntax};

mod comment_lines;
mod phrases;
mod sentences;

/// The pattern of a line of more than [`COLUMNS`].
const TOO_WIDE: &str = "more than 100 columns";

/// The pattern of a row of a table that no header precedes, as when a blank line divides the table:
/// a reader sees its bars.
const NO_HEADER: &str = "row of a table without a header";

/// A line that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hit {
    /// Path from the root of the checkout.
    file: String,
    /// From 1.
    line: usize,
    pattern: &'static str,
    text: String,
}

/// Prints every hit; true when nothing hits.
pub(crate) fn check() -> bool {
    match hits() {
        Ok(hits) => {
            for Hit { file, line, pattern, text } in &hits {
                println!("{file}:{line}: {pattern}: {text}");
            }
            println!("{} lines to rewrite", hits.len());
            hits.is_empty()
        }
        Err(error) => {
            println!("language: {error}");
            false
        }
    }
}

/// Every hit of the checkout, by file and line.
fn hits() -> Result<Vec<Hit>, String> {
    let mut hits = Vec::new();
    for path in checkout::files()? {
        let Some(syntax) = Syntax::of(&path) else { continue };
        let text = fs::read_to_string(&path)
            .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        let file = checkout::path_from_root(&path);
        hits.extend(hits_in(&file, &text, syntax));
    }
    Ok(hits)
}

/// The hits in one file. A line that breaks two rules is two hits.
fn hits_in(file: &str, text: &str, syntax: Syntax) -> Vec<Hit> {
    let mut hits = Vec::new();
    let mut add = |line: usize, pattern: &'static str, text: &str| {
        hits.push(Hit { file: file.to_owned(), line, pattern, text: text.trim().to_owned() });
    };
    for (index, pattern, line) in phrases::unwanted(text, syntax) {
        add(index + 1, pattern, line);
    }
    if syntax == Syntax::Markdown {
        let lines = markdown::lines(text);
        for line in lines.iter().filter(|line| line.is_too_wide()) {
            add(line.index + 1, TOO_WIDE, line.text);
        }
        for line in markdown::headless_tables(&lines) {
            add(line.index + 1, NO_HEADER, line.text);
        }
    }
    for paragraph in sentences::paragraphs(text, syntax) {
        for (index, sentence) in sentences::with_many_of(&paragraph) {
            add(index + 1, sentences::MANY_OF, &sentence);
        }
        if syntax == Syntax::Markdown {
            for (index, pattern, line) in sentences::noun_phrases(&paragraph) {
                add(index + 1, pattern, &line);
            }
        }
    }
    for line in comment_lines::of(text, syntax) {
        let CommentLine { index, text, is_prose, .. } = line;
        if !is_prose {
            continue;
        }
        if phrases::begins_with_question_word(&line) {
            add(index + 1, "sentence begins with who, what or whoever", text);
        }
        if line.is_too_long(COLUMNS) {
            add(index + 1, TOO_WIDE, text);
        }
    }
    hits.sort_by_key(|hit| hit.line);
    hits
}

#[cfg(test)]
mod tests;
