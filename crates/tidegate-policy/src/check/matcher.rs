//! Compiles the matchers of attributes.

use tidegate_core::Matcher;
use tidegate_core::matcher::MatcherError;

use super::path_expression::{glob_of, is_expression};
use crate::path::Path;
use crate::printable::shown;
use crate::problem::Report;
use crate::raw::matcher::{MatcherConfig, MatcherForm, TextOrTexts};

/// The matcher in `raw`; `None` where something in it is wrong.
pub(super) fn matcher(raw: &MatcherConfig, path: &Path, report: &mut Report<'_>) -> Option<Matcher> {
    match raw {
        MatcherConfig::Exact(text) => Some(Matcher::exact(text.as_str())),
        MatcherConfig::OneOf(texts) => one_of(texts, path, report),
        MatcherConfig::Form(form) => form_matcher(form, path, report),
    }
}

/// The problem of a plain value that is certainly meant as a pattern of paths.
pub(super) fn pattern_as_text(raw: &MatcherConfig) -> Option<(String, String)> {
    let MatcherConfig::Exact(text) = raw else { return None };
    let glob = if is_expression(text) {
        glob_of(text)
    } else if text.starts_with('/') && text.contains('*') {
        Some(text.clone())
    } else {
        return None;
    };
    let fix = match glob {
        Some(glob) => format!("write {{ glob: \"{}\" }}", shown(&glob)),
        None if text.starts_with("^/") => format!("write {{ regex: '{}' }}", shown(text)),
        None => return None,
    };
    Some((format!("\"{}\" is compared as plain text, and not as a pattern", shown(text)), fix))
}

/// Whether `raw` holds only for requests that lack the attribute.
pub(super) fn wants_absence(raw: &MatcherConfig) -> bool {
    matches!(raw, MatcherConfig::Form(form) if form.present == Some(false))
}

/// Whether `raw` wants the attribute to be missing and to have a value.
pub(super) fn contradicts_itself(raw: &MatcherConfig) -> bool {
    match raw {
        MatcherConfig::Form(form) => form.present == Some(false) && wants_value(form),
        MatcherConfig::Exact(_) | MatcherConfig::OneOf(_) => false,
    }
}

fn wants_value(form: &MatcherForm) -> bool {
    form.exact.is_some()
        || form.one_of.is_some()
        || form.prefix.is_some()
        || form.suffix.is_some()
        || form.glob.is_some()
        || form.regex.is_some()
        || form.cidr.is_some()
}

fn one_of(texts: &[String], path: &Path, report: &mut Report<'_>) -> Option<Matcher> {
    if texts.is_empty() {
        report.value(path, "an empty list matches nothing", "list the values that match");
        return None;
    }
    Some(Matcher::one_of(texts.iter().map(String::as_str)))
}

fn networks(texts: &TextOrTexts, path: &Path, report: &mut Report<'_>) -> Option<Matcher> {
    let mut network =
        |text: &str, path: &Path| Matcher::cidr(text).map_err(|error| report.error(path, &error)).ok();
    match texts {
        TextOrTexts::One(text) => network(text, path),
        TextOrTexts::List(texts) if texts.is_empty() => {
            report.value(path, "an empty list matches nothing", "list the networks that match");
            None
        }
        TextOrTexts::List(texts) => {
            let all = texts.iter().enumerate().map(|(index, text)| network(text, &path.index(index)));
            let all: Vec<Option<Matcher>> = all.collect();
            all.into_iter().collect::<Option<Vec<Matcher>>>().map(Matcher::any)
        }
    }
}

fn form_matcher(form: &MatcherForm, path: &Path, report: &mut Report<'_>) -> Option<Matcher> {
    if !wants_value(form) && form.present.is_none() && form.not.is_none() {
        report.value(
            path,
            "an empty form matches everything",
            "say what the value must look like, or remove it",
        );
        return None;
    }
    // `None` for what is wrong, so that nothing is built from a part of what was meant.
    let mut all: Vec<Option<Matcher>> = Vec::new();
    all.extend(form.exact.as_deref().map(|text| Some(Matcher::exact(text))));
    all.extend(form.one_of.as_ref().map(|texts| one_of(texts, &path.key("one_of"), report)));
    all.extend(form.prefix.as_deref().map(|text| Some(Matcher::prefix(text))));
    all.extend(form.suffix.as_deref().map(|text| Some(Matcher::suffix(text))));
    let mut compiled = |name: &str, made: Result<Matcher, MatcherError>| {
        made.map_err(|error| report.error(&path.key(name), &error)).ok()
    };
    all.extend(form.glob.as_deref().map(|pattern| compiled("glob", Matcher::glob(pattern))));
    all.extend(form.regex.as_deref().map(|pattern| compiled("regex", Matcher::regex(pattern))));
    all.extend(form.cidr.as_ref().map(|texts| networks(texts, &path.key("cidr"), report)));
    all.extend(
        form.present.map(|present| Some(if present { Matcher::present() } else { Matcher::absent() })),
    );
    all.extend(form.not.as_ref().map(|inner| matcher(inner, &path.key("not"), report).map(Matcher::not)));
    let mut all: Vec<Matcher> = all.into_iter().collect::<Option<_>>()?;
    match all.len() {
        1 => all.pop(),
        _ => Some(Matcher::all(all)),
    }
}
