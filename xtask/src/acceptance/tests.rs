use std::fs;
use std::process::Command;
use std::time::Duration;

use tidegate_test_support::TemporaryFolder;

use super::figures::Figures;
use super::part::PartKind;
use super::suites::Expectation;
use super::*;
use crate::checkout;

fn figures(lines: &[&str]) -> Figures {
    let mut figures = Figures::default();
    for line in lines {
        figures.read(line);
    }
    figures
}

#[test]
fn every_suite_is_listed_with_its_time_and_has_its_place_in_the_page() {
    let text = list();
    let page = fs::read_to_string(checkout::root().join(page::PAGE)).unwrap();
    for suite in SUITES {
        assert!(
            text.contains(&format!("  {:<13}{:<17}{}\n", suite.name, suite.takes, suite.about)),
            "{text}"
        );
        assert!(page.contains(&format!("| `{}` |", suite.name)), "{}", suite.name);
        assert!(page::replaced(&page, suite.name, "").is_some(), "{} has no markers", suite.name);
    }
}

#[test]
fn a_suite_that_does_not_exist_is_not_run_and_neither_is_one_with_unknown_options() {
    assert_eq!(run(&["no-such-suite"]), None);
    assert_eq!(run(&["fleet", "--frsh"]), Some(false));
    assert_eq!(Options::read(&["--fresh"]), Ok(Options { is_fresh: true, is_so_far: false }));
}

#[test]
fn the_package_of_the_suites_is_in_the_workspace_and_never_published() {
    let members = crate::workspace::members().unwrap();
    let member = members.iter().find(|member| member.name == daemon::PACKAGE);
    assert!(member.is_some_and(|member| !member.is_published), "{}", daemon::PACKAGE);
}

