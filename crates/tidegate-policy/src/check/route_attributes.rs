//! The attributes that a route sets, as far as they are known before a request arrives.

use http::Method;
use tidegate_core::limit::{Limit, Missing};

use crate::grammar::ValueSource;
use crate::policy::proxy::Route;

/// The value of one attribute, as far as it is known for every request of a route.
#[derive(Debug, PartialEq, Eq)]
enum KnownValue<'a> {
    /// The route does not set it.
    Absent,
    /// It is one of these.
    OneOf(Vec<&'a str>),
    /// It comes from the request, which may lack it.
    Unknown,
}

/// The attributes of a route's requests, as far as they are known.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RouteAttributes<'a> {
    /// Those of a route of the proxy.
    Of(&'a Route),
    /// These, each with a value that is not known.
    Named(&'a [&'a str]),
}

impl<'a> RouteAttributes<'a> {
    fn known(self, attribute: &str) -> KnownValue<'a> {
        let route = match self {
            Self::Named(names) if names.contains(&attribute) => return KnownValue::Unknown,
            Self::Named(_) => return KnownValue::Absent,
            Self::Of(route) => route,
        };
        let Some((_, source)) = route.attributes.iter().find(|(name, _)| name == attribute) else {
            return KnownValue::Absent;
        };
        match (source, &route.path) {
            (ValueSource::Constant(text), _) => KnownValue::OneOf(vec![text]),
            (ValueSource::Method, _) if !route.methods.is_empty() => {
                KnownValue::OneOf(route.methods.iter().map(Method::as_str).collect())
            }
            (ValueSource::Path, Some(path)) if !path.as_str().contains('*') => {
                KnownValue::OneOf(vec![path.as_str()])
            }
            _ => KnownValue::Unknown,
        }
    }

    /// The attributes that the route sets.
    pub(crate) fn names(self) -> impl Iterator<Item = &'a str> {
        let (names, attributes) = match self {
            Self::Named(names) => (names, &[][..]),
            Self::Of(route) => (&[][..], route.attributes.as_slice()),
        };
        names.iter().copied().chain(attributes.iter().map(|(name, _)| name.as_str()))
    }

    /// Whether the route sets the attribute.
    pub(crate) fn sets(self, attribute: &str) -> bool {
        self.known(attribute) != KnownValue::Absent
    }

    /// The first attribute for which no request of the route is one that `limit` applies to; `None`
    /// where some may be.
    pub(crate) fn never_fits(self, limit: &Limit) -> Option<&str> {
        let unmatched = limit.matches.iter().find(|condition| match self.known(&condition.attribute) {
            KnownValue::Absent => !condition.matcher.matches(None),
            KnownValue::OneOf(values) => !values.iter().any(|value| condition.matcher.matches(Some(value))),
            KnownValue::Unknown => false,
        });
        let lacking = || {
            let is_skipped = limit.missing == Missing::Skip;
            limit.key.iter().find(|part| is_skipped && !self.sets(&part.attribute))
        };
        let unmatched = unmatched.map(|condition| condition.attribute.as_str());
        unmatched.or_else(|| lacking().map(|part| part.attribute.as_str()))
    }

    /// The attribute whose absence has `limit` refuse every request of the route; `None` where it
    /// may admit some.
    pub(crate) fn always_lacks(self, limit: &Limit) -> Option<&str> {
        if limit.missing != Missing::Refuse {
            return None;
        }
        let always_matches = limit.matches.iter().all(|condition| match self.known(&condition.attribute) {
            KnownValue::Absent => condition.matcher.matches(None),
            KnownValue::OneOf(values) => values.iter().all(|value| condition.matcher.matches(Some(value))),
            KnownValue::Unknown => false,
        });
        let lacking = limit.key.iter().find(|part| !self.sets(&part.attribute));
        lacking.filter(|_| always_matches).map(|part| part.attribute.as_str())
    }
}
