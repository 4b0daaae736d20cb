//! Queries: one reader for the routes of the API and for the attributes of proxied requests.
//!
//! `&` separates parameters, the first `=` ends a name, `+` is a space, and `%` with two
//! hexadecimal digits is a byte. A `%` without two digits is an error, because servers read it in
//! different ways: some keep it, some drop it, some reject the request. A `;` belongs to the value;
//! servers that separate parameters by it would find a parameter there, which [`Parameter::hides`]
//! reports.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// A part of a query that has no single reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// A `%` without two hexadecimal digits behind it.
    #[error("has a % without two digits")]
    StrayPercent,
    /// The decoded bytes are no text.
    #[error("is not UTF-8 when decoded")]
    NotUtf8,
}

/// One parameter of a query as it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter<'q>(&'q str);

/// The parameters of a query in their order. Empty ones, as in `a=1&&b=2`, are left out.
pub fn parameters(query: &str) -> impl Iterator<Item = Parameter<'_>> {
    query.split('&').filter(|part| !part.is_empty()).map(Parameter)
}

impl<'q> Parameter<'q> {
    /// Name and value without decoding; the value is empty where there is no `=`.
    pub fn raw(self) -> (&'q str, &'q str) {
        self.0.split_once('=').unwrap_or((self.0, ""))
    }

    /// Name and value, decoded.
    pub fn decoded(self) -> Result<(Cow<'q, str>, Cow<'q, str>), QueryError> {
        let (name, value) = self.raw();
        Ok((decoded(name)?, decoded(value)?))
    }

    /// Whether the name is `wanted` once it is decoded, a stray `%` in it kept as it is.
    pub fn is_named(self, wanted: &str) -> bool {
        is_named(self.raw().0, wanted)
    }

    /// Whether a server that separates parameters by `;` too would find `wanted` behind one.
    pub fn hides(self, wanted: &str) -> bool {
        self.0.split(';').skip(1).any(|rest| is_named(Parameter(rest).raw().0, wanted))
    }
}

fn is_named(name: &str, wanted: &str) -> bool {
    unescaped(name).is_some_and(|name| name == wanted)
}

/// Decodes a name or a value.
pub fn decoded(part: &str) -> Result<Cow<'_, str>, QueryError> {
    let has_digits =
        |rest: &str| rest.as_bytes().get(..2).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit));
    if !part.split('%').skip(1).all(has_digits) {
        return Err(QueryError::StrayPercent);
    }
    unescaped(part).ok_or(QueryError::NotUtf8)
}

/// Decodes as far as `%` has two digits; `None` if the result is not UTF-8.
pub fn unescaped(part: &str) -> Option<Cow<'_, str>> {
    if part.contains('+') {
        let spaced = part.replace('+', " ");
        return Some(percent_decode_str(&spaced).decode_utf8().ok()?.into_owned().into());
    }
    percent_decode_str(part).decode_utf8().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_empty_ones_left_out() {
        let read: Vec<_> =
            parameters("a=1&&b+c=x%2Fy+z&flag&=v&d=1=2").map(|one| one.decoded().unwrap()).collect();
        let expected = [("a", "1"), ("b c", "x/y z"), ("flag", ""), ("", "v"), ("d", "1=2")];
        assert_eq!(read, expected.map(|(name, value)| (name.into(), value.into())));
        assert_eq!(parameters("").count(), 0);
    }

    #[test]
    fn a_percent_without_two_digits_and_bytes_that_are_no_text_are_errors() {
        for part in ["%", "a%", "%4", "%zz", "%+f", "%%41", "a%2"] {
            assert_eq!(decoded(part), Err(QueryError::StrayPercent), "{part}");
        }
        for part in ["%ff", "%c3%28"] {
            assert_eq!(decoded(part), Err(QueryError::NotUtf8), "{part}");
        }
        assert_eq!(decoded("%25+%C3%A9").unwrap(), "% \u{e9}");
    }

    #[test]
    fn a_parameter_behind_a_semicolon_is_part_of_the_value_and_reported() {
        let parameter = parameters("a=1;us%65r=2;c").next().unwrap();
        assert_eq!(parameter.decoded().unwrap().1, "1;user=2;c");
        assert!(parameter.hides("user") && parameter.hides("c"));
        assert!(!parameter.hides("a") && parameter.is_named("a"));
    }
}
