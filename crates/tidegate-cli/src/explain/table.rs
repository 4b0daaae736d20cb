//! An explanation as a table for people, at most [`WIDTH`] characters wide: a line for each limit,
//! and below it why.

use std::fmt::Write;

use tidegate_wire::access_explanation::AccessExplanation;
use tidegate_wire::display::HumanDuration;
use tidegate_wire::explanation::{
    CounterExplanation, DecidedBy, ExpectedDecision, ExplanationBody, FeatureExplanation, LevelExplanation,
    LimitExplanation, LoadExplanation, NumbersOf, PlanExplanation, PlanFoundBy, ZoneExplanation, ZoneOf,
};
use tidegate_wire::operation::ExplainedDoor;
use tidegate_wire::text::shortened;

use crate::columns::Columns;

/// The widest line. A single word that is longer is not broken.
const WIDTH: usize = 100;

/// How much of a name or a value is shown, in bytes.
const SHOWN_BYTES: usize = 40;

pub(crate) fn text(explained: &ExplanationBody, source: &str) -> String {
    let would = match explained.would {
        ExpectedDecision::Admit => "be admitted",
        ExpectedDecision::Wait => "wait for a place",
        ExpectedDecision::Refuse => "be refused",
    };
    let (cost, namespace) = (explained.cost, &explained.namespace);
    let mut text = String::new();
    let head = format!("A request of cost {cost} in {namespace} would {would}, {source}.");
    wrap(&mut text, 0, &head);
    if let Some(row) = explained.cost_row {
        wrap(&mut text, 0, &format!("The cost is that of costs[{row}] of the namespace."));
    }
    if let Some(plan) = &explained.plan {
        let name = shortened(&plan.name, SHOWN_BYTES);
        wrap(&mut text, 0, &format!("The plan is {name}, {}.", plan_in_words(plan)));
    }
    if let Some(unknown) = &explained.unknown_plan {
        let unknown = shortened(unknown, SHOWN_BYTES);
        wrap(&mut text, 0, &format!("It has no plan, because \"{unknown}\" is no plan."));
    }
    if let Some(failure) = &explained.store_failure {
        wrap(&mut text, 0, &format!("The store did not say what its limits hold: {failure}"));
    }
    if let Some(load) = &explained.load {
        wrap(&mut text, 0, &load_in_words(load));
        if load.shadow {
            let words =
                "The resource is in shadow mode: it refuses and delays nobody, and shows what it would do.";
            wrap(&mut text, 0, words);
        }
        if let Some(longest) = load.wait_max_ms {
            wrap(&mut text, 0, &wait_in_words(longest, load.wait_estimate_ms));
        }
        if let Some(feature) = &load.feature {
            wrap(&mut text, 0, &feature_in_words(feature));
        }
    }
    if let Some(ticket) = &explained.ticket {
        let worth = if ticket.worth == "nothing" { "worth nothing" } else { ticket.worth.as_str() };
        wrap(&mut text, 0, &format!("The ticket is {worth}: {}.", ticket.because));
    }
    for plane in &explained.planes {
        wrap(&mut text, 0, &format!("{} refuses it: {}", heading(&plane.plane), plane.because));
    }
    for plane in &explained.rehearsed {
        wrap(&mut text, 0, &format!("{} would refuse it: {}", heading(&plane.plane), plane.because));
    }
    for access in &explained.access {
        wrap(&mut text, 0, &access_in_words(access));
    }
    if explained.limits.is_empty() {
        text.push_str("The namespace has no limits.\n");
        return text;
    }
    let mut columns = Columns::new(["LIMIT", "SAYS", ">USED", ">LEFT", "FULL IN", "COUNTED ON"]);
    explained.limits.iter().for_each(|limit| columns.push(row(limit)));
    let mut lines = columns.lines().into_iter();
    text.push('\n');
    text.extend(lines.next());
    for (limit, line) in explained.limits.iter().zip(lines) {
        text.push_str(&line);
        wrap(&mut text, 2, &because(limit));
    }
    text
}

