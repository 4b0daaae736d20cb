//! The configuration from outside: what is said about files that are wrong, what becomes of files
//! that are right, and that what is published agrees with the types.

mod arbitrary;
mod authorization;
mod claims;
mod compare;
mod decisions;
mod defaults;
mod deferral;
mod documents;
mod envoy;
mod feature_levels;
mod features;
mod grpc;
mod limits;
mod listeners;
mod load_levels;
mod namespace_shares;
mod numbers;
mod planes;
mod plans;
mod problems;
mod proxy;
mod published;
mod queue_waits;
mod renames;
mod resource_warnings;
mod rlqs;
mod section_mismatches;
mod settings;
mod store;
mod streams;
mod warnings;

use tidegate_policy::{Checked, Policy, Problems, parse};

/// Checks `text` as `t.yaml` with a few environment variables.
fn check(text: &str) -> Result<Checked, Problems> {
    parse("t.yaml", text, &|name| match name {
        "PORT" => Some("9090".to_owned()),
        "EMPTY" => Some(String::new()),
        "SECRET" => Some("hunter2".to_owned()),
        _ => None,
    })
}

/// The settings in `text`, which has no problem.
fn settings(text: &str) -> Policy {
    check(text).unwrap_or_else(|problems| panic!("{problems}")).policy
}

/// The lines that are said about `text`, which has problems.
fn problems(text: &str) -> Vec<String> {
    match check(text) {
        Ok(checked) => panic!("no problem in {text}\n{:?}", checked.policy),
        Err(problems) => problems.to_string().lines().map(str::to_owned).collect(),
    }
}

/// The warnings about `text`, which has no problem.
fn warnings(text: &str) -> Vec<String> {
    let checked = check(text).unwrap_or_else(|problems| panic!("{problems}"));
    checked.warnings.iter().map(ToString::to_string).collect()
}

/// A file with one limit, written in flow style from line 1, column 34 on.
fn with_limit(limit: &str) -> String {
    format!("namespaces: {{ api: {{ limits: [ {limit} ] }} }}")
}

/// The problems of a file with one limit, without the common beginning of each line.
fn limit_problems(limit: &str) -> Vec<String> {
    let common = "namespaces.api.limits[0]";
    problems(&with_limit(limit))
        .into_iter()
        .map(|line| match line.split_once(common) {
            Some((_, rest)) => rest.trim_start_matches([':', ' ']).to_owned(),
            None => line,
        })
        .collect()
}

/// Each limit with all that is said about it.
fn assert_limits(cases: &[(&str, &[&str])]) {
    for (limit, expected) in cases {
        assert_eq!(limit_problems(limit), *expected, "{limit}");
    }
}

/// Each file with all that is said about it.
fn assert_files(cases: &[(&str, &[&str])]) {
    for (text, expected) in cases {
        assert_eq!(problems(text), *expected, "{text}");
    }
}
