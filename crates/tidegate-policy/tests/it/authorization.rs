//! The grants of callers.

use tidegate_policy::parse;
use tidegate_policy::policy::authorization::{Credential, Namespaces, Verb};

const HASH: &str = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

fn environment(name: &str) -> Option<String> {
    (name == "CHECKOUT_TOKEN").then(|| "a-secret-of-sixteen".to_owned())
}

fn problems(text: &str) -> String {
    parse("tidegate.yaml", text, &environment).expect_err("it has problems").to_string()
}

fn policy(grants: &str) -> String {
    format!("namespaces: {{ api: {{ limits: [{{ name: all, rate: 1/s }}] }} }}\nauthorization:\n{grants}")
}

#[test]
fn a_grant_says_who_where_and_what() {
    let text = policy(&format!(
        "  - {{ token_file: /run/secrets/checkout, namespaces: [api], verbs: [check, report] }}
  - {{ name: billing, token: '{HASH}', namespaces: ['*'] }}
  - {{ token: '${{CHECKOUT_TOKEN}}', namespaces: [api, resp], verbs: [reset] }}
  - {{ certificate: spiffe://prod/ops, namespaces: ['*'], verbs: [inspect, change] }}
"
    ));
    let checked = parse("tidegate.yaml", &text, &environment).unwrap();
    assert!(checked.warnings.is_empty(), "{:?}", checked.warnings);
    let grants = &checked.policy.authorization;
    let names: Vec<&str> = grants.iter().map(|grant| grant.name.as_str()).collect();
    assert_eq!(names, ["/run/secrets/checkout", "billing", "authorization[2]", "spiffe://prod/ops"]);
    assert_eq!(grants[0].credential, Credential::TokenFile("/run/secrets/checkout".to_owned()));
    assert!(grants[0].verbs.has(Verb::Report) && !grants[0].verbs.has(Verb::Reset));
    assert_eq!(grants[1].namespaces, Namespaces::All);
    assert_eq!(grants[1].verbs.iter().collect::<Vec<_>>(), [Verb::Check], "the default");
    let Credential::Token(secret) = &grants[2].credential else { panic!("a token") };
    assert_eq!(secret.reveal(), "a-secret-of-sixteen");
    assert_eq!(grants[2].namespaces, Namespaces::Some(vec!["api".to_owned(), "resp".to_owned()]));
}

#[test]
fn a_token_is_shown_neither_in_a_problem_nor_in_a_comparison_nor_for_debugging() {
    for token in
        ["secret-short", "a secret with spaces in it", "sha256:5ecre7", "a-secret\\u0007-that-is-long-enough"]
    {
        let said = problems(&policy(&format!("  - {{ token: \"{token}\", namespaces: [api] }}\n")));
        assert!(said.contains("authorization[0].token"), "{said}");
        assert!(!said.contains("ecre"), "{said}");
    }
    let of = |token: &str| {
        let text = policy(&format!("  - {{ token: '{token}', namespaces: [api] }}\n"));
        parse("tidegate.yaml", &text, &environment).unwrap().policy
    };
    let (old, new) = (of("a-secret-of-sixteen"), of("${CHECKOUT_TOKEN}-and-more"));
    assert!(!format!("{old:?}").contains("a-secret-of"));
    let compared = tidegate_policy::compare(&old, &new);
    assert!(!format!("{compared:?}").contains("a-secret-of"), "{compared:?}");
}

/// The hash of the empty text used to be accepted, and an empty token then had a grant.
#[test]
fn the_hash_of_nothing_is_no_token() {
    for digits in [
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855",
        "01ba4719c80b6fe911b091a7c05124b64eeece964e09c058ef8f9805daca546b",
        "7eb70257593da06f682a3ddda54a9d260d4fc514f645237f5ca74b08f8da61a6",
    ] {
        let said = problems(&policy(&format!("  - {{ token: 'sha256:{digits}', namespaces: [api] }}\n")));
        assert!(said.contains("authorization[0].token: the token is the SHA-256 of nothing"), "{said}");
        assert!(said.contains("run `tidegate token`"), "{said}");
    }
}

#[test]
fn a_hash_with_a_sign_among_its_digits_is_no_token() {
    let digits = "+f".repeat(32);
    let said = problems(&policy(&format!("  - {{ token: 'sha256:{digits}', namespaces: [api] }}\n")));
    assert!(said.contains("write sha256: and 64 hexadecimal digits"), "{said}");
}

#[test]
fn a_grant_that_permits_nothing_or_nobody_is_an_error() {
    assert!(problems("authorization: []").contains("an empty list of grants; add grants"));
    for (grant, said) in [
        ("{ namespaces: [api] }", "names no caller"),
        ("{ token_file: a, certificate: b, namespaces: [api] }", "several of"),
        ("{ token_file: '', namespaces: [api] }", "not the path of a file"),
        ("{ token_file: a, namespaces: [] }", "without namespaces permits nothing"),
        ("{ token_file: a, namespaces: [api], verbs: [] }", "without verbs permits nothing"),
        ("{ token_file: a, namespaces: [api], verbs: [chekc] }", "check"),
        ("{ token_file: a, namespaces: [''] }", "empty"),
        ("{ certificate: '', namespaces: [api] }", "0 bytes"),
    ] {
        let problem = problems(&policy(&format!("  - {grant}\n")));
        assert!(problem.contains(said), "{grant}: {problem}");
        assert!(problem.starts_with("tidegate.yaml:3:"), "{problem}");
    }
}

#[test]
fn a_listener_beyond_this_machine_asks_who_comes_or_says_that_it_does_not() {
    let listen = |listener: &str, rest: &str| {
        let text = format!("listen: {{ {listener} }}\n{}{rest}", policy("").replace("authorization:\n", ""));
        parse("tidegate.yaml", &text, &environment).map(|_| ()).map_err(|problems| problems.to_string())
    };
    let grants = "authorization: [{ token_file: a, namespaces: [api] }]\n";
    for listener in ["http", "admin", "resp"] {
        let open = format!("{listener}: 0.0.0.0:7001, proxy: 127.0.0.1:0");
        let said = listen(&open, "").unwrap_err();
        assert!(
            said.contains("0.0.0.0:7001 is reachable from other machines, and callers are not authenticated"),
            "{said}"
        );
        assert!(said.contains("write `authorization:`"), "{said}");
        assert_eq!(listen(&open, grants), Ok(()));
        assert_eq!(listen(&format!("{listener}: {{ address: 0.0.0.0:7001, insecure: true }}"), ""), Ok(()));
    }
    // Requests that are passed on show nothing to the daemon, whatever callers must show.
    assert!(listen("proxy: 0.0.0.0:7001", grants).is_err());
}

#[test]
fn looking_at_what_is_not_of_one_namespace_takes_all_of_them() {
    let text = policy("  - { token_file: a, namespaces: [api], verbs: [check, inspect] }\n");
    let warnings = parse("tidegate.yaml", &text, &environment).unwrap().warnings;
    assert!(warnings[0].to_string().contains("`inspect` is of no use"), "{}", warnings[0]);
    let text = policy("  - { token_file: a, namespaces: [api], verbs: [check, signal, feature] }\n");
    let warnings = parse("tidegate.yaml", &text, &environment).unwrap().warnings;
    let warnings: Vec<_> = warnings.iter().map(|warning| warning.what.as_str()).collect();
    assert_eq!(
        warnings,
        [
            "signals are not of one namespace, so `signal` is of no use here",
            "features are not of one namespace, so `feature` is of no use here",
        ]
    );
}

#[test]
fn each_verb_is_itself_and_no_other_one() {
    for verb in Verb::ALL {
        let text = format!(
            "namespaces: {{ api: {{ limits: [] }} }}
authorization: [{{ token: \"{HASH}\", namespaces: ['*'], verbs: [{}] }}]
",
            verb.as_str()
        );
        let policy = parse("tidegate.yaml", &text, &environment).unwrap().policy;
        let verbs: Vec<_> = policy.authorization[0].verbs.iter().collect();
        assert_eq!(verbs, [verb]);
    }
}
