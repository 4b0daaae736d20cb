//! Where the answer to a request says a number, as a policy writes it.

use core::fmt;
use core::str::FromStr;

use http::HeaderName;

use super::GrammarError;
use super::value_source::{SOURCE_BYTES_MAX, name_path, write_name_path};
use crate::printable::shown;

/// The most fields that one value adds up.
pub const FIELDS_MAX: usize = 8;

/// The most names in the path of a field.
pub const FIELD_DEPTH_MAX: usize = 16;

/// The path of a field in a JSON document: names from the outside in. A number names an element of
/// a list, counted from 0, or a member of that name.
pub type FieldPath = Vec<String>;

/// The part of an answer that a number is, written as in a policy:
///
/// | written | is |
/// |---|---|
/// | `header.x-tokens` | the header of that name |
/// | `json.usage.total_tokens` | the field of the JSON document that is the body |
/// | `sse.usage.total_tokens` | the field of the last event of an event stream that has it; the data of events are JSON documents |
/// | `json.usage.input + json.usage.output` | the sum of the fields that are there |
///
/// A name with dots is quoted: `json."a.b".c`.
///
/// ```
/// # use tidegate_policy::grammar::ResponseValue;
/// let tokens: ResponseValue = "sse.usage.total_tokens".parse()?;
/// assert_eq!(tokens, ResponseValue::Events(vec![vec!["usage".to_owned(), "total_tokens".to_owned()]]));
/// let error = "body.tokens".parse::<ResponseValue>().unwrap_err();
/// assert_eq!(error.fix, "write header.NAME, json.FIELD or sse.FIELD");
/// # Ok::<(), tidegate_policy::grammar::GrammarError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResponseValue {
    /// `header.NAME`.
    Header(HeaderName),
    /// `json.FIELD`: the sum of these fields, at least one and at most [`FIELDS_MAX`].
    Json(Vec<FieldPath>),
    /// `sse.FIELD`: the sum of the last of each of these fields.
    Events(Vec<FieldPath>),
}

impl ResponseValue {
    /// Whether it is found in the body.
    pub const fn is_in_body(&self) -> bool {
        !matches!(self, Self::Header(_))
    }
}

impl FromStr for ResponseValue {
    type Err = GrammarError;

    fn from_str(text: &str) -> Result<Self, GrammarError> {
        const FIX: &str = "write header.NAME, json.FIELD or sse.FIELD";
        let wrong = |why: &str, fix: &str| {
            Err(GrammarError::new(format!("\"{}\" is not a value of an answer: {why}", shown(text)), fix))
        };
        if text.len() > SOURCE_BYTES_MAX {
            return wrong("it is longer than 256 bytes", "use shorter names");
        }
        let mut header = None;
        let (mut json, mut events) = (Vec::new(), Vec::new());
        for part in parts(text) {
            let (kind, name) = part.split_once('.').unwrap_or((part, ""));
            let fields = match kind {
                "header" => {
                    let Ok(name) = HeaderName::try_from(name) else {
                        return wrong("no header name follows the dot", "write it as in header.x-tokens");
                    };
                    if header.replace(name).is_some() {
                        return wrong("it adds headers", "name one header");
                    }
                    continue;
                }
                "json" => &mut json,
                "sse" => &mut events,
                _ => return wrong("it names no part of an answer", FIX),
            };
            let Some(path) = name_path(name) else {
                return wrong("no field follows the dot", "write it as in json.usage.total_tokens");
            };
            if path.len() > FIELD_DEPTH_MAX {
                return wrong("the field is more than 16 names deep", "name a field further outside");
            }
            fields.push(path);
        }
        if json.len().max(events.len()) > FIELDS_MAX {
            return wrong("it adds more than 8 fields", "name fewer");
        }
        match (header, json.is_empty(), events.is_empty()) {
            (Some(name), true, true) => Ok(Self::Header(name)),
            (None, false, true) => Ok(Self::Json(json)),
            (None, true, false) => Ok(Self::Events(events)),
            _ => wrong("it adds values of different kinds", "add fields of one kind, or write a list"),
        }
    }
}

/// The parts between plus signs, which may stand inside of quotation marks.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    text.split(move |one: char| {
        is_quoted ^= one == '"';
        one == '+' && !is_quoted
    })
    .map(str::trim)
}

/// As it is written in a policy.
impl fmt::Display for ResponseValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, fields) = match self {
            Self::Header(name) => return write!(f, "header.{name}"),
            Self::Json(fields) => ("json", fields),
            Self::Events(fields) => ("sse", fields),
        };
        for (at, path) in fields.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { " + " })?;
            f.write_str(kind)?;
            write_name_path(f, path)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        text.parse::<ResponseValue>().unwrap_err().to_string()
    }

    #[test]
    fn a_value_is_written_as_it_is_read() {
        for text in [
            "header.x-tokens",
            "json.usage.total_tokens",
            "json.0",
            "sse.usage.total_tokens",
            "sse.message.usage.input_tokens + sse.usage.output_tokens",
            "json.\"a.b\".c",
        ] {
            assert_eq!(text.parse::<ResponseValue>().unwrap().to_string(), text);
        }
        let spaced: ResponseValue = " json.a+json.\"b+c.d\" ".parse().unwrap();
        assert_eq!(spaced.to_string(), "json.a + json.\"b+c.d\"");
    }

    #[test]
    fn a_text_that_names_nothing_says_what_to_write() {
        for (text, expected) in [
            (
                "",
                "\"\" is not a value of an answer: it names no part of an answer; write header.NAME, json.FIELD or sse.FIELD",
            ),
            (
                "x-tokens",
                "\"x-tokens\" is not a value of an answer: it names no part of an answer; write header.NAME, json.FIELD or sse.FIELD",
            ),
            (
                "json",
                "\"json\" is not a value of an answer: no field follows the dot; write it as in json.usage.total_tokens",
            ),
            (
                "json.a..b",
                "\"json.a..b\" is not a value of an answer: no field follows the dot; write it as in json.usage.total_tokens",
            ),
            (
                "header.",
                "\"header.\" is not a value of an answer: no header name follows the dot; write it as in header.x-tokens",
            ),
            (
                "json.a + sse.b",
                "\"json.a + sse.b\" is not a value of an answer: it adds values of different kinds; add fields of one kind, or write a list",
            ),
            (
                "header.a + header.b",
                "\"header.a + header.b\" is not a value of an answer: it adds headers; name one header",
            ),
            (
                "json.a + ",
                "\"json.a + \" is not a value of an answer: it names no part of an answer; write header.NAME, json.FIELD or sse.FIELD",
            ),
        ] {
            assert_eq!(problem(text), expected);
        }
        assert!(problem(&format!("json.{}", "a.".repeat(17) + "b")).contains("more than 16 names deep"));
        assert!(problem(&["json.a"; 9].join(" + ")).contains("more than 8 fields"));
        assert!(problem(&format!("json.{}", "a".repeat(300))).contains("longer than 256 bytes"));
    }
}
