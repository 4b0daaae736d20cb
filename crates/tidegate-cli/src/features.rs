//! `tidegate features`.

use std::fmt::Write as _;

use http::Method;
use serde::Serialize;
use tidegate_wire::display::HumanDuration;
use tidegate_wire::features::{
    FeatureBody, FeaturePinBody, FeaturePinRequest, FeatureUnpinRequest, FeaturesBody,
};
use tidegate_wire::text::shortened;

use crate::arguments::operator_commands::{Features, FeaturesAction, PinAuthor};
use crate::arguments::request::whole_millis;
use crate::client::{self, ClientError, encoded, json_text, print, wait_for};
use crate::columns::{Columns, one_line};
use crate::exit::Exit;
use crate::local_time::{LocalTime, millis_of};
use crate::watch;

/// How much of a name is shown, in bytes.
const SHOWN_BYTES: usize = 40;

/// The answers of several members, in the order in which they were asked.
#[derive(Debug, Serialize)]
struct MembersFeatures {
    members: Vec<FeaturesBody>,
}

/// The clock of the one who looks.
struct LookTime {
    zone: LocalTime,
    now_ms: i64,
}

pub(crate) fn run(arguments: &Features) -> Exit {
    match &arguments.action {
        Some(FeaturesAction::Pin(pin)) => {
            let PinAuthor { by, reason, .. } = &pin.author;
            let request = FeaturePinRequest {
                level: pin.level.clone(),
                expires_ms: Some(whole_millis(pin.span)),
                until: None,
                by: by.clone(),
                reason: reason.clone(),
            };
            let answer = change(&pin.name, &pin.author, Method::PUT, &request);
            print(pin.author.json, answer, pinned)
        }
        Some(FeaturesAction::Unpin(unpin)) => {
            let PinAuthor { by, reason, .. } = &unpin.author;
            let request = FeatureUnpinRequest { by: by.clone(), reason: reason.clone() };
            let answer = change(&unpin.name, &unpin.author, Method::DELETE, &request);
            print(unpin.author.json, answer, |feature| {
                let (name, level) = (shown(&feature.name), shown(&feature.level));
                format!("{name} is not pinned; its level follows the load again, from {level} on.\n")
            })
        }
        None => watch::show(arguments.watch, async || Ok(text(arguments, ask(arguments).await?))),
    }
}

/// The answers of the members as they are printed. In JSON, that of one member is its own.
fn text(arguments: &Features, members: Vec<FeaturesBody>) -> String {
    if !arguments.json {
        let look = LookTime { zone: LocalTime::system(), now_ms: jiff::Timestamp::now().as_millisecond() };
        return words(&members, &look);
    }
    let of_first = members.first().map(|member| &member.features[..]);
    match (&members[..], of_first, &arguments.name) {
        ([_], Some([feature]), Some(_)) => json_text(feature),
        ([member], _, None) => json_text(member),
        _ => json_text(&MembersFeatures { members }),
    }
}

/// Asks each member for its features, or for the one that is named. The first that does not answer
/// is an error that names it.
async fn ask(arguments: &Features) -> Result<Vec<FeaturesBody>, ClientError> {
    let is_one = arguments.daemons.at.len() == 1;
    let mut members: Vec<FeaturesBody> = Vec::new();
    for daemon in arguments.daemons.each() {
        let answer = match &arguments.name {
            None => client::get::<FeaturesBody>(&daemon, "/v1/features").await,
            Some(name) => {
                let path = format!("/v1/features/{}", encoded(name));
                let feature = client::get::<FeatureBody>(&daemon, &path).await;
                feature.map(|one| FeaturesBody { member: one.member.clone(), features: vec![one] })
            }
        };
        let member = answer.map_err(|error| if is_one { error } else { error.named_by(&daemon.at) })?;
        if members.iter().any(|known| known.member == member.member) {
            let why = format!(
                "{} is member {}, which is asked already; name each member once",
                daemon.at, member.member
            );
            return Err(ClientError::Untaken(why));
        }
        members.push(member);
    }
    Ok(members)
}

