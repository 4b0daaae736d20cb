use super::{Tally, TestOutput};

fn count(output: &str, succeeded: bool) -> Tally {
    let mut reader = TestOutput::default();
    output.lines().for_each(|line| reader.read(line));
    reader.finish(succeeded)
}

const TWO_BINARIES: &str = "
running 3 tests
test one ... ok
test two ... ok
test three ... ignored

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

   Doc-tests tidegate

running 1 test
test crates/tidegate-core/src/rate.rs - rate::Rate (line 10) ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 4 filtered out; finished in 0.31s
";

#[test]
fn binaries_are_summed_and_ignored_tests_are_skipped() {
    assert_eq!(count(TWO_BINARIES, true), Tally { passed: 3, failed: 0, skipped: 1 });
}

#[test]
fn a_failed_test_counts_once_although_the_whole_run_failed_too() {
    let output = "running 2 tests\n\
        test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s";
    assert_eq!(count(output, false), Tally { passed: 1, failed: 1, skipped: 0 });
}

#[test]
fn a_binary_that_dies_before_its_result_counts_as_one_failure() {
    let output = format!("{TWO_BINARIES}\nrunning 7 tests\ntest a ... ok\n");
    assert_eq!(count(&output, false), Tally { passed: 3, failed: 1, skipped: 1 });

    let beside_a_failure = output.replace("2 passed; 0 failed", "1 passed; 1 failed");
    assert_eq!(count(&beside_a_failure, false), Tally { passed: 2, failed: 2, skipped: 1 });
}

#[test]
fn a_run_that_fails_without_a_failed_test_counts_as_one_failure() {
    assert_eq!(count(TWO_BINARIES, false), Tally { passed: 3, failed: 1, skipped: 1 });
    assert_eq!(count("error: could not compile `tidegate`", false), Tally::FAILED);
}

#[test]
fn a_run_of_no_test_is_a_failure_although_cargo_succeeded() {
    let output = "running 0 tests\n\
        test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 12 filtered out; finished in 0.00s";
    assert_eq!(count(output, true), Tally::FAILED);
    assert_eq!(count("", true), Tally::FAILED);
}

#[test]
fn a_program_without_tests_is_known_from_one_that_died() {
    let is_without_tests = |output: &str| {
        let mut reader = TestOutput::default();
        output.lines().for_each(|line| reader.read(line));
        reader.is_without_tests()
    };
    let empty = "running 0 tests\ntest result: ok. 0 passed; 0 failed; 0 ignored";
    assert!(is_without_tests(empty));
    for other in ["", "running 0 tests", TWO_BINARIES, &format!("{empty}\nrunning 1 test")] {
        assert!(!is_without_tests(other), "{other}");
    }
}

#[test]
fn a_test_that_says_skipped_is_not_counted_as_passed() {
    let output = "running 2 tests\nskipped: wrk is not installed\ntest under_load ... ok\ntest alone ... ok\n\
        test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s";
    assert_eq!(count(output, true), Tally { passed: 1, failed: 0, skipped: 1 });

    let with_one_thread = output.replace("skipped:", "test under_load ... skipped:");
    assert_eq!(count(&with_one_thread, true), Tally { passed: 1, failed: 0, skipped: 1 });
}

#[test]
fn a_result_in_colour_is_read_too() {
    let output =
        "test result: \u{1b}[32mok\u{1b}[0m. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out";
    assert_eq!(count(output, true), Tally { passed: 12, failed: 0, skipped: 1 });
}

#[test]
fn the_last_line_has_its_plain_form() {
    assert_eq!(Tally { passed: 10, failed: 0, skipped: 2 }.to_string(), "10 passed, 0 failed, 2 skipped");
}
