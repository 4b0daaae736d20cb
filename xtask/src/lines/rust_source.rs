//! The lines of code in a file of Rust, those of its tests apart.

use std::collections::BTreeSet;
use std::iter::once;

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::Meta;

use crate::module_tree::needs_test;

/// Lines that have a token, other than those of a comment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RustLines {
    /// Lines of every build.
    pub(super) code: usize,
    /// Lines of items that only tests and loom models have.
    pub(super) tests: usize,
}

/// Counts the lines of `text`.
pub(super) fn count(text: &str) -> Result<RustLines, String> {
    let tokens: TokenStream = text.parse().map_err(|error| format!("{error}"))?;
    let lines: Vec<&str> = text.lines().collect();
    let mut found = FoundLines { lines: &lines, code: BTreeSet::new(), tests: BTreeSet::new() };
    found.add(&tokens.into_iter().collect::<Vec<_>>(), false);
    // Literals may contain empty lines.
    let filled = |numbers: &BTreeSet<usize>| {
        numbers.iter().filter(|number| !lines[**number - 1].trim().is_empty()).count()
    };
    let only_tests = &found.tests - &found.code;
    Ok(RustLines { code: filled(&found.code), tests: filled(&only_tests) })
}

/// Numbers of lines, from 1.
struct FoundLines<'text> {
    lines: &'text [&'text str],
    code: BTreeSet<usize>,
    tests: BTreeSet<usize>,
}

impl FoundLines<'_> {
    fn add(&mut self, tokens: &[TokenTree], is_test: bool) {
        let mut position = 0;
        while let Some(token) = tokens.get(position) {
            let attributes = attributes_at(&tokens[position..]);
            if attributes == 0 {
                self.add_token(token, is_test);
                position += 1;
                continue;
            }
            let item = position + attributes;
            let is_test_item = tokens[position..item].iter().any(is_condition_of_tests);
            let end = if is_test_item { item + item_length(&tokens[item..]) } else { item };
            for token in &tokens[position..end] {
                self.add_token(token, is_test || is_test_item);
            }
            position = end;
        }
    }

    fn add_token(&mut self, token: &TokenTree, is_test: bool) {
        let span = token.span();
        if self.is_comment(span) {
            return;
        }
        let numbers = if is_test { &mut self.tests } else { &mut self.code };
        match token {
            TokenTree::Group(group) => {
                numbers.extend(once(group.span_open().start().line));
                numbers.extend(once(group.span_close().end().line));
                self.add(&group.stream().into_iter().collect::<Vec<_>>(), is_test);
            }
            _ => numbers.extend(span.start().line..=span.end().line),
        }
    }

    /// Whether a token is part of a comment that documents an item.
    fn is_comment(&self, span: Span) -> bool {
        let start = span.start();
        let rest = self.lines[start.line - 1].chars().skip(start.column);
        let first: String = rest.take(3).collect();
        matches!(first.as_str(), "///" | "//!" | "/**" | "/*!")
    }
}

/// How many tokens the attributes take with which `tokens` begins.
fn attributes_at(tokens: &[TokenTree]) -> usize {
    let mut length = 0;
    loop {
        match &tokens[length..] {
            [TokenTree::Punct(mark), TokenTree::Group(group), ..]
                if mark.as_char() == '#' && group.delimiter() == Delimiter::Bracket =>
            {
                length += 2;
            }
            _ => return length,
        }
    }
}

/// Whether the token is the bracket of an attribute that leaves an item to tests.
fn is_condition_of_tests(token: &TokenTree) -> bool {
    let TokenTree::Group(group) = token else { return false };
    let Ok(Meta::List(list)) = syn::parse2::<Meta>(group.stream()) else { return false };
    list.path.is_ident("cfg") && list.parse_args::<Meta>().is_ok_and(|condition| needs_test(&condition))
}

/// How many tokens the item, statement, field or arm takes with which `tokens` begins.
fn item_length(tokens: &[TokenTree]) -> usize {
    const ITEMS: &[&str] =
        &["const", "enum", "extern", "fn", "impl", "mod", "static", "struct", "trait", "type", "use"];
    const BEFORE_ITEMS: &[&str] = &["async", "pub", "unsafe"];
    let mut words = tokens.iter().filter_map(|token| match token {
        TokenTree::Ident(word) => Some(word.to_string()),
        _ => None,
    });
    let first = words.find(|word| !BEFORE_ITEMS.contains(&word.as_str())).unwrap_or_default();
    let is_item = ITEMS.contains(&first.as_str());
    let ends = |token: &TokenTree| match token {
        TokenTree::Punct(mark) => mark.as_char() == ';' || mark.as_char() == ',' && !is_item,
        // The names that a `use` takes stand on the lines of its own.
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace && first != "use",
        _ => false,
    };
    tokens.iter().position(ends).map_or(tokens.len(), |end| end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(text: &str) -> (usize, usize) {
        let RustLines { code, tests } = count(text).unwrap();
        (code, tests)
    }

    #[test]
    fn comments_and_blank_lines_are_no_code() {
        let text = "//! A module.\n\n/// A function.\n/** Of two\nlines. */\nfn one() -> u8 {\n    // Always.\n\n    1 // one\n}\n";
        assert_eq!(counted(text), (3, 0));
    }

    #[test]
    fn lines_inside_literals_are_code_also_where_they_look_like_comments() {
        assert_eq!(counted("const TEXT: &str = \"one\n// two\n\n/// four\";\n"), (3, 0));
    }

    #[test]
    fn items_of_tests_are_counted_apart_with_their_attributes() {
        let text = "\
use a::b;
#[cfg(test)]
use a::{
    c,
};

fn code() {}

/// Not a line.
#[derive(Debug)]
#[cfg(all(test, unix))]
struct Fixture<A, B> {
    a: A,
}

#[cfg(test)]
mod tests {
    fn test<A, B>() {}
}
#[cfg(not(test))]
fn more() {}
";
        assert_eq!(counted(text), (4, 4 + 5 + 4));
    }

    #[test]
    fn statements_fields_and_arms_of_tests_end_where_they_do() {
        let text = "\
struct Record {
    #[cfg(test)]
    seen: u8,
    kept: u8,
}
fn run() {
    #[cfg(tidegate_loom)]
    let a = 1;
    let b = 2;
}
";
        assert_eq!(counted(text), (6, 4));
    }

    #[test]
    fn a_file_that_is_no_rust_says_so() {
        assert!(count("fn run( {").is_err());
    }
}
