//! Words and phrases that comments and messages do not use.

use super::comment_lines::{self, CommentLine, Syntax};

/// Words that no sentence of a comment begins with.
const QUESTION_WORDS: &[&str] = &["who", "what", "whoever"];

/// Phrases of two words that no line uses, each with the name of its pattern.
const UNWANTED: &[((&str, &str), &str)] =
    &[(("stands", "twice"), concat!("stands ", "twice")), (("is", "none"), concat!("is ", "none"))];

/// A comparison of Python, which is code and no phrase.
const PYTHON_NONE: &str = concat!("is ", "None");

/// Whether a sentence that begins in this line begins with one of [`QUESTION_WORDS`].
pub(super) fn begins_with_question_word(line: &CommentLine) -> bool {
    let first = first_word(line.body);
    let is_question_word = |word: &str| QUESTION_WORDS.contains(&word.to_ascii_lowercase().as_str());
    let begins_line =
        is_question_word(first) && (line.begins_paragraph || line.follows_sentence && is_capital(first));
    begins_line
        || line.body.match_indices(['.', '?', '!', ':']).any(|(position, mark)| {
            let rest = line.body[position + mark.len()..].trim_start_matches(['"', ')', '*', '_', '`', ']']);
            let word = first_word(rest);
            rest.starts_with(' ') && is_question_word(word) && is_capital(word)
        })
}

fn is_capital(word: &str) -> bool {
    word.starts_with(|letter: char| letter.is_uppercase())
}

/// The first word of `text`, without quotes and emphasis around it. Code in backticks is no word.
fn first_word(text: &str) -> &str {
    let text = text.trim_start_matches([' ', '"', '\'', '(', '*', '_', '[']);
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap_or_default()
}

/// Every line with a phrase of [`UNWANTED`]: its position from 0, the name of the phrase, the line.
///
/// Messages count as comments do, so that code is searched too. A phrase that is broken over two
/// lines of a comment or document is found at the second.
pub(super) fn unwanted(text: &str, syntax: Syntax) -> Vec<(usize, &'static str, &str)> {
    let comments = comment_lines::of(text, syntax);
    let body_of = |index: usize, line| match comments.binary_search_by_key(&index, |comment| comment.index) {
        Ok(position) => Some(comments[position].body),
        Err(_) => (syntax == Syntax::Markdown).then_some(line),
    };
    let mut found = Vec::new();
    let mut last_word: Option<String> = None;
    for (index, line) in text.lines().enumerate() {
        let body = body_of(index, line);
        let words = match body {
            None if syntax == Syntax::Hash => words_of(&line.replace(PYTHON_NONE, "")),
            _ => words_of(body.unwrap_or(line)),
        };
        let begins = last_word.take().filter(|_| body.is_some());
        for ((first, second), name) in UNWANTED {
            let is_within = words
                .windows(2)
                .any(|pair| pair[0].0 == *first && pair[1].0 == *second && pair[0].1 == pair[1].1);
            let is_broken =
                begins.as_deref() == Some(first) && words.first().is_some_and(|(word, _)| word == second);
            if is_within || is_broken {
                found.push((index, *name, line));
            }
        }
        let text_goes_on = body.is_some_and(|body| body.trim_end().ends_with(char::is_alphanumeric));
        last_word = words.last().filter(|_| text_goes_on).map(|(word, _)| word.clone());
    }
    found
}

/// The words of `text` in lower case, each with the number of the clause it is in: words on both
/// sides of a mark are no phrase.
fn words_of(text: &str) -> Vec<(String, usize)> {
    let mut words: Vec<(String, usize)> = Vec::new();
    let mut clause = 0;
    let mut word = String::new();
    for letter in text.chars().chain([' ']) {
        if letter.is_alphanumeric() || letter == '_' {
            word.extend(letter.to_lowercase());
            continue;
        }
        if !word.is_empty() {
            words.push((std::mem::take(&mut word), clause));
        }
        if !matches!(letter, ' ' | '*') {
            clause += 1;
        }
    }
    words
}
