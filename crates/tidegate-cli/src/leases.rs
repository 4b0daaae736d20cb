//! `tidegate leases`.

use std::fmt::Write as _;

use http::Method;
use serde_json::json;
use tidegate_wire::display::{HumanDuration, Quantity};
use tidegate_wire::leases::{AcknowledgedBody, LeasesBody, MemberBody};
use tidegate_wire::text::shortened;

use crate::arguments::request::{Leases, LeasesAction};
use crate::client::{self, print, wait_for};
use crate::exit::Exit;

/// How much of a name or a value is shown, in bytes.
const SHOWN_BYTES: usize = 40;

pub(crate) fn run(arguments: &Leases) -> Exit {
    match &arguments.action {
        None => print(arguments.json, wait_for(client::get(&arguments.daemon, "/v1/leases")), table),
        Some(LeasesAction::Acknowledge(daemon)) => {
            let answer = client::operate(daemon, Method::POST, "/v1/leases/acknowledge", json!({}));
            print(arguments.json, wait_for(answer), |body: &AcknowledgedBody| {
                let text = if body.acknowledged {
                    "The loss is acknowledged for all members: quotas count from what there is."
                } else {
                    "There is no loss to acknowledge."
                };
                format!("{text}\n")
            })
        }
    }
}

/// For people: a line for each member, and below it a line for each lease that it tells of.
fn table(body: &LeasesBody) -> String {
    let mut text = String::new();
    let members =
        if body.count == 1 { "1 member shares".to_owned() } else { format!("{} members share", body.count) };
    let _ = writeln!(text, "{members} the store.");
    if body.gone > 0 {
        let _ = writeln!(text, "{} gone without having left.", body.gone);
    }
    if body.gone_tokens > 0 {
        let _ = writeln!(
            text,
            "{} of windows granted to members that are gone or silent: what they had not spent is lost until the windows end.",
            Quantity(body.gone_tokens, "token")
        );
    }
    for one in &body.different {
        let _ = writeln!(
            text,
            "{} is lent by {} here and by {} at member {}: give both the same policy.",
            shortened(&one.limit, SHOWN_BYTES),
            one.here,
            one.there,
            one.member
        );
    }
    for member in &body.members {
        let _ = writeln!(text, "\n{}", headline(member, member.id == body.member));
        if member.leases.is_empty() {
            continue;
        }
        let _ = writeln!(
            text,
            "  {:>10} {:>10} {:>8} {:>8} {:>8}  LIMIT OR TABLE",
            "DEMAND/S", "RATE/S", "TOKENS", "IDLE", "ENDS IN"
        );
        for lease in &member.leases {
            let scope: Vec<String> = lease
                .scope
                .iter()
                .map(|(name, value)| format!("{name}={}", shortened(value, SHOWN_BYTES)))
                .collect();
            let (kind, name) = match (&lease.table, &lease.limit) {
                (Some(table), _) => ("table ", table.as_str()),
                (None, limit) => ("", limit.as_deref().unwrap_or_default()),
            };
            let name = format!(
                "{kind}{}/{}",
                shortened(&lease.namespace, SHOWN_BYTES),
                shortened(name, SHOWN_BYTES)
            );
            let silent = if lease.is_unanswered { "  (the store does not answer)" } else { "" };
            let gone =
                if lease.gone > 0 { format!("  ({} gone with members)", lease.gone) } else { String::new() };
            let _ = writeln!(
                text,
                "  {:>10.1} {:>10.1} {:>8} {:>8} {:>8}  {name} {}{gone}{silent}",
                lease.demand_per_s,
                lease.rate_per_s,
                lease.tokens,
                lease.idle,
                HumanDuration::from_millis(lease.ends_in_ms).to_string(),
                scope.join(" ")
            );
        }
        let more = member.keys.saturating_sub(member.leases.len());
        if more > 0 {
            let _ = writeln!(text, "  and {} with less demand", Quantity(more, "key"));
        }
    }
    text
}

fn headline(member: &MemberBody, is_asked: bool) -> String {
    let MemberBody { id, address, version, pid, since, keys, tokens, asks, unanswered, .. } = member;
    let here = if is_asked { ", which is asked" } else { "" };
    let leaving = if member.is_leaving { ", leaving" } else { "" };
    format!(
        "{id} at {address}{here}{leaving} (version {version}, process {pid}, since {since})\n  \
         {}, {} in hand, {}, {unanswered} not answered",
        Quantity(*keys, "key"),
        Quantity(*tokens, "token"),
        Quantity(*asks, "ask"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_has_no_plural_and_a_lease_ends_in_words() {
        let body: LeasesBody = serde_json::from_str(
            r#"{"member":"a","count":1,"gone":0,"gone_tokens":1,"members":[{"id":"a","address":"h:1","version":"1",
            "pid":7,"since":"s","keys":1,"tokens":1,"asks":2,"unanswered":0,"leases":[{"namespace":"api","limit":"l",
            "scope":{},"demand_per_s":1.0,"rate_per_s":2.0,"tokens":1,"idle":0,"ends_in_ms":3120,
            "is_unanswered":false},{"namespace":"api","table":"orders","scope":{"operation":"read"},
            "demand_per_s":1.0,"rate_per_s":2.0,"tokens":1,"idle":0,"ends_in_ms":1,"is_unanswered":false}]}]}"#,
        )
        .unwrap();
        let text = table(&body);
        assert!(text.contains("\n1 token of windows granted"), "{text}");
        assert!(text.contains("1 key, 1 token in hand, 2 asks, 0 not answered"), "{text}");
        assert!(text.contains("   3.2 s  api/l"), "{text}");
        assert!(text.contains("  table api/orders operation=read"), "{text}");
    }

    #[test]
    fn limits_with_different_numbers_are_named_with_both() {
        let body: LeasesBody = serde_json::from_str(
            r#"{"member":"a","count":2,"gone":0,"gone_tokens":0,"members":[],"different":[
            {"limit":"api/per-user","here":"rate: 100/s","member":"b","there":"rate: 50/s"}]}"#,
        )
        .unwrap();
        let line = "api/per-user is lent by rate: 100/s here and by rate: 50/s at member b: give both the same policy.";
        assert!(table(&body).lines().any(|one| one == line), "{}", table(&body));
    }
}
