//! `tidegate check`.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::Serialize;
use tidegate_core::{Plane, Reason};
use tidegate_wire::answer::AccessUnits;
use tidegate_wire::display::HumanDuration;

use crate::arguments::request::{Check, Question};
use crate::client::{self, CheckAnswer, ClientError, wait_for};
use crate::exit::{Exit, answer};
use crate::unused_attributes;

/// The answer as `--json` prints it: the same for every protocol, as far as the protocol says it.
#[derive(Debug, Serialize)]
struct PrintedAnswer<'a> {
    /// `http`, `resp` or `grpc`.
    protocol: &'static str,
    namespace: &'a str,
    /// `admit` or `refuse`.
    decision: &'a str,
    /// Whether it was only looked at.
    peek: bool,
    #[serde(flatten)]
    said: &'a CheckAnswer,
}

pub(crate) fn run(arguments: &Check) -> Exit {
    if let Some(name) = arguments.question.duplicate() {
        return ClientError::Untaken(format!("duplicate attribute \"{name}\"; give it once")).complain();
    }
    let said = match wait_for(client::check(&arguments.daemon, &arguments.question, &arguments.options)) {
        Ok(said) => said,
        Err(unanswered) => return unanswered.complain(),
    };
    let exit = if said.decision == "admit" { Exit::Done } else { Exit::Problems };
    let text = if arguments.json {
        json(arguments, said)
    } else {
        words(&said, &arguments.question, arguments.options.peek)
    };
    let exit = answer(&(text + "\n"), exit);
    note_unused_attributes(arguments);
    exit
}

fn note_unused_attributes(arguments: &Check) {
    let (daemon, question) = (&arguments.daemon, &arguments.question);
    // The token of a caller need not be an operator's: a question that is refused would be counted
    // and logged.
    if client::has_token(daemon) {
        return;
    }
    unused_attributes::note(question, || {
        wait_for(client::limit_attributes(daemon, &question.namespace)).ok()
    });
}

/// The limit is the one that refused, or the tightest of those that admitted.
fn json(arguments: &Check, mut said: CheckAnswer) -> String {
    let tightest = tightest(&said).map(|left| left.name.clone());
    said.limit = said.limit.take().or(tightest).filter(|name| !name.is_empty());
    let answer = PrintedAnswer {
        protocol: arguments.daemon.at.name(),
        namespace: &arguments.question.namespace,
        decision: &said.decision,
        peek: arguments.options.peek,
        said: &said,
    };
    serde_json::to_string(&answer).expect("text and numbers always serialise")
}

/// The limit that has least left, of those that were told.
fn tightest(said: &CheckAnswer) -> Option<&client::LimitLeft> {
    said.limits.iter().find(|left| Some(left.remaining) == said.remaining)
}

fn words(said: &CheckAnswer, question: &Question, peek: bool) -> String {
    let would = if peek { "would be " } else { "" };
    if said.decision == "admit" {
        format!("{would}admitted: {}", admission(said, question, peek))
    } else {
        format!("{would}refused: {}", refusal(said, question))
    }
}

fn admission(said: &CheckAnswer, question: &Question, peek: bool) -> String {
    let mut text = String::new();
    if let Some(AccessUnits { units, left }) = said.access {
        let charged = if peek { "would be charged" } else { "charged" };
        let plural = if (units - 1.0).abs() < f64::EPSILON { "" } else { "s" };
        let table =
            question.access.table.as_deref().map_or(String::new(), |table| format!(" of table {table}"));
        let _ = write!(text, "{units} unit{plural}{table} {charged}, its partition has {left} left");
        if said.remaining.is_some() {
            text.push_str("; ");
        }
    }
    match (tightest(said), said.remaining) {
        (Some(left), _) => {
            let name = limit_name(&left.name, question);
            let _ = write!(text, "{} of {} left of {name}", left.remaining, left.limit);
            match (left.reset_ms, &left.window_end) {
                _ if left.remaining == left.limit => text.push_str(", nothing of it is used"),
                (_, Some(end)) => {
                    let _ = write!(text, " until {end}");
                }
                (Some(reset), None) if reset > 0 => {
                    let _ = write!(text, ", full again in {}", HumanDuration::from_millis(reset));
                }
                _ => {}
            }
        }
        (None, Some(remaining)) => {
            let _ = write!(text, "{remaining} left of the tightest limit");
        }
        (None, None) if said.access.is_some() => {}
        (None, None) if said.permit.is_some() => text.push_str("by the resource alone"),
        (None, None) if !said.shadow.is_empty() => text.push_str("no limit that enforces applies to it"),
        (None, None) => text.push_str("no limit applies to it"),
    }
    if let (Some(feature), Some(level)) = (&said.feature, &said.feature_level) {
        let (verb, mode) =
            if said.feature_shadow { ("would be", ", but is in shadow mode") } else { ("is", "") };
        let _ = write!(text, "\nfeature {feature} {verb} at {level}{mode}");
    }
    for name in &said.shadow {
        let _ = write!(text, "\nshadow limit {name} would have refused it");
    }
    if let Some(permit) = &said.permit {
        let _ = write!(text, "\nit holds a place until it is released: permit {permit}");
    }
    text
}

