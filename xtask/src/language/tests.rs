use std::path::Path;

use super::*;

fn lines_hit(text: &str, syntax: Syntax) -> Vec<usize> {
    hits_in("crates/tidegate-core/src/x.rs", text, syntax).into_iter().map(|hit| hit.line).collect()
}

fn hits(text: &str) -> usize {
    lines_hit(text, Syntax::Rust).len()
}

const TWICE: &str = concat!("stands ", "twice");
const NONE: &str = concat!("is ", "none");

#[test]
fn a_comment_sentence_that_begins_with_a_question_word_hits_wherever_it_begins() {
    for text in [
        "/// What a store answers.",
        "//! who reads this?",
        "    // Whoever comes first wins.",
        "/// The answer. What it holds is bounded.",
        "/// The answer (of a store). Who asked is in it.",
        "/// The answer is bounded.\n/// What it holds is not.",
        "/// - what a store answers",
        "/// 1. Who asks",
        "/// # What happens at zero",
        "/// \"Who\" is the caller.",
        "/// **What** is a noun here.",
        "/// Two things: What comes, and its cost.",
        "/// The answer.\n///\n/// what it holds",
    ] {
        assert_eq!(hits(text), 1, "{text}");
    }
}

#[test]
fn a_question_word_elsewhere_in_a_sentence_is_no_hit() {
    for text in [
        "/// The caller who asks.",
        "/// A limit says\n/// what it denies, e.g. what came late.",
        "/// The rest, e.g.\n/// what came late.",
        "/// Whole tables. Whatever they hold. Whose they are.",
        "/// `what` is the name of the field.",
        "/// The field `a.what`; see x.who and `A. What`_b.",
        "let what = who; // code before the comment",
        "let text = \"\n// What a fixture says\n\";",
        "let text = r#\"\n/// Who\n\"#;",
        "/// ```\n/// // What an example says\n/// ```",
        "/// The order: what comes first is first.",
    ] {
        let expected = usize::from(text.contains("`A. What`"));
        assert_eq!(hits(text), expected, "{text}");
    }
}

#[test]
fn a_table_that_a_blank_line_divides_hits_at_its_second_part() {
    let page = "| a | b |\n|---|--:|\n| 1 | 2 |\n";
    assert!(lines_hit(page, Syntax::Markdown).is_empty());
    assert_eq!(lines_hit(&format!("{page}\n| 3 | 4 |\n| 5 | 6 |\n"), Syntax::Markdown), [5]);
    assert!(lines_hit("```\n| no | table |\n```\n", Syntax::Markdown).is_empty());
}

#[test]
fn prose_after_a_code_block_is_checked_again() {
    assert_eq!(lines_hit("/// ```\n/// // What\n/// ```\n/// What follows.", Syntax::Rust), [4]);
    let open_fence_ends_with_its_comment = "/// ```\nfn f() {}\n/// What follows.";
    assert_eq!(lines_hit(open_fence_ends_with_its_comment, Syntax::Rust), [3]);
}

#[test]
fn unwanted_phrases_hit_in_comments_messages_and_documents() {
    for text in [
        format!("// The key {TWICE}."),
        format!("    return Err(\"a limit {TWICE}\");"),
        format!("/// The address {NONE}."),
        format!("/// {}", NONE.to_uppercase()),
        "/// The address is\n/// none of those.".to_owned(),
        "/// A key stands\n/// twice in it.".to_owned(),
    ] {
        assert_eq!(hits(&text), 1, "{text}");
    }
    let document = format!("A key {TWICE}.\n\nThere is\nnone.\n");
    assert_eq!(lines_hit(&document, Syntax::Markdown), [1, 4]);
}

#[test]
fn similar_words_are_no_unwanted_phrase() {
    for text in [
        "if place.is_none() { stands(twice) }",
        "/// The list is nonempty. It stands. Twice it falls.",
        "/// What\u{a0}it", // a different blank is no word boundary that anyone types
        "/// There is. None of it.",
        "let is = none;\nlet none = is;",
    ] {
        let expected = usize::from(text.starts_with("/// What"));
        assert_eq!(hits(text), expected, "{text}");
    }
}

#[test]
fn a_sentence_has_of_three_times_and_no_more() {
    let of = |count: usize| format!("The end{} a day", " of the end".repeat(count));
    for (text, expected) in [
        (format!("/// {}.", of(3)), 0),
        (format!("/// {}.", of(4)), 1),
        (format!("/// {}\n/// {}.", of(2), of(2)), 1),
        (format!("/// {}. {}.", of(2), of(2)), 0),
        (format!("/// ({}.) {}.", of(2), of(2)), 0),
        (format!("/// {}.\n///\n/// {}.", of(2), of(2)), 0),
        (format!("/// - {}\n/// - {}", of(2), of(2)), 0),
        (format!("/// {}\nfn f() {{}}\n/// {}", of(2), of(2)), 0),
        (format!("/// {} `of x of y`", of(3)), 0),
        (format!("/// {} offers, roof", of(3)), 0),
        (format!("    return Err(\"{}\");", of(4)), 0),
    ] {
        assert_eq!(hits(&text), expected, "{text}");
    }
    assert_eq!(lines_hit(&format!("// One. Two.\n// {}\n", of(4)), Syntax::Rust), [2]);
    assert_eq!(lines_hit(&format!("-- {}\n", of(4)), Syntax::Lua), [1]);
    for (page, lines) in [
        (format!("# A\n\nOne. Two.\n{}\n", of(4)), vec![4]),
        (format!("- {}\n  {}\n- {}\n", of(2), of(2), of(3)), vec![1]),
        (format!("| {} | {} |\n|---|---|\n| {} |\n", of(2), of(3), of(4)), vec![3]),
        (format!("| {}<br>{} |\n|---|\n", of(2), of(2)), vec![]),
        (format!("```text\n{}\n```\n<!-- {} -->\n", of(4), of(4)), vec![]),
        (format!("{} [a of b](of.md#of-of)\n", of(2)), vec![]),
    ] {
        assert_eq!(lines_hit(&page, Syntax::Markdown), lines, "{page}");
    }
}

