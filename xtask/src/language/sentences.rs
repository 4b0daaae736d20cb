//! Sentences with too many `of`, and phrases that stand for a noun.

use super::comment_lines::{self, CommentLine, Syntax};
use crate::markdown::{self, Paragraph};

/// How often a sentence may have the word "of".
const OF_MAX: usize = 3;

/// The pattern of a sentence with more than [`OF_MAX`].
pub(super) const MANY_OF: &str = "more than three `of` in a sentence";

/// Words after which "of" stands for a noun, each with the name of its pattern.
const NOUN_PHRASES: &[(&str, &str)] = &[("those", "`those of`"), ("that", "`that of`")];

/// The paragraphs of a page, or of the comments of a source file.
pub(super) fn paragraphs(text: &str, syntax: Syntax) -> Vec<Paragraph> {
    if syntax == Syntax::Markdown {
        return markdown::paragraphs(text);
    }
    let mut paragraphs: Vec<Paragraph> = Vec::new();
    let mut last_index = None;
    for CommentLine { index, body, is_prose, begins_paragraph, .. } in comment_lines::of(text, syntax) {
        if !is_prose {
            last_index = None;
        } else if begins_paragraph || last_index.is_none_or(|last| last + 1 != index) {
            paragraphs.push(Paragraph::begin(index, body));
            last_index = Some(index);
        } else {
            paragraphs.last_mut().expect("a line is before this one").add(body);
            last_index = Some(index);
        }
    }
    paragraphs
}

/// Every sentence with more than [`OF_MAX`] times "of": the line of its beginning from 0, and the
/// sentence.
pub(super) fn with_many_of(paragraph: &Paragraph) -> Vec<(usize, String)> {
    let shown = markdown::without_code_and_targets(&paragraph.text);
    let mut found = Vec::new();
    let mut begin = 0;
    for end in ends_of_sentences(&shown) {
        let sentence = &shown[begin..end];
        let count = words(sentence).filter(|word| word.eq_ignore_ascii_case("of")).count();
        if count > OF_MAX {
            let blanks = sentence.len() - sentence.trim_start().len();
            let lines_before = shown[..begin + blanks].matches('\n').count();
            let text = paragraph.text[begin + blanks..end].replace('\n', " ");
            found.push((paragraph.index + lines_before, text));
        }
        begin = end;
    }
    found
}

/// Every phrase of [`NOUN_PHRASES`]: its line from 0, the name of its pattern, and that line.
pub(super) fn noun_phrases(paragraph: &Paragraph) -> Vec<(usize, &'static str, String)> {
    let shown = markdown::without_code_and_targets(&paragraph.text);
    let mut found = Vec::new();
    let mut before = String::new();
    for (number, (line, whole)) in shown.lines().zip(paragraph.text.lines()).enumerate() {
        for word in line.split_whitespace() {
            for (first, name) in NOUN_PHRASES {
                if before == *first && word == "of" {
                    found.push((paragraph.index + number, *name, whole.to_owned()));
                }
            }
            before = word.trim_start_matches(['(', '"', '*']).to_ascii_lowercase();
        }
    }
    found
}

/// Where each sentence ends: behind a full stop, question or exclamation mark and the marks that
/// close it, and at the end of the text.
fn ends_of_sentences(text: &str) -> Vec<usize> {
    let mut ends = Vec::new();
    for (at, _) in text.match_indices(['.', '?', '!']) {
        let end = at + 1;
        let rest = &text[end..];
        let closed = rest.trim_start_matches(['"', ')', '*', '_', '`', ']']);
        if closed.starts_with(char::is_whitespace) {
            ends.push(end + rest.len() - closed.len());
        }
    }
    ends.push(text.len());
    ends
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|word| !word.is_empty())
}
