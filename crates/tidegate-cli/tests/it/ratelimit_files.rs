//! `tidegate validate` with files of envoyproxy/ratelimit.

use tidegate_test_support::{TemporaryFile, TemporaryFolder};

use crate::command::run;

const SHOP: &str = "\
domain: shop
descriptors:
  - key: a
    value: b_c
    rate_limit: { unit: week, requests_per_unit: 5 }
  - key: a_b
";

#[test]
fn a_file_of_envoyproxy_ratelimit_is_known_by_its_domain_and_what_differs_is_said() {
    let file = TemporaryFile::new(SHOP);
    let (code, out, err) = run(&["validate", file.as_str()]);
    assert_eq!((code, err.as_str()), (0, ""));
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 4, "{out}");
    for (line, hint) in lines.iter().zip([
        ":3:5: descriptors[0]: the peer also matches this with key \"a_b\" and value \"c\"",
        ":6:5: descriptors[1]: the peer also matches this with key \"a\" and value \"b\"",
        ": valid: 1 domain, 1 limit, 2 differences",
        "quotas are kept in ./tidegate-data: shop.a_b_c",
    ]) {
        assert!(line.contains(hint), "{line}");
    }
    let (code, out, _) = run(&["validate", "--json", file.as_str()]);
    let verdict: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, verdict["differences"].as_array().unwrap().len()), (0, 2));
    assert_eq!((&verdict["valid"], &verdict["differences"][0]["line"]), (&true.into(), &3.into()));
    let (_, out, _) = run(&["validate", "--semantics", "tidegate", file.as_str()]);
    assert!(out.contains(":1:9: domain: a refused hit consumes nothing, unlike in the peer"), "{out}");
    assert!(out.contains(": valid: 1 domain, 1 limit, 3 differences"), "{out}");
}

#[test]
fn a_directory_of_them_is_checked_as_one() {
    let folder = TemporaryFolder::new();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("a.yaml", SHOP);
    write("b.yml", "domain: bar\ndescriptors: [{ key: a, rate_limit: { unit: day, requests_per_unit: 1 } }]");
    write(".hidden.yaml", "not: one");
    write("notes.txt", "not one");
    let path = folder.path().to_str().unwrap();
    let (code, out, _) = run(&["validate", path]);
    assert!(code == 0 && out.contains(": valid: 2 domains, 2 limits, "), "{out}");
    write("c.yaml", "domain: shop\ndescriptors: [{ key: x, rate_limit: { unit: dai } }]");
    let (code, out, _) = run(&["validate", path]);
    assert_eq!(code, 1, "{out}");
    assert!(
        out.contains("c.yaml:1:9: domain: duplicate domain \"shop\": another file defines it too"),
        "{out}"
    );
    assert!(
        out.contains("c.yaml:2:45: descriptors[0].rate_limit.unit: unknown unit \"dai\"; did you mean day?"),
        "{out}"
    );
    assert!(out.ends_with("2 problems\n"), "{out}");
    let (_, out, _) = run(&["validate", "--merge-domains", path]);
    assert!(out.ends_with("1 problem\n"), "{out}");
}

#[test]
fn an_empty_directory_and_a_comparison_are_told_as_what_they_are() {
    let folder = TemporaryFolder::new();
    let (code, _, err) = run(&["validate", folder.path().to_str().unwrap()]);
    assert!(code == 3 && err.contains("no file in it ends in .yaml or .yml"), "{err}");
    let file = TemporaryFile::new(SHOP);
    let (code, _, err) = run(&["validate", file.as_str(), "--against", file.as_str()]);
    assert!(code == 1 && err.contains("--against compares configurations"), "{err}");
}

#[test]
fn the_files_that_a_policy_names_are_checked_with_it() {
    let good = TemporaryFile::new(SHOP);
    let bad = TemporaryFile::new("domain: shop\nfoo: 1");
    for (path, code, hint) in [
        (good.as_str(), 0, "valid: 1 domain, 1 limit, 2 differences\n"),
        (bad.as_str(), 1, ":2:1: foo: unknown key \"foo\""),
        ("/nowhere", 0, "valid: 0 namespaces, 0 limits"),
    ] {
        let policy = TemporaryFile::new(&format!("envoy_ratelimit: {{ path: {path} }}"));
        let (found, out, err) = run(&["validate", policy.as_str()]);
        assert!(found == code && out.contains(hint), "{path}: {out}{err}");
        assert_eq!(err.contains("its files were not checked"), path == "/nowhere", "{err}");
        let denied = run(&["validate", "--deny-warnings", policy.as_str()]).0;
        assert_eq!(
            denied,
            i32::from(path != good.as_str()),
            "files that were not checked are not without warnings"
        );
    }
}

#[test]
fn issue_15_the_domains_and_limits_of_the_files_that_a_policy_names_are_counted_and_their_quotas_told() {
    let folder = TemporaryFolder::new();
    let day = "{ unit: day, requests_per_unit: 100 }";
    for domain in ["shop", "mail", "chat"] {
        let text = format!(
            "domain: {domain}\ndescriptors: [{{ key: a, rate_limit: {day} }}, {{ key: b, rate_limit: {{ unit: minute, requests_per_unit: 5 }} }}]"
        );
        std::fs::write(folder.path().join(format!("{domain}.yaml")), text).unwrap();
    }
    let settings =
        format!("store: {{ kind: memory }}\nenvoy_ratelimit: {{ path: {} }}", folder.path().display());
    let policy = TemporaryFile::new(&settings);
    let (code, out, err) = run(&["validate", policy.as_str()]);
    assert_eq!((code, err.as_str()), (0, ""));
    let name = policy.as_str();
    assert_eq!(
        out,
        format!(
            "warning: {name}:1:1: store: quotas are kept in memory, and a restart forgets them: chat.a, mail.a, shop.a; \
             remove `kind: memory` to keep them in files\n{name}: valid: 3 domains, 6 limits, 1 warning\n"
        )
    );
    assert_eq!(run(&["validate", "--deny-warnings", name]).0, 1);
    let both = format!("{settings}\nnamespaces: {{ api: {{ limits: [{{ name: all, rate: 9/s }}] }} }}");
    let policy = TemporaryFile::new(&both);
    let (_, out, _) = run(&["validate", policy.as_str()]);
    assert!(out.contains(": valid: 1 namespace, 1 limit, 3 domains, 6 limits, 1 warning\n"), "{out}");
    let hidden = format!("{settings}\nnamespaces: {{ shop: {{ limits: [{{ name: all, rate: 9/s }}] }} }}");
    let policy = TemporaryFile::new(&hidden);
    let (_, out, _) = run(&["validate", policy.as_str()]);
    let expected = ":2:1: envoy_ratelimit: domain \"shop\" is hidden by the namespace of that name";
    assert!(out.contains(expected), "{out}");
}
