//! Patterns in which each `*` stands for any characters, or none.

use tidegate_core::matcher::StarredText;

/// Whether `pattern` matches the whole of `text`.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    StarredText::is_match(pattern, text)
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
    fn a_thousand_stars_take_linear_time() {
        let text = "a".repeat(64 << 10);
        // Takes milliseconds; in time that is not linear it would take minutes.
        for _ in 0..100 {
            assert!(!matches(&format!("{}b", "*a".repeat(1000)), &text));
            // 32 KiB of one piece that fits nowhere, tried at each place before.
            assert!(!matches(&format!("*{}b*", "a".repeat(32 << 10)), &text));
        }
        assert!(matches(&format!("{}*", "*a".repeat(1000)), &text));
    }

    /// Tries out every run that a star may stand for.
    fn by_trial(pattern: &[u8], text: &[u8]) -> bool {
        match pattern {
            [] => text.is_empty(),
            [b'*', rest @ ..] => (0..=text.len()).any(|run| by_trial(rest, &text[run..])),
            [byte, rest @ ..] => text.first() == Some(byte) && by_trial(rest, &text[1..]),
        }
    }

    #[test]
    fn every_short_pattern_matches_what_trying_out_matches() {
        let all = |alphabet: &[char], length: usize| {
            let mut all = vec![String::new()];
            let mut longest = all.clone();
            for _ in 0..length {
                longest = longest
                    .iter()
                    .flat_map(|text| alphabet.iter().map(move |letter| format!("{text}{letter}")))
                    .collect();
                all.extend(longest.iter().cloned());
            }
            all
        };
        let texts = all(&['a', 'b'], 6);
        for pattern in all(&['a', 'b', '*'], 5) {
            for text in &texts {
                let expected = by_trial(pattern.as_bytes(), text.as_bytes());
                assert_eq!(matches(&pattern, text), expected, "{pattern} {text}");
            }
        }
    }
}
