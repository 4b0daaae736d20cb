//! `tidegate resources`.

mod history;
mod picture;
mod svg_plot;
mod terminal_plot;

use std::fmt::Write as _;

use serde::Serialize;
use tidegate_core::Class;
use tidegate_wire::display::HumanDuration;
use tidegate_wire::resources::{
    AdviceBody, DeferralBody, RatesBody, RecentBody, ResourceBody, ResourcesBody, ShedRatesBody, SignalBody,
    TimesBody,
};
use tidegate_wire::text::shortened;

use crate::arguments::request::Resources;
use crate::client::{self, encoded};
use crate::columns::{Columns, one_line};
use crate::exit::Exit;
use crate::watch;

/// How much of a name is shown, in bytes.
const SHOWN_BYTES: usize = 40;

pub(crate) fn run(arguments: &Resources) -> Exit {
    if arguments.plot || arguments.svg.is_some() || arguments.saved.is_some() {
        return history::draw(arguments);
    }
    watch::show(arguments.watch, async || {
        let Some(name) = &arguments.name else {
            let all: ResourcesBody = client::get(&arguments.daemon, "/v1/resources").await?;
            return Ok(if arguments.json { json(&all) } else { table(&all) });
        };
        let target = format!("/v1/resources/{}", encoded(name));
        let one: ResourceBody = client::get(&arguments.daemon, &target).await?;
        Ok(if arguments.json { json(&one) } else { detailed(&one) })
    })
}

fn json(body: &impl Serialize) -> String {
    serde_json::to_string(body).expect("text and numbers always serialise") + "\n"
}

/// For people: a headline for each resource, and below it a line for each class and each signal.
fn table(body: &ResourcesBody) -> String {
    if body.resources.is_empty() {
        return "The policy has no resources.\n".to_owned();
    }
    let each: Vec<String> = body.resources.iter().map(|one| summary(one, &short_advice(one))).collect();
    each.join("\n")
}

fn summary(resource: &ResourceBody, advice: &str) -> String {
    let rates = resource.recent.as_ref().map_or_else(String::new, |recent| classes(recent, resource.shadow));
    let (headline, signals) = (headline(resource), signals(&resource.signals));
    let tickets = resource.deferral.as_ref().map_or_else(String::new, tickets);
    let [advice, tickets, rates, signals] = [advice, &tickets, &rates, &signals].map(indented);
    format!("{headline}\n{advice}{tickets}{rates}{signals}")
}

/// The same for one resource, with its namespaces and the whole advice.
fn detailed(resource: &ResourceBody) -> String {
    let namespaces =
        resource.recent.as_ref().map_or_else(String::new, |recent| namespaces(recent, resource.shadow));
    let advice = resource.advice.as_ref().map(|advice| format!("advice: {}", one_line(&advice.text)));
    summary(resource, &advice.unwrap_or_default()) + &indented(&namespaces)
}

/// The advice in a few words.
fn short_advice(resource: &ResourceBody) -> String {
    let words = |advice: &AdviceBody| {
        let kind = if advice.kind == "too_low" { "may be too low" } else { "is too high" };
        format!("advice: the limit {kind}, try {}", advice.suggested)
    };
    resource.advice.as_ref().map_or_else(String::new, words)
}

/// The tickets in a line, and in a second one where some counted for nothing or found no room.
fn tickets(deferral: &DeferralBody) -> String {
    let DeferralBody { share, capacity, booked, sold, redeemed, given_back, early, expired, .. } = deferral;
    let classes = deferral.classes.join(", ");
    let until = |text: &str, instant: &Option<String>| {
        instant.as_ref().map_or_else(String::new, |instant| format!(", {text} {instant}"))
    };
    let (booked_until, pulled_to) =
        (until("until", &deferral.booked_until), until("good already to", &deferral.pulled_to));
    let mut text = format!(
        "defers {classes}: {booked} booked{booked_until}{pulled_to}, {:.1} of {capacity:.1} a second for tickets; {sold} \
         sold, {redeemed} redeemed, {given_back} given back, {early} early, {expired} expired\n",
        share * capacity
    );
    let causes = [
        ("without room in the calendar", deferral.full),
        ("shown again", deferral.replayed),
        ("of other members not remembered", deferral.unremembered),
    ];
    let causes = causes.into_iter().filter(|(_, count)| *count > 0);
    let causes: Vec<String> = causes.map(|(cause, count)| format!("{count} {cause}")).collect();
    if !causes.is_empty() {
        // Writing to a string does not fail.
        let _ = writeln!(text, "tickets: {}", causes.join(", "));
    }
    text
}

