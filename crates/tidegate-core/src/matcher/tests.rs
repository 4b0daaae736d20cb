use proptest::prelude::*;

use super::*;

fn assert_matches(matcher: &Matcher, yes: &[&str], no: &[&str]) {
    for value in yes {
        assert!(matcher.matches(Some(value)), "{matcher:?} should match {value:?}");
    }
    for value in no {
        assert!(!matcher.matches(Some(value)), "{matcher:?} should not match {value:?}");
    }
}

fn glob(pattern: &str) -> Matcher {
    Matcher::glob(pattern).unwrap()
}

fn regex(pattern: &str) -> Matcher {
    Matcher::regex(pattern).unwrap()
}

fn cidr(network: &str) -> Matcher {
    Matcher::cidr(network).unwrap()
}

#[test]
fn texts_are_compared_byte_by_byte() {
    assert_matches(&Matcher::exact("GET"), &["GET"], &["get", "GET ", "", "GETS"]);
    // One letter in two encodings: composed and decomposed.
    assert_matches(&Matcher::exact("\u{e9}"), &["\u{e9}"], &["e\u{301}"]);
    assert_matches(&Matcher::prefix("/v1/"), &["/v1/", "/v1/x"], &["/v1", "/V1/x", " /v1/"]);
    assert_matches(&Matcher::suffix(".jpg"), &[".jpg", "a.jpg"], &["a.JPG", "jpg", "a.jpg "]);
    assert_matches(&Matcher::prefix(""), &["", "x"], &[]);
}

#[test]
fn one_of_matches_each_value_of_a_short_list_and_of_a_long_one() {
    assert_matches(&Matcher::one_of(["HEAD", "GET", "HEAD"]), &["GET", "HEAD"], &["", "POST", "GE", "GETS"]);
    assert_matches(&Matcher::one_of::<&str>([]), &[], &["", "x"]);
    let long = Matcher::one_of((0..1000).rev().map(|i| format!("tenant-{}", i * 2)));
    for i in 0..2000 {
        assert_eq!(long.matches(Some(&format!("tenant-{i}"))), i % 2 == 0, "{i}");
    }
}

#[test]
fn a_lacking_attribute_matches_only_absent_and_what_does_not_match_it() {
    let of_a_value = [
        Matcher::exact(""),
        Matcher::one_of([""]),
        Matcher::prefix(""),
        Matcher::suffix(""),
        glob("*"),
        regex(".*"),
        cidr("0.0.0.0/0"),
        Matcher::present(),
        Matcher::any([Matcher::present(), glob("*")]),
        Matcher::any([]),
        Matcher::not(Matcher::absent()),
        Matcher::all([Matcher::absent(), Matcher::present()]),
    ];
    for matcher in of_a_value {
        assert!(!matcher.matches(None), "{matcher:?}");
        assert!(Matcher::not(matcher.clone()).matches(None), "{matcher:?}");
    }
    assert!(Matcher::absent().matches(None));
    assert!(!Matcher::absent().matches(Some("")));
    assert!(Matcher::present().matches(Some("")));
    assert!(Matcher::any([Matcher::exact("a"), Matcher::absent()]).matches(None));
    assert!(Matcher::all([]).matches(None));
}

#[test]
fn negation_and_combinations_follow_logic() {
    let matcher = Matcher::all([Matcher::prefix("a"), Matcher::not(Matcher::suffix("z"))]);
    assert_matches(&matcher, &["a", "ab"], &["az", "b", ""]);
    assert_matches(&Matcher::any([Matcher::exact("a"), Matcher::exact("b")]), &["a", "b"], &["c"]);
    assert_matches(&Matcher::not(Matcher::not(Matcher::exact("a"))), &["a"], &["b"]);
}

#[test]
fn a_star_is_any_run_and_crosses_slashes_and_lines() {
    assert_matches(&glob("/v1/*"), &["/v1/", "/v1/a", "/v1/a/b", "/v1/a\nb"], &["/v1", "x/v1/a"]);
    assert_matches(&glob("*.jpg"), &[".jpg", "a/b.jpg"], &["a.jpg2", "ajpg"]);
    assert_matches(&glob("a*b*c"), &["abc", "a/b/c", "axxbyyc", "abbcc"], &["acb", "ab", "abcd"]);
    assert_matches(&glob("a**b"), &["ab", "a/x/b"], &["a", "ba"]);
    assert_matches(&glob("*"), &["", "x", "a/b\n"], &[]);
    assert_matches(&glob("**"), &["", "x"], &[]);
    assert_matches(&glob(""), &[""], &["x"]);
}

#[test]
fn a_question_mark_is_one_character_however_many_bytes_it_has() {
    assert_matches(&glob("a?c"), &["abc", "a/c", "a\u{e9}c", "a\u{1f980}c", "a\nc"], &["ac", "abbc"]);
    assert_matches(&glob("??"), &["ab", "\u{e9}\u{e9}"], &["a", "abc", ""]);
}

