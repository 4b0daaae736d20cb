//! Patterns in which each `*` stands for any characters, or none.

/// Whether `text` is as `pattern` says. Takes time that grows with the product of the two at worst, and no memory.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut read) = (0, 0);
    // Where to go on when what follows a star does not fit: after that star, one byte later in the text.
    let mut again: Option<(usize, usize)> = None;
    while read < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                at += 1;
                again = Some((at, read));
            }
            Some(byte) if *byte == text[read] => {
                at += 1;
                read += 1;
            }
            _ => {
                let Some((after_star, from)) = again else { return false };
                at = after_star;
                read = from + 1;
                again = Some((after_star, from + 1));
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Whether `text` has a star in it.
pub(super) fn is_pattern(text: &str) -> bool {
    text.contains('*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_stands_for_any_characters_anywhere_and_for_none() {
        for (pattern, text, fits) in [
            ("foo*", "foo", true),
            ("foo*", "foobar", true),
            ("foo*", "fo", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("*bar", "foobar", true),
            ("*bar", "foobarx", false),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "acb", false),
            ("a**c", "ac", true),
            ("*ab", "aab", true),
            ("*é*", "caféine", true),
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        assert!(!matches(&"a*".repeat(500), &format!("{}b", "a".repeat(499))));
        assert!(!matches(&format!("{}b", "*a".repeat(1000)), &"a".repeat(4000)));
    }
}