fn headline(resource: &ResourceBody) -> String {
    let ResourceBody { level, pressure, in_flight, in_flight_max, concurrency, cursor, queued, .. } =
        resource;
    let binding = resource
        .binding_signal
        .as_deref()
        .map_or_else(String::new, |name| format!(" by {}", one_line(shortened(name, SHOWN_BYTES).as_ref())));
    let offered = resource.recent.as_ref().and_then(|recent| recent.offered_load);
    let offered = offered.map_or_else(String::new, |load| format!(", offered {load:.2} of its capacity"));
    let limit = if concurrency == "fixed" { String::new() } else { format!(" ({concurrency})") };
    let streams = resource.streams.map_or_else(String::new, |streams| {
        format!(" with {} of {} streams open", streams.open, streams.max)
    });
    let pin =
        cursor.pinned_until.as_ref().map_or_else(String::new, |until| format!(", pinned until {until}"));
    let (mode, verb) = if resource.shadow { (" (shadow)", "would serve") } else { ("", "serves") };
    let served = match cursor.position {
        0 => format!("{verb} all classes"),
        _ if cursor.cohorts_change.is_empty() => format!("{verb} {}", lowest(&cursor.class, cursor.cohort)),
        _ => format!(
            "{verb} {}, other tenants from {} on",
            lowest(&cursor.class, cursor.cohort),
            cursor.cohorts_change
        ),
    };
    format!(
        "{}{mode}: {level}, pressure {pressure:.2}{binding}{offered}; {in_flight} of {in_flight_max}{limit} in flight{streams}, \
         {queued} waiting for {:.1} ms\n  {served}{pin}; retry after {} s",
        one_line(shortened(&resource.name, SHOWN_BYTES).as_ref()),
        resource.queue_delay_ms,
        resource.retry_after_s
    )
}

/// The rates of the last seconds by class, and the mechanisms that shed.
fn classes(recent: &RecentBody, is_shadow: bool) -> String {
    let [shed, expired, waiting] = load_columns(is_shadow);
    let mut columns = Columns::new([
        "A SECOND",
        ">OFFERED",
        ">ADMITTED",
        shed,
        expired,
        ">CANCELLED",
        ">DENIED",
        ">DISABLED",
        waiting,
        ">WAIT MS P50",
        ">P99",
        ">TIME MS P50",
        ">P99",
    ]);
    for class in &recent.classes {
        let [offered, admitted, shed, expired, cancelled, denied, off] = rate_cells(&class.rates, is_shadow);
        let [wait, wait_p99] = time_cells(class.rates.wait);
        let [time, time_p99] = time_cells(class.rates.place_time);
        let waiting = class.rates.waiting.to_string();
        let name = class.class.clone();
        columns.push([
            name, offered, admitted, shed, expired, cancelled, denied, off, waiting, wait, wait_p99, time,
            time_p99,
        ]);
    }
    let mut text = columns.text();
    for class in &recent.classes {
        let shed = shown_shed(&class.rates, is_shadow);
        let by = [
            ("admission_cursor", shed.admission_cursor),
            ("queue_delay", shed.queue_delay),
            ("in_flight", shed.in_flight),
            ("streams", shed.streams),
            ("queue_full", shed.queue_full),
            ("pace", shed.pace),
        ];
        let by: Vec<String> = by
            .into_iter()
            .filter(|(_, rate)| *rate > 0.0)
            .map(|(mechanism, rate)| format!("{rate:.1} by {mechanism}"))
            .collect();
        if !by.is_empty() {
            // Writing to a string does not fail.
            let would = if is_shadow { "would be " } else { "" };
            let _ = writeln!(text, "{} {would}shed: {}", class.class, by.join(", "));
        }
        if class.rates.deferred > 0.0 {
            let _ = writeln!(text, "{} deferred: {:.1} with a ticket", class.class, class.rates.deferred);
        }
    }
    text
}

