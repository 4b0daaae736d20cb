//! Faults of bodies that cannot be read: where in the body, and what was probably meant.

use serde::Deserialize;

use super::{Fault, FaultCode};
use crate::text::shortened;

impl Fault {
    /// The fault of a body that could not be read as a `T`.
    ///
    /// `body` is read once more to find the path of the value that is wrong; the first reading does
    /// not keep track.
    pub fn from_body<'a, T: Deserialize<'a>>(error: &serde_json::Error, body: &'a [u8]) -> Self {
        let mut deserializer = serde_json::Deserializer::from_slice(body);
        let located = serde_path_to_error::deserialize::<_, T>(&mut deserializer);
        Self::from_body_at(error, body, located.err().map(|located| located.path().to_string()))
    }

    /// The same with the path of the value. Compiled once for all types.
    fn from_body_at(error: &serde_json::Error, body: &[u8], path: Option<String>) -> Self {
        let word = word_at(error, body);
        let found = word.as_deref().map(|word| format!(", found `{}`", shortened(word, 32)));
        let detail = sentence(error) + &found.unwrap_or_default();
        let mut fault = Self::new(FaultCode::MalformedBody, detail);
        if error.line() > 0 {
            fault.position = Some((error.line(), error.column()));
        }
        if let Some(path) = path.filter(|path| path != "." && path != "?") {
            fault.field = Some(shortened(&path, 200).into_owned());
        }
        fault.fix = match word.as_deref().map(is_no_finite_number) {
            Some(true) => Some("send a finite number: JSON has none for NaN and Infinity".to_owned()),
            _ => suggestion(error),
        };
        fault
    }
}

/// How messages of the reader begin, and what is told in place of that.
const BEGINNINGS: [(&str, &str); 12] = [
    ("EOF while parsing a value", "the body ends where a value should be"),
    ("EOF while parsing an object", "the body ends inside of an object"),
    ("EOF while parsing a list", "the body ends inside of a list"),
    ("EOF while parsing a string", "the body ends inside of a text"),
    ("trailing characters", "the body goes on behind its JSON value"),
    ("unknown variant", "unknown value"),
    ("invalid type: sequence", "invalid type: a list"),
    ("invalid type: map", "invalid type: an object"),
    ("invalid type: string ", "invalid type: the text "),
    ("invalid type: integer ", "invalid type: the number "),
    ("invalid type: floating point ", "invalid type: the number "),
    ("invalid type: boolean ", "invalid type: the value "),
];

/// How they end: the types of Rust, and what they are in JSON.
const ENDINGS: [(&str, &str); 9] = [
    ("expected u8", "expected a whole number from 0 to 255"),
    ("expected u16", "expected a whole number from 0 to 65535"),
    ("expected u32", "expected a whole number from 0 to 4294967295"),
    ("expected u64", "expected a whole number from 0"),
    ("expected usize", "expected a whole number from 0"),
    ("expected f64", "expected a number"),
    ("expected a borrowed string", "expected a text"),
    ("expected a sequence", "expected a list"),
    ("expected a map", "expected an object"),
];

/// The message in the words of JSON, without the position, which stands beside it.
fn sentence(error: &serde_json::Error) -> String {
    let mut message = error.to_string();
    if error.line() > 0
        && let Some(end) = message.rfind(" at line ")
    {
        message.truncate(end);
    }
    in_words_of_json(&message)
}

/// A message of the reader without words of Rust.
pub fn in_words_of_json(message: &str) -> String {
    let mut message = message.to_owned();
    for (beginning, words) in BEGINNINGS {
        if let Some(rest) = message.strip_prefix(beginning) {
            message = format!("{words}{rest}");
        }
    }
    for (ending, words) in ENDINGS {
        if let Some(rest) = message.strip_suffix(ending) {
            message = format!("{rest}{words}");
        }
    }
    message
}

/// The word that stands where JSON has a value, such as `NaN`. `None` without one, and for other
/// errors.
fn word_at(error: &serde_json::Error, body: &[u8]) -> Option<String> {
    let message = error.to_string();
    if !["expected value", "expected ident", "invalid number"].iter().any(|one| message.starts_with(one)) {
        return None;
    }
    let line = body.split(|byte| *byte == b'\n').nth(error.line().checked_sub(1)?)?;
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'+' | b'-' | b'.');
    let at = error.column().checked_sub(1)?;
    let before = line.get(..at)?.iter().rev().take_while(|byte| is_part(byte)).count();
    let word: Vec<u8> = line[at - before..].iter().copied().take_while(is_part).collect();
    let is_word = word.iter().any(u8::is_ascii_alphabetic);
    String::from_utf8(word).ok().filter(|_| is_word)
}

/// Whether a word is how other formats than JSON write a number that is not finite.
fn is_no_finite_number(word: &str) -> bool {
    let unsigned = word.trim_start_matches(['+', '-']);
    ["nan", "inf", "infinity"].iter().any(|name| unsigned.eq_ignore_ascii_case(name))
}

/// For an unknown key: the known one that it resembles most.
fn suggestion(error: &serde_json::Error) -> Option<String> {
    let message = error.to_string();
    let rest = message.strip_prefix("unknown field `")?;
    let (unknown, rest) = rest.split_once('`')?;
    let known: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
    let (nearest, distance) = known
        .iter()
        .map(|name| (*name, strsim::damerau_levenshtein(&shortened(unknown, 64), name)))
        .min_by_key(|(_, distance)| *distance)?;
    if distance <= 1 + nearest.len() / 3 {
        return Some(format!("did you mean \"{nearest}\"?"));
    }
    Some(format!("leave it out; known are {}", known.join(", ")))
}
