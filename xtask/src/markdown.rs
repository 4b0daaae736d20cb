//! The parts of a Markdown page: prose, tables, code and the lines between them.
//!
//! A paragraph is a paragraph of prose, a heading, an item of a list or a part of a table's cell.

/// Columns of a line of prose at most, in pages and in comments; indentation included.
pub(crate) const COLUMNS: usize = 100;

/// A line of a page is one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineKind {
    Blank,
    /// A fence or a line between two fences.
    Code,
    Comment,
    Heading,
    LinkDefinition,
    Prose,
    Table,
}

/// A line of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MarkdownLine<'page> {
    /// From 0.
    pub(crate) index: usize,
    /// The whole line.
    pub(crate) text: &'page str,
    /// The line without its indentation and the markers of a quote, list item or heading.
    pub(crate) body: &'page str,
    pub(crate) kind: LineKind,
    /// Whether an item of a list begins here.
    begins_item: bool,
}

impl MarkdownLine<'_> {
    /// Whether the line is prose of more than [`COLUMNS`] columns that can be broken: a code span
    /// and a link with its marks stay in one line.
    pub(crate) fn is_too_wide(&self) -> bool {
        self.kind == LineKind::Prose && self.text.chars().count() > COLUMNS && has_break(self.body)
    }
}

/// The lines of a page, in order.
pub(crate) fn lines(page: &str) -> Vec<MarkdownLine<'_>> {
    let (mut fence_is_open, mut comment_is_open) = (false, false);
    let mut lines = Vec::new();
    for (index, text) in page.lines().enumerate() {
        let trimmed = text.trim();
        let is_fence = trimmed.starts_with("```") || trimmed.starts_with("~~~");
        let is_comment = comment_is_open || !fence_is_open && trimmed.starts_with("<!--");
        let quoted = trimmed.trim_start_matches("> ");
        let (marker, body) = split_marker(quoted);
        let kind = if is_comment {
            comment_is_open = !trimmed.contains("-->");
            LineKind::Comment
        } else if is_fence || fence_is_open {
            fence_is_open ^= is_fence;
            LineKind::Code
        } else if trimmed.is_empty() {
            LineKind::Blank
        } else if trimmed.starts_with('|') {
            LineKind::Table
        } else if marker.starts_with('#') {
            LineKind::Heading
        } else if trimmed.starts_with('[') && trimmed.contains("]: ") {
            LineKind::LinkDefinition
        } else {
            LineKind::Prose
        };
        let begins_item = kind == LineKind::Prose && !marker.is_empty();
        lines.push(MarkdownLine { index, text, body, kind, begins_item });
    }
    lines
}

/// The first lines of tables that have no line of dashes below it.
pub(crate) fn headless_tables<'page>(
    lines: &[MarkdownLine<'page>],
) -> impl Iterator<Item = MarkdownLine<'page>> {
    let tables = lines.chunk_by(|one, next| (one.kind == LineKind::Table) == (next.kind == LineKind::Table));
    let is_rule = |line: &MarkdownLine<'_>| line.text.chars().all(|mark| "|-: ".contains(mark));
    tables
        .filter(|table| table[0].kind == LineKind::Table)
        .filter(move |table| !table.get(1).is_some_and(is_rule))
        .map(|table| table[0])
}

/// The marker of a list item or heading, and the rest.
pub(crate) fn split_marker(text: &str) -> (&str, &str) {
    let Some((first, rest)) = text.split_once(' ') else { return ("", text) };
    let number = first.trim_end_matches(['.', ')']);
    let is_number = number.len() < first.len() && number.chars().all(|digit| digit.is_ascii_digit());
    let is_heading = first.chars().all(|mark| mark == '#');
    if matches!(first, "-" | "*" | "+") || is_number && !number.is_empty() || is_heading {
        (first, rest.trim_start())
    } else {
        ("", text)
    }
}

/// Text that is read as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Paragraph {
    /// Of its first line, from 0.
    pub(crate) index: usize,
    /// Its lines without indentation and markers.
    pub(crate) text: String,
}

impl Paragraph {
    /// A paragraph of one line, to which further lines may be added.
    pub(crate) fn begin(index: usize, line: &str) -> Self {
        Self { index, text: line.to_owned() }
    }

    /// Adds the next line of the file.
    pub(crate) fn add(&mut self, line: &str) {
        self.text.push('\n');
        self.text.push_str(line);
    }
}

/// The paragraphs of a page, in order.
pub(crate) fn paragraphs(page: &str) -> Vec<Paragraph> {
    let mut paragraphs: Vec<Paragraph> = Vec::new();
    let mut is_open = false;
    for line in lines(page) {
        match line.kind {
            LineKind::Prose if is_open && !line.begins_item => {
                paragraphs.last_mut().expect("a paragraph is open").add(line.body);
            }
            LineKind::Prose | LineKind::Heading => paragraphs.push(Paragraph::begin(line.index, line.body)),
            LineKind::Table => {
                let parts = cells(line.text).into_iter().flat_map(|cell| cell.split("<br>"));
                let parts = parts.map(str::trim).filter(|part| !part.is_empty());
                paragraphs.extend(parts.map(|part| Paragraph::begin(line.index, part)));
            }
            LineKind::Blank | LineKind::Code | LineKind::Comment | LineKind::LinkDefinition => {}
        }
        is_open = line.kind == LineKind::Prose;
    }
    paragraphs
}

