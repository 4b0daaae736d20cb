//! An algorithm in the words of a policy.

use tidegate_core::Algorithm;
use tidegate_core::algorithm::{SlidingCounter, Weekday, WindowStart};
use tidegate_core::rate::format_span;

/// The algorithm as it would be written for a limit: `rate: 100/s, burst: 200`,
/// `fixed: { limit: 5000, window: 1m }`.
///
/// Defaults are left out. A limit with a `share` is written with the numbers of this
/// member.
pub fn words(algorithm: &Algorithm) -> String {
    match algorithm {
        Algorithm::Bucket(bucket) => {
            let burst = Some(bucket.burst()).filter(|burst| *burst != bucket.rate().units());
            let debt = Some(bucket.debt()).filter(|debt| *debt > 0);
            format!("rate: {}{}{}", bucket.rate(), given("burst", burst), given("debt", debt))
        }
        Algorithm::Rolling(rolling) => {
            format!("rolling: {{ limit: {}, window: {} }}", rolling.limit(), format_span(rolling.window()))
        }
        Algorithm::SlidingCounter(counter) => approximate(counter),
        Algorithm::Fixed(fixed) => {
            let start = match fixed.start() {
                WindowStart::Epoch => "",
                WindowStart::FirstHit => ", start: first_hit",
            };
            format!("fixed: {{ limit: {}, window: {}{start} }}", fixed.limit(), format_span(fixed.window()))
        }
        Algorithm::Calendar(calendar) => {
            let zone = Some(calendar.zone()).filter(|zone| *zone != "UTC");
            let week_start = Some(calendar.week_start()).filter(|day| *day != Weekday::Monday);
            format!(
                "calendar: {{ limit: {}, unit: {}{}{} }}",
                calendar.limit(),
                calendar.unit().as_str(),
                given("zone", zone),
                given("week_start", week_start.map(Weekday::as_str))
            )
        }
        Algorithm::Concurrency(concurrency) => {
            let hold = format_span(concurrency.hold());
            format!("concurrency: {{ limit: {}, hold: {hold} }}", concurrency.limit())
        }
        // Another algorithm comes with its words; until then its name is better than nothing.
        other => format!("{}: {}", other.name(), other.limit()),
    }
}

fn approximate(counter: &SlidingCounter) -> String {
    let window = format_span(counter.window());
    format!("rolling: {{ limit: {}, window: {window}, accuracy: approximate }}", counter.limit())
}

/// `, name: value` for what does not have its default.
fn given(name: &str, value: Option<impl core::fmt::Display>) -> String {
    value.map_or_else(String::new, |value| format!(", {name}: {value}"))
}
