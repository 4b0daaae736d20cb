//! Notes about attributes of a question that no limit looks at: most are misspelt.

use tidegate_policy::nearest;

use crate::arguments::request::Question;
use crate::exit::complain;

/// How many attributes a note names.
const NAMED_MAX: usize = 8;

/// Notes on standard error each attribute of `question` that is not among those that limits of its
/// namespace look at, which `looked_at` says; `None` where that is not known.
pub(crate) fn note(question: &Question, looked_at: impl FnOnce() -> Option<Vec<String>>) {
    if question.attributes.is_empty() {
        return;
    }
    for text in looked_at().iter().flat_map(|looked_at| notes(question, looked_at)) {
        complain(format_args!("note: {text}"));
    }
}

fn notes(question: &Question, looked_at: &[String]) -> Vec<String> {
    let is_given = |name: &str| question.attributes.iter().any(|(given, _)| given == name);
    // An attribute that is given already is no suggestion for another one.
    let mut others: Vec<&str> = looked_at.iter().map(String::as_str).filter(|name| !is_given(name)).collect();
    others.sort_unstable();
    others.dedup();
    let unused = question.attributes.iter().filter(|(name, _)| !looked_at.contains(name));
    let note = |(name, _): &(String, String)| {
        let what = format!("no limit of namespace \"{}\" looks at attribute \"{name}\"", question.namespace);
        match nearest(name, others.iter().copied()) {
            Some(near) => format!("{what}; did you mean {near}?"),
            None if others.is_empty() => what,
            None => {
                let more = if others.len() > NAMED_MAX { ", .." } else { "" };
                let named = &others[..others.len().min(NAMED_MAX)];
                format!("{what}; limits also look at {}{more}", named.join(", "))
            }
        }
    };
    unused.map(note).collect()
}

#[cfg(test)]
mod tests {

    use super::*;

    fn notes_of(given: &[&str], looked_at: &[&str]) -> Vec<String> {
        let question = Question {
            namespace: "api".to_owned(),
            attributes: given.iter().map(|name| ((*name).to_owned(), "x".to_owned())).collect(),
            ..Question::default()
        };
        notes(&question, &looked_at.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn issue_15_an_attribute_that_no_limit_looks_at_is_told_the_one_that_was_meant() {
        const NOTE: &str = "no limit of namespace \"api\" looks at attribute";
        assert_eq!(notes_of(&["user", "op"], &["op", "user", "user"]), Vec::<String>::new());
        assert_eq!(notes_of(&["usr"], &["user", "op"]), [format!("{NOTE} \"usr\"; did you mean user?")]);
        assert_eq!(
            notes_of(&["user", "usr"], &["user", "op"]),
            [format!("{NOTE} \"usr\"; limits also look at op")]
        );
        assert_eq!(notes_of(&["x"], &[]), [format!("{NOTE} \"x\"")]);
        let many: Vec<String> = (0..9).map(|number| format!("attribute{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(notes_of(&["x"], &many)[0].ends_with("attribute6, attribute7, .."));
    }
}