/// The cells of a row of a table.
fn cells(row: &str) -> Vec<&str> {
    let mut cells = Vec::new();
    let mut begin = 0;
    for (at, _) in row.match_indices('|').filter(|(at, _)| !row[..*at].ends_with('\\')) {
        cells.push(&row[begin..at]);
        begin = at + 1;
    }
    cells.push(&row[begin..]);
    cells
}

/// The code spans of a paragraph, each on one line.
pub(crate) fn code_spans(paragraph: &str) -> Vec<String> {
    let spans = code_ranges(paragraph).into_iter().map(|(begin, end)| &paragraph[begin..end]);
    spans.map(|span| span.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// The paragraph with blanks in place of code and of the targets of links. Every other letter stays
/// where it is.
pub(crate) fn without_code_and_targets(paragraph: &str) -> String {
    let mut hidden = code_ranges(paragraph);
    for (at, _) in paragraph.match_indices("](") {
        let rest = &paragraph[at + 2..];
        hidden.push((at + 2, at + 2 + rest.find(')').unwrap_or(rest.len())));
    }
    let is_hidden = |at: usize| hidden.iter().any(|(begin, end)| (*begin..*end).contains(&at));
    let mut shown = String::with_capacity(paragraph.len());
    for (at, letter) in paragraph.char_indices() {
        if letter != '\n' && is_hidden(at) {
            shown.extend(std::iter::repeat_n(' ', letter.len_utf8()));
        } else {
            shown.push(letter);
        }
    }
    shown
}

/// Where the code spans of a paragraph begin and end, without their backticks.
fn code_ranges(paragraph: &str) -> Vec<(usize, usize)> {
    let mut ranges = Vec::new();
    let mut rest = 0;
    while let Some(found) = paragraph[rest..].find('`') {
        let begin = rest + found;
        let marks = paragraph[begin..].len() - paragraph[begin..].trim_start_matches('`').len();
        let inner = begin + marks;
        let Some(length) = length_of_span(&paragraph[inner..], marks) else { break };
        ranges.push((inner, inner + length));
        rest = inner + length + marks;
    }
    ranges
}

/// The length of the code before exactly so many backticks.
fn length_of_span(text: &str, marks: usize) -> Option<usize> {
    let mut at = 0;
    loop {
        let begin = at + text[at..].find('`')?;
        let end = begin + (text[begin..].len() - text[begin..].trim_start_matches('`').len());
        if end - begin == marks {
            return Some(begin);
        }
        at = end;
    }
}

/// Whether a line has a blank at which it may be broken: outside of code and of links.
fn has_break(line: &str) -> bool {
    let code = code_ranges(line);
    let mut depth = 0_usize;
    let mut link_is_open = false;
    for (at, letter) in line.char_indices() {
        if code.iter().any(|(begin, end)| (*begin..*end).contains(&at)) {
            continue;
        }
        match letter {
            '[' => depth += 1,
            ']' => {
                depth = depth.saturating_sub(1);
                link_is_open = line[at + 1..].starts_with('(');
            }
            ')' => link_is_open = false,
            ' ' if depth == 0 && !link_is_open => return true,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_prose_but_for_code_comments_tables_headings_and_definitions() {
        use LineKind::{Blank, Code, Comment, Heading, LinkDefinition, Prose, Table};
        let page = "# A\n\nb\n- c\n  d\n\n  ```sh\n  # e\n  ```\n| f |\n<!-- g -->\n<!-- setup:\nh\n-->\n[i]: j.md\n1. k\n";
        let kinds: Vec<LineKind> = lines(page).iter().map(|line| line.kind).collect();
        let expected = [
            Heading,
            Blank,
            Prose,
            Prose,
            Prose,
            Blank,
            Code,
            Code,
            Code,
            Table,
            Comment,
            Comment,
            Comment,
            Comment,
            LinkDefinition,
            Prose,
        ];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn a_paragraph_ends_at_a_blank_line_an_item_and_a_cell() {
        let found = paragraphs("# A\nb\nc\n- d\n  e\n2. f\n\n> g\n> h\n\n| i | j<br>k \\| l |\n|---|---|\n");
        let texts: Vec<&str> = found.iter().map(|paragraph| paragraph.text.as_str()).collect();
        assert_eq!(texts, ["A", "b\nc", "d\ne", "f", "g\nh", "i", "j", "k \\| l", "---", "---"]);
        assert_eq!(found[3].index, 5);
    }

    #[test]
    fn code_spans_may_go_over_lines_and_contain_backticks() {
        assert_eq!(code_spans("a `b\n c` d ``e`f`` `open"), ["b c", "e`f"]);
        assert_eq!(without_code_and_targets("a `b of\nc` [of](of.md) of"), "a `    \n ` [of](     ) of");
    }

    #[test]
    fn a_line_can_be_broken_at_a_blank_outside_of_code_and_links() {
        for (line, expected) in [
            ("a b", true),
            ("a", false),
            ("`a b c`.", false),
            ("[a b `c]` d](e f),", false),
            ("([a b](c)),", false),
            ("`a b` c", true),
            ("[a b](c d) e", true),
        ] {
            assert_eq!(has_break(line), expected, "{line}");
        }
    }
}