fn namespaces(recent: &RecentBody, is_shadow: bool) -> String {
    let [shed, expired, waiting] = load_columns(is_shadow);
    let mut columns = Columns::new([
        "NAMESPACE",
        "CLASS",
        ">OFFERED",
        ">ADMITTED",
        shed,
        expired,
        ">CANCELLED",
        ">DENIED",
        ">DISABLED",
        waiting,
        if is_shadow { "WOULD SERVE" } else { "SERVES" },
    ]);
    for row in &recent.namespaces {
        let name = row.namespace.as_deref().map_or("(others)".into(), |name| shortened(name, SHOWN_BYTES));
        let [offered, admitted, shed, expired, cancelled, denied, off] = rate_cells(&row.rates, is_shadow);
        let serves = match (row.cursor / COHORTS, row.cursor % COHORTS) {
            (0, 0) => "all".to_owned(),
            (class, cohort) => {
                let class = Class::ALL.get(usize::from(class)).map_or("no class", |class| class.as_str());
                lowest(class, cohort)
            }
        };
        columns.push([
            name.into(),
            row.class.clone(),
            offered,
            admitted,
            shed,
            expired,
            cancelled,
            denied,
            off,
            row.rates.waiting.to_string(),
            serves,
        ]);
    }
    columns.text()
}

/// The cohorts of a class, as cursors number them.
const COHORTS: u16 = 128;

/// The least important requests that a cursor lets in.
fn lowest(class: &str, cohort: u16) -> String {
    format!("{class} from cohort {cohort} up")
}

/// The headings of what the load does to requests, or would do in shadow mode.
fn load_columns(is_shadow: bool) -> [&'static str; 3] {
    if is_shadow {
        [">WOULD SHED", ">WOULD EXPIRE", ">WOULD WAIT"]
    } else {
        [">SHED", ">EXPIRED", ">WAITING"]
    }
}

/// The refusals because of the load, or those that a resource in shadow mode would make.
fn shown_shed(rates: &RatesBody, is_shadow: bool) -> ShedRatesBody {
    if is_shadow { rates.would_refuse.unwrap_or_default().shed } else { rates.shed }
}

fn rate_cells(rates: &RatesBody, is_shadow: bool) -> [String; 7] {
    let RatesBody { offered, admitted, cancelled, denied, disabled, .. } = rates;
    let shed = shown_shed(rates, is_shadow).all();
    let expired = if is_shadow { rates.would_refuse.unwrap_or_default().expired } else { rates.expired };
    [*offered, *admitted, shed, expired, *cancelled, *denied, *disabled].map(|rate| format!("{rate:.1}"))
}

fn time_cells(times: Option<TimesBody>) -> [String; 2] {
    times.map_or_else(
        || ["-", "-"].map(str::to_owned),
        |times| [times.p50_ms, times.p99_ms].map(|ms| format!("{ms:.1}")),
    )
}

fn signals(signals: &[SignalBody]) -> String {
    let mut columns = Columns::new(["SIGNAL", "SOURCE", ">VALUE", ">TARGET", ">PRESSURE", "AGE"]);
    for signal in signals {
        let unit = if signal.unit.is_empty() { String::new() } else { format!(" {}", signal.unit) };
        let age = match signal.age_ms {
            None => "no value yet".to_owned(),
            Some(age) if signal.is_stale => format!("{}, stale", HumanDuration::from_millis(age)),
            Some(age) => HumanDuration::from_millis(age).to_string(),
        };
        columns.push([
            shortened(&signal.name, SHOWN_BYTES).into(),
            signal.source.clone(),
            signal.value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}{unit}")),
            format!("{}{unit}", signal.target),
            format!("{:.2}", signal.pressure),
            age,
        ]);
    }
    columns.text()
}

