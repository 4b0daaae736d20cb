//! Every block of code in a document is run, compiled or checked, or says why it is not.
//!
//! A page is one script: its blocks of shell run one after the other in one shell, in an empty
//! folder, on ports of their own. Lines before a fence and comments between blocks tell the rest:
//!
//! | comment | meaning |
//! |---|---|
//! | `<!-- file: NAME -->` | the block is a file of that name in the folder |
//! | `<!-- of NAME -->` | the block belongs to another program, or to a policy that is checked as a whole |
//! | `<!-- of NAME, file: FILE -->` | the block is a file of another program |
//! | `<!-- not run: REASON -->` | the block is shown and not run |
//! | `<!-- numbers differ: REASON -->` | the block is an output whose numbers depend on the speed of the machine |
//! | `<!-- rest differs: REASON -->` | the block is an output of which only the first line is the same in every run, but for numbers |
//! | `<!-- setup: LINES -->` | lines of shell that a reader has behind them and the page does not show |
//!
//! A block of text, JSON or HTTP that follows a block of shell is the whole output of that block,
//! but for `[...]`. Instants, spans of time and names that are drawn differ in every run and are
//! not compared, and neither is white space. A block of shell without an output has to succeed.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use regex::Regex;
use tidegate_test_support::{TemporaryFolder, free_port};

use super::{Block, documents, root};

/// Pages that have tests of their own, which run their blocks.
const TESTED_ELSEWHERE: [&str; 3] = [super::recipes::PAGES[0], super::recipes::PAGES[1], "docs/migration.md"];

/// Pages that run at the same time: most of them wait.
const PAGES_AT_ONCE: usize = 4;

/// Ports of the pages. The test takes free ones in their place.
const PORTS: [&str; 13] =
    ["8080", "8081", "8082", "8083", "8000", "8443", "6379", "6380", "6390", "3000", "3001", "18180", "8001"];

/// Programs that a page may need and a machine may lack.
const PROGRAMS: [&str; 4] = ["redis-server", "redis-cli", "python3", "node"];

/// In place of the command, so that the pages keep the default port and the test does not.
const WRAPPER: &str = r#"#!/bin/sh
case "$*" in
  serve*--upstream*) exec "$TIDEGATE" "$@" --listen "127.0.0.1:$PORT" --proxy "127.0.0.1:$PROXY_PORT" ;;
  serve*--listen*|*--at*|*--config*|validate*|simulate*|--version*|token*|schema*|reference*|completions*|man*)
    exec "$TIDEGATE" "$@" ;;
  serve*) exec "$TIDEGATE" "$@" --listen "127.0.0.1:$PORT" ;;
  *) exec "$TIDEGATE" "$@" --at "http://127.0.0.1:$PORT" ;;
esac
"#;

/// Said by every script before its first block.
const PRELUDE: &str = "
exec 2>&1
# Without a terminal curl would draw a progress bar.
curl() { command curl -s \"$@\"; }
trap 'kill $(jobs -p) 2> /dev/null' EXIT
";

/// Printed around what a step prints.
const BEGIN: &str = "<<< a step begins >>>";
const END: &str = "<<< a step ends >>>";

/// A part of a page, in its order.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    File { name: String, text: String },
    Setup(String),
    Step(Step),
}

/// A block of shell.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    line: usize,
    script: String,
    /// The output that the page shows.
    output: Option<String>,
    /// How the output is compared.
    comparison: Comparison,
}

/// The part of an output that is the same in every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    All,
    /// The numbers depend on the speed of the machine.
    AllButNumbers,
    /// The first line without its numbers.
    FirstLine,
}

/// The meaning of a comment in the line before a fence.
#[derive(Debug, PartialEq, Eq)]
enum Marker<'d> {
    None,
    File(&'d str),
    NotRun,
    Output(Comparison),
    /// A comment of this kind without a reason.
    Empty,
}

impl<'d> Marker<'d> {
    fn of(line: &'d str) -> Self {
        let Some(comment) = line.trim().strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"))
        else {
            return Self::None;
        };
        match comment.split_once(": ") {
            Some(("file", name)) => Self::File(name),
            Some(("not run", reason)) if is_reason(reason) => Self::NotRun,
            Some(("numbers differ", reason)) if is_reason(reason) => Self::Output(Comparison::AllButNumbers),
            Some(("rest differs", reason)) if is_reason(reason) => Self::Output(Comparison::FirstLine),
            Some(("not run" | "numbers differ" | "rest differs", _)) => Self::Empty,
            Some((program, name)) if program.starts_with("of ") && program.ends_with(", file") => {
                Self::File(name)
            }
            _ if comment.starts_with("of ") => Self::NotRun,
            _ => Self::None,
        }
    }
}

