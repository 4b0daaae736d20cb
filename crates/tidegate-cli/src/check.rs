//! `tidegate check`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use tidegate_wire::retry_after::in_words;

use crate::arguments::asking::Check;
use crate::door::{self, Said, Terms, Unanswered, wait_for};
use crate::exit::{Exit, answer};
use crate::unused_attributes;

/// The answer as `--json` prints it: the same for every door, as far as the door says it.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    /// `http`, `resp` or `grpc`.
    door: &'static str,
    namespace: &'a str,
    /// `admit` or `refuse`.
    decision: &'a str,
    /// Whether it was only looked at.
    peek: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    /// The limit that refused, or the tightest of those that admitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'a BTreeMap<String, String>>,
    /// What that limit has left.
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    permit: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    limits: &'a [door::Left],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    shadow: &'a [String],
}

pub(crate) fn run(arguments: &Check) -> Exit {
    if let Some(name) = arguments.question.duplicate() {
        return Unanswered::Untaken(format!("duplicate attribute \"{name}\"; give it once")).complain();
    }
    let terms = Terms { peek: arguments.peek, class: arguments.class };
    let said = match wait_for(door::check(&arguments.daemon, &arguments.question, terms)) {
        Ok(said) => said,
        Err(unanswered) => return unanswered.complain(),
    };
    let text = if arguments.json { json(arguments, &said) } else { words(&said, arguments.peek) };
    let exit = if said.decision == "admit" { Exit::Done } else { Exit::Problems };
    let exit = answer(&(text + "\n"), exit);
    note_unused_attributes(arguments);
    exit
}

fn note_unused_attributes(arguments: &Check) {
    let (daemon, question) = (&arguments.daemon, &arguments.question);
    // The token of a caller need not be an operator's: a question that is refused would be counted and logged.
    if door::has_token(daemon) {
        return;
    }
    unused_attributes::note(question, || wait_for(door::limit_attributes(daemon, &question.namespace)).ok());
}

fn json(arguments: &Check, said: &Said) -> String {
    let tightest = tightest(said);
    let answer = Answer {
        door: arguments.daemon.at.name(),
        namespace: &arguments.question.namespace,
        decision: &said.decision,
        peek: arguments.peek,
        reason: said.reason.as_deref(),
        limit: said.limit.as_deref().or(tightest.map(|left| left.name.as_str())),
        scope: said.scope.as_ref(),
        remaining: said.remaining,
        retry: said.retry.as_deref(),
        retry_after_ms: said.retry_after_ms,
        permit: said.permit.as_deref(),
        limits: &said.limits,
        shadow: &said.shadow,
    };
    serde_json::to_string(&answer).expect("text and numbers always serialise")
}

/// The limit that has least left, of those that were told.
fn tightest(said: &Said) -> Option<&door::Left> {
    said.limits.iter().find(|left| Some(left.remaining) == said.remaining)
}

fn words(said: &Said, peek: bool) -> String {
    let mut text = String::from(if peek { "would be " } else { "" });
    if said.decision == "admit" {
        text.push_str("admitted: ");
        match (tightest(said), said.remaining) {
            (Some(left), _) => {
                let _ = write!(text, "{} of {} left of {}", left.remaining, left.limit, left.name);
                if let Some(reset) = left.reset_ms.filter(|reset| *reset > 0) {
                    let _ = write!(text, ", whole again in {}", in_words(reset));
                }
            }
            (None, Some(remaining)) => {
                let _ = write!(text, "{remaining} left of the tightest limit");
            }
            (None, None) => text.push_str("no limit applies to it"),
        }
        for name in &said.shadow {
            let _ = write!(text, "\nshadow limit {name} would have refused it");
        }
        if let Some(permit) = &said.permit {
            let _ = write!(text, "\nit holds a place until it is released: permit {permit}");
        }
        return text;
    }
    text.push_str("refused: ");
    text.push_str(said.reason.as_deref().unwrap_or("over its limit"));
    if let Some(limit) = &said.limit {
        let _ = write!(text, " by {limit}");
    }
    let scope: Vec<String> =
        said.scope.iter().flatten().map(|(name, value)| format!("{name}={value}")).collect();
    if !scope.is_empty() {
        let _ = write!(text, " for {}", scope.join(", "));
    }
    if let Some(remaining) = said.remaining {
        let _ = write!(text, ", {remaining} left");
    }
    match (said.retry.as_deref(), said.retry_after_ms) {
        (_, Some(wait)) => {
            let _ = write!(text, "; come back in {}", in_words(wait));
        }
        (Some("backoff"), None) => text.push_str("; come back later, and less often each time"),
        (Some("never"), None) => text.push_str("; the same request will never be admitted"),
        _ => {}
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(json: &str) -> Said {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn an_admission_says_what_the_tightest_limit_has_left() {
        let two = said(
            r#"{"decision":"admit","remaining":2,"limits":[{"name":"a","limit":9,"remaining":5,"reset_ms":1},
            {"name":"b","limit":3,"remaining":2,"reset_ms":1001}],"permit":"p1","shadow":["s"]}"#,
        );
        let expected = "admitted: 2 of 3 left of b, whole again in 1.1 s\nshadow limit s would have refused it\n\
                        it holds a place until it is released: permit p1";
        assert_eq!(words(&two, false), expected);
        let bare = said(r#"{"decision":"admit","limits":[]}"#);
        assert_eq!(words(&bare, true), "would be admitted: no limit applies to it");
        let resp = said(r#"{"decision":"admit","remaining":7}"#);
        assert_eq!(words(&resp, false), "admitted: 7 left of the tightest limit");
    }

    #[test]
    fn a_refusal_says_why_and_when_to_come_back() {
        let refusal = r#"{"decision":"refuse","reason":"rate_exceeded","limit":"per-user","scope":{"user":"ada"},
            "remaining":0,"retry":"at","retry_after_ms":1200}"#;
        let expected = "refused: rate_exceeded by per-user for user=ada, 0 left; come back in 1.2 s";
        assert_eq!(words(&said(refusal), false), expected);
        let never = r#"{"decision":"refuse","reason":"cost_exceeds_limit","limit":"a","retry":"never"}"#;
        let expected = "refused: cost_exceeds_limit by a; the same request will never be admitted";
        assert_eq!(words(&said(never), false), expected);
    }
}
