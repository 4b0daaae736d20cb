//! Text of a file as a message shows it.

/// The longest value that is quoted in a message, in characters.
const SHOWN_CHARS_MAX: usize = 80;

/// `text` as it is quoted in a message: on one line and not too long.
pub(crate) fn shown(text: &str) -> String {
    printable(text, SHOWN_CHARS_MAX)
}

/// All of `text`, on one line.
pub(crate) fn on_one_line(text: &str) -> String {
    printable(text, usize::MAX)
}

/// `text` on one line, with at most `chars_max` characters.
pub(crate) fn printable(text: &str, chars_max: usize) -> String {
    let mut out = String::with_capacity(text.len().min(chars_max));
    for (count, c) in text.chars().enumerate() {
        if count == chars_max {
            out.push('…');
            break;
        }
        if c.is_control() || ('\u{202A}'..='\u{202E}').contains(&c) || ('\u{2066}'..='\u{2069}').contains(&c)
        {
            // Line breaks would end the message; the rest would let a file write to the terminal of
            // its reader.
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_stays_on_one_line_and_short() {
        assert_eq!(shown("a\nb\u{1b}[31m\u{202e}"), "a\\nb\\u{1b}[31m\\u{202e}");
        assert_eq!(shown(&"x".repeat(1000)).chars().count(), SHOWN_CHARS_MAX + 1);
    }
}
