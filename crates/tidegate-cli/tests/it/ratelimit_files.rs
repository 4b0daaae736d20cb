//! `tidegate validate` with files of envoyproxy/ratelimit.

use crate::command::{TemporaryFile, TemporaryFolder, run};

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
    assert_eq!(lines.len(), 6, "{out}");
    for (line, hint) in lines.iter().zip([
        ":1:9: domain: under `semantics: tidegate` a refused hit consumes nothing",
        ":3:5: descriptors[0]: the peer also matches this with key \"a_b\" and value \"c\"",
        ":5:25: descriptors[0].rate_limit.unit: weeks begin on Thursday",
        ":6:5: descriptors[1]: the peer also matches this with key \"a\" and value \"b\"",
        ": valid: 1 domains, 1 limits, 4 differences",
        "quotas are kept in ./tidegate-data: shop.a_b_c",
    ]) {
        assert!(line.contains(hint), "{line}");
    }
    let (code, out, _) = run(&["validate", "--json", file.as_str()]);
    let verdict: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, verdict["differences"].as_array().unwrap().len()), (0, 4));
    assert_eq!((&verdict["valid"], &verdict["differences"][1]["line"]), (&true.into(), &3.into()));
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
    assert!(out.contains("c.yaml:1:9: domain: domain \"shop\" stands in another file as well"), "{out}");
    assert!(
        out.contains("c.yaml:2:45: descriptors[0].rate_limit.unit: unit \"dai\" is none; did you mean day?"),
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
        (good.as_str(), 0, "valid: 0 namespaces, 0 limits"),
        (bad.as_str(), 1, ":2:1: foo: unknown key \"foo\""),
        ("/nowhere", 0, "valid: 0 namespaces, 0 limits"),
    ] {
        let policy = TemporaryFile::new(&format!("envoy_ratelimit: {{ path: {path} }}"));
        let (found, out, err) = run(&["validate", policy.as_str()]);
        assert!(found == code && out.contains(hint), "{path}: {out}{err}");
        assert_eq!(err.contains("its files were not checked"), path == "/nowhere", "{err}");
    }
}
