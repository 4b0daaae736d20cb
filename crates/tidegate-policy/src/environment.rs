//! `${NAME}` and `${NAME:-default}` in values.
//!
//! Only `${` is special: `$` alone and `$1` stay as they are. `$${` stands for `${` itself. A
//! default is used when the variable is not set or is empty, as in a shell; what a variable holds
//! is not searched for further variables.

use std::borrow::Cow;

use crate::printable::shown;
use crate::tree::SCALAR_BYTES_MAX;

/// Why a value cannot be expanded: what is wrong and what to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unexpanded {
    pub(crate) what: String,
    pub(crate) fix: String,
}

/// `text` with its variables replaced; at most [`SCALAR_BYTES_MAX`] bytes.
pub(crate) fn expand<'a>(
    text: &'a str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Cow<'a, str>, Unexpanded> {
    if !text.contains("${") {
        return Ok(Cow::Borrowed(text));
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        if let Some(before) = rest[..start].strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = &rest[start + 2..];
            continue;
        }
        out.push_str(&rest[..start]);
        let inside = &rest[start + 2..];
        let Some(end) = inside.find('}') else {
            return Err(Unexpanded {
                what: "`${` is not closed".to_owned(),
                fix: "close it with `}`, or write `$${` for the two characters themselves".to_owned(),
            });
        };
        out.push_str(&variable(&inside[..end], env)?);
        rest = &inside[end + 1..];
        if out.len() > SCALAR_BYTES_MAX {
            break;
        }
    }
    out.push_str(rest);
    if out.len() > SCALAR_BYTES_MAX {
        return Err(Unexpanded {
            what: format!("with its variables replaced, the value is longer than {SCALAR_BYTES_MAX} bytes"),
            fix: "shorten the variables".to_owned(),
        });
    }
    Ok(Cow::Owned(out))
}

fn variable(inside: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<String, Unexpanded> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    let is_name = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_name {
        return Err(Unexpanded {
            what: format!("\"{}\" is not the name of an environment variable", shown(name)),
            fix: "write ${NAME} or ${NAME:-default}, or `$${` for the two characters themselves".to_owned(),
        });
    }
    match (env(name), default) {
        (Some(value), Some(default)) if value.is_empty() => Ok(default.to_owned()),
        (Some(value), _) => Ok(value),
        (None, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(Unexpanded {
            what: format!("environment variable {} is not set", shown(name)),
            fix: format!("set it, or give a default: ${{{}:-value}}", shown(name)),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(name: &str) -> Option<String> {
        match name {
            "PORT" => Some("8080".to_owned()),
            "EMPTY" => Some(String::new()),
            "NESTED" => Some("${PORT}".to_owned()),
            "LONG" => Some("x".repeat(SCALAR_BYTES_MAX)),
            _ => None,
        }
    }

    #[test]
    fn variables_are_replaced_and_nothing_else_is() {
        for (text, expanded) in [
            ("plain $ $1 $$ {x}", "plain $ $1 $$ {x}"),
            ("127.0.0.1:${PORT}", "127.0.0.1:8080"),
            ("${PORT}${PORT}", "80808080"),
            ("${EMPTY}", ""),
            ("${EMPTY:-x}", "x"),
            ("${UNSET:-a:-b}", "a:-b"),
            ("${UNSET:-}", ""),
            ("$${PORT} ${PORT}", "${PORT} 8080"),
            ("${NESTED}", "${PORT}"),
        ] {
            assert_eq!(expand(text, &env).unwrap(), expanded, "{text}");
        }
    }

    #[test]
    fn a_variable_that_cannot_be_replaced_says_why() {
        for (text, what) in [
            ("${UNSET}", "environment variable UNSET is not set"),
            ("a ${PORT", "`${` is not closed"),
            ("${1X}", "\"1X\" is not the name of an environment variable"),
            ("${}", "\"\" is not the name of an environment variable"),
            ("${LONG}${LONG}", "with its variables replaced, the value is longer than 16384 bytes"),
        ] {
            assert_eq!(expand(text, &env).unwrap_err().what, what, "{text}");
        }
    }
}
