//! The query of a route: every parameter is known, given as often as it may be, and has a value
//! that is taken.

use std::borrow::Cow;

use tidegate_wire::text::shortened;
use tidegate_wire::{Fault, FaultCode};

use tidegate_net::query::{self, QueryError};

/// How much of a name or a value is quoted, in bytes.
const SHOWN_BYTES_MAX: usize = 128;

/// The parameters that a route accepts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accepted {
    /// The path of the route, for messages.
    pub(crate) route: &'static str,
    /// Parameters that are given at most once.
    pub(crate) once: &'static [&'static str],
    /// Parameters that may be given several times.
    pub(crate) repeated: &'static [&'static str],
}

/// The parameters of a request.
#[derive(Debug)]
pub(crate) struct Parameters<'q>(Vec<(Cow<'q, str>, Cow<'q, str>)>);

/// An attribute with its value.
pub(crate) type AttributePair<'a> = (Cow<'a, str>, Cow<'a, str>);

impl Accepted {
    /// Reads a query. An unknown parameter, or one that is given too often, is an error.
    pub(crate) fn read(self, query: Option<&str>) -> Result<Parameters<'_>, Fault> {
        let mut read = Parameters(Vec::new());
        for parameter in query::parameters(query.unwrap_or("")) {
            let (name, value) = parameter.decoded().map_err(unreadable)?;
            let mut known = self.once.iter().chain(self.repeated);
            if let Some(hidden) = known.find(|known| parameter.hides(known)) {
                let detail =
                    format_args!("parameter \"{hidden}\" stands behind a ; in the value of \"{name}\"");
                return Err(malformed(detail)
                    .field(*hidden)
                    .fix("separate parameters with &, and write %3B for ;"));
            }
            if self.once.contains(&&*name) && read.get(&name).is_some() {
                let detail = format_args!("parameter \"{name}\" is given twice");
                return Err(malformed(detail).field(&*name).fix("give it once"));
            }
            if !self.once.contains(&&*name) && !self.repeated.contains(&&*name) {
                let shown = shortened(&name, SHOWN_BYTES_MAX);
                let detail = format_args!("parameter \"{shown}\" is not known");
                return Err(malformed(detail).field(&*shown).fix(self.fix()));
            }
            read.0.push((name, value));
        }
        Ok(read)
    }

    fn fix(self) -> String {
        let names: Vec<&str> = self.once.iter().chain(self.repeated).copied().collect();
        if names.is_empty() {
            return format!("{} takes no parameters", self.route);
        }
        format!("{} takes {}", self.route, names.join(", "))
    }
}

impl Parameters<'_> {
    /// The value of a parameter, if it is given.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// The value as `parse` reads it. The fault of an invalid value names the expected form and the
    /// fix.
    pub(crate) fn parsed<T>(
        &self,
        name: &'static str,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
        fix: impl FnOnce() -> String,
    ) -> Result<Option<T>, Fault> {
        let Some(value) = self.get(name) else { return Ok(None) };
        parse(value).map(Some).ok_or_else(|| {
            let shown = shortened(value, SHOWN_BYTES_MAX);
            malformed(format_args!("{name} \"{shown}\" is not {expected}")).field(name).fix(fix())
        })
    }

    /// A whole number from 1 to `most`.
    pub(crate) fn number(&self, name: &'static str, default: usize, most: usize) -> Result<usize, Fault> {
        let expected = format!("a whole number from 1 to {most}");
        let parse = |text: &str| text.parse().ok().filter(|number| (1..=most).contains(number));
        let number = self.parsed(name, &expected, parse, || format!("without {name} it is {default}"))?;
        Ok(number.unwrap_or(default))
    }

    /// All values of a parameter, each `attribute=value`. An attribute that is given twice is an
    /// error.
    pub(crate) fn pairs(&self, name: &'static str) -> Result<Vec<AttributePair<'_>>, Fault> {
        let values = self.0.iter().filter(|(known, _)| known == name);
        let pair = |(_, text): &AttributePair<'_>| {
            text.find('=').filter(|end| *end > 0).ok_or_else(|| {
                let shown = shortened(text, SHOWN_BYTES_MAX);
                malformed(format_args!("{name} \"{shown}\" is not an attribute with its value"))
                    .field(name)
                    .fix(format!("write it as {name}=user=ada, once for each attribute"))
            })
        };
        let mut pairs: Vec<AttributePair<'_>> = Vec::new();
        for one in values {
            let end = pair(one)?;
            let attribute = &one.1[..end];
            if pairs.iter().any(|(known, _)| known == attribute) {
                let shown = shortened(attribute, SHOWN_BYTES_MAX);
                let detail = format_args!("{name} gives attribute \"{shown}\" twice");
                return Err(malformed(detail).field(name).fix("give it once"));
            }
            pairs.push((Cow::Borrowed(attribute), Cow::Borrowed(&one.1[end + 1..])));
        }
        Ok(pairs)
    }
}