fn indented(table: &str) -> String {
    table.lines().fold(String::new(), |mut text, line| {
        text.extend(["  ", line, "\n"]);
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_has_a_headline_its_rates_and_its_signals() {
        let body: ResourceBody = serde_json::from_str(
            r#"{"name":"app","level":"hard","pressure":0.981,"binding_signal":"in_flight","in_flight":20,
            "in_flight_max":20,"streams":{"open":4,"max":1000,"refused":2},"concurrency":"vegas",
            "advice":{"kind":"too_low","suggested":80,"text":"20 places may be too few."},
            "cursor":{"position":70,"class":"sheddable","cohort":70,"cohorts_change":"2026-11-29T21:00:00Z"},
            "queued":3,"queue_delay_ms":4.25,"retry_after_s":2,"classes":[],"signals":[{"name":"lag",
            "source":"push","value":12.0,"target":1000.0,"unit":"messages","pressure":0.0,"age_ms":12300,
            "is_stale":true}],"recent":{"span_ms":10300,"offered_load":2.125,
            "all":{"offered":90.0,"admitted":40.0,"served":40.0,"expired":0.0,"cancelled":0.0,"denied":0.0,
            "disabled":0.0,"waiting":3,"shed":{"admission_cursor":40.0,"queue_delay":10.0,"in_flight":0.0,
            "queue_full":0.0,"pace":0.0}},
            "classes":[{"class":"critical","rates":{"offered":90.0,"admitted":40.0,"served":40.0,"expired":0.0,
            "cancelled":0.0,"denied":0.0,"disabled":0.0,"waiting":3,"wait":{"p50_ms":1.5,"p99_ms":12.25},
            "shed":{"admission_cursor":40.0,"queue_delay":10.0,"in_flight":0.0,"queue_full":0.0,"pace":0.0}}}],
            "namespaces":[{"namespace":"shop","class":"critical","cursor":326,"rates":{"offered":90.0,
            "admitted":40.0,"served":40.0,"expired":0.0,"cancelled":0.0,"denied":0.0,"disabled":0.0,"waiting":3,
            "shed":{"admission_cursor":40.0,"queue_delay":10.0,"in_flight":0.0,"queue_full":0.0,"pace":0.0}}},
            {"class":"sheddable","cursor":0,"rates":{"offered":1.0,"admitted":1.0,"served":1.0,"expired":0.0,
            "cancelled":0.0,"denied":0.0,"disabled":0.0,"waiting":0,"shed":{"admission_cursor":0.0,
            "queue_delay":0.0,"in_flight":0.0,"queue_full":0.0,"pace":0.0}}}]}}"#,
        )
        .unwrap();
        let expected = "\
app: hard, pressure 0.98 by in_flight, offered 2.12 of its capacity; 20 of 20 (vegas) in flight with 4 of 1000 streams open, 3 waiting for 4.2 ms
  serves sheddable from cohort 70 up, other tenants from 2026-11-29T21:00:00Z on; retry after 2 s
  advice: 20 places may be too few.
  A SECOND  OFFERED  ADMITTED  SHED  EXPIRED  CANCELLED  DENIED  DISABLED  WAITING  WAIT MS P50   P99  TIME MS P50  P99
  critical     90.0      40.0  50.0      0.0        0.0     0.0       0.0        3          1.5  12.2            -    -
  critical shed: 40.0 by admission_cursor, 10.0 by queue_delay
  SIGNAL  SOURCE            VALUE         TARGET  PRESSURE  AGE
  lag     push    12.000 messages  1000 messages      0.00  13 s, stale
  NAMESPACE  CLASS      OFFERED  ADMITTED  SHED  EXPIRED  CANCELLED  DENIED  DISABLED  WAITING  SERVES
  shop       critical      90.0      40.0  50.0      0.0        0.0     0.0       0.0        3  critical from cohort 70 up
  (others)   sheddable      1.0       1.0   0.0      0.0        0.0     0.0       0.0        0  all
";
        assert_eq!(detailed(&body), expected);
        let listed = table(&ResourcesBody { resources: vec![body] });
        assert!(listed.contains("\n  advice: the limit may be too low, try 80\n  A SECOND"), "{listed}");
        assert!(!listed.contains("NAMESPACE"), "{listed}");
        let none = ResourcesBody { resources: Vec::new() };
        assert_eq!(table(&none), "The policy has no resources.\n");
    }

    #[test]
    fn a_resource_that_defers_says_what_becomes_of_its_tickets() {
        let mut deferral = DeferralBody {
            classes: vec!["sheddable_plus".to_owned(), "sheddable".to_owned()],
            share: 0.2,
            capacity: 200.0,
            booked: 240,
            booked_until: Some("2026-11-29T21:00:06Z".to_owned()),
            sold: 300,
            redeemed: 50,
            given_back: 1,
            early: 4,
            expired: 5,
            ..DeferralBody::default()
        };
        let line = "defers sheddable_plus, sheddable: 240 booked, until 2026-11-29T21:00:06Z, 40.0 of 200.0 a second for \
                    tickets; 300 sold, 50 redeemed, 1 given back, 4 early, 5 expired\n";
        assert_eq!(tickets(&deferral), line);
        (deferral.full, deferral.replayed) = (7, 2);
        let causes = "tickets: 7 without room in the calendar, 2 shown again\n";
        assert_eq!(tickets(&deferral), format!("{line}{causes}"));
        let pulled_to = Some("2026-11-29T21:00:03Z".to_owned());
        let pulled = tickets(&DeferralBody { pulled_to, ..deferral });
        assert!(pulled.contains("06Z, good already to 2026-11-29T21:00:03Z, 40.0 of"), "{pulled}");
    }

    #[test]
    fn a_resource_in_shadow_mode_says_what_it_would_do() {
        let body: ResourceBody = serde_json::from_str(
            r#"{"name":"app","shadow":true,"level":"normal","pressure":0.5,"in_flight":2,"in_flight_max":2,
            "concurrency":"fixed","cursor":{"position":0,"class":"sheddable","cohort":0},"queued":3,
            "queue_delay_ms":4.25,"retry_after_s":1,"classes":[],"signals":[],"recent":{"span_ms":10000,
            "all":{"offered":9,"admitted":9,"shed":{"admission_cursor":0,"queue_delay":0,"in_flight":0,
            "queue_full":0,"pace":0},"expired":0,"cancelled":0,"denied":0,"disabled":0,"served":5,"waiting":3},
            "classes":[{"class":"critical","rates":{"offered":9,"admitted":9,"shed":{"admission_cursor":0,
            "queue_delay":0,"in_flight":0,"queue_full":0,"pace":0},"would_refuse":{"shed":{
            "admission_cursor":3,"queue_delay":0,"in_flight":0,"queue_full":1,"pace":0},"expired":0.5},
            "expired":0,"cancelled":0,"denied":0,"disabled":0,"served":5,"waiting":3}}],"namespaces":[]}}"#,
        )
        .unwrap();
        let expected = "\
app (shadow): normal, pressure 0.50; 2 of 2 in flight, 3 waiting for 4.2 ms
  would serve all classes; retry after 1 s
  A SECOND  OFFERED  ADMITTED  WOULD SHED  WOULD EXPIRE  CANCELLED  DENIED  DISABLED  WOULD WAIT  WAIT MS P50  P99  TIME MS P50  P99
  critical      9.0       9.0         4.0           0.5        0.0     0.0       0.0           3            -    -            -    -
  critical would be shed: 3.0 by admission_cursor, 1.0 by queue_full
";
        assert_eq!(summary(&body, ""), expected);
    }
}