/// The resource of a request, with the level of the request there.
fn load_in_words(load: &LoadExplanation) -> String {
    let resource = load.resource.as_deref().map_or_else(
        || "the default resource".to_owned(),
        |name| format!("resource {}", shortened(name, SHOWN_BYTES)),
    );
    let tenant = match &load.tenant {
        Some(tenant) if tenant.is_empty() => "tenant \"\"".to_owned(),
        Some(tenant) => format!("tenant {}", shortened(tenant, SHOWN_BYTES)),
        None => "no tenant".to_owned(),
    };
    let tenant = match load.door {
        Some(ExplainedDoor::Proxy) => format!("{tenant} at the proxy, none in a check"),
        _ => tenant,
    };
    format!(
        "At {resource} (class {}, {tenant}) {}; {} of {} places are taken.",
        load.class, load.because, load.in_flight, load.in_flight_max
    )
}

/// How long a request would wait for a place.
fn wait_in_words(longest: u64, estimated: Option<u64>) -> String {
    let estimated = estimated.map_or(String::new(), |estimated| {
        format!(", about {} as places come free now", HumanDuration::from_millis(estimated))
    });
    format!("It would wait up to {} for a place{estimated}.", HumanDuration::from_millis(longest))
}

/// The level of the feature of a request.
fn feature_in_words(feature: &FeatureExplanation) -> String {
    let FeatureExplanation { name, level, class, because, .. } = feature;
    let (name, level) = (shortened(name, SHOWN_BYTES), shortened(level, SHOWN_BYTES));
    format!("Feature {name} (class {class}) is at its level {level}: {because}.")
}

/// The partition of an access, with its levels.
fn access_in_words(access: &AccessExplanation) -> String {
    let index = access.index.as_ref().map_or(String::new(), |index| format!("/{index}"));
    let would = match access.would {
        ExpectedDecision::Admit | ExpectedDecision::Wait => "admits",
        ExpectedDecision::Refuse => "refuses",
    };
    let AccessExplanation { table, operation, units, partition, key_range, node, mode, .. } = access;
    let AccessExplanation { left, rate, ceiling, consumed, node_left, .. } = access;
    let mut text = format!(
        "Partition {partition} of {table}{index} (keys {key_range}, on node {node}, mode {mode}) {would} a \
         {operation} of {units} units: {left} left of {rate}/s"
    );
    if let Some(burst) = access.burst_left {
        let _ = write!(text, ", {burst} of burst credit");
    }
    let _ = write!(text, "; ceiling {ceiling}/s, {consumed} used in the last second");
    let _ = write!(text, "; {node_left} left at the node");
    for (whose, tokens) in [("table", &access.tokens), ("account", &access.account_tokens)] {
        if let Some(tokens) = tokens {
            let _ = write!(text, "; {} left of {}/s of the whole {whose}", tokens.left, tokens.rate);
        }
    }
    if let Some(verdict) = &access.verdict {
        let _ = write!(text, "; {}", verdict_in_words(verdict));
    }
    text.push('.');
    text
}

/// The verdict on a split of a warm partition.
fn verdict_in_words(verdict: &str) -> String {
    match verdict {
        "split" => "a split helps".to_owned(),
        "hot_key" => "no split helps, because one key alone exceeds the ceiling".to_owned(),
        "sequential" => "no split helps, because the load moves on to ever higher keys".to_owned(),
        "moving" => "no split helps, because the load moves".to_owned(),
        "scan" => "no split helps, because most requests read ranges".to_owned(),
        "useless" => "no split would reduce the refusals by a fifth".to_owned(),
        "wait" => "its ceiling has not refused for long enough to split it".to_owned(),
        other => format!("verdict {other}"),
    }
}

/// The plane at the beginning of a sentence.
fn heading(plane: &str) -> &str {
    match plane {
        "capacity" => "The table",
        "overload" => "The resource",
        _ => "Its deadline",
    }
}

fn row(limit: &LimitExplanation) -> [String; 6] {
    let says = match (limit.would, limit.shadow) {
        (None, _) => "-",
        (Some(ExpectedDecision::Admit | ExpectedDecision::Wait), _) => "admit",
        (Some(ExpectedDecision::Refuse), false) => "REFUSE",
        (Some(ExpectedDecision::Refuse), true) => "(refuse)",
    };
    let name = shortened(&limit.name, SHOWN_BYTES).into_owned();
    let Some(counter) = &limit.counter else {
        return [name, says.to_owned(), String::new(), String::new(), String::new(), String::new()];
    };
    let [used, left, whole] = match &counter.level {
        Some(level) => [level.used.to_string(), level.remaining.to_string(), whole_in(level)],
        None => ["?", "?", "?"].map(str::to_owned),
    };
    [name, says.to_owned(), used, left, whole, key(counter)]
}

