//! What is said of a file: lines, each with its place in the file, what is wrong and what to do.

use tidegate_policy::{PROBLEMS_MAX, Problem, Problems};

/// What is wrong with a file that is refused; at least something is.
pub(crate) fn assert_refused(problems: &Problems, file: &[u8]) {
    assert!(!problems.problems.is_empty(), "refused, and nothing is said to be wrong");
    assert_told(&problems.problems, file);
}

/// What is said of one file.
pub(crate) fn assert_told(problems: &[Problem], file: &[u8]) {
    assert!(problems.len() <= PROBLEMS_MAX, "{} problems", problems.len());
    // What stands at the end of a file without a line end is told on the line behind it.
    let lines = String::from_utf8_lossy(file).split(['\n', '\r']).count() + 1;
    for problem in problems {
        assert!((1..=lines).contains(&problem.line) && problem.column >= 1, "no such place: {problem:?}");
        assert!(!problem.what.is_empty() && !problem.fix.is_empty(), "nothing is said: {problem:?}");
        assert!(!problem.to_string().contains(['\n', '\r']), "more than a line: {problem:?}");
    }
}
