//! The rules for Prometheus: their metrics are on the pages of running daemons, each alert leads to
//! a section of a runbook, and their unit tests pass.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpStream;
use std::process::Command;

use regex::Regex;
use tidegate_core::{Class, Reason, RequestOutcome};
use tidegate_test_support::{TemporaryFile, find_program};

use super::{deploy, text};
use crate::command::run;
use crate::documents::{anchors, root};
use crate::gateways::tools::fetched_or_skip;
use crate::process::{Daemon, answer, send};

const RULES: &str = "prometheus/tidegate.rules.yml";
const UNIT_TESTS: &str = "prometheus/tidegate.rules.test.yml";

/// The address of a page of the repository, as the rules write it.
const REPOSITORY: &str = "https://github.com/tidegate/tidegate/blob/main/";

/// The page that has a row for each alert.
const ALERTS: &str = "deploy/prometheus/README.md";

/// Labels that Prometheus adds to each series.
const TARGET_LABELS: [&str; 2] = ["instance", "job"];

/// The keys of a rule, as a mapping without its levels.
#[derive(Debug)]
struct Rule(BTreeMap<String, String>);

impl Rule {
    fn get(&self, key: &str) -> &str {
        self.0.get(key).unwrap_or_else(|| panic!("{key} is missing: {self:?}"))
    }

    fn is_alert(&self) -> bool {
        self.0.contains_key("alert")
    }

    fn name(&self) -> &str {
        self.get(if self.is_alert() { "alert" } else { "record" })
    }
}

/// The rules of the file, which promtool reads as YAML: one key a line, or folded below `>-`.
fn rules(file: &str) -> Vec<Rule> {
    let key =
        Regex::new(r"^ {6,10}(?:- )?(alert|record|expr|for|severity|summary|description|runbook_url): (.*)$")
            .unwrap();
    let mut rules: Vec<Rule> = Vec::new();
    let mut folded: Option<String> = None;
    for line in file.lines().filter(|line| !line.trim_start().starts_with('#')) {
        if let Some(found) = key.captures(line) {
            let (name, value) = (found[1].to_owned(), found[2].trim_matches('"').to_owned());
            if line.starts_with("      - ") {
                rules.push(Rule(BTreeMap::new()));
            }
            folded = (value == ">-").then(|| name.clone());
            rules.last_mut().unwrap().0.insert(name, if folded.is_some() { String::new() } else { value });
        } else if let Some(name) = folded.as_ref().filter(|_| line.starts_with("          ")) {
            let value = rules.last_mut().unwrap().0.get_mut(name).unwrap();
            value.extend([" ", line.trim()]);
        } else {
            folded = None;
        }
    }
    rules
}

/// The parts of an expression that name something.
#[derive(Debug, Default, PartialEq, Eq)]
struct Mentions {
    metrics: BTreeSet<String>,
    /// Metric, label and value of each matcher; a regular expression of alternatives has several.
    matchers: Vec<(String, String, String)>,
    /// The labels that an aggregation leaves, if there is one.
    aggregated: Option<BTreeSet<String>>,
    /// The labels by which two sides are matched.
    matched: BTreeSet<String>,
}

