//! Tables for people: cells below each other, on lines that a terminal takes for text.

/// Rows of cells below headings. A heading that begins with `>` is aligned to the right, with its
/// column.
pub(crate) struct Columns<const N: usize> {
    headings: [&'static str; N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Columns<N> {
    pub(crate) fn new(headings: [&'static str; N]) -> Self {
        Self { headings, rows: Vec::new() }
    }

    pub(crate) fn push(&mut self, row: [String; N]) {
        self.rows.push(row.map(|cell| one_line(&cell)));
    }

    /// The table, a line for each row; nothing without rows.
    pub(crate) fn text(&self) -> String {
        if self.rows.is_empty() { String::new() } else { self.lines().concat() }
    }

    /// The line of the headings, then a line for each row.
    pub(crate) fn lines(&self) -> Vec<String> {
        let headings = self.headings.map(|heading| heading.trim_start_matches('>').to_owned());
        let rows = || core::iter::once(&headings).chain(&self.rows);
        let width = |column: usize| rows().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: [usize; N] = core::array::from_fn(width);
        let line = |row: &[String; N]| {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let padding = " ".repeat(widths[column] - cell.chars().count());
                let is_right = self.headings[column].starts_with('>');
                let (before, after) = if is_right { (&*padding, "") } else { ("", &*padding) };
                line.extend([before, cell, after, "  "]);
            }
            format!("{}\n", line.trim_end())
        };
        rows().map(line).collect()
    }
}

/// Text from outside without anything that a terminal would obey: control characters and marks of
/// direction as escapes.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        let is_mark =
            matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || is_mark { line.extend(c.escape_default()) } else { line.push(c) }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stand_below_each_other_and_hold_nothing_that_a_terminal_obeys() {
        let mut columns = Columns::new(["KEY", ">REFUSED", "REASON"]);
        columns.push(["user=ada".to_owned(), "7".to_owned(), "blocked".to_owned()]);
        columns.push(["k=\u{1b}[2J\n".to_owned(), "12345678".to_owned(), String::new()]);
        let expected = "\
KEY             REFUSED  REASON
user=ada              7  blocked
k=\\u{1b}[2J\\n  12345678
";
        assert_eq!(columns.text(), expected);
        assert_eq!(Columns::new(["KEY"]).text(), "");
    }
}
