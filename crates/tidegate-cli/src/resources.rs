//! `tidegate resources`.

mod history;
mod picture;
mod svg_plot;
mod terminal_plot;

use std::fmt::Write as _;

use tidegate_wire::display::HumanDuration;
use tidegate_wire::resources::{ResourceBody, ResourcesBody, SignalBody};
use tidegate_wire::text::shortened;

use crate::arguments::request::Resources;
use crate::client::{self, print, target, wait_for};
use crate::columns::{Columns, one_line};
use crate::exit::Exit;

/// How much of a name is shown, in bytes.
const SHOWN_BYTES: usize = 40;

pub(crate) fn run(arguments: &Resources) -> Exit {
    if arguments.plot || arguments.svg.is_some() || arguments.saved.is_some() {
        return history::draw(arguments);
    }
    let query: Vec<_> = arguments.name.iter().map(|name| ("resource", name.as_str())).collect();
    let target = target("/v1/resources", &query);
    print(arguments.json, wait_for(client::get::<ResourcesBody>(&arguments.daemon, &target)), table)
}

/// For people: a headline for each resource, and below it a line for each class and each signal.
fn table(body: &ResourcesBody) -> String {
    if body.resources.is_empty() {
        return "The policy has no resources.\n".to_owned();
    }
    let mut text = String::new();
    for (index, resource) in body.resources.iter().enumerate() {
        let gap = if index == 0 { "" } else { "\n" };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{gap}{}", headline(resource));
        text.push_str(&indented(&classes(resource)));
        text.push_str(&indented(&signals(&resource.signals)));
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
    let limit = if concurrency == "fixed" { String::new() } else { format!(" ({concurrency})") };
    let pin =
        cursor.pinned_until.as_ref().map_or_else(String::new, |until| format!(", pinned until {until}"));
    let served = match cursor.position {
        0 => "serves all classes".to_owned(),
        _ => format!("serves {} from cohort {} up", cursor.class, cursor.cohort),
    };
    format!(
        "{}: {level}, pressure {pressure:.2}{binding}; {in_flight} of {in_flight_max}{limit} in flight, {queued} waiting \
         for {:.1} ms; {served}{pin}; retry after {} s",
        one_line(shortened(&resource.name, SHOWN_BYTES).as_ref()),
        resource.queue_delay_ms,
        resource.retry_after_s
    )
}

fn classes(resource: &ResourceBody) -> String {
    let mut columns = Columns::new([
        "CLASS",
        ">OFFERED",
        ">ADMITTED",
        ">SHED",
        ">EXPIRED",
        ">CANCELLED",
        ">DENIED",
        ">WAITING",
        ">WAITED MS",
    ]);
    for class in &resource.classes {
        columns.push([
            class.class.clone(),
            class.offered.to_string(),
            class.admitted.to_string(),
            class.shed.to_string(),
            class.expired.to_string(),
            class.cancelled.to_string(),
            class.denied.to_string(),
            class.queued.to_string(),
            format!("{:.1}", class.wait_ms),
        ]);
    }
    columns.text()
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
    fn a_resource_has_a_headline_its_classes_and_its_signals() {
        let body: ResourcesBody = serde_json::from_str(
            r#"{"resources":[{"name":"app","level":"hard","pressure":0.981,"binding_signal":"in_flight","in_flight":20,
            "in_flight_max":20,"concurrency":"vegas","cursor":{"position":70,"class":"sheddable","cohort":70},
            "queued":3,"queue_delay_ms":4.25,"retry_after_s":2,"classes":[{"class":"critical","offered":9,"admitted":8,
            "shed":0,"expired":1,"cancelled":0,"denied":0,"queued":0,"wait_ms":1.5}],"signals":[{"name":"lag",
            "source":"push","value":12.0,"target":1000.0,"unit":"messages","pressure":0.0,"age_ms":12300,
            "is_stale":true}]}]}"#,
        )
        .unwrap();
        let expected = "\
app: hard, pressure 0.98 by in_flight; 20 of 20 (vegas) in flight, 3 waiting for 4.2 ms; serves sheddable from cohort \
70 up; retry after 2 s
  CLASS     OFFERED  ADMITTED  SHED  EXPIRED  CANCELLED  DENIED  WAITING  WAITED MS
  critical        9         8     0        1          0       0        0        1.5
  SIGNAL  SOURCE            VALUE         TARGET  PRESSURE  AGE
  lag     push    12.000 messages  1000 messages      0.00  13 s, stale
";
        assert_eq!(table(&body), expected);
        let none = ResourcesBody { resources: Vec::new() };
        assert_eq!(table(&none), "The policy has no resources.\n");
    }
}