#[test]
fn pages_name_the_thing_instead_of_saying_those_of() {
    for (page, lines) in [
        ("The limits of a plan and those of an override.\n", vec![1]),
        ("# A\n\nThe rate, and that\nof the plan.\n", vec![4]),
        ("- (Those of a plan.)\n\n| a | that of b |\n|---|---|\n", vec![1, 3]),
        ("All of those. Of these, that one is of use.\n`that of` [a](that of)\n", vec![]),
        ("```text\nthat of\n```\n<!-- those of -->\n", vec![]),
    ] {
        assert_eq!(lines_hit(page, Syntax::Markdown), lines, "{page}");
    }
    assert_eq!(hits("/// The limits of a plan and those of an override."), 0);
}

/// A comment line of `columns` columns in words of nine letters.
fn line_of(marker: &str, columns: usize) -> String {
    let mut line = format!("{marker} ");
    while line.chars().count() < columns {
        line.push_str("abcdefghi ");
    }
    line.chars().take(columns - 1).chain(['z']).collect()
}

#[test]
fn comment_lines_have_a_hundred_columns_and_no_more() {
    for (marker, syntax) in [
        ("//", Syntax::Rust),
        ("        ///", Syntax::Rust),
        ("//!", Syntax::Rust),
        ("--", Syntax::Lua),
        ("#", Syntax::Hash),
    ] {
        assert!(lines_hit(&line_of(marker, 100), syntax).is_empty(), "{marker}");
        assert_eq!(lines_hit(&line_of(marker, 101), syntax), [1], "{marker}");
    }
    let accented = line_of("//", 100).replace('a', "\u{e4}");
    assert!(lines_hit(&accented, Syntax::Rust).is_empty(), "columns are characters, not bytes");
}

#[test]
fn tables_code_addresses_and_single_words_may_be_longer() {
    let long = line_of("//", 140);
    let body = long.trim_start_matches("// ");
    for text in [
        format!("/// | {body} |"),
        format!("/// ```\n/// {body}\n/// ```"),
        format!("/// See https://example.org/{body}"),
        format!("/// [name]: crate::{body}"),
        format!("// {}", "x".repeat(140)),
        format!("let text = \"{body}\";"),
    ] {
        assert_eq!(hits(&text), 0, "{text}");
    }
}

#[test]
fn prose_of_pages_has_a_hundred_columns_and_no_more() {
    let body = line_of("a", 101);
    for (page, lines) in [
        (line_of("a", 100), vec![]),
        (body.clone(), vec![1]),
        (line_of("-", 101), vec![1]),
        (format!("# {body}\n\n    {body}\n"), vec![3]),
        (line_of("a", 100).replace('a', "\u{e4}"), vec![]),
        (format!("```sh\n{body}\n```\n| {body} |\n|---|\n<!-- {body} -->\n[a]: b.md {body}\n"), vec![]),
        (format!("- [{body}](c.md),\n- `{body}`\n"), vec![]),
        (format!("[{body}](c.md) d\n"), vec![1]),
    ] {
        assert_eq!(lines_hit(&page, Syntax::Markdown), lines, "{page}");
    }
}

#[test]
fn lines_of_shell_and_configuration_are_comments_only_after_a_hash() {
    let text = "#!/bin/sh what\n# What this does\necho What # Who\nkey: what # What\n  # who reads it\n";
    assert_eq!(lines_hit(text, Syntax::Hash), [2, 5]);
}

#[test]
fn kinds_of_files_are_known_by_their_names() {
    let syntax = |path: &str| Syntax::of(Path::new(path));
    assert_eq!(syntax("a/b.rs"), Some(Syntax::Rust));
    assert_eq!(syntax("script/main.lua"), Some(Syntax::Lua));
    assert_eq!(syntax("Cargo.toml"), Some(Syntax::Hash));
    assert_eq!(syntax("/checkout/.ci/run"), Some(Syntax::Hash));
    assert_eq!(syntax("deploy/docker/Dockerfile"), Some(Syntax::Hash));
    assert_eq!(syntax("README.md"), Some(Syntax::Markdown));
    assert_eq!(syntax("Cargo.lock"), None);
    assert_eq!(syntax("LICENSE-MIT"), None);
}

#[test]
fn files_are_counted_by_crate_folder_or_root() {
    assert_eq!(checkout::area_of("crates/tidegate-wire/src/lib.rs"), "tidegate-wire");
    assert_eq!(checkout::area_of("docs/internals/performance.md"), "docs");
    assert_eq!(checkout::area_of("README.md"), "root");
    assert_eq!(checkout::area_of(".ci/run"), "root");
}

#[test]
fn this_workspace_keeps_the_rules() {
    assert_eq!(super::hits().unwrap(), []);
}

#[test]
fn a_comparison_of_python_is_no_hit_and_its_comment_is() {
    let python = concat!("if answer is ", "None:\n");
    assert!(lines_hit(python, Syntax::Hash).is_empty());
    assert_eq!(lines_hit(&format!("{python}# There {NONE}.\n"), Syntax::Hash), [2]);
}