/// The fault of a query that cannot be taken.
pub(crate) fn malformed(detail: impl core::fmt::Display) -> Fault {
    Fault::new(FaultCode::MalformedQuery, detail)
}

/// Decodes a name or a value that a gateway wrote into a query. A stray `%` is kept as it is: not
/// every gateway escapes values, and rejecting one would refuse the request of its caller.
pub(crate) fn decoded_leniently(part: &str) -> Result<Cow<'_, str>, Fault> {
    query::unescaped(part).ok_or(QueryError::NotUtf8).map_err(unreadable)
}

fn unreadable(error: QueryError) -> Fault {
    let fault = malformed(format_args!("the query {error}"));
    match error {
        QueryError::StrayPercent => fault.fix("write %25 for %"),
        QueryError::NotUtf8 => fault,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCEPTED: Accepted = Accepted { route: "/v1/things", once: &["n", "name"], repeated: &["key"] };

    fn fault(query: &str) -> String {
        let read = ACCEPTED.read(Some(query)).and_then(|read| {
            read.pairs("key")?;
            read.number("n", 20, 100).map(drop)
        });
        let fault = read.expect_err(query);
        assert_eq!(fault.code, FaultCode::MalformedQuery);
        format!("{}; {}", fault.detail, fault.fix.unwrap_or_default())
    }

    #[test]
    fn parameters_are_decoded_and_a_default_stands_for_an_absent_number() {
        let read = ACCEPTED.read(Some("name=a+b%2F&key=user=ada&key=app%3Dx=y")).unwrap();
        assert_eq!((read.get("name"), read.number("n", 20, 100).unwrap()), (Some("a b/"), 20));
        let pairs = read.pairs("key").unwrap();
        assert_eq!(pairs, [("user".into(), "ada".into()), ("app".into(), "x=y".into())]);
        assert_eq!(ACCEPTED.read(None).unwrap().get("name"), None);
    }

    #[test]
    fn a_wrong_parameter_is_named_with_its_value_and_what_is_accepted() {
        for (query, expected) in [
            ("nmae=x", "parameter \"nmae\" is not known; /v1/things takes n, name, key"),
            ("n=1&n=2", "parameter \"n\" is given twice; give it once"),
            ("n=0", "n \"0\" is not a whole number from 1 to 100; without n it is 20"),
            ("n=101", "n \"101\" is not a whole number from 1 to 100; without n it is 20"),
            (
                "key=ada",
                "key \"ada\" is not an attribute with its value; write it as key=user=ada, once for each attribute",
            ),
            ("key=user=ada&key=user=bob", "key gives attribute \"user\" twice; give it once"),
            ("name=%ff", "the query is not UTF-8 when decoded; "),
            ("name=100%", "the query has a % without two digits; write %25 for %"),
            (
                "name=a;n=1",
                "parameter \"n\" stands behind a ; in the value of \"name\"; separate parameters with &, and write %3B for ;",
            ),
        ] {
            assert_eq!(fault(query), expected);
        }
    }
}
