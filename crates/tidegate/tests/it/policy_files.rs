//! Policies that a program cannot use: what it is told.

use tidegate::policy::{PolicyError, engine, engine_of};
use tidegate_test_support::TemporaryFile;

fn message(text: &str) -> String {
    let file = TemporaryFile::new(text);
    let error = engine(file.path()).map(drop).unwrap_err();
    error.to_string().replace(file.as_str(), "FILE")
}

#[test]
fn a_file_that_is_missing_is_named_with_its_cause_as_the_source() {
    let error = engine("/nowhere/tidegate.yaml").unwrap_err();
    assert_eq!(
        error.to_string(),
        "policy /nowhere/tidegate.yaml cannot be read; check the path and its permissions"
    );
    assert!(std::error::Error::source(&error).unwrap().to_string().contains("No such file"));
}

#[test]
fn a_problem_has_its_line_and_its_fix() {
    let text = message("namespaces: { api: { limits: [ { name: one, rate: 0/s } ] } }\n");
    assert!(text.contains("FILE:1:") && text.contains("admits nothing; use at least 1 unit"), "{text}");
}

#[test]
fn sections_of_the_daemon_are_not_left_out_in_silence() {
    let limits = "namespaces: { api: { limits: [ { name: one, rate: 1/s } ] } }\n";
    let redis = message(&format!("{limits}store: {{ kind: redis, urls: [\"redis://127.0.0.1:6379\"] }}\n"));
    assert_eq!(
        redis,
        "`store: { kind: redis }` of a policy is served by the daemon only; leave it out and give the \
         layer a `RedisStore`"
    );
    let quota = message("namespaces: { api: { limits: [ { name: one, rate: 10/d } ] } }\n");
    assert!(
        quota.ends_with("write `store: { kind: memory }` if quotas may begin anew with the process"),
        "{quota}"
    );
    let resources = message(&format!("{limits}resources: {{ orders: {{ concurrency: 2 }} }}\n"));
    assert!(resources.contains("`resources` and `nodes`"), "{resources}");
}

#[test]
fn every_namespace_becomes_one_of_the_engine() {
    let text = "namespaces: { api: { limits: [ { name: one, rate: 1/s } ] }, jobs: { limits: [] } }\n";
    let policy = tidegate_policy::parse("policy.yaml", text, &|_| None).unwrap().policy;
    let engine: Result<_, PolicyError> = engine_of(&policy);
    assert_eq!(engine.unwrap().namespaces().collect::<Vec<_>>(), ["api", "jobs"]);
}