#[test]
fn the_parts_of_a_suite_have_names_of_their_own_and_the_seeds_are_all_there() {
    for suite in SUITES {
        let SuiteKind::Parted(parted) = &suite.kind else { continue };
        let parts = (parted.parts)().unwrap();
        let mut names: Vec<_> = parts.iter().map(|part| part.name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!((names.len(), parts.is_empty()), (parts.len(), false), "{}", suite.name);
        if suite.name == "fleet" {
            assert_eq!((parts[0].name.as_str(), parts[39].name.as_str()), ("0..250", "9750..10000"));
        }
    }
}

#[test]
fn rows_of_one_name_are_added_up_whatever_stands_before_them() {
    let all = figures(&[
        "running 2 tests",
        "test a ... acceptance: leased | seeds=62 decisions=99000 violated=0",
        "acceptance: leased | seeds=63 decisions=1000 violated=1",
        "acceptance: exact | seeds=63",
        "acceptance: nothing",
    ]);
    assert_eq!(
        all.table(),
        "|  | seeds | decisions | violated |\n| --- | --- | --- | --- |\n| exact | 63 |  |  |\n| leased | 125 | \
         100 000 | 1 |\n"
    );
    let kept = serde_json::to_string(&all).unwrap();
    assert_eq!(serde_json::from_str::<Figures>(&kept).unwrap(), all);
    assert_eq!(
        Figures::sum([&all, &all]).column("seeds").collect::<Vec<_>>(),
        [("exact", 126), ("leased", 250)]
    );
    assert_eq!(Expectation::Zero("violated").violations(&all), ["leased: violated is 1"]);
    assert_eq!(Expectation::NotZero("violated").violations(&all), [""; 0]);
    let missed = figures(&["acceptance: A by b | found=0"]);
    assert_eq!(Expectation::NotZero("found").violations(&missed), ["A by b: found is 0"]);
}

#[test]
fn a_part_fails_when_its_command_fails_and_when_nothing_ran() {
    let part = |kind| Part { name: "one".to_owned(), kind, command: Box::new(|| Command::new("true")) };
    let tests = part(PartKind::Tests);
    let ok = "test result: ok. 4 passed; 0 failed; 0 ignored";
    assert_eq!(tests.read([ok].into_iter(), true).unwrap().table().lines().last(), Some("| one | 4 |"));
    assert!(tests.read([ok].into_iter(), false).is_err());
    assert!(tests.read(["test result: ok. 0 passed; 0 failed"].into_iter(), true).is_err());
    let fuzzing = part(PartKind::Fuzzing { target: "resp" });
    let done = "Done 1078859 runs in 601 second(s)";
    let read = fuzzing.read([done].into_iter(), true).unwrap();
    assert_eq!(read.column("inputs").collect::<Vec<_>>(), [("resp", 1_078_859)]);
    assert!(fuzzing.read([].into_iter(), true).is_err());
}

#[test]
fn progress_outlives_the_process_and_a_damaged_file_says_what_to_do() {
    let folder = TemporaryFolder::new();
    let file = folder.join("fleet-1.json");
    let row = figures(&["acceptance: leased | seeds=250"]);
    let mut first = Progress::open(file.clone()).unwrap();
    first.finish("0..250", Duration::from_millis(2500), row.clone()).unwrap();
    first.finish("250..500", Duration::from_millis(1500), row.clone()).unwrap();
    let mut second = Progress::open(file.clone()).unwrap();
    assert!(second.has("0..250") && !second.has("500..750"));
    assert_eq!((second.count(), second.took()), (2, Duration::from_secs(4)));
    assert_eq!(second.figures().column("seeds").collect::<Vec<_>>(), [("leased", 500)]);
    second.keep_only(&["250..500"]);
    assert_eq!(second.count(), 1);
    fs::write(&file, "{\"0..250\":").unwrap();
    let error = Progress::open(file.clone()).unwrap_err();
    assert!(error.contains("--fresh"), "{error}");
    assert_eq!(Progress::new(file).count(), 0);
}

#[test]
fn a_command_is_watched_and_its_output_kept_also_when_it_fails() {
    let folder = TemporaryFolder::new();
    let log = folder.join("log");
    let mut command = Command::new("sh");
    command.args(["-c", "echo one; echo two >&2; sleep 0.3; exit 3"]);
    let mut told = 0;
    let output = watched::run_every(Duration::from_millis(50), &mut command, &log, |_| told += 1).unwrap();
    let mut lines = output.lines.clone();
    lines.sort_unstable();
    assert_eq!((lines, output.succeeded), (vec!["one".to_owned(), "two".to_owned()], false));
    assert!(told >= 2, "{told} lines in 0.3 s");
    assert_eq!(fs::read_to_string(log).unwrap().lines().count(), 2);
}

#[test]
fn the_table_replaces_what_stood_between_the_markers_and_nothing_else() {
    let (begin, end) = (page::begin("fleet"), page::end("fleet"));
    let page = format!("# Page\n\n{begin}\nold\n{end}\n\nafter\n");
    let replaced = page::replaced(&page, "fleet", "new\n").unwrap();
    assert_eq!(replaced, format!("# Page\n\n{begin}\n\nnew\n\n{end}\n\nafter\n"));
    assert_eq!(page::replaced(&replaced, "fleet", "new\n"), Some(replaced.clone()));
    assert_eq!(page::replaced(&page, "model", ""), None);
}

#[test]
fn the_last_pass_is_the_first_paragraph_between_the_markers() {
    let page = format!("# Page\n\n{}\n{}\n", page::begin("fleet"), page::end("fleet"));
    assert_eq!(page::last_pass(&page, "fleet"), None);
    let passed =
        page::replaced(&page, "fleet", "revision a, 2026-01-02:\n4 parts.\n\n| a | table |").unwrap();
    assert_eq!(page::last_pass(&passed, "fleet").as_deref(), Some("revision a, 2026-01-02: 4 parts."));
    for Suite { name, .. } in SUITES {
        assert!(last_passes().contains(&format!("\n  {name:<10}")), "{name}");
    }
}

#[test]
fn times_and_systems_are_shown_as_people_read_them() {
    let shown = [59, 60, 3599, 3600, 90_061].map(|seconds| in_words(Duration::from_secs(seconds)));
    assert_eq!(page::shortened("Linux 6.18.44-generic"), "Linux 6.18");
    assert_eq!(page::shortened("windows"), "windows");
    assert_eq!(shown, ["59 s", "1 min 0 s", "59 min 59 s", "1 h 0 min", "25 h 1 min"]);
}
