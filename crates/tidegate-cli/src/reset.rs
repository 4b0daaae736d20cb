//! `tidegate reset`.

use std::fmt::Write as _;

use http::Method;
use serde_json::{Value, json};
use tidegate_wire::answer::{PreviewedCounter, ResetPreview};

use crate::arguments::operator_commands::Reset;
use crate::client::{self, ClientError, object, print, set_member, wait_for};
use crate::columns::one_line;
use crate::exit::Exit;

/// A quota over at least so many milliseconds, a day, is not forgotten by the way.
const LONG_QUOTA_MS: u64 = 86_400_000;

pub(crate) fn run(arguments: &Reset) -> Exit {
    if arguments.limit.is_none() && !arguments.all {
        match wait_for(send::<ResetPreview>(arguments, true)) {
            Ok(preview) => {
                if let Some(why) = why_not(&arguments.namespace, &preview.would_reset) {
                    return ClientError::Untaken(why).complain();
                }
            }
            Err(error) => return error.complain(),
        }
    }
    print(arguments.json, wait_for(send::<Value>(arguments, false)), |answer| {
        match answer["counters"].as_u64() {
            Some(0) => "No counter was in use or blocked.\n".to_owned(),
            Some(1) => "1 counter was in use or blocked, and is reset.\n".to_owned(),
            counters => {
                format!("{} counters were in use or blocked, and are reset.\n", counters.unwrap_or(0))
            }
        }
    })
}

/// Why the counters of all limits are not reset at once, if they are not: no limit applies, or one
/// of those that do is a quota over a day or longer.
fn why_not(namespace: &str, counters: &[PreviewedCounter]) -> Option<String> {
    if counters.is_empty() {
        return Some(format!(
            "no limit of {namespace} applies to a request with these attributes; name one with --limit, for which the \
             attributes of its key are enough"
        ));
    }
    let is_long = |counter: &&PreviewedCounter| counter.counts_over_ms.is_some_and(|ms| ms >= LONG_QUOTA_MS);
    let long = counters.iter().find(is_long)?;
    let mut text = "nothing was reset; this would forget what is used of\n".to_owned();
    for PreviewedCounter { limit, key, numbers, .. } in counters {
        let pairs = key.iter().map(|(name, value)| format!(" {name}={value}"));
        let _ = writeln!(text, "  {limit}{}  ({numbers})", one_line(&pairs.collect::<String>()));
    }
    let _ = write!(text, "name one with --limit, such as --limit {}, or pass --all", long.limit);
    Some(text)
}

async fn send<T: serde::de::DeserializeOwned>(arguments: &Reset, preview: bool) -> Result<T, ClientError> {
    let attributes = object(&arguments.attributes)?;
    let mut body = json!({ "namespace": arguments.namespace, "attributes": attributes });
    set_member(&mut body, "limit", arguments.limit.as_deref());
    set_member(&mut body, "preview", preview.then_some(true));
    client::operate(&arguments.daemon, Method::POST, "/v1/reset", body).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(limit: &str, numbers: &str, counts_over_ms: u64) -> PreviewedCounter {
        let key = [("user".to_owned(), "bob".to_owned())].into();
        PreviewedCounter {
            limit: limit.to_owned(),
            key,
            numbers: numbers.to_owned(),
            counts_over_ms: Some(counts_over_ms),
        }
    }

    #[test]
    fn a_quota_of_a_day_or_longer_is_shown_and_not_forgotten_by_the_way() {
        let minute = counter("per-user", "rate 3/m, burst 3", 60_000);
        let month = counter("monthly", "calendar 5000 a month in UTC", 30 * LONG_QUOTA_MS);
        assert_eq!(why_not("api", std::slice::from_ref(&minute)), None);
        assert_eq!(
            why_not("api", &[minute, month]).unwrap(),
            "nothing was reset; this would forget what is used of\n  per-user user=bob  (rate 3/m, burst 3)\n  monthly \
             user=bob  (calendar 5000 a month in UTC)\nname one with --limit, such as --limit monthly, or pass --all"
        );
        assert!(why_not("api", &[counter("daily", "n", LONG_QUOTA_MS)]).is_some());
        assert_eq!(why_not("api", &[counter("daily", "n", LONG_QUOTA_MS - 1)]), None);
    }

    #[test]
    fn attributes_that_meet_no_limit_are_told_to_name_one() {
        let why = why_not("api", &[]).unwrap();
        assert!(why.starts_with("no limit of api applies") && why.contains("--limit"), "{why}");
    }
}
