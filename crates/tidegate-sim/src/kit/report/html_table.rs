//! Tables of a page.

use core::fmt::Write as _;
use core::ops::Range;

/// The headings of columns, as they stand in HTML: text, then numbers, then text again.
pub type Columns<'a> = [&'a [&'a str]; 3];

/// A table of a page, to be ended by [`HtmlTable::close`]. Cells stand in HTML as they are given.
#[derive(Debug)]
pub struct HtmlTable<'a> {
    html: &'a mut String,
    /// The places of the columns of numbers.
    numbers: Range<usize>,
    end: &'static str,
}

impl<'a> HtmlTable<'a> {
    /// A table with these columns.
    pub fn open(html: &'a mut String, columns: Columns<'_>) -> Self {
        html.push_str("<table>");
        let first = columns[0].len();
        let mut table = Self { html, numbers: first..first + columns[1].len(), end: "</table>\n" };
        table.push_row("<tr>", "th", None, columns.into_iter().flatten());
        table
    }

    /// The same, which scrolls where it is wider than the page.
    pub fn open_wide(html: &'a mut String, columns: Columns<'_>) -> Self {
        html.push_str("<div class=\"scroll\">");
        Self { end: "</table></div>\n", ..Self::open(html, columns) }
    }

    /// A row.
    pub fn row<C: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.push_row("<tr>", "td", None, cells);
    }

    /// A row that stands out if it is about the product's own design.
    pub fn row_of<C: AsRef<str>>(&mut self, is_own: bool, cells: impl IntoIterator<Item = C>) {
        self.push_row(if is_own { "<tr class=\"own\">" } else { "<tr>" }, "td", None, cells);
    }

    /// A row whose cell at `place` is marked with a class: `pass`, `fail` or `open`.
    pub fn marked_row<C: AsRef<str>>(
        &mut self,
        (place, class): (usize, &str),
        cells: impl IntoIterator<Item = C>,
    ) {
        self.push_row("<tr>", "td", Some((place, class)), cells);
    }

    /// Ends the table.
    pub fn close(self) {
        self.html.push_str(self.end);
    }

    fn push_row<C: AsRef<str>>(
        &mut self,
        row: &str,
        cell: &str,
        mark: Option<(usize, &str)>,
        cells: impl IntoIterator<Item = C>,
    ) {
        self.html.push_str(row);
        for (place, content) in cells.into_iter().enumerate() {
            let mark = mark.filter(|(marked, _)| *marked == place).map(|(_, class)| class);
            let number = self.numbers.contains(&place).then_some("n");
            let classes: Vec<&str> = number.into_iter().chain(mark).collect();
            let _ = match classes.join(" ").as_str() {
                "" => write!(self.html, "<{cell}>"),
                classes => write!(self.html, "<{cell} class=\"{classes}\">"),
            };
            self.html.push_str(content.as_ref());
        }
        self.html.push_str("</tr>\n");
    }
}

/// The class of a count that must be zero.
pub const fn mark_of(count: u64) -> &'static str {
    if count == 0 { "pass" } else { "fail" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_the_class_of_what_they_are() {
        let mut html = String::new();
        let mut table = HtmlTable::open_wide(&mut html, [&["rule"], &["violations"], &["why"]]);
        table.marked_row((1, mark_of(0)), ["each", "0", ""]);
        table.marked_row((0, "open"), ["all", "1", ""]);
        table.row_of(true, ["own", "2", "-"]);
        table.close();
        assert_eq!(
            html,
            "<div class=\"scroll\"><table><tr><th>rule<th class=\"n\">violations<th>why</tr>\n\
             <tr><td>each<td class=\"n pass\">0<td></tr>\n\
             <tr><td class=\"open\">all<td class=\"n\">1<td></tr>\n\
             <tr class=\"own\"><td>own<td class=\"n\">2<td>-</tr>\n</table></div>\n"
        );
    }
}