#[test]
fn a_class_is_one_character_in_it_or_outside_it() {
    assert_matches(&glob("v[0-9]"), &["v0", "v9"], &["v", "v10", "vx", "v-"]);
    assert_matches(&glob("[a-cx]z"), &["az", "cz", "xz"], &["dz", "-z", "z"]);
    assert_matches(&glob("[!0-9]"), &["x", "\u{e9}", "/"], &["0", "", "xx"]);
    assert_matches(&glob("[^0-9]"), &["x"], &["0"]);
    assert_matches(&glob("[]]"), &["]"], &["["]);
    assert_matches(&glob("[!]]"), &["x"], &["]"]);
    assert_matches(&glob("[a-]"), &["a", "-"], &["b"]);
    assert_matches(&glob("[-a]"), &["a", "-"], &["b"]);
    assert_matches(&glob("[\\]\\\\]"), &["]", "\\"], &["["]);
    assert_matches(&glob("[\u{e0}-\u{e9}]"), &["\u{e5}"], &["\u{ea}", "a"]);
    assert_matches(&glob("[&&[~~]"), &["&", "[", "~"], &["a"]);
}

#[test]
fn a_backslash_takes_the_meaning_and_expressions_have_none() {
    assert_matches(&glob("a\\*b"), &["a*b"], &["axb"]);
    assert_matches(&glob("\\?\\[\\\\\\{"), &["?[\\{"], &[]);
    assert_matches(&glob("a.b+(c)|^$*"), &["a.b+(c)|^$x"], &["axb+(c)|^$"]);
    assert_matches(&glob("?.+"), &["a.+"], &["abb"]);
    assert_matches(&glob("{a,b*}/x,y"), &["a/x,y", "bcd/x,y"], &["c/x,y", "a/x"]);
    assert_matches(&glob("{a,{b,c}d}"), &["a", "bd", "cd"], &["b", "ad"]);
    assert_matches(&glob("\\{a,b\\}"), &["{a,b}"], &["a"]);
}

#[test]
fn a_regex_matches_the_whole_value() {
    assert_matches(&regex("a|ab"), &["a", "ab"], &["abc", "xa", ""]);
    assert_matches(&regex("/v[0-9]+/.*"), &["/v1/", "/v22/x"], &["x/v1/", "/v/x"]);
    assert_matches(&regex(""), &[""], &["a"]);
    assert_matches(&regex("(?m)a$"), &["a"], &["a\nb"]);
    assert_matches(&regex("a"), &["a"], &["a\n"]);
    assert_matches(&regex("(?i)get"), &["GET", "get"], &["post"]);
    assert_matches(&regex("\\w+"), &["ada", "\u{e9}"], &["a b"]);
}

#[test]
fn a_regex_cannot_leave_the_group_it_is_put_in() {
    assert!(matches!(Matcher::regex("a)|(b"), Err(MatcherError::Regex { .. })));
    // A comment would swallow the end of the group.
    assert!(matches!(Matcher::regex("(?x)a # comment"), Err(MatcherError::Regex { .. })));
    assert_matches(&regex("(?x)a # comment\n"), &["a"], &["ab"]);
}

#[test]
fn an_expression_that_makes_others_backtrack_takes_no_time_here() {
    let value = "a".repeat(50_000);
    assert!(!regex("(a+)+b").matches(Some(&value)));
    assert!(!glob("*a*a*a*a*a*a*a*ab").matches(Some(&value)));
}

#[test]
fn an_address_is_in_its_network_in_either_family() {
    let ten = cidr("10.0.0.0/8");
    assert_matches(
        &ten,
        &["10.0.0.0", "10.1.2.3", "10.255.255.255", "::ffff:10.1.2.3", "::FFFF:0a01:0203"],
        &["11.0.0.0", "9.255.255.255", "::10.1.2.3", "::1"],
    );
    assert_matches(&cidr("::ffff:10.0.0.0/104"), &["10.1.2.3", "::ffff:10.1.2.3"], &["11.0.0.0"]);
    assert_matches(&cidr("2001:db8::/32"), &["2001:db8::1", "2001:0DB8:ffff::"], &["2001:db9::", "10.0.0.1"]);
    assert_matches(&cidr("192.0.2.7"), &["192.0.2.7"], &["192.0.2.6", "192.0.2.8"]);
    assert_matches(&cidr("::1"), &["::1", "0:0:0:0:0:0:0:1"], &["::2", "::"]);
    assert_matches(&cidr("0.0.0.0/0"), &["1.2.3.4", "::ffff:1.2.3.4"], &["::1"]);
    assert_matches(&cidr("::/0"), &["::1"], &["1.2.3.4", "::ffff:1.2.3.4"]);
}

#[test]
fn what_is_not_a_bare_address_is_in_no_network() {
    let nothing = [
        "",
        "ada",
        "[10.0.0.1]",
        "10.0.0.1:80",
        "10. 0.0.1",
        "010.0.0.1",
        "10.0.0.1/8",
        "10.1",
        "fe80::1%eth0",
        "[::1]",
    ];
    assert_matches(&cidr("0.0.0.0/0"), &[], &nothing);
    assert_matches(&cidr("::/0"), &[], &nothing);
    assert_matches(&Matcher::not(cidr("10.0.0.0/8")), &nothing, &[]);
}