/// The reason and the limit; below them the detail, and each further limit that refused.
fn refusal(said: &CheckAnswer, question: &Question) -> String {
    let mut text = said.reason.clone().unwrap_or_else(|| "over its limit".to_owned());
    if let Some(limit) = &said.limit {
        let _ = write!(text, " by {}", limit_name(limit, question));
    }
    let scope: Vec<String> =
        said.scope.iter().flatten().map(|(name, value)| format!("{name}={value}")).collect();
    if !scope.is_empty() {
        let _ = write!(text, " for {}", scope.join(", "));
    }
    if let Some(remaining) = said.remaining.filter(|_| !is_of_overload(said)) {
        let _ = write!(text, ", {remaining} left");
    }
    text.push_str(&when(said.retry.as_deref(), said.retry_after_ms));
    if let Some(detail) = &said.detail {
        let _ = write!(text, "\n  {detail}");
    }
    for one in said.violated.iter().skip(1) {
        let _ =
            write!(text, "\nalso {} by {}, {} of {} left", one.reason, one.name, one.remaining, one.limit);
        text.push_str(&when(None, one.retry_after_ms));
    }
    text
}

/// Whether the overload plane refused, which counts no units: an answer says 0 of them left.
fn is_of_overload(said: &CheckAnswer) -> bool {
    let reason = Reason::ALL.into_iter().find(|one| Some(one.as_str()) == said.reason.as_deref());
    reason.is_some_and(|reason| reason.plane() == Plane::Overload)
}

/// When to come back.
fn when(retry: Option<&str>, after_ms: Option<u64>) -> String {
    match (retry, after_ms) {
        (Some("backoff"), Some(wait)) => {
            format!(
                "; retry with exponential backoff, the first time after {}",
                HumanDuration::from_millis(wait)
            )
        }
        (_, Some(wait)) => format!("; come back in {}", HumanDuration::from_millis(wait)),
        (Some("backoff"), None) => "; retry with exponential backoff".to_owned(),
        (Some("never"), None) => "; the same request will never be admitted".to_owned(),
        _ => String::new(),
    }
}

/// A limit's name. Envoy's own protocol names no limit; it is then that of the domain and its
/// descriptor.
fn limit_name<'a>(name: &'a str, question: &Question) -> Cow<'a, str> {
    if !name.is_empty() {
        return Cow::Borrowed(name);
    }
    let entries: Vec<String> =
        question.attributes.iter().map(|(key, value)| format!("{key}={value}")).collect();
    Cow::Owned(format!("domain {} for {}", question.namespace, entries.join(", ")))
}

#[cfg(test)]
mod tests {

    use super::*;

    fn said(json: &str) -> CheckAnswer {
        serde_json::from_str(json).unwrap()
    }

    fn told(said: &CheckAnswer, peek: bool) -> String {
        let attributes = vec![("kind".to_owned(), "mail".to_owned()), ("to".to_owned(), "ada".to_owned())];
        let question = Question { namespace: "messaging".into(), attributes, ..Question::default() };
        words(said, &question, peek)
    }