/// How long until nothing of a counter is used any more.
fn whole_in(level: &LevelExplanation) -> String {
    if level.used == 0 {
        return "unused".to_owned();
    }
    HumanDuration::from_millis(level.reset_ms).to_string()
}

fn key(counter: &CounterExplanation) -> String {
    let part = |(name, value): (&String, &Option<String>)| match value {
        Some(value) => format!("{name}={}", shortened(value, SHOWN_BYTES)),
        None => format!("no {name}"),
    };
    let parts: Vec<String> = counter.key.iter().map(part).collect();
    if parts.is_empty() { "one counter for all".to_owned() } else { parts.join(", ") }
}

/// Why a limit says what it says, and by which numbers.
fn because(limit: &LimitExplanation) -> String {
    let mut text = limit.because.clone();
    if limit.shadow {
        text.push_str("; a shadow limit, which refuses nothing");
    }
    let Some(counter) = &limit.counter else { return text };
    let _ = write!(text, "; {}", counter.numbers);
    let whose = match counter.numbers_of {
        NumbersOf::Limit | NumbersOf::Plan => None,
        NumbersOf::Policy => Some("an override of the policy"),
        NumbersOf::RunTime => Some("an override set at run time"),
    };
    if let Some(plan) = &limit.plan {
        let _ = write!(text, " of plan {}", shortened(&plan.name, SHOWN_BYTES));
    }
    if let Some(whose) = whose {
        let when = counter.overrides.iter().flatten();
        let when: Vec<String> =
            when.map(|(name, value)| format!("{name}={}", shortened(value, SHOWN_BYTES))).collect();
        let _ = write!(text, " by {whose} for {}", when.join(", "));
    }
    if let Some(until) = &counter.until {
        let _ = write!(text, " until {until}");
    }
    if let Some(zone) = &counter.zone {
        let _ = write!(text, "; {}", zone_in_words(zone));
    }
    if let Some(end) = &counter.window_end {
        let _ = write!(text, "; this window lasts until {end}");
    }
    match counter.decided_by {
        DecidedBy::Member => {}
        DecidedBy::Store => text.push_str("; decided in the store"),
        DecidedBy::Lease => text.push_str("; decided from a lease"),
    }
    if let Some(span) = counter.blocks_for_ms {
        let _ = write!(text, "; a key that exceeds it is blocked for {}", HumanDuration::from_millis(span));
    }
    if let Some(outcomes) = &counter.refund_on {
        let _ = write!(text, "; the charge is given back on {outcomes}");
    }
    text
}

/// Why a request has its plan.
fn plan_in_words(plan: &PlanExplanation) -> String {
    let attribute = plan.attribute.as_deref().unwrap_or_default();
    let value = plan.value.as_deref().map(|value| shortened(value, SHOWN_BYTES));
    match (plan.found_by, value) {
        (PlanFoundBy::Assigned, value) => {
            format!("assigned to {attribute}={}", value.unwrap_or_default())
        }
        (PlanFoundBy::Attribute, _) => format!("by attribute {attribute}"),
        (PlanFoundBy::Default, None) => "the default".to_owned(),
        (PlanFoundBy::Default, Some(value)) => {
            format!("the default, because \"{value}\" is no plan")
        }
    }
}

/// Whose time zone a calendar counts in, where its limit takes it from an attribute.
fn zone_in_words(zone: &ZoneExplanation) -> String {
    let attribute = &zone.attribute;
    let value = zone.value.as_deref().map(|value| shortened(value, SHOWN_BYTES));
    match (zone.zone_of, value) {
        (ZoneOf::Attribute, _) => format!("the zone is from attribute {attribute}"),
        (ZoneOf::Override, _) => "the zone is that of the override".to_owned(),
        (ZoneOf::Limit, None) => format!("the zone is that of the limit: the request has no {attribute}"),
        (ZoneOf::Limit, Some(value)) => {
            let because = zone.because.as_deref().unwrap_or("it does not count");
            format!("the zone is that of the limit: {attribute} is \"{value}\", and {because}")
        }
    }
}