fn change(
    name: &str,
    author: &PinAuthor,
    method: Method,
    request: &impl Serialize,
) -> Result<FeatureBody, ClientError> {
    let body = serde_json::to_value(request).expect("text and numbers always serialise");
    let path = format!("/v1/features/{}/pin", encoded(name));
    wait_for(client::operate(&author.daemon, method, &path, body))
}

fn pinned(feature: &FeatureBody) -> String {
    let name = shown(&feature.name);
    let Some(pin) = &feature.pin else { return format!("The pin of {name} has ended.\n") };
    let (level, until) = (shown(&pin.level), one_line(&pin.until));
    let shadow = if feature.mode == "shadow" { ", in shadow: its requests get the best level" } else { "" };
    format!("{name} is pinned at {level} until {until}{shadow}.\n")
}

/// For people: a table, and a sentence for each feature that is not at its best level of its own.
fn words(members: &[FeaturesBody], look: &LookTime) -> String {
    let mut features: Vec<&FeatureBody> = members.iter().flat_map(|member| &member.features).collect();
    if features.is_empty() {
        return "The policy has no features with levels.\n".to_owned();
    }
    features.sort_by(|one, other| one.name.cmp(&other.name));
    let mut text = table(&features, look);
    let mut gap = "\n";
    for feature in features.into_iter().filter(|feature| feature.reason != "best") {
        let member =
            if members.len() > 1 { format!(" at {}", one_line(&feature.member)) } else { String::new() };
        let mode = if feature.mode == "shadow" { " (shadow)" } else { "" };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{gap}{}{mode}{member}: {}", shown(&feature.name), sentence(feature, look));
        gap = "";
    }
    text
}

fn table(features: &[&FeatureBody], look: &LookTime) -> String {
    let mut columns = Columns::new([
        "FEATURE",
        "MEMBER",
        "RESOURCE",
        "CLASS",
        "LEVEL",
        ">IN FLIGHT",
        ">FOOTPRINT",
        ">CHANGES",
        "SINCE",
        "PINNED UNTIL",
    ]);
    for feature in features {
        let level = match feature.tenants {
            Some(part) => format!("{} for {:.0} % of tenants", shown(&feature.level), part * 100.0),
            None => shown(&feature.level),
        };
        let pin = feature.pin.as_ref();
        columns.push([
            shown(&feature.name),
            shown(&feature.member),
            shown(&feature.resource),
            feature.class.clone(),
            if feature.mode == "shadow" { format!("{level} (shadow)") } else { level },
            feature.in_flight.to_string(),
            format!("{:.0} %", feature.footprint * 100.0),
            feature.transitions.to_string(),
            feature.since.as_deref().map_or_else(|| "-".to_owned(), |since| look.clock(since)),
            pin.map_or_else(|| "-".to_owned(), |pin| look.clock(&pin.until)),
        ]);
    }
    columns.text()
}

/// The reason of a level, as
/// `down to 480p at 14:02: pressure 0.93 by cpu; back when 0.07 of 0.18 fits`.
fn sentence(feature: &FeatureBody, look: &LookTime) -> String {
    let level = shown(&feature.level);
    if let Some(FeaturePinBody { until, by, reason, .. }) = &feature.pin {
        let by = by.as_ref().map_or_else(String::new, |by| format!(" by {}", one_line(by)));
        let reason = reason.as_ref().map_or_else(String::new, |reason| format!(": {}", one_line(reason)));
        return format!("pinned at {level} until {}{by}{reason}", look.clock(until));
    }
    let since = feature.since.as_ref().map_or_else(String::new, |since| format!(" at {}", look.clock(since)));
    let mut text = format!("down to {level}{since}: {}", one_line(&feature.detail));
    if let Some(earliest) = feature.earliest.as_deref().filter(|at| look.is_to_come(at)) {
        let _ = write!(text, ", not before {}", look.clock(earliest));
    }
    if let Some(after) = feature.released_after_ms {
        let _ = write!(text, "; its work had ended {} after", HumanDuration::from_millis(after));
    }
    text
}

impl LookTime {
    /// An instant on the clock of the place; text that is not an instant stays as it is.
    fn clock(&self, instant: &str) -> String {
        match millis_of(instant) {
            Some(at_ms) => self.zone.day_clock(at_ms, self.now_ms),
            None => one_line(instant),
        }
    }

