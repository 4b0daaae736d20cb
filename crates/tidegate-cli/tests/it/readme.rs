//! The first policy of the README.

use tidegate_test_support::TemporaryFile;

use crate::command::run;
use crate::process::{Daemon, post};

/// The first policy.
fn first_policy() -> &'static str {
    let readme = include_str!("../../../../README.md");
    let (_, policy) = readme.split_once("<!-- file: tidegate.yaml -->\n```yaml\n").unwrap();
    policy.split_once("```").unwrap().0
}

#[test]
fn issue_15_the_first_policy_of_the_readme_has_no_warning() {
    let file = TemporaryFile::new(first_policy());
    let (code, out, err) = run(&["validate", "--deny-warnings", file.as_str()]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains(": valid: 1 namespace, 6 limits\n"), "{out}");
}

#[test]
fn issue_15_the_first_policy_of_the_readme_throttles_exports_and_no_other_request() {
    let file = TemporaryFile::new(&format!(
        "{}listen: {{ http: 127.0.0.1:0 }}\nstore: {{ kind: memory }}\n",
        first_policy()
    ));
    let mut daemon = Daemon::start(&[file.as_str()]);
    let address = daemon.address();
    let ask = |operation: &str| {
        let check = format!(
            r#"{{"namespace":"api","attributes":{{"api_key":"k1","user":"ada","session":"s1"{operation}}}}}"#
        );
        post(&address, "/v1/check", &check)
    };
    let export = r#","operation":"Export""#;
    for _ in 0..20 {
        assert_eq!((ask("").0, ask(export).0), (200, 200));
    }
    let (status, text) = ask(export);
    assert!(status == 429 && text.contains(r#""limit":"exports""#), "{text}");
    assert_eq!(ask("").0, 200);
}

#[test]
fn issue_15_the_first_line_of_the_readme_says_rate_limiter() {
    let readme = include_str!("../../../../README.md");
    assert!(readme.lines().next().unwrap().contains("rate limiter"));
}