/// Writes words in lines that begin with so many spaces and are not too wide.
pub(crate) fn wrap(text: &mut String, indent: usize, words: &str) {
    let mut width = 0;
    for word in words.split_whitespace() {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > WIDTH {
            text.push('\n');
            width = 0;
        }
        if width == 0 {
            text.extend(std::iter::repeat_n(' ', indent));
            width = indent;
        } else {
            text.push(' ');
            width += 1;
        }
        text.push_str(word);
        width += length;
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPLAINED: &str = r#"{"namespace":"api","cost":3,"would":"refuse","at":"2026-11-20T23:00:00Z","limits":[
        {"name":"reads","applies":false,"because":"method is \"POST\"; it wants one of \"GET\", \"HEAD\""},
        {"name":"per-user","applies":true,"would":"refuse","because":"used up: 0 of 4 left; again in 1 h",
         "counter":{"key":{"user":"ada"},"numbers":"fixed 4 in 1h","numbers_of":"run_time","overrides":{"user":"ada"},
         "until":"2026-11-20T23:01:00Z","decided_by":"store","level":{"limit":4,"used":12,"remaining":0,"reset_ms":3600000}}},
        {"name":"tried","applies":true,"would":"refuse","shadow":true,"because":"used up: 0 of 1 left; again in 1 s",
         "counter":{"key":{},"numbers":"rate 1/s, burst 1","numbers_of":"limit","decided_by":"member",
         "blocks_for_ms":600000,"level":{"limit":1,"used":1,"remaining":0,"reset_ms":1000}}},
        {"name":"daily","applies":true,"would":"admit","because":"4 of 5 left",
         "counter":{"key":{},"numbers":"calendar 5 a day in UTC","numbers_of":"limit","decided_by":"member",
         "window_end":"2026-11-21 08:00 UTC","level":{"limit":5,"used":1,"remaining":4,"reset_ms":32400000}}},
        {"name":"hourly","applies":true,"would":"admit","because":"5 of 5 left, nothing is used",
         "counter":{"key":{},"numbers":"calendar 5 an hour in UTC","numbers_of":"limit","decided_by":"member",
         "level":{"limit":5,"used":0,"remaining":5,"reset_ms":1}}}]}"#;

    #[test]
    fn the_level_of_a_feature_is_said_with_its_reason() {
        let load = r#"{"class":"sheddable","level":12,"cursor":0,"in_flight":1,"in_flight_max":64,"would":"admit",
            "because":"not shed","feature":{"name":"thumbnails","level":"off","is_off":true,"class":"sheddable",
            "retry_after_ms":8000,"because":"its requests are refused; on again in 8 s at the earliest"}}"#;
        let body =
            format!(r#"{{"namespace":"api","cost":1,"would":"refuse","at":"","limits":[],"load":{load}}}"#);
        let explained: ExplanationBody = serde_json::from_str(&body).unwrap();
        let said = text(&explained, "by a test").replace('\n', " ");
        let feature = "Feature thumbnails (class sheddable) is at its level off: its requests are refused; \
                       on again in 8 s at the earliest.";
        assert!(said.contains(feature), "{said}");
    }

    #[test]
    fn each_limit_has_a_line_and_below_it_why() {
        let explained: ExplanationBody = serde_json::from_str(EXPLAINED).unwrap();
        let expected = "\
A request of cost 3 in api would be refused, by a test.

LIMIT     SAYS      USED  LEFT  FULL IN  COUNTED ON
reads     -
  method is \"POST\"; it wants one of \"GET\", \"HEAD\"
per-user  REFUSE      12     0  1 h      user=ada
  used up: 0 of 4 left; again in 1 h; fixed 4 in 1h by an override set at run time for user=ada
  until 2026-11-20T23:01:00Z; decided in the store
tried     (refuse)     1     0  1 s      one counter for all
  used up: 0 of 1 left; again in 1 s; a shadow limit, which refuses nothing; rate 1/s, burst 1; a
  key that exceeds it is blocked for 10 min
daily     admit        1     4  9 h      one counter for all
  4 of 5 left; calendar 5 a day in UTC; this window lasts until 2026-11-21 08:00 UTC
hourly    admit        0     5  unused   one counter for all
  5 of 5 left, nothing is used; calendar 5 an hour in UTC
";
        let table = text(&explained, "by a test");
        assert_eq!(table, expected);
        assert!(table.lines().all(|line| line.chars().count() <= WIDTH));
    }
}