fn mentions(expression: &str) -> Mentions {
    let mut found = Mentions::default();
    let selector = Regex::new(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}").unwrap();
    let matcher = Regex::new(r#"(\w+)\s*(=~|=)\s*"([^"]*)""#).unwrap();
    for with in selector.captures_iter(expression) {
        let rest = matcher.replace_all(&with[2], "");
        assert!(rest.chars().all(|one| matches!(one, ',' | ' ')), "{rest} is no matcher: {expression}");
        for one in matcher.captures_iter(&with[2]) {
            let values: Vec<&str> = if &one[2] == "=~" { one[3].split('|').collect() } else { vec![&one[3]] };
            let all =
                values.into_iter().map(|value| (with[1].to_owned(), one[1].to_owned(), value.to_owned()));
            found.matchers.extend(all);
        }
    }
    let bare = Regex::new(r"\{[^}]*\}|\[[^\]]*\]").unwrap().replace_all(expression, "");
    let grouping = Regex::new(r"\b(by|on|without|ignoring|group_left|group_right)\s*\(([^)]*)\)").unwrap();
    for group in grouping.captures_iter(&bare) {
        let labels = group[2].split(',').map(|label| label.trim().to_owned());
        match &group[1] {
            "by" => found.aggregated.get_or_insert_default().extend(labels),
            "on" => found.matched.extend(labels),
            other => panic!("`{other}` is not known here: {expression}"),
        }
    }
    let bare = grouping.replace_all(&bare, "");
    let word = Regex::new(r"\b([a-zA-Z_:][\w:]*)\s*(\(?)").unwrap();
    let words = word.captures_iter(&bare).filter(|word| word[2].is_empty());
    let names = words.map(|word| word[1].to_owned());
    found.metrics.extend(names.filter(|name| !matches!(name.as_str(), "and" | "or" | "unless")));
    found
}

/// The labels of each metric.
type Series = BTreeMap<String, BTreeSet<String>>;

/// Adds the series of a page; a metric without a value has none.
fn add(page: &str, series: &mut Series) {
    let label = Regex::new(r#"(\w+)="(?:[^"\\]|\\.)*""#).unwrap();
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let (name, labels) = line.split_once(['{', ' ']).unwrap();
        let labels = label.captures_iter(labels).map(|label| label[1].to_owned());
        series.entry(name.to_owned()).or_default().extend(labels);
    }
}

/// Starts a daemon on free ports.
fn start(policy: &str) -> (Daemon, TemporaryFile) {
    let file = TemporaryFile::new(policy);
    let daemon = Daemon::start(&["--config", file.as_str()]);
    (daemon, file)
}

fn page(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    send(&mut stream, "GET /metrics HTTP/1.1\r\nhost: t\r\n\r\n");
    let (status, text) = answer(&mut stream);
    assert_eq!(status, 200);
    text.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// A policy with limits, a table, a resource with a queue, a feature with levels and a proxy.
fn policy_with_every_plane(folder: &str) -> String {
    format!(
        "listen: {{ http: 127.0.0.1:0, proxy: 127.0.0.1:0 }}
store: {{ kind: embedded, path: \"{folder}\" }}
namespaces:
  api:
    limits: [{{ name: per-user, key: [user], missing: group, rate: 1/m, burst: 1 }}]
    tables: [{{ name: orders, provisioned: {{ read: 10, write: 10 }} }}]
resources: {{ app: {{ concurrency: 2, queue: {{ wait: 250ms }} }} }}
features: [{{ name: thumbnails, levels: [{{ name: full, cost: 1 }}, {{ name: off, cost: 0 }}] }}]
proxy:
  upstreams: {{ app: [\"http://127.0.0.1:1\"] }}
  routes: [{{ name: web, upstream: app, namespace: api }}]
"
    )
}

/// The series of two daemons: one with every plane and a store in files, after a little traffic,
/// and one whose Redis does not answer.
fn series_of_running_daemons() -> Series {
    let mut series = Series::new();
    let folder = tidegate_test_support::TemporaryFolder::new();
    let (mut daemon, _file) = start(&policy_with_every_plane(folder.path().to_str().unwrap()));
    let address = daemon.address();
    let line = daemon.read_until("proxy ");
    let at = format!("http://{address}");
    for question in [
        &["api", "user=ada"][..],
        &["api", "user=ada"],
        &["api", "user=bob", "--table", "orders", "--key", "a", "--kind", "write"],
        &["api", "user=eve", "--resource", "app", "--feature", "thumbnails", "--class", "critical"],
    ] {
        let arguments: Vec<&str> =
            ["check", "--at", &at].into_iter().chain(question.iter().copied()).collect();
        assert!(run(&arguments).0 < 2, "{arguments:?}");
    }
    let proxy = line.split("http://").nth(1).unwrap().split_whitespace().next().unwrap();
    let mut stream = TcpStream::connect(proxy).unwrap();
    send(&mut stream, "GET / HTTP/1.1\r\nhost: t\r\n\r\n");
    assert_eq!(answer(&mut stream).0, 502);
    add(&page(&address), &mut series);
    let (mut daemon, _file) = start(&format!(
        "listen: {{ http: 127.0.0.1:0 }}
store: {{ kind: redis, urls: [\"redis://127.0.0.1:{}\"] }}
namespaces: {{ api: {{ limits: [{{ name: all, rate: 1/m }}] }} }}
",
        tidegate_test_support::free_port()
    ));
    add(&page(&daemon.address()), &mut series);
    series
}

/// Whether a label can have the value; a panic where the values are not known.
fn is_value(label: &str, value: &str) -> bool {
    match label {
        "job" => value == "tidegate",
        "decision" => ["admit", "refuse"].contains(&value),
        "status" => value.parse().is_ok_and(|status: u16| (100..600).contains(&status)),
        "class" => Class::ALL.iter().any(|class| class.as_str() == value),
        "reason" => Reason::ALL.iter().any(|reason| reason.as_str() == value),
        "outcome" => RequestOutcome::ALL.iter().any(|outcome| outcome.as_str() == value),
        _ => panic!("the values of the label {label} are not known here"),
    }
}

/// The complaints about the names in a rule. A rule that records adds its name to `known`.
fn complaints(rule: &Rule, known: &mut Series) -> Vec<String> {
    let mut complaints = Vec::new();
    let said = mentions(rule.get("expr"));
    assert!(!said.metrics.is_empty(), "{rule:?}");
    let mut labels = BTreeSet::from(TARGET_LABELS.map(str::to_owned));
    for metric in &said.metrics {
        match known.get(metric) {
            Some(own) => labels.extend(own.iter().cloned()),
            None => complaints.push(format!("{}: no metric {metric}", rule.name())),
        }
    }
    for (metric, label, value) in &said.matchers {
        let has_label = TARGET_LABELS.contains(&label.as_str())
            || known.get(metric).is_none_or(|own| own.contains(label));
        if !has_label {
            complaints.push(format!("{}: {metric} has no label {label}", rule.name()));
        } else if !is_value(label, value) {
            complaints.push(format!("{}: {label} is never {value}", rule.name()));
        }
    }
    for label in said.aggregated.iter().flatten().chain(&said.matched) {
        if !labels.contains(label) {
            complaints.push(format!("{}: no metric in it has the label {label}", rule.name()));
        }
    }
    let left = said.aggregated.unwrap_or(labels);
    if !rule.is_alert() {
        known.insert(rule.name().to_owned(), left);
        return complaints;
    }
    let label = Regex::new(r"\$labels\.(\w+)").unwrap();
    for text in ["summary", "description"].map(|key| rule.get(key)) {
        for label in label.captures_iter(text).filter(|label| !left.contains(&label[1])) {
            complaints.push(format!("{}: its {} is empty", rule.name(), &label[0]));
        }
    }
    complaints
}

#[test]
fn every_metric_and_label_of_the_rules_is_on_the_page_of_a_running_daemon() {
    let mut known = series_of_running_daemons();
    // Prometheus has this one of each target.
    known.insert("up".to_owned(), BTreeSet::new());
    let rules = rules(&text(RULES));
    assert!(rules.iter().filter(|rule| rule.is_alert()).count() > 20, "{rules:?}");
    let complaints: Vec<String> = rules.iter().flat_map(|rule| complaints(rule, &mut known)).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn a_rule_that_names_what_no_daemon_has_is_found() {
    let alert = |expression: &str| {
        rules(&format!(
            "      - alert: Any\n        expr: >-\n          {expression}\n        annotations:\n          summary: Of {{{{ $labels.limit }}}}\n          description: d\n"
        ))
    };
    let known = || {
        let labels = ["limit", "decision"].map(str::to_owned);
        Series::from([("tidegate_decisions_total".to_owned(), BTreeSet::from(labels))])
    };
    for (expression, complaint) in [
        (r#"rate(tidegate_decisions_total{decision="refuse"}[5m]) > 0.5"#, ""),
        ("rate(tidegate_decision_total[5m]) > 0", "Any: no metric tidegate_decision_total"),
        (r#"tidegate_decisions_total{cause="x"} > 0"#, "Any: tidegate_decisions_total has no label cause"),
        (r#"tidegate_decisions_total{decision="deny"} > 0"#, "Any: decision is never deny"),
        ("sum by (cause, limit) (tidegate_decisions_total)", "Any: no metric in it has the label cause"),
        ("sum by (decision) (tidegate_decisions_total)", "Any: its $labels.limit is empty"),
    ] {
        let rules = alert(expression);
        assert_eq!(rules.len(), 1);
        let found = complaints(&rules[0], &mut known());
        assert_eq!(found.first().map_or("", String::as_str), complaint, "{expression}");
    }
}

#[test]
fn every_alert_has_a_severity_a_time_a_section_of_a_runbook_and_a_row_in_the_document() {
    let page = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let document = page(ALERTS);
    let rules = rules(&text(RULES));
    let alerts: Vec<&Rule> = rules.iter().filter(|rule| rule.is_alert()).collect();
    let rows = document.lines().filter(|line| line.starts_with("| `Tidegate")).count();
    assert_eq!(rows, alerts.len(), "{ALERTS} has rows of other alerts");
    for alert in alerts {
        let (name, severity) = (alert.name(), alert.get("severity"));
        assert!(["page", "ticket"].contains(&severity), "{name}: {severity}");
        assert!(!alert.get("for").is_empty() && alert.get("summary").ends_with('.'), "{name}");
        let (path, anchor) = alert
            .get("runbook_url")
            .strip_prefix(REPOSITORY)
            .and_then(|place| place.split_once('#'))
            .unwrap_or_else(|| panic!("{name}: runbook_url names a section of a page in {REPOSITORY}"));
        assert!(anchors(&page(path)).iter().any(|known| known == anchor), "{name}: {path} has no #{anchor}");
        let start = format!("| `{name}` | {severity} |");
        let row = document.lines().find(|line| line.starts_with(&start));
        let row = row.unwrap_or_else(|| panic!("{ALERTS} has no row that begins with {start}"));
        let link = format!("(../../{path}#{anchor})");
        assert!(row.contains(&link), "{name}: the row has no link {link}");
    }
}

#[test]
fn every_alert_has_a_unit_test_that_fires_and_one_that_stays_silent() {
    let rules = rules(&text(RULES));
    let file = text(UNIT_TESTS);
    for rule in rules.iter().filter(|rule| !rule.is_alert()) {
        assert!(file.contains(&format!("'{}{{", rule.name())), "no value of {} is expected", rule.name());
    }
    let cases = |silent: bool| -> BTreeSet<&str> {
        let cases = file.split("        alertname: ").skip(1).filter_map(|case| case.split_once('\n'));
        let cases = cases.filter(|(_, rest)| rest.starts_with("        exp_alerts: []") == silent);
        cases.map(|(name, _)| name).collect()
    };
    let alerts: BTreeSet<&str> = rules.iter().filter(|rule| rule.is_alert()).map(Rule::name).collect();
    assert_eq!(cases(false), alerts, "alerts that fire");
    assert_eq!(cases(true), alerts, "alerts that stay silent");
}

#[test]
fn promtool_reads_the_rules_and_their_unit_tests_pass() {
    let test = "promtool_reads_the_rules_and_their_unit_tests_pass";
    let fetched = || fetched_or_skip("prometheus", "usr/bin/promtool", test);
    let Some(promtool) = find_program("promtool").or_else(fetched) else { return };
    for (command, file) in [("check", RULES), ("test", UNIT_TESTS)] {
        let output = Command::new(&promtool).args([command, "rules"]).arg(deploy(file)).output().unwrap();
        let said = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat();
        assert!(output.status.success(), "promtool {command} rules: {said}");
    }
}
