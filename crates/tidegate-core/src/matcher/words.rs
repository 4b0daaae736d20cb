//! Descriptions of matchers for people.

use core::fmt::{self, Display};

use super::{Matcher, shortened};

/// The most values of a list that are written out.
const VALUES_SHOWN_MAX: usize = 8;

impl Display for Matcher {
    /// A description that follows the word "wants": `one of "GET", "HEAD"`, `a value like "/v1/*"`,
    /// `an address in 10.0.0.0/8`. Of a long list only the beginning.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(value) => quoted(value, f),
            Self::OneOf(values) => match values.iter().len() {
                0 => f.write_str("what no value is"),
                1 => values.iter().try_for_each(|value| quoted(value, f)),
                count => {
                    f.write_str("one of ")?;
                    listed(values.iter().take(VALUES_SHOWN_MAX), ", ", f, quoted)?;
                    if count > VALUES_SHOWN_MAX {
                        write!(f, " and {} others", count - VALUES_SHOWN_MAX)?;
                    }
                    Ok(())
                }
            },
            Self::Prefix(start) => described("a value that starts with ", start, f),
            Self::Suffix(end) => described("a value that ends with ", end, f),
            #[cfg(feature = "regex")]
            Self::Glob(pattern) => described("a value like ", pattern.as_str(), f),
            #[cfg(feature = "regex")]
            Self::Regex(pattern) => described("a value that matches the regex ", pattern.as_str(), f),
            #[cfg(feature = "cidr")]
            Self::Cidr(network) => write!(f, "an address in {network}"),
            Self::Present => f.write_str("any value"),
            Self::Absent => f.write_str("no value"),
            Self::Not(matcher) => write!(f, "anything but {}", InnerMatcher(matcher)),
            Self::Any(matchers) if matchers.is_empty() => f.write_str("what no value is"),
            Self::All(matchers) if matchers.is_empty() => f.write_str("anything"),
            Self::Any(matchers) => listed(matchers.iter(), " or ", f, |one, f| InnerMatcher(one).fmt(f)),
            Self::All(matchers) => listed(matchers.iter(), " and ", f, |one, f| InnerMatcher(one).fmt(f)),
        }
    }
}

/// A matcher inside of another: in brackets where it would not be clear what belongs together.
struct InnerMatcher<'a>(&'a Matcher);

impl Display for InnerMatcher<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Matcher::Any(several) | Matcher::All(several) if several.len() > 1 => write!(f, "({})", self.0),
            one => one.fmt(f),
        }
    }
}

fn quoted(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "\"{}\"", shortened(text))
}

fn described(before: &str, text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(before)?;
    quoted(text, f)
}

fn listed<T>(
    all: impl Iterator<Item = T>,
    between: &str,
    f: &mut fmt::Formatter<'_>,
    mut write: impl FnMut(T, &mut fmt::Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    for (index, one) in all.enumerate() {
        if index > 0 {
            f.write_str(between)?;
        }
        write(one, f)?;
    }
    Ok(())
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_matcher_says_what_it_wants() {
        let many: Vec<String> = (0..10).map(|number| format!("v{number}")).collect();
        let methods = || Matcher::one_of(["GET", "HEAD"]);
        for (matcher, words) in [
            (Matcher::exact("POST"), r#""POST""#),
            (methods(), r#"one of "GET", "HEAD""#),
            (Matcher::one_of(["GET"]), r#""GET""#),
            (Matcher::one_of(many), r#"one of "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7" and 2 others"#),
            (Matcher::prefix("/a"), r#"a value that starts with "/a""#),
            (Matcher::suffix(".js"), r#"a value that ends with ".js""#),
            (Matcher::glob("/v1/*").unwrap(), r#"a value like "/v1/*""#),
            (Matcher::regex("a|b").unwrap(), r#"a value that matches the regex "a|b""#),
            (Matcher::cidr("10.0.0.0/8").unwrap(), "an address in 10.0.0.0/8"),
            (Matcher::present(), "any value"),
            (Matcher::absent(), "no value"),
            (Matcher::not(methods()), r#"anything but one of "GET", "HEAD""#),
            (
                Matcher::not(Matcher::any([Matcher::exact("a"), Matcher::absent()])),
                r#"anything but ("a" or no value)"#,
            ),
            (
                Matcher::all([Matcher::prefix("a"), Matcher::suffix("b")]),
                r#"a value that starts with "a" and a value that ends with "b""#,
            ),
            (Matcher::any([]), "what no value is"),
            (Matcher::all([]), "anything"),
        ] {
            assert_eq!(matcher.to_string(), words);
        }
    }
}