fn is_reason(text: &str) -> bool {
    text.split(' ').count() >= 3
}

/// A part of a document between its prose.
#[derive(Debug)]
enum Item<'d> {
    Block(Block<'d>),
    Setup(String),
}

/// The blocks and setups of a document in their order, without the indentation of their fences.
fn items(document: &str) -> Vec<Item<'_>> {
    let mut items = Vec::new();
    let mut open: Option<(usize, Block<'_>)> = None;
    let mut setup: Option<String> = None;
    let mut before = "";
    for (index, line) in document.lines().enumerate() {
        let inner = line.trim_start();
        if let Some(text) = &mut setup {
            if inner.starts_with("-->") {
                items.push(Item::Setup(setup.take().unwrap()));
            } else {
                text.extend([line, "\n"]);
            }
        } else if let Some((indentation, block)) = &mut open {
            if inner.starts_with("```") {
                items.push(Item::Block(open.take().unwrap().1));
            } else {
                let margin = line.len().min(*indentation);
                block
                    .text
                    .extend([if line[..margin].trim().is_empty() { &line[margin..] } else { line }, "\n"]);
            }
        } else if inner == "<!-- setup:" {
            setup = Some(String::new());
        } else if let Some(language) = inner.strip_prefix("```") {
            let block = Block { line: index + 1, language, before, text: String::new() };
            open = Some((line.len() - inner.len(), block));
        }
        before = line;
    }
    assert!(open.is_none() && setup.is_none(), "a block or a setup is not closed");
    items
}

/// The parts of a page that run, and the lines of the blocks that are neither run, compiled nor
/// checked and do not say why.
pub(super) fn parts(document: &str, is_compiled: impl Fn(&str) -> bool) -> (Vec<Part>, Vec<String>) {
    let (mut parts, mut unclear): (Vec<Part>, Vec<String>) = (Vec::new(), Vec::new());
    let mut follows_step = false;
    for item in items(document) {
        let Block { line, language, before, text } = match item {
            Item::Setup(lines) => {
                parts.push(Part::Setup(lines));
                continue;
            }
            Item::Block(block) => block,
        };
        let language = language.split(',').next().unwrap_or(language);
        let shows_output = std::mem::replace(&mut follows_step, false);
        match (Marker::of(before), language) {
            (Marker::File(name), _) => parts.push(Part::File { name: name.to_owned(), text }),
            (Marker::NotRun, _) | (Marker::None, "yaml") => {}
            (Marker::None, "rust") if is_compiled(&text) => {}
            (Marker::None, "sh") => {
                follows_step = true;
                parts.push(Part::Step(Step {
                    line,
                    script: text,
                    output: None,
                    comparison: Comparison::All,
                }));
            }
            (marker @ (Marker::None | Marker::Output(_)), "text" | "json" | "http") if shows_output => {
                if let Some(Part::Step(step)) = parts.last_mut() {
                    step.output = Some(text);
                    if let Marker::Output(comparison) = marker {
                        step.comparison = comparison;
                    }
                }
            }
            _ => unclear.push(format!("{line}: {language}")),
        }
    }
    (parts, unclear)
}

/// The programs in the documents that are compiled as examples of a crate.
fn compiled_programs() -> Vec<String> {
    let mut programs = Vec::new();
    for folder in std::fs::read_dir(root().join("crates")).unwrap() {
        let source = folder.unwrap().path().join("src");
        let Ok(text) = std::fs::read_to_string(source.join("lib.rs")) else { continue };
        for after in text.split("#[doc = include_str!(\"").skip(1) {
            let page = std::fs::read_to_string(source.join(after.split('"').next().unwrap())).unwrap();
            programs.extend(items(&page).into_iter().filter_map(|item| match item {
                Item::Block(block) if block.language.starts_with("rust") => Some(block.text),
                _ => None,
            }));
        }
    }
    programs
}

