//! `tidegate reset`.

use std::fmt::Write as _;

use http::Method;
use serde_json::{Map, Value};
use tidegate_wire::explanation::{CounterExplanation, ExplanationBody, LimitExplanation};

use crate::arguments::operator_commands::Reset;
use crate::arguments::request::{LoadTarget, Question};
use crate::client::{self, ClientError, object, print, wait_for};
use crate::exit::Exit;

/// A quota over at least so many milliseconds, a day, is not forgotten by the way.
const LONG_QUOTA_MS: u64 = 86_400_000;

pub(crate) fn run(arguments: &Reset) -> Exit {
    if arguments.limit.is_none() && !arguments.all {
        let question = Question {
            namespace: arguments.namespace.clone(),
            attributes: arguments.attributes.clone(),
            cost: None,
        };
        let met = client::explain(&arguments.daemon, &question, &LoadTarget::default(), None);
        match wait_for(met) {
            Ok(explained) => {
                if let Some(why) = why_not(&explained) {
                    return ClientError::Untaken(why).complain();
                }
            }
            Err(error) => return error.complain(),
        }
    }
    print(arguments.json, wait_for(send(arguments)), |answer| match answer["counters"].as_u64() {
        Some(0) => "No counter was in use or blocked.\n".to_owned(),
        Some(1) => "1 counter was in use or blocked, and is reset.\n".to_owned(),
        counters => format!("{} counters were in use or blocked, and are reset.\n", counters.unwrap_or(0)),
    })
}

/// Why the counters of all limits are not reset at once, if they are not: no limit applies, or one
/// of those that do is a quota over a day or longer.
fn why_not(explained: &ExplanationBody) -> Option<String> {
    let counter = |limit: &LimitExplanation| limit.counter.clone().filter(|_| limit.applies);
    let met: Vec<(&str, CounterExplanation)> = explained
        .limits
        .iter()
        .filter_map(|limit| Some((limit.name.as_str(), counter(limit)?)))
        .collect();
    if met.is_empty() {
        return Some(format!(
            "no limit of {} applies to a request with these attributes; name one with --limit, for which the attributes \
             of its key are enough",
            explained.namespace
        ));
    }
    let is_long = |counter: &CounterExplanation| counter.counts_over_ms.is_some_and(|ms| ms >= LONG_QUOTA_MS);
    let (long, _) = met.iter().find(|(_, counter)| is_long(counter))?;
    let mut text = "nothing was reset; this would forget:\n".to_owned();
    for (name, counter) in &met {
        let used = match &counter.level {
            Some(level) => format!("{} of {} used", level.used, level.limit),
            None => "the store does not say how much is used".to_owned(),
        };
        let _ = writeln!(text, "  {name}  {used}  ({})", counter.numbers);
    }
    let _ = write!(text, "name one with --limit, as --limit {long}, or pass --all");
    Some(text)
}

async fn send(arguments: &Reset) -> Result<Value, ClientError> {
    let mut body = Map::new();
    body.insert("namespace".to_owned(), arguments.namespace.as_str().into());
    body.insert("attributes".to_owned(), object(&arguments.attributes)?);
    if let Some(limit) = &arguments.limit {
        body.insert("limit".to_owned(), limit.as_str().into());
    }
    client::operate(&arguments.daemon, Method::POST, "/v1/reset", body).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(limits: &str) -> ExplanationBody {
        let body = format!(
            r#"{{"namespace":"api","cost":1,"would":"admit","at":"2026-11-27T15:00:00Z","limits":[{limits}]}}"#
        );
        serde_json::from_str(&body).unwrap()
    }

    const MINUTE: &str = r#"{"name":"per-user","applies":true,"would":"admit","because":"b","shadow":false,"counter":
        {"key":{"user":"bob"},"numbers":"rate 3/m, burst 3","counts_over_ms":60000,"numbers_of":"limit",
        "decided_by":"member","level":{"limit":3,"used":3,"remaining":0,"reset_ms":1}}}"#;
    const MONTH: &str = r#"{"name":"monthly","applies":true,"would":"admit","because":"b","shadow":false,"counter":
        {"key":{"user":"bob"},"numbers":"calendar 5000 a month in UTC","counts_over_ms":2592000000,
        "numbers_of":"limit","decided_by":"store","level":{"limit":5000,"used":12,"remaining":4988,"reset_ms":1}}}"#;
    const ELSEWHERE: &str =
        r#"{"name":"exports","applies":false,"because":"the request has no operation","shadow":false}"#;

    #[test]
    fn a_quota_of_a_day_or_longer_is_shown_and_not_forgotten_by_the_way() {
        assert_eq!(why_not(&explained(MINUTE)), None);
        let why = why_not(&explained(&[MINUTE, MONTH, ELSEWHERE].join(","))).unwrap();
        assert_eq!(
            why,
            "nothing was reset; this would forget:\n  per-user  3 of 3 used  (rate 3/m, burst 3)\n  monthly  12 of \
             5000 used  (calendar 5000 a month in UTC)\nname one with --limit, as --limit monthly, or pass --all"
        );
        let day = MONTH.replace("2592000000", "86400000");
        assert!(why_not(&explained(&day)).is_some());
        assert_eq!(why_not(&explained(&MONTH.replace("2592000000", "86399999"))), None);
    }

    #[test]
    fn attributes_that_meet_no_limit_are_told_to_name_one() {
        let why = why_not(&explained(ELSEWHERE)).unwrap();
        assert!(why.starts_with("no limit of api applies") && why.contains("--limit"), "{why}");
    }
}
