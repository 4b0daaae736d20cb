//! The files of envoyproxy/ratelimit: each claim of `docs/compat.md` about them has a test here.
//!
//! Decisions are made by the real table, at instants that the tests choose.

#![expect(clippy::unwrap_used, reason = "in a test it says what must hold")]

mod answers;
mod charges;
mod compat;
mod extensions;
mod files;
mod matches;
mod metrics;
mod reference;

use tidegate_core::{CarriedStatus, KeyTable, TableConfig, Timestamp};
use tidegate_policy::envoy::{Answer, Ask, Code, Descriptor, Files, Settings, Text};
use tidegate_policy::{Problem, Problems, parse};

/// The beginning of a minute; of no longer unit.
const MINUTE: u64 = 1_699_999_980;

/// 23 seconds into a minute, so that 37 are left.
const NOW: Timestamp = Timestamp::from_secs(MINUTE + 23);

/// The problems of one file called `f.yaml`, without its name.
fn problems(text: &str) -> Vec<String> {
    match read(text) {
        Ok(_) => panic!("no problem in {text}"),
        Err(problems) => lines(&problems.problems),
    }
}

fn lines(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(|problem| problem.to_string().replacen("f.yaml:", "", 1)).collect()
}

fn read(text: &str) -> Result<tidegate_policy::envoy::Read, Problems> {
    Files::read(&[Text { name: "f.yaml", bytes: text.as_bytes() }], Settings::default())
}

/// The files in `texts`, which have no problem, under the `envoy_ratelimit:` settings in
/// `settings`.
fn files_under(settings: &str, texts: &[&str]) -> Files {
    let texts: Vec<Text<'_>> =
        texts.iter().map(|text| Text { name: "f.yaml", bytes: text.as_bytes() }).collect();
    Files::read(&texts, under(settings)).unwrap_or_else(|problems| panic!("{problems}")).files
}

/// The settings that a policy with `envoy_ratelimit: { path: ., .. }` has.
fn under(settings: &str) -> Settings {
    let text = format!("envoy_ratelimit: {{ path: ., {settings} }}");
    let checked = parse("t.yaml", &text, &|_| None).unwrap_or_else(|problems| panic!("{problems}"));
    checked.policy.envoy_ratelimit.unwrap().settings
}

/// The files of one text, under the settings that there are by default.
fn files(text: &str) -> Files {
    files_under("", &[text])
}

/// A file of domain `d` with these descriptors, each written in flow style.
fn domain(descriptors: &[&str]) -> String {
    format!("domain: d\ndescriptors:\n  - {}\n", descriptors.join("\n  - "))
}

/// Counters, and the instant at which they are asked about.
struct World {
    table: KeyTable,
    now: Timestamp,
}

impl World {
    fn new() -> Self {
        let mut config = TableConfig::seeded([1, 2, 3, 4]);
        config.bytes = TableConfig::BYTES_MIN;
        Self { table: KeyTable::new(config), now: NOW }
    }

    fn ask<'a>(&self, files: &'a Files, descriptors: &'a [Descriptor<'a>], hits: u32) -> Answer<'a> {
        let mut resolved = files.resolve("d", descriptors, hits).unwrap();
        while let Some(ask) = resolved.ask() {
            let statuses: Vec<CarriedStatus> = match ask {
                Ask::Carry { charging, limits } => {
                    self.table.carry("d", &limits, charging, self.now).unwrap().limits.to_vec()
                }
                Ask::GiveBack { limits } => {
                    for limit in &limits {
                        self.table.refund_carried("d", limit, self.now).unwrap();
                    }
                    Vec::new()
                }
                _ => unreachable!("there are two questions"),
            };
            resolved.told(&statuses);
        }
        resolved.answer(self.now)
    }

    /// The answer, in the form of [`said`].
    fn say(&self, files: &Files, descriptors: &[Descriptor<'_>], hits: u32) -> String {
        said(&self.ask(files, descriptors, hits))
    }

    /// The answer to one hit of each descriptor.
    fn hit(&self, files: &Files, descriptors: &[&[(&str, &str)]]) -> String {
        let descriptors: Vec<_> = descriptors.iter().map(|entries| descriptor(entries)).collect();
        self.say(files, &descriptors, 0)
    }
}

fn descriptor<'a>(entries: &[(&'a str, &'a str)]) -> Descriptor<'a> {
    Descriptor::new(entries.iter().copied())
}

/// The same with hits of its own.
fn with_hits<'a>(entries: &[(&'a str, &'a str)], hits: u64) -> Descriptor<'a> {
    let mut descriptor = descriptor(entries);
    descriptor.hits = Some(hits);
    descriptor
}

/// The overall code, and for each descriptor its code, what is left of which limit, and the seconds
/// to its reset: `ok: ok 4 of 5/minute 37s; over 0 of 2/hour 997s`.
fn said(answer: &Answer<'_>) -> String {
    let code = |code| if code == Code::Ok { "ok" } else { "over" };
    let statuses = answer.statuses.iter().map(|status| {
        let limit = status.current_limit.as_ref().map(|limit| {
            let unit = limit.unit.map_or("unknown", |unit| unit.name());
            let name = if limit.name.is_empty() { String::new() } else { format!(" {}", limit.name) };
            let seconds = status.duration_until_reset.unwrap_or_default().as_secs();
            format!(" of {}/{unit}{name} {seconds}s", limit.requests_per_unit)
        });
        let left = match (status.limit_remaining, &limit) {
            (0, None) => String::new(),
            (left, _) => format!(" {left}"),
        };
        assert_eq!(limit.is_some(), status.duration_until_reset.is_some());
        format!("{}{left}{}", code(status.code), limit.unwrap_or_default())
    });
    format!("{}: {}", code(answer.overall_code), statuses.collect::<Vec<_>>().join("; "))
}
