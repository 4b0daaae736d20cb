//! Texts that are no document, documents at their bounds, and aliases.

use core::fmt::Write as _;

use tidegate_policy::bounds::{DEPTH_MAX, DOCUMENT_BYTES_MAX, SCALAR_BYTES_MAX};

use crate::{check, problems, settings, with_limit};

#[test]
fn a_text_that_is_no_document_says_what_to_do() {
    const EMPTY: &str = "t.yaml:1:1: the file is empty; start with `namespaces:`, or run `tidegate serve` without a config for a built-in example";
    const CHECK: &str =
        "check the indentation and the brackets, and quote values that contain `: `, ` #` or braces";
    for (text, expected) in [
        ("", EMPTY.to_owned()),
        ("\n  # only a comment\n", EMPTY.to_owned()),
        ("---\n", EMPTY.to_owned()),
        ("~", EMPTY.to_owned()),
        ("\u{feff}", EMPTY.to_owned()),
        (
            "log: {}\n---\nlog: {}\n",
            "t.yaml:2:1: a second YAML document starts here; keep one document in the file and remove the line with `---`".to_owned(),
        ),
        ("log: a: b", format!("t.yaml:1:7: not valid YAML: mapping values are not allowed in this context; {CHECK}")),
        (
            "log:\n\tlevel: info",
            "t.yaml:2:2: not valid YAML: tabs disallowed within this context (block indentation); indent with spaces".to_owned(),
        ),
        (
            "log: *level",
            "t.yaml:1:6: not valid YAML: while parsing node, found unknown anchor; define it as &name before it is used as *name".to_owned(),
        ),
        ("log: &log { level: *log }", "t.yaml:1:20: an alias inside the value it stands for; write the value out".to_owned()),
        (
            "{ [a]: b }",
            "t.yaml:1:3: a key that is a list or a mapping; use a plain word as key, and quote values that start with a bracket or a brace".to_owned(),
        ),
    ] {
        assert_eq!(problems(text), [expected], "{text:?}");
    }
}

#[test]
fn a_byte_order_mark_and_windows_line_ends_are_read_over() {
    let text = "\u{feff}namespaces:\r\n  api:\r\n    limits:\r\n      - name: a\r\n        rate: 3/s\r\n";
    assert_eq!(settings(text).namespaces[0].limits[0].algorithm.limit(), 3);
}

#[test]
fn positions_count_characters_and_not_bytes() {
    assert_eq!(
        problems("namespaces: { \"größe\": { limits: [ { name: ä, rate: 0/s } ] } }")[0].split(' ').next(),
        Some("t.yaml:1:53:")
    );
}

#[test]
fn aliases_repeat_values_and_their_problems_stand_where_the_value_does() {
    let text = "
namespaces:
  a: &limits
    limits:
      - { name: x, rate: 3/s }
  b: *limits
";
    let policy = settings(text);
    assert_eq!(policy.namespace("b").unwrap().limits[0].name, "x");
    assert_eq!(
        problems(&text.replace("3/s", "0/s")),
        [
            "t.yaml:5:26: namespaces.a.limits[0].rate: rate \"0/s\" admits nothing; use at least 1 unit, or block the key",
            "t.yaml:5:26: namespaces.b.limits[0].rate: rate \"0/s\" admits nothing; use at least 1 unit, or block the key",
        ]
    );
}

#[test]
fn aliases_of_aliases_do_not_grow_without_bound() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let items = vec![format!("*a{}", level - 1); 10].join(", ");
        writeln!(bomb, "a{level}: &a{level} [{items}]").unwrap();
    }
    let said = problems(&bomb);
    assert_eq!(said.len(), 1);
    assert!(
        said[0].contains("the file has more than 3000000 values or 16777216 bytes once aliases are replaced"),
        "{said:?}"
    );
    // Few values, much text: bytes are bounded as well.
    let text = "x".repeat(SCALAR_BYTES_MAX);
    let aliases = "*a, ".repeat(100_000);
    assert!(problems(&format!("a: &a {text}\nb: [{aliases}]"))[0].contains("once aliases are replaced"));
    // Nesting by aliases counts as nesting.
    let mut deep = "a0: &a0 [x]\n".to_owned();
    for level in 1..=DEPTH_MAX {
        writeln!(deep, "a{level}: &a{level} [*a{}]", level - 1).unwrap();
    }
    assert!(problems(&deep)[0].contains("nested more than 32 deep"));
}

