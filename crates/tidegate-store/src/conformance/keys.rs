//! That keys are kept apart, whatever they are made of.

use super::harness::ConformanceStore;
use super::trial::{Passed, Trial, ensure};
use crate::Key;

/// Charges each key by another number of units and looks whether each has its own.
fn apart<H: ConformanceStore>(trial: &Trial<'_, H>, keys: &[Key]) -> Passed {
    for algorithm in trial.algorithms() {
        for (index, key) in keys.iter().enumerate() {
            trial.spend(key, &algorithm, 1 + index as u64 % 9)?;
        }
        for (index, key) in keys.iter().enumerate() {
            let used = trial.peek(&trial.admit(key, &algorithm))?.used;
            let expected = 1 + index as u64 % 9;
            ensure!(used == expected, "{key:?} has {used} of {} used, not {expected}", algorithm.name());
        }
        for key in keys {
            trial.one(crate::Operation { kind: crate::Kind::Reset, ..trial.admit(key, &algorithm) })?;
        }
    }
    Ok(())
}

fn from_parts(parts: &[Option<&[u8]>]) -> Key {
    Key::from_parts(parts.iter().copied()).expect("short enough")
}

/// `a` + `b_c` and `a_b` + `c`, and their like with other separators.
pub fn keys_that_look_alike_when_joined_are_different_counters<H: ConformanceStore>(
    trial: &Trial<'_, H>,
) -> Passed {
    for separator in ["_", ":", "/", "|", ",", "\0", " ", "}", "{", "\n", "\r\n"] {
        let joined = |left: &str, right: &str| format!("{left}{separator}{right}").into_bytes();
        let (a_b, b_c, a_b_c) = (joined("a", "b"), joined("b", "c"), joined(&format!("a{separator}b"), "c"));
        apart(
            trial,
            &[
                from_parts(&[Some(b"a"), Some(&b_c)]),
                from_parts(&[Some(&a_b), Some(b"c")]),
                from_parts(&[Some(&a_b_c)]),
                from_parts(&[Some(b"a"), Some(b"b"), Some(b"c")]),
                from_parts(&[Some(b"a"), None, Some(&b_c)]),
                from_parts(&[Some(b"a"), Some(b""), Some(&b_c)]),
            ],
        )?;
    }
    Ok(())
}

/// Text of any script, bytes that are no text, differences of case and of one bit, nothing, and the
/// longest keys.
pub fn keys_of_any_bytes_and_the_longest_keys_are_counted<H: ConformanceStore>(
    trial: &Trial<'_, H>,
) -> Passed {
    let every_byte: Vec<u8> = (0..=255).collect();
    // A part of this length has a length of two bytes.
    let longest = vec![b'x'; Key::BYTES_MAX - 2];
    let mut last_differs = longest.clone();
    last_differs[Key::BYTES_MAX - 3] = b'y';
    let mut binary = vec![0xff; Key::BYTES_MAX - 2];
    binary[0] = 0;
    let composed = "\u{e9}".as_bytes();
    let decomposed = "e\u{301}".as_bytes();
    apart(
        trial,
        &[
            from_parts(&[]),
            from_parts(&[None]),
            from_parts(&[Some(b"")]),
            from_parts(&[Some(b"\0")]),
            from_parts(&[Some(b"\0\0")]),
            from_parts(&[Some("Ünïcödé 漢字 🦀".as_bytes())]),
            from_parts(&[Some(composed)]),
            from_parts(&[Some(decomposed)]),
            from_parts(&[Some(b"Key")]),
            from_parts(&[Some(b"key")]),
            from_parts(&[Some(b"key ")]),
            from_parts(&[Some(&every_byte)]),
            from_parts(&[Some(&every_byte[..255])]),
            from_parts(&[Some(b"\xff\xfe\xfd")]),
            from_parts(&[Some(&longest)]),
            from_parts(&[Some(&last_differs)]),
            from_parts(&[Some(&longest[1..])]),
            from_parts(&[Some(&binary)]),
        ],
    )
}