#[test]
fn what_cannot_be_made_says_what_to_do() {
    let long = "a".repeat(Matcher::PATTERN_BYTES_MAX + 1);
    let cases: [(Result<Matcher, MatcherError>, &str); 21] = [
        (Matcher::glob("a["), "glob \"a[\": [ is not closed; add ], or write \\[ for the character"),
        (Matcher::glob("[]"), "glob \"[]\": [ is not closed; add ], or write \\[ for the character"),
        (Matcher::glob("[a-"), "glob \"[a-\": [ is not closed; add ], or write \\[ for the character"),
        (Matcher::glob("[z-a]"), "write the lower character first"),
        (Matcher::glob("a\\"), "write \\\\ for the character"),
        (Matcher::glob("[\\"), "write \\\\ for the character"),
        (Matcher::glob("{a"), "add }"),
        (Matcher::glob("a}"), "write \\} for the character"),
        (Matcher::glob(&long), "aaa...\" is 4097 bytes long; use at most 4096"),
        (Matcher::regex("(a"), "regex \"(a\": unclosed group; correct it"),
        (Matcher::regex("((a{1,200}){1,200}){1,200}"), "takes more than 1048576 bytes when compiled"),
        (Matcher::regex(&long), "is 4097 bytes long"),
        (Matcher::cidr("10.0.0.0/33"), "invalid network \"10.0.0.0/33\"; write for example 10.0.0.0/8"),
        (Matcher::cidr("10.0.0.1/8"), "write 10.0.0.0/8, or the address without a prefix"),
        (Matcher::cidr("[::1]"), "invalid network"),
        (Matcher::cidr(""), "invalid network"),
        (Matcher::cidr("10.0.0.0/"), "invalid network"),
        (Matcher::cidr("10/8"), "write for example 10.0.0.0/8"),
        (Matcher::cidr("example.com"), "write for example 10.0.0.0/8"),
        (Matcher::cidr("10.0.0.0/-1"), "write for example 10.0.0.0/8"),
        (Matcher::cidr("::/129"), "write for example 10.0.0.0/8"),
    ];
    for (made, hint) in cases {
        let message = made.unwrap_err().to_string();
        assert!(message.contains(hint), "{message}\nlacks {hint}");
        assert!(message.len() < 256 && !message.contains('\n'), "{message}");
    }
}

/// Globs by their definition: what a run stands for is tried out. Shares nothing with the
/// expressions.
fn glob_by_trial(pattern: &[char], value: &[char]) -> bool {
    match pattern {
        [] => value.is_empty(),
        ['*', rest @ ..] => (0..=value.len()).any(|skip| glob_by_trial(rest, &value[skip..])),
        ['?', rest @ ..] => !value.is_empty() && glob_by_trial(rest, &value[1..]),
        ['\\', c, rest @ ..] | [c, rest @ ..] => value.first() == Some(c) && glob_by_trial(rest, &value[1..]),
    }
}

/// An expression of 1 000 stars took 1 s for 64 KiB.
#[test]
fn a_glob_of_a_thousand_stars_takes_linear_time() {
    let value = "a".repeat(64 << 10);
    for pattern in
        [format!("{}b", "*a".repeat(1000)), format!("{}*b", "*a".repeat(1000)), "*a*aab*".to_owned()]
    {
        let glob = glob(&pattern);
        // Takes milliseconds; in time that is not linear it would take minutes.
        for _ in 0..100 {
            assert!(!glob.matches(Some(&value)));
        }
    }
    assert!(glob(&format!("{}*", "*a".repeat(1000))).matches(Some(&value)));
}

#[test]
fn pieces_are_stripped_in_their_order_and_the_rest_is_what_follows_the_last() {
    assert_eq!(super::glob::strip_pieces("/v1/items/7", "/v1", ["/", "s/"]), Some("7"));
    assert_eq!(
        super::glob::strip_pieces("abab", "", ["b"]),
        Some("ab"),
        "a piece is taken where it first occurs"
    );
    assert_eq!(super::glob::strip_pieces("abc", "a", ["c", "b"]), None);
    assert_eq!(super::glob::strip_pieces("abc", "b", []), None);
    assert_eq!(super::glob::strip_pieces("aa", "a", ["a", "a"]), None, "no character is used twice");
}

proptest! {
    #[test]
    fn globs_match_what_trying_out_every_run_matches(pattern in "([ab/é.]|\\*|\\?|\\\\[*?a]){0,7}", value in "[ab/é.*?]{0,7}") {
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        prop_assert_eq!(glob(&pattern).matches(Some(&value)), glob_by_trial(&chars(&pattern), &chars(&value)));
    }

    #[test]
    fn any_pattern_is_a_matcher_or_an_error_that_names_it(pattern in "\\PC{0,30}", value in "\\PC{0,30}") {
        for made in [Matcher::glob(&pattern), Matcher::regex(&pattern), Matcher::cidr(&pattern)] {
            match made {
                Ok(matcher) => { let _ = matcher.matches(Some(&value)); }
                Err(error) => prop_assert!(error.to_string().contains(&pattern)),
            }
        }
    }
}