    fn is_to_come(&self, instant: &str) -> bool {
        millis_of(instant).is_some_and(|at_ms| at_ms > self.now_ms)
    }
}

fn shown(name: &str) -> String {
    one_line(shortened(name, SHOWN_BYTES).as_ref())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Noon of the day of the answers, in Berlin.
    fn look() -> LookTime {
        LookTime {
            zone: LocalTime::named("Europe/Berlin"),
            now_ms: millis_of("2026-11-29T13:02:30Z").unwrap(),
        }
    }

    fn feature(member: &str, more: &Value) -> FeatureBody {
        let mut body = json!({
            "name": "thumbnails", "member": member, "resource": "app", "class": "sheddable",
            "scope": "global", "mode": "enforce", "on_disable": "finish", "levels": ["full", "480p", "off"],
            "level": "480p", "level_index": 1, "since": "2026-11-29T13:02:00Z", "reason": "degraded",
            "detail": "pressure 0.93 by cpu; back when 0.07 of 0.18 fits", "pressure": 0.93, "signal": "cpu",
            "footprint": 0.11, "footprint_better": 0.29, "room": 0.07, "threshold": 0.9, "margin": 0.1,
            "settle_ms": 5000, "in_flight": 4, "transitions": 1, "earliest": "2026-11-29T13:02:10Z",
        });
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        serde_json::from_value(body).unwrap()
    }

    fn member(name: &str, features: Vec<FeatureBody>) -> FeaturesBody {
        FeaturesBody { member: name.to_owned(), features }
    }

    #[test]
    fn a_degraded_feature_has_its_reason_in_a_sentence() {
        let best =
            feature("m1", &json!({ "name": "search", "level": "full", "reason": "best", "since": null }));
        let expected = "\
FEATURE     MEMBER  RESOURCE  CLASS      LEVEL  IN FLIGHT  FOOTPRINT  CHANGES  SINCE  PINNED UNTIL
search      m1      app       sheddable  full           4       11 %        1  -      -
thumbnails  m1      app       sheddable  480p           4       11 %        1  14:02  -

thumbnails: down to 480p at 14:02: pressure 0.93 by cpu; back when 0.07 of 0.18 fits
";
        assert_eq!(words(&[member("m1", vec![feature("m1", &json!({})), best])], &look()), expected);
    }

    #[test]
    fn a_pin_a_wait_a_release_a_shadow_and_tenants_are_told() {
        let told = |more: &Value| sentence(&feature("m1", more), &look());
        let pin =
            json!({ "level": "off", "until": "2026-11-30T09:00:00Z", "by": "grace\u{1b}", "reason": "x" });
        assert_eq!(
            told(&json!({ "reason": "pinned", "level": "off", "pin": pin })),
            "pinned at off until 30 Nov, 10:00 by grace\\u{1b}: x"
        );
        assert_eq!(
            told(&json!({ "earliest": "2026-11-29T13:03:10Z", "level": "off", "released_after_ms": 1900 })),
            "down to off at 14:02: pressure 0.93 by cpu; back when 0.07 of 0.18 fits, not before 14:03; \
             its work had ended 1.9 s after"
        );
        let shadow = feature("m1", &json!({ "mode": "shadow", "tenants": 0.25 }));
        let text = words(&[member("m1", vec![shadow])], &look());
        assert!(text.contains(" 480p for 25 % of tenants (shadow) "), "{text}");
        assert!(text.contains("\nthumbnails (shadow): down to 480p"), "{text}");
    }

    #[test]
    fn each_of_several_members_has_a_row_and_a_sentence_of_its_own() {
        let best = feature("m2", &json!({ "level": "full", "reason": "best" }));
        let members = [member("m1", vec![feature("m1", &json!({}))]), member("m2", vec![best])];
        let text = words(&members, &look());
        let rows: Vec<_> = text.lines().filter(|line| line.starts_with("thumbnails ")).collect();
        assert_eq!(rows.len(), 3, "{text}");
        assert!(rows[2].starts_with("thumbnails at m1: down to 480p"), "{text}");
        assert_eq!(words(&[member("m1", Vec::new())], &look()), "The policy has no features with levels.\n");
    }
}
