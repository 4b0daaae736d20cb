//! The kinds of scalars in YAML 1.1, the version in which the peer reads its files.

use crate::tree::Scalar;

/// The kind of a scalar. The text stays as written: where a text is expected, `0x10` is the text
/// `0x10`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ScalarKind {
    /// There is no value.
    Null,
    /// `true`, `yes`, `on`, `y` and their opposites, in the three usual cases.
    Bool(bool),
    /// A whole number of 64 bits with a sign.
    Int(i64),
    /// A whole number that has no room there.
    Huge,
    /// A number that is not whole.
    Float(f64),
    /// Anything else, and whatever is in quotes.
    Text,
}

/// The kind of `scalar`.
pub(super) fn kind(scalar: &Scalar) -> ScalarKind {
    let text = &*scalar.text;
    if scalar.quoted {
        return ScalarKind::Text;
    }
    if scalar.is_null() {
        return ScalarKind::Null;
    }
    // Not every mixture of cases counts, as in the peer.
    let is_word = |words: &[&str]| {
        words.iter().any(|word| {
            let capital = word[..1].to_uppercase() + &word[1..];
            text == *word || text == capital || text == word.to_uppercase()
        })
    };
    if is_word(&["true", "yes", "on", "y"]) {
        return ScalarKind::Bool(true);
    }
    if is_word(&["false", "no", "off", "n"]) {
        return ScalarKind::Bool(false);
    }
    number(text)
}

fn number(text: &str) -> ScalarKind {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return ScalarKind::Float(f64::INFINITY);
    }
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return ScalarKind::Text;
    }
    let plain = unsigned.replace('_', "");
    let (radix, digits) = match plain.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &plain[2..]),
        [b'0', b'o' | b'O', ..] => (8, &plain[2..]),
        [b'0', b'b' | b'B', ..] => (2, &plain[2..]),
        [b'0', _, ..] => (8, &plain[1..]),
        _ => (10, plain.as_str()),
    };
    if !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix)) {
        let magnitude = i128::from_str_radix(digits, radix).ok();
        let value = magnitude.map(|value| if text.starts_with('-') { -value } else { value });
        return value.and_then(|value| i64::try_from(value).ok()).map_or(ScalarKind::Huge, ScalarKind::Int);
    }
    let has_digit = plain.contains(|c: char| c.is_ascii_digit());
    let is_float = has_digit && plain.chars().all(|c| c.is_ascii_digit() || ".eE+-".contains(c));
    match plain.parse::<f64>() {
        Ok(value) if is_float => ScalarKind::Float(if text.starts_with('-') { -value } else { value }),
        _ => ScalarKind::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scalar_is_what_yaml_1_1_takes_it_for() {
        for (text, expected) in [
            ("", ScalarKind::Null),
            ("~", ScalarKind::Null),
            ("yes", ScalarKind::Bool(true)),
            ("Off", ScalarKind::Bool(false)),
            ("N", ScalarKind::Bool(false)),
            ("tRue", ScalarKind::Text),
            ("10", ScalarKind::Int(10)),
            ("-10", ScalarKind::Int(-10)),
            ("+1_000", ScalarKind::Int(1000)),
            ("0x1F", ScalarKind::Int(31)),
            ("010", ScalarKind::Int(8)),
            ("0b11", ScalarKind::Int(3)),
            ("0", ScalarKind::Int(0)),
            ("08", ScalarKind::Float(8.0)),
            ("9223372036854775808", ScalarKind::Huge),
            ("1.5", ScalarKind::Float(1.5)),
            (".5", ScalarKind::Float(0.5)),
            ("1e3", ScalarKind::Float(1000.0)),
            (".inf", ScalarKind::Float(f64::INFINITY)),
            ("10.0.0.1", ScalarKind::Text),
            ("2001-01-01", ScalarKind::Text),
            ("1a", ScalarKind::Text),
            (".", ScalarKind::Text),
            ("minute", ScalarKind::Text),
        ] {
            assert_eq!(kind(&Scalar { text: text.into(), quoted: false }), expected, "{text}");
            assert_eq!(kind(&Scalar { text: text.into(), quoted: true }), ScalarKind::Text, "{text}");
        }
    }
}