    #[test]
    fn an_admission_says_what_the_tightest_limit_has_left() {
        let two = said(
            r#"{"decision":"admit","remaining":2,"limits":[{"name":"a","limit":9,"remaining":5,"reset_ms":1},
            {"name":"b","limit":3,"remaining":2,"reset_ms":1102}],"permit":"p1","shadow":["s"]}"#,
        );
        let expected = "admitted: 2 of 3 left of b, full again in 1.2 s\nshadow limit s would have refused it\n\
                        it holds a place until it is released: permit p1";
        assert_eq!(told(&two, false), expected);
        let bare = said(r#"{"decision":"admit","limits":[]}"#);
        assert_eq!(told(&bare, true), "would be admitted: no limit applies to it");
        let resp = said(r#"{"decision":"admit","remaining":7}"#);
        assert_eq!(told(&resp, false), "admitted: 7 left of the tightest limit");
    }

    #[test]
    fn a_refusal_says_why_and_when_to_come_back() {
        let refusal = r#"{"decision":"refuse","reason":"rate_exceeded","limit":"per-user","scope":{"user":"ada"},
            "remaining":0,"retry":"at","retry_after_ms":1200}"#;
        let expected = "refused: rate_exceeded by per-user for user=ada, 0 left; come back in 1.2 s";
        assert_eq!(told(&said(refusal), false), expected);
        let never = r#"{"decision":"refuse","reason":"cost_exceeds_limit","limit":"a","retry":"never"}"#;
        let expected = "refused: cost_exceeds_limit by a; the same request will never be admitted";
        assert_eq!(told(&said(never), false), expected);
    }

    #[test]
    fn an_admission_says_at_which_level_its_feature_is() {
        let json = r#"{"decision":"admit","feature":"thumbnails","feature_level":"480p"}"#;
        let expected = "would be admitted: no limit applies to it\nfeature thumbnails is at 480p";
        assert_eq!(told(&said(json), true), expected);
        let shadow = json.replace('}', r#","feature_shadow":true}"#);
        let expected = "would be admitted: no limit applies to it\nfeature thumbnails would be at 480p, \
                        but is in shadow mode";
        assert_eq!(told(&said(&shadow), true), expected);
    }

    #[test]
    fn an_unused_counter_is_called_so() {
        let peek = said(
            r#"{"decision":"admit","remaining":5,"limits":[{"name":"a","limit":5,"remaining":5,"reset_ms":1}]}"#,
        );
        assert_eq!(told(&peek, true), "would be admitted: 5 of 5 left of a, nothing of it is used");
    }

    #[test]
    fn a_civil_limit_is_told_until_when_its_window_lasts() {
        let daily = said(
            r#"{"decision":"admit","remaining":4,"limits":[{"name":"daily","limit":5,"remaining":4,"reset_ms":2000,
            "window_end":"2026-03-01 00:00 America/Los_Angeles"}]}"#,
        );
        let expected = "admitted: 4 of 5 left of daily until 2026-03-01 00:00 America/Los_Angeles";
        assert_eq!(told(&daily, false), expected);
    }

    #[test]
    fn a_limit_without_a_name_is_told_by_its_domain_and_descriptor() {
        let left = said(
            r#"{"decision":"admit","remaining":4,"limits":[{"name":"","limit":5,"remaining":4,"reset_ms":2000}]}"#,
        );
        let expected = "admitted: 4 of 5 left of domain messaging for kind=mail, to=ada, full again in 2 s";
        assert_eq!(told(&left, false), expected);
        let over = said(r#"{"decision":"refuse","limit":"","remaining":0,"retry_after_ms":2000}"#);
        let expected =
            "refused: over its limit by domain messaging for kind=mail, to=ada, 0 left; come back in 2 s";
        assert_eq!(told(&over, false), expected);
    }

    #[test]
    fn a_refusal_is_told_with_its_detail_and_every_limit_that_refused() {
        let refusal = r#"{"decision":"refuse","reason":"quota_exceeded","limit":"daily","remaining":0,"retry":"at",
            "retry_after_ms":32400000,"detail":"limit \"daily\" is used up: 0 of 10 units left; come back in 9 h",
            "violated":[{"name":"daily","reason":"quota_exceeded","limit":10,"remaining":0,"retry_after_ms":32400000},
            {"name":"burst","reason":"rate_exceeded","limit":3,"remaining":1,"retry_after_ms":900001},
            {"name":"size","reason":"cost_exceeds_limit","limit":2,"remaining":2}]}"#;
        let expected = "refused: quota_exceeded by daily, 0 left; come back in 9 h\n  limit \"daily\" is used up: \
                        0 of 10 units left; come back in 9 h\nalso rate_exceeded by burst, 1 of 3 left; come back in \
                        15 min\nalso cost_exceeds_limit by size, 2 of 2 left";
        assert_eq!(told(&said(refusal), false), expected);
    }
}