/// The parts of an output that differ between two runs of a block, each with its stand-in.
fn variations() -> Vec<(Regex, &'static str)> {
    let all = [
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
        (r"\d{4}-\d\d-\d\d\s+\d\d:\d\d", "DATE"),
        // The day is named where it is not this one.
        (r"\b\d{1,2} [A-Z][a-z]{2}, (\d\d:\d\d)", "$1"),
        (r"\b([0-9a-f]{32}|[0-9a-f]{16})\b", "ID"),
        (r#""id":"[0-9a-f]{8}""#, "\"id\":ID"),
        (r#""(\w+_(?:ms|us|per_s))":[\d.]+"#, "\"$1\":N"),
        (r"\b(retry-after: |;t=|process )\d+", "${1}N"),
        (r";t=\d+", ";t=N"),
        (r"\b\d+(\.\d+)? (ns|us|ms|s|min|h|d|days?)\b( \d+ (ms|s|min|h)\b)?", "SPAN"),
        (r#""\d+(\.\d+)?s""#, "\"SPAN\""),
        // The marker of a store in Redis.
        (r"ID\.\d+\.(ID|\d+)\.", "MARKER."),
        // Twice, as two numbers share the space between them.
        (r"(^|[^\d.])\d+\.\d+([^\d.]|$)", "${1}X${2}"),
        (r"(^|[^\d.])\d+\.\d+([^\d.]|$)", "${1}X${2}"),
        (r"\s", ""),
    ];
    all.map(|(pattern, stands)| (Regex::new(pattern).unwrap(), stands)).to_vec()
}

/// A text without what differs between two runs.
fn settled(text: &str, variations: &[(Regex, &'static str)]) -> String {
    variations
        .iter()
        .fold(text.to_owned(), |text, (pattern, stands)| pattern.replace_all(&text, *stands).into_owned())
}

/// Whether `printed` is as a page shows it, where `[...]` stands for anything.
fn is_shown(shown: &str, printed: &str, comparison: Comparison) -> bool {
    let mut variations = variations();
    let (mut shown, mut printed) = (shown, printed);
    match comparison {
        Comparison::All => {}
        Comparison::AllButNumbers => variations.push((Regex::new(r"\d+").unwrap(), "N")),
        Comparison::FirstLine => {
            variations.push((Regex::new(r"\d+").unwrap(), "N"));
            [shown, printed] = [shown, printed].map(|text| text.lines().next().unwrap_or_default());
        }
    }
    let printed = settled(printed, &variations);
    let parts: Vec<String> = shown.split("[...]").map(|part| settled(part, &variations)).collect();
    let (first, rest) = parts.split_first().unwrap();
    let Some(mut left) = printed.strip_prefix(first.as_str()) else { return false };
    let Some((last, middle)) = rest.split_last() else { return left.is_empty() };
    for part in middle {
        let Some((_, behind)) = left.split_once(part.as_str()) else { return false };
        left = behind;
    }
    left.ends_with(last.as_str())
}

/// A port of the pages, and the free one that the test has in its place. Both are found only where
/// they stand alone: a permit's digits may contain those of a port.
struct Port {
    default: &'static str,
    found_in_page: Regex,
    free: String,
    found_in_output: Regex,
}

impl Port {
    fn new(default: &'static str, free: u16) -> Self {
        let alone = |port: &str| Regex::new(&format!(r"\b{port}\b")).unwrap();
        let free = free.to_string();
        Self { default, found_in_page: alone(default), found_in_output: alone(&free), free }
    }
}

/// A page with the ports that it has during the test.
struct Stage {
    folder: TemporaryFolder,
    ports: Vec<Port>,
}

impl Stage {
    fn new() -> Self {
        let folder = TemporaryFolder::new();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir(path("bin")).unwrap();
        std::fs::create_dir(path("page")).unwrap();
        std::fs::write(path("bin/tidegate"), WRAPPER).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(path("bin/tidegate"), executable).unwrap();
        // Reserved: a daemon that a page stops and starts again finds its port free, and no page
        // talks to a server of another test.
        let ports = PORTS.iter().map(|default| Port::new(default, free_port()));
        Self { ports: ports.collect(), folder }
    }

    fn page(&self) -> PathBuf {
        self.folder.path().join("page")
    }

    /// A text of the page as the test runs it.
    fn staged(&self, text: &str) -> String {
        let page = self.page().display().to_string();
        let moved = text.replace("/tmp/first-hour", &self.page().join("work").display().to_string());
        let moved = moved.replace("/etc/tidegate", &page).replace("/var/lib/tidegate", &page);
        self.ports
            .iter()
            .fold(moved, |text, port| port.found_in_page.replace_all(&text, port.free.as_str()).into_owned())
    }

    /// An output of the test as the page shows it.
    fn unstaged(&self, text: &str) -> String {
        let work = self.page().join("work").display().to_string();
        let text = text.replace(&work, "/tmp/first-hour").replace(&self.page().display().to_string(), ".");
        self.ports
            .iter()
            .fold(text, |text, port| port.found_in_output.replace_all(&text, port.default).into_owned())
    }
}

/// Runs a page; a complaint for each step that fails or prints something else, by its line.
fn run(parts: &[Part]) -> Vec<String> {
    run_with(parts, &[])
}

/// The same with programs that are not in `PATH`, each with its name.
pub(super) fn run_with(parts: &[Part], programs: &[(&str, &Path)]) -> Vec<String> {
    let stage = Stage::new();
    for (name, program) in programs {
        std::os::unix::fs::symlink(program, stage.folder.path().join("bin").join(name)).unwrap();
    }
    let mut script = PRELUDE.to_owned();
    let mut steps = Vec::new();
    for part in parts {
        match part {
            Part::File { name, text } => {
                std::fs::write(stage.page().join(name), stage.staged(text)).unwrap();
            }
            Part::Setup(lines) => script.extend(["{\n", lines, "} > /dev/null 2>&1\n"]),
            Part::Step(step) => {
                steps.push(step);
                script.extend(["failed=\nprintf %s '", BEGIN, "'\n"]);
                // A step with an output may fail: that is a part of what the page shows. Programs
                // that a step without an output leaves running print into no later step.
                if step.output.is_none() {
                    script.extend(["trap 'failed=\"$failed $BASH_COMMAND;\"' ERR\n{\n", &step.script]);
                    let printed = format!("\"$HOME/../printed-{}\"", step.line);
                    script.extend(["\n} > ", &printed, "\ntrap - ERR\ncat ", &printed, "\n"]);
                } else {
                    script.push_str(&step.script);
                }
                script.extend(["echo \"", END, "$failed\"\n"]);
            }
        }
    }
    let search = format!("{}:{}", stage.folder.path().join("bin").display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("timeout");
    command.args(["100", "bash", "-c", &stage.staged(&script)]).current_dir(stage.page());
    command.env("PATH", search).env("HOME", stage.page()).env("PORT", &stage.ports[0].free);
    command.env("PROXY_PORT", &stage.ports[4].free);
    command.env("TIDEGATE", env!("CARGO_BIN_EXE_tidegate")).env("REPOSITORY", root());
    let printed = command.env_remove("TIDEGATE_TOKEN").env_remove("TIDEGATE_LOG").output().unwrap();
    let printed = stage.unstaged(&String::from_utf8_lossy(&printed.stdout));
    let mut outputs = printed.split(BEGIN).skip(1);
    let mut wrong = Vec::new();
    for Step { line, script, output, comparison } in steps {
        let Some((printed, failed)) = outputs.next().and_then(|output| output.split_once(END)) else {
            wrong.push(format!("{line}: the block did not end:\n{script}"));
            break;
        };
        let failed = failed.lines().next().unwrap_or_default();
        match output {
            Some(shown) if !is_shown(shown, printed, *comparison) => {
                wrong.push(format!("{line}: the page shows\n{shown}and the block prints\n{printed}"));
            }
            None if !failed.is_empty() => wrong.push(format!("{line}: failed:{failed}\n{printed}")),
            _ => {}
        }
    }
    wrong
}

/// The program that a page needs and this machine lacks.
fn missing_program(parts: &[Part]) -> Option<&'static str> {
    let names = |program: &str| {
        parts.iter().any(|part| match part {
            Part::File { .. } => false,
            Part::Setup(script) | Part::Step(Step { script, .. }) => script.contains(program),
        })
    };
    PROGRAMS
        .into_iter()
        .find(|program| names(program) && Command::new(program).arg("--version").output().is_err())
}

#[test]
fn every_block_is_run_compiled_or_checked_or_says_why_not() {
    let programs = compiled_programs();
    // A page may leave out the last lines of a program.
    let is_compiled = |text: &str| programs.iter().any(|program| program.starts_with(text));
    let (mut pages, mut wrong) = (Vec::new(), Vec::new());
    for (path, text) in documents() {
        let is_skipped = path.iter().any(|part| part == "fixtures")
            || TESTED_ELSEWHERE.iter().any(|page| path == Path::new(page));
        if is_skipped {
            continue;
        }
        let (parts, unclear) = parts(&text, is_compiled);
        wrong.extend(
            unclear.iter().map(|block| format!("{}:{block}: a block that no test sees", path.display())),
        );
        if parts.iter().any(|part| matches!(part, Part::Step(_))) {
            pages.push((path, parts));
        }
    }
    assert!(wrong.is_empty(), "mark these as `<!-- not run: REASON -->`:\n{}", wrong.join("\n"));
    let selected = std::env::var("TIDEGATE_PAGE").unwrap_or_default();
    pages.retain(|(path, _)| path.to_str().unwrap().contains(&selected));
    assert!(!pages.is_empty(), "no page is called {selected}");
    let count = pages.len();
    let (waiting, wrong) = (Mutex::new(pages), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..PAGES_AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some((path, parts)) = waiting.lock().unwrap().pop() else { break };
                    if let Some(program) = missing_program(&parts) {
                        let line = format!("skipped: {}: {program} is not installed", path.display());
                        let _ = writeln!(std::io::stdout(), "{line}");
                        continue;
                    }
                    let found = run(&parts);
                    let found = found.into_iter().map(|one| format!("{}:{one}", path.display()));
                    wrong.lock().unwrap().extend(found);
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} blocks of {count} pages:\n{}", wrong.len(), wrong.join("\n\n"));
}

#[test]
fn a_block_needs_a_test_or_a_reason() {
    let document = "```sh\na\n```\n```text\nb\n```\n```text\nc\n```\n<!-- not run: it needs a cluster -->\n```sh\nd\n```\n\
        <!-- not run: no -->\n```sh\ne\n```\n<!-- setup:\nf\n-->\n<!-- file: g.yaml -->\n  ```yaml\n  h:\n    i\n  ```\n";
    let (found, unclear) = parts(document, |_| false);
    let step = Step {
        line: 1,
        script: "a\n".to_owned(),
        output: Some("b\n".to_owned()),
        comparison: Comparison::All,
    };
    let file = Part::File { name: "g.yaml".to_owned(), text: "h:\n  i\n".to_owned() };
    assert_eq!(found, [Part::Step(step), Part::Setup("f\n".to_owned()), file]);
    assert_eq!(unclear, ["7: text", "15: sh"]);
    assert_eq!(parts("```rust\nx\n```\n", |_| false).1, ["1: rust"]);
    assert_eq!(parts("```rust,no_run\nx\n```\n", |text| text == "x\n").1, [""; 0]);
}

#[test]
fn an_output_is_compared_but_for_what_differs_between_runs() {
    use Comparison::{All, AllButNumbers, FirstLine};
    assert!(is_shown(
        "come back in 12 s at 2026-11-24T03:07:04.393Z",
        "come back in 1.5 s\n at 2027-01-01T00:00:00Z",
        All
    ));
    assert!(
        is_shown("a [...] c", "a b c", All)
            && is_shown("[...]c", "a b c", All)
            && is_shown("a[...]", "a b c", All)
    );
    assert!(!is_shown("a", "a b", All) && !is_shown("b", "a b", All) && !is_shown("a [...] d", "a b c", All));
    assert!(
        !is_shown("4 of 5 left", "3 of 5 left", All)
            && is_shown("{\"reset_ms\":1000}", "{\n \"reset_ms\":991 }", All)
    );
    assert!(is_shown("PER S 14.2 13.1", "PER S 9.75 1.0", All) && !is_shown("tidegate 1", "tidegate 2", All));
    assert!(
        is_shown("3 of 5 left", "4 of 5 left", AllButNumbers)
            && !is_shown("3 of 5 left", "4 of 5 right", AllButNumbers)
    );
    assert!(is_shown("1 a\nb", "2 a\nc", FirstLine) && !is_shown("a\nb", "b\nb", FirstLine));
}

#[test]
fn a_free_port_is_replaced_where_it_stands_alone_and_not_in_a_permit() {
    let stage = Stage { folder: TemporaryFolder::new(), ports: vec![Port::new("8080", 40_001)] };
    let permit = "permit 0900540001e827efbe8adea639062061";
    assert_eq!(stage.unstaged(permit), permit);
    assert_eq!(stage.unstaged("http://127.0.0.1:40001/v1 -> 40001"), "http://127.0.0.1:8080/v1 -> 8080");
    assert_eq!(stage.staged("curl localhost:8080/80801"), "curl localhost:40001/80801");
}

#[test]
fn a_page_that_shows_something_else_is_found() {
    let step = |script: &str, output: Option<&str>| {
        let output = output.map(str::to_owned);
        Part::Step(Step { line: 1, script: script.to_owned(), output, comparison: Comparison::All })
    };
    assert_eq!(run(&[step("echo a\nfalse\n", Some("a\n")), step("echo b\n", None)]), [""; 0]);
    assert_eq!(run(&[step("echo a\n", Some("b\n"))]), ["1: the page shows\nb\nand the block prints\na\n"]);
    assert_eq!(run(&[step("echo a; false\n", None)]), ["1: failed: false;\na\n"]);
    assert_eq!(run(&[step("exit 0\n", None)]), ["1: the block did not end:\nexit 0\n"]);
    // A program that a step leaves running prints nothing into the next.
    let slow = step("{ sleep 0.2; echo late; } &\n", None);
    assert_eq!(run(&[slow, step("wait\necho b\n", Some("b\n"))]), [""; 0]);
}
