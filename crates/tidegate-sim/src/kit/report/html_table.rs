//! Tables of a page.

use core::fmt::Write as _;

/// The class of columns and cells that have a number.
pub const NUMBER: &str = "n";

/// A column: its class, empty or [`NUMBER`], and its heading as it stands in HTML.
pub type Column<'a> = (&'a str, &'a str);

/// A cell: its class and its content as it stands in HTML.
pub type Cell<'a> = (&'a str, String);

/// A cell of text.
pub fn text(content: impl Into<String>) -> Cell<'static> {
    ("", content.into())
}

/// A cell with a number.
pub fn number(content: impl Into<String>) -> Cell<'static> {
    (NUMBER, content.into())
}

/// A cell with a number that must be zero.
pub fn zero(count: u64) -> Cell<'static> {
    (if count == 0 { "n pass" } else { "n fail" }, count.to_string())
}

/// A table of a page, to be ended by [`HtmlTable::close`].
#[derive(Debug)]
pub struct HtmlTable<'a> {
    html: &'a mut String,
    is_wide: bool,
}

impl<'a> HtmlTable<'a> {
    /// A table with these columns.
    pub fn open<'c>(html: &'a mut String, columns: impl IntoIterator<Item = Column<'c>>) -> Self {
        html.push_str("<table>");
        let mut table = Self { html, is_wide: false };
        table.push_row("tr", "th", columns);
        table
    }

    /// The same, which scrolls where it is wider than the page.
    pub fn open_wide<'c>(html: &'a mut String, columns: impl IntoIterator<Item = Column<'c>>) -> Self {
        html.push_str("<div class=\"scroll\">");
        let table = Self::open(html, columns);
        Self { is_wide: true, ..table }
    }

    /// A row.
    pub fn row<'c>(&mut self, cells: impl IntoIterator<Item = Cell<'c>>) {
        self.push_row("tr", "td", cells);
    }

    /// A row of the design that stands out.
    pub fn own_row<'c>(&mut self, cells: impl IntoIterator<Item = Cell<'c>>) {
        self.push_row("tr class=\"own\"", "td", cells);
    }

    /// Ends the table.
    pub fn close(self) {
        self.html.push_str(if self.is_wide { "</table></div>\n" } else { "</table>\n" });
    }

    fn push_row<'c, C: AsRef<str>>(
        &mut self,
        row: &str,
        cell: &str,
        cells: impl IntoIterator<Item = (&'c str, C)>,
    ) {
        let _ = write!(self.html, "<{row}>");
        for (class, content) in cells {
            let content = content.as_ref();
            let _ = match class {
                "" => write!(self.html, "<{cell}>{content}"),
                _ => write!(self.html, "<{cell} class=\"{class}\">{content}"),
            };
        }
        self.html.push_str("</tr>\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_the_class_of_what_they_are() {
        let mut html = String::new();
        let mut table = HtmlTable::open_wide(&mut html, [("", "rule"), (NUMBER, "violations")]);
        table.row([text("each"), zero(0)]);
        table.own_row([text("own"), zero(2)]);
        table.close();
        assert_eq!(
            html,
            "<div class=\"scroll\"><table><tr><th>rule<th class=\"n\">violations</tr>\n\
             <tr><td>each<td class=\"n pass\">0</tr>\n\
             <tr class=\"own\"><td>own<td class=\"n fail\">2</tr>\n</table></div>\n"
        );
    }
}
