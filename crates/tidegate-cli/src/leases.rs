//! `tidegate leases`.

use std::fmt::Write as _;

use http::Method;
use serde_json::json;
use tidegate_wire::display::{HumanDuration, Quantity};
use tidegate_wire::leases::{AcknowledgedBody, EnvoyBody, LeasesBody, MemberBody};
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
    let members = match body.count {
        _ if body.is_alone => "This daemon shares no store, and lends limits by itself.".to_owned(),
        1 => "1 member shares the store.".to_owned(),
        many => format!("{many} members share the store."),
    };
    let _ = writeln!(text, "{members}");
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
        write_envoys(&mut text, &member.envoys);
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

/// A line for each bucket of an Envoy.
fn write_envoys(text: &mut String, envoys: &[EnvoyBody]) {
    if envoys.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "  {:>10} {:>10} {:>8} {:>8} {:>8}  ENVOY AND BUCKET",
        "DEMAND/S", "RATE/S", "TOKENS", "DENIED", "ENDS IN"
    );
    for one in envoys {
        let entry = |(name, value): (&String, &String)| {
            format!("{}={}", shortened(name, SHOWN_BYTES), shortened(value, SHOWN_BYTES))
        };
        let bucket: Vec<String> = one.bucket.iter().map(entry).collect();
        let state = match &one.not_held {
            Some(why) => format!("  (no part: {})", shortened(why, 4 * SHOWN_BYTES)),
            None if one.is_denied => "  (denied)".to_owned(),
            None if one.is_alone => "  (the store does not answer)".to_owned(),
            None => String::new(),
        };
        let _ = writeln!(
            text,
            "  {:>10.1} {:>10.1} {:>8} {:>8} {:>8}  {} {}/{}{state}",
            one.demand_per_s,
            one.rate_per_s,
            one.max_tokens,
            one.reported_denied,
            HumanDuration::from_millis(one.ends_in_ms).to_string(),
            shortened(&one.envoy, SHOWN_BYTES),
            shortened(&one.namespace, SHOWN_BYTES),
            bucket.join(" "),
        );
    }
}

fn headline(member: &MemberBody, is_asked: bool) -> String {
    let MemberBody { id, address, version, pid, since, keys, tokens, asks, unanswered, .. } = member;
    let here = if is_asked { ", which is asked" } else { "" };
    // A daemon that shares no store goes by its address.
    let name = if id == address { address.clone() } else { format!("{id} at {address}{here}") };
    let leaving = if member.is_leaving { ", leaving" } else { "" };
    format!(
        "{name}{leaving} (version {version}, process {pid}, since {since})\n  \
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
            "demand_per_s":1.0,"rate_per_s":2.0,"tokens":1,"idle":0,"ends_in_ms":1,"is_unanswered":false}],"envoys":[{"envoy":"edge-1","namespace":"api","bucket":{"user":"ada"},
            "demand_per_s":40.0,"reported_denied":7,"rate_per_s":9.8,"max_tokens":6,"ends_in_ms":9500},
            {"envoy":"edge-2","namespace":"api","bucket":{},"demand_per_s":0.0,"reported_denied":0,
            "rate_per_s":0.0,"max_tokens":0,"ends_in_ms":0,"not_held":"window: use `rate`"}]}]}"#,
        )
        .unwrap();
        let text = table(&body);
        assert!(text.contains("40.0        9.8        6        7    9.5 s  edge-1 api/user=ada"), "{text}");
        assert!(text.contains("edge-2 api/  (no part: window: use `rate`)"), "{text}");
        assert!(text.contains("\n1 token of windows granted"), "{text}");
        assert!(text.contains("1 key, 1 token in hand, 2 asks, 0 not answered"), "{text}");
        assert!(text.contains("   3.2 s  api/l"), "{text}");
        assert!(text.contains("  table api/orders operation=read"), "{text}");
    }

    #[test]
    fn a_daemon_that_lends_by_itself_goes_by_its_address() {
        let body: LeasesBody = serde_json::from_str(
            r#"{"member":"h:1","is_alone":true,"count":1,"gone":0,"gone_tokens":0,"members":[{"id":"h:1","address":"h:1",
            "version":"1","pid":7,"since":"s","keys":0,"tokens":0,"asks":0,"unanswered":0,"leases":[]}]}"#,
        )
        .unwrap();
        let expected = "This daemon shares no store, and lends limits by itself.\n\n\
                        h:1 (version 1, process 7, since s)\n";
        assert!(table(&body).starts_with(expected), "{}", table(&body));
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
