//! The decision log of a daemon, and the parts of a request that its lines need.

use core::time::Duration;
use std::borrow::Cow;

use tidegate_core::{Attributes, Class, Cost, Refusal, Retry, Timestamp};
use tidegate_engine::{LimitReport, Request};

use crate::metrics::tightest;
use crate::protocol::Protocol;
use crate::records::decision_log::{DecisionLog, DecisionRecord, TEXT_BYTES_MAX};

/// The decision log, and which decisions go there.
#[derive(Debug)]
pub(crate) struct Decisions {
    pub(crate) log: DecisionLog,
    /// Whether admitted requests get a line as well.
    pub(crate) admissions: bool,
}

/// The parts of a request that are needed after its decision.
pub(crate) struct Asked<'a> {
    pub(crate) namespace: Cow<'a, str>,
    attributes: AskedAttributes<'a>,
    cost: Cost,
    class: Class,
    feature: Option<Cow<'a, str>>,
    pub(crate) protocol: Protocol,
}

enum AskedAttributes<'a> {
    Borrowed(Attributes<'a>),
    Owned(Vec<(String, String)>),
}

impl<'a> Asked<'a> {
    pub(crate) fn borrowed(request: &Request<'a>, protocol: Protocol) -> Self {
        Self {
            namespace: Cow::Borrowed(request.namespace),
            attributes: AskedAttributes::Borrowed(request.attributes),
            cost: request.cost,
            class: request.class,
            feature: request.feature.map(Cow::Borrowed),
            protocol,
        }
    }

    /// For a request that waits. Its attributes and its feature are copied only if the log or the
    /// refused keys need them.
    pub(crate) fn owned(request: &Request<'_>, protocol: Protocol, with_attributes: bool) -> Asked<'static> {
        let pairs = request.attributes.iter().filter(|_| with_attributes);
        Asked {
            namespace: Cow::Owned(request.namespace.to_owned()),
            attributes: AskedAttributes::Owned(
                pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            ),
            cost: request.cost,
            class: request.class,
            feature: request
                .feature
                .filter(|_| with_attributes)
                .map(|name| Cow::Owned(beginning(name).into())),
            protocol,
        }
    }

    /// A line with what every decision has.
    fn line<'l>(
        &'l self,
        pairs: &'l [(&'l str, &'l str)],
        now: Timestamp,
        took: Duration,
    ) -> DecisionRecord<'l> {
        let mut line = DecisionRecord::new(now, &self.namespace, self.cost.units());
        line.attributes = Attributes::new(pairs);
        line.class = Some(self.class);
        line.feature = self.feature.as_deref();
        line.took = Some(took);
        line.protocol = Some(self.protocol);
        line
    }

    /// The attributes but the one called `hidden`.
    fn pairs(&self, hidden: Option<&str>) -> Vec<(&str, &str)> {
        let is_shown = |(name, _): &(&str, &str)| hidden != Some(*name);
        match &self.attributes {
            AskedAttributes::Borrowed(attributes) => attributes.iter().filter(is_shown).collect(),
            AskedAttributes::Owned(pairs) => {
                let pairs = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
                pairs.filter(is_shown).collect()
            }
        }
    }
}

/// As much of a name as a line needs: it cuts what is longer than its bound, and marks it.
fn beginning(name: &str) -> &str {
    &name[..name.floor_char_boundary(TEXT_BYTES_MAX + char::MAX.len_utf8())]
}

impl Decisions {
    /// Logs an admission, without the attribute called `hidden`.
    pub(crate) fn admitted(
        &self,
        asked: &Asked<'_>,
        hidden: Option<&str>,
        limits: &[LimitReport],
        now: Timestamp,
        took: Duration,
    ) {
        if !self.admissions {
            return;
        }
        let pairs = asked.pairs(hidden);
        let mut line = asked.line(&pairs, now, took);
        let tightest = tightest(limits);
        line.limit = tightest.map(|limit| limit.name.as_str());
        line.remaining = tightest.map(|limit| limit.remaining);
        self.log.write(&line);
    }

    /// Logs a refusal, without the attribute called `hidden`.
    pub(crate) fn refused(
        &self,
        asked: &Asked<'_>,
        hidden: Option<&str>,
        refusal: &Refusal,
        now: Timestamp,
        took: Duration,
    ) {
        let pairs = asked.pairs(hidden);
        let mut line = asked.line(&pairs, now, took);
        line.reason = Some(refusal.reason());
        line.limit = Some(refusal.name());
        line.scope = &refusal.scope;
        line.remaining = Some(refusal.remaining());
        line.retry_after = match refusal.retry() {
            Retry::At(at) => Some(at.saturating_since(now)),
            _ => refusal.retry_hint,
        };
        self.log.write(&line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_waits_keeps_as_much_of_its_feature_as_a_line_shows() {
        for name in ["", "thumbnails", &"x".repeat(65_536), &"\u{1f600}".repeat(65)] {
            let request = Request::new("api", ()).feature(name);
            let kept = Asked::owned(&request, Protocol::Http, true);
            let line = |asked: &Asked<'_>| {
                let pairs = asked.pairs(None);
                let line = asked.line(&pairs, Timestamp::MIN, Duration::ZERO);
                serde_json::to_string(&line).unwrap()
            };
            assert_eq!(line(&kept), line(&Asked::borrowed(&request, Protocol::Http)));
            assert!(kept.feature.unwrap().len() <= TEXT_BYTES_MAX + char::MAX.len_utf8());
            assert_eq!(Asked::owned(&request, Protocol::Http, false).feature, None);
        }
    }

    #[test]
    fn a_line_lacks_the_attribute_that_is_hidden() {
        let pairs = [("user", "ada"), ("ticket", "AbC-_")];
        let request = Request::new("api", &pairs);
        let borrowed = Asked::borrowed(&request, Protocol::Resp);
        for asked in [borrowed, Asked::owned(&request, Protocol::Resp, true)] {
            assert_eq!(asked.pairs(Some("ticket")), [("user", "ada")]);
            assert_eq!(asked.pairs(None), pairs);
        }
    }
}