#[test]
fn depth_length_and_size_are_bounded() {
    for open in ["[", "{a: ", "- ", "? "] {
        let said = problems(&open.repeat(100_000));
        assert!(
            said[0].contains("nested more than 32 deep") || said[0].contains("not valid YAML"),
            "{open}: {said:?}"
        );
    }
    let long = "x".repeat(SCALAR_BYTES_MAX + 1);
    assert_eq!(
        problems(&format!("log: {long}")),
        [
            "t.yaml:1:6: a value of 16385 bytes, more than the 16384 allowed; shorten it, or close the quotes if they were left open"
        ]
    );
    let large = format!("#{}", " ".repeat(DOCUMENT_BYTES_MAX));
    assert_eq!(
        problems(&large),
        [
            "t.yaml:1:1: the file has 16777217 bytes, more than the 16777216 allowed; use fewer overrides here, and set the others at run time"
        ]
    );
}

#[test]
fn variables_do_not_make_a_file_grow_without_bound() {
    let text = with_limit(&format!("{{ name: a, rate: 1/s, key: [{}] }}", "\"${BIG}\", ".repeat(10_000)));
    let env = |_: &str| Some("x".repeat(SCALAR_BYTES_MAX));
    let said = tidegate_policy::parse("t.yaml", &text, &env).unwrap_err().to_string();
    assert!(said.contains("with its variables replaced, the file is longer than 16777216 bytes"), "{said}");
}

#[test]
fn what_is_quoted_from_a_file_cannot_write_to_the_terminal_of_its_reader() {
    let said = check("log: { level: \"\\e[31m\\u202e\\n\" }").unwrap_err().to_string();
    assert!(!said.contains(['\u{1b}', '\u{202e}', '\n']), "{said}");
    assert!(said.contains("\\u{1b}[31m\\u{202e}\\n"), "{said}");
    let said = check(&with_limit("{ name: a, rate: \"\\e[31m\" }")).unwrap_err().to_string();
    assert!(!said.contains('\u{1b}'), "{said}");
}

#[test]
fn a_file_with_many_overrides_is_read_in_one_go() {
    let mut text = "namespaces:\n  api:\n    limits:\n      - name: a\n        key: [account]\n        rate: 1/s\n        overrides:\n".to_owned();
    for account in 0..50_000 {
        writeln!(text, "          - {{ account: c{account}, rate: {}/s }}", account % 100 + 1).unwrap();
    }
    assert_eq!(settings(&text).namespaces[0].limits[0].overrides.len(), 50_000);
}

#[test]
fn a_key_of_another_place_and_a_bare_variable_say_where_they_belong() {
    for (text, told) in [
        (
            "limits: [{ name: a, rate: 5/s }]",
            "limits: unknown key \"limits\"; write it in a namespace: `namespaces: { NAME: { limits: .. } }`",
        ),
        ("kind: ConfigMap", "give the text under `data:` as a file"),
        (
            "namespaces: { api: { limits: [{ name: a, concurrency: 3 }] } }",
            "concurrency: expected a mapping, found \"3\"; write { limit: .., hold: .. }",
        ),
        (
            "namespaces: { api: { limits: [{ name: a, rate: ${RATE} }] } }",
            "put each ${NAME} between braces in quotes: \"${NAME}\"",
        ),
    ] {
        let said = problems(text);
        assert!(said[0].contains(told), "{text}: {said:?}");
    }
    // All keys of an object of Kubernetes have one reason, which is told once.
    let said = problems("apiVersion: v1\nkind: ConfigMap\nmetadata: { name: x }\ndata: { a.yaml: b }");
    assert_eq!(said.len(), 1, "{said:?}");
    // In quotes it is a variable.
    let quoted = problems("namespaces: { api: { limits: [{ name: a, rate: \"${RATE}\" }, {] } }");
    assert!(!quoted[0].contains("in quotes: "), "{quoted:?}");
}
