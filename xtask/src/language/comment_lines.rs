//! The comment lines of a file, each with its place in the paragraph.

use std::collections::BTreeSet;
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};

use crate::markdown::split_marker;

/// How a file writes comments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syntax {
    /// `//`, `///` and `//!`.
    Rust,
    /// `--`.
    Lua,
    /// `#`, as in shell, TOML, YAML and Python.
    Hash,
    /// No comments: all of it is read by people.
    Markdown,
}

impl Syntax {
    /// The syntax of the file; `None` when it is of no kind that is checked.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => Some(Self::Rust),
            Some("lua") => Some(Self::Lua),
            Some("sh" | "toml" | "yaml" | "yml" | "py") => Some(Self::Hash),
            Some("md") => Some(Self::Markdown),
            None if name == "Dockerfile" || path.parent()?.file_name()? == ".ci" => Some(Self::Hash),
            _ => None,
        }
    }

    /// The text of a comment line; `None` for any other line. `line` begins without blanks.
    fn comment_in(self, line: &str) -> Option<&str> {
        let markers: &[&str] = match self {
            Self::Rust => &["///", "//!", "//"],
            Self::Lua => &["--"],
            Self::Hash => &["#"],
            Self::Markdown => &[],
        };
        markers.iter().find_map(|marker| line.strip_prefix(marker))
    }
}

/// A line that is a comment and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommentLine<'text> {
    /// From 0.
    pub(super) index: usize,
    /// The whole line.
    pub(super) text: &'text str,
    /// The comment without its marker and without the marker of a list item or heading.
    pub(super) body: &'text str,
    /// False in code blocks, in tables and in blank lines.
    pub(super) is_prose: bool,
    /// Whether a paragraph, a list item or a heading begins here.
    pub(super) begins_paragraph: bool,
    /// Whether the line before ends a sentence.
    pub(super) follows_sentence: bool,
}

impl CommentLine<'_> {
    /// Whether the line has more than `columns` columns and can be broken.
    pub(super) fn is_too_long(&self, columns: usize) -> bool {
        let has_address = self.body.contains("://");
        let is_link_target = self.body.starts_with('[') && self.body.contains("]: ");
        let can_be_broken = self.body.contains(' ');
        self.text.chars().count() > columns && can_be_broken && !has_address && !is_link_target
    }
}

/// The comment lines of `text`, in order.
pub(super) fn of(text: &str, syntax: Syntax) -> Vec<CommentLine<'_>> {
    let inside_literals = if syntax == Syntax::Rust { lines_inside_literals(text) } else { BTreeSet::new() };
    let mut lines: Vec<CommentLine> = Vec::new();
    let mut fence_is_open = false;
    for (index, text) in text.lines().enumerate() {
        if inside_literals.contains(&index) || index == 0 && text.starts_with("#!") && syntax == Syntax::Hash
        {
            continue;
        }
        let Some(comment) = syntax.comment_in(text.trim_start()) else { continue };
        let before = lines.last().filter(|before| before.index + 1 == index);
        fence_is_open &= before.is_some();
        let trimmed = comment.trim();
        let is_fence = trimmed.starts_with("```") || trimmed.starts_with("~~~");
        let begins_part = before.is_none_or(|before| !before.is_prose);
        let is_code = fence_is_open || is_fence || begins_part && comment.starts_with("     ");
        fence_is_open ^= is_fence;
        let (marker, body) = split_marker(trimmed);
        lines.push(CommentLine {
            index,
            text,
            body,
            is_prose: !is_code && !trimmed.is_empty() && !trimmed.starts_with('|'),
            begins_paragraph: begins_part || !marker.is_empty(),
            follows_sentence: before.is_some_and(|before| ends_sentence(before.body)),
        });
    }
    lines
}

/// Whether the text ends with a full stop, question or exclamation mark, quoted or not.
fn ends_sentence(text: &str) -> bool {
    text.trim_end_matches(['"', ')', '*', '_', '`', ']']).ends_with(['.', '?', '!'])
}

/// Lines of Rust source that begin within a literal, where `//` begins no comment.
fn lines_inside_literals(source: &str) -> BTreeSet<usize> {
    let mut lines = BTreeSet::new();
    if let Ok(tokens) = source.parse::<TokenStream>() {
        add_literals(tokens, &mut lines);
    }
    lines
}

fn add_literals(tokens: TokenStream, lines: &mut BTreeSet<usize>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => add_literals(group.stream(), lines),
            TokenTree::Literal(literal) => {
                // Lines of a span count from 1, so that the first line is not among these.
                lines.extend(literal.span().start().line..literal.span().end().line);
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
    }
}
