//! The problems of a file: lines, each with its place in the file, the problem and the fix.

use tidegate_policy::{PROBLEMS_MAX, Problem, Problems};

/// A rejected file has at least one problem.
pub(crate) fn assert_refused(problems: &Problems, file: &[u8]) {
    assert!(!problems.problems.is_empty(), "refused, and nothing is said to be wrong");
    assert_told(&problems.problems, file);
}

/// The problems of one file are bounded, placed inside the file, and one line each.
pub(crate) fn assert_told(problems: &[Problem], file: &[u8]) {
    assert!(problems.len() <= PROBLEMS_MAX, "{} problems", problems.len());
    // A problem at the end of a file without a line end is reported on the next line.
    let lines = String::from_utf8_lossy(file).split(['\n', '\r']).count() + 1;
    for problem in problems {
        assert!((1..=lines).contains(&problem.line) && problem.column >= 1, "no such place: {problem:?}");
        assert!(!problem.what.is_empty() && !problem.fix.is_empty(), "nothing is said: {problem:?}");
        assert!(!problem.to_string().contains(['\n', '\r']), "more than a line: {problem:?}");
    }
}
