//! Finds numbers in a JSON document that arrives in pieces.
//!
//! The reader keeps a level for each open object or list, the name of the member it is in, and the
//! number it is in: never a string, however long. It finds what a general reader would find in a
//! valid document (a property test holds it against one); of a document that is not valid it finds
//! what comes before the fault. A library that takes JSON in pieces would keep whole strings.

use std::sync::Arc;

use tidegate_policy::grammar::{FIELDS_MAX, FieldPath};

/// The deepest nesting that is read; what is deeper ends the reading.
const DEPTH_MAX: usize = 128;

/// The longest name of a member as it is written, with its escapes: six bytes for each of the 256
/// that a path may have. A longer one is no name that is looked for.
const NAME_BYTES_MAX: usize = 6 * 256;

/// The longest number as it is written. A longer one is no cost.
const NUMBER_BYTES_MAX: usize = 64;

/// Paths as bits: the lowest is the first.
type Paths = u8;

const _: () = assert!(FIELDS_MAX <= Paths::BITS as usize, "each path has a bit");

/// Finds the numbers of some fields.
#[derive(Debug)]
pub(crate) struct JsonNumbers {
    fields: Arc<[FieldPath]>,
    /// The last number of each field.
    found: [Option<u64>; FIELDS_MAX],
    state: State,
    levels: Vec<Level>,
    /// The name or the number that is being read.
    text: Vec<u8>,
}

/// An open object or list.
#[derive(Clone, Copy, Debug)]
struct Level {
    is_list: bool,
    /// The position of the element in a list.
    index: usize,
    /// The paths that lead into it.
    inside: Paths,
    /// The paths that lead into the member or element that is being read.
    here: Paths,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before a value.
    Value,
    /// Before the name of a member, or the end of the object.
    Name,
    /// Behind the name of a member.
    Colon,
    /// Behind a value.
    Next,
    /// In a string; a name is kept where it may be looked for.
    String {
        is_name: bool,
        is_kept: bool,
        is_escaped: bool,
    },
    Number,
    /// In `true`, `false` or `null`.
    Word,
    /// The document has ended, is not valid or too deep.
    Over,
}

impl JsonNumbers {
    pub(crate) fn new(fields: Arc<[FieldPath]>) -> Self {
        Self { fields, found: [None; FIELDS_MAX], state: State::Value, levels: Vec::new(), text: Vec::new() }
    }

    /// The numbers found so far, in the order of the fields.
    pub(crate) fn found(&self) -> &[Option<u64>] {
        &self.found[..self.fields.len().min(FIELDS_MAX)]
    }

    /// Begins with another document.
    pub(super) fn restart(&mut self) {
        (self.found, self.state) = ([None; FIELDS_MAX], State::Value);
        self.levels.clear();
        self.text.clear();
    }

    /// Reads a piece of the document.
    pub(crate) fn read(&mut self, piece: &[u8]) {
        let mut rest = piece;
        while let Some((&byte, after)) = rest.split_first() {
            match self.state {
                State::Over => return,
                State::String { is_name, is_kept, is_escaped } => {
                    rest = self.string(rest, is_name, is_kept, is_escaped);
                    continue;
                }
                State::Number => {
                    if matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E') {
                        self.keep(byte, NUMBER_BYTES_MAX);
                        rest = after;
                        continue;
                    }
                    self.end_number();
                    // The byte behind a number belongs to what comes next.
                    self.between(byte);
                }
                State::Word if byte.is_ascii_lowercase() => {}
                State::Word => {
                    self.state = State::Next;
                    self.between(byte);
                }
                _ => self.between(byte),
            }
            rest = after;
        }
    }

    /// Reads on in a string; the rest of the piece.
    fn string<'p>(&mut self, piece: &'p [u8], is_name: bool, is_kept: bool, is_escaped: bool) -> &'p [u8] {
        let mut is_escaped = is_escaped;
        for (at, byte) in piece.iter().enumerate() {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => {
                    self.end_string(is_name, is_kept);
                    return &piece[at + 1..];
                }
                _ => {}
            }
            if is_kept {
                self.keep(*byte, NAME_BYTES_MAX);
            }
        }
        self.state = State::String { is_name, is_kept, is_escaped };
        &[]
    }

    /// Keeps a byte of a name or a number. One byte more than `bytes_max` says that it is too long.
    fn keep(&mut self, byte: u8, bytes_max: usize) {
        if self.text.len() <= bytes_max {
            self.text.push(byte);
        }
    }

    /// Reads a byte between names, numbers and strings.
    fn between(&mut self, byte: u8) {
        if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            return;
        }
        match (self.state, byte) {
            (State::Value, b'{') => self.open(false),
            (State::Value, b'[') => self.open(true),
            (State::Value, b'"') => {
                self.state = State::String { is_name: false, is_kept: false, is_escaped: false };
            }
            (State::Value, b'-' | b'0'..=b'9') => {
                self.text.clear();
                self.text.push(byte);
                self.state = State::Number;
            }
            (State::Value, b't' | b'f' | b'n') => self.state = State::Word,
            (State::Name, b'"') => {
                self.text.clear();
                let is_kept = self.levels.last().is_some_and(|level| level.inside != 0);
                self.state = State::String { is_name: true, is_kept, is_escaped: false };
            }
            (State::Colon, b':') => self.state = State::Value,
            (State::Next, b',') => self.next(),
            // Before the first name or value they end what is empty.
            (State::Name | State::Next, b'}') => self.close(false),
            (State::Value | State::Next, b']') => self.close(true),
            _ => self.state = State::Over,
        }
    }

    fn open(&mut self, is_list: bool) {
        if self.levels.len() >= DEPTH_MAX {
            self.state = State::Over;
            return;
        }
        let all = (0..self.fields.len()).fold(0, |all, at| all | 1 << at);
        let inside = self.levels.last().map_or(all, |level| level.here);
        self.levels.push(Level { is_list, index: 0, inside, here: 0 });
        if is_list {
            self.enter_element();
        }
        self.state = if is_list { State::Value } else { State::Name };
    }

    fn close(&mut self, is_list: bool) {
        match self.levels.pop() {
            Some(level) if level.is_list == is_list => {
                self.state = if self.levels.is_empty() { State::Over } else { State::Next };
            }
            _ => self.state = State::Over,
        }
    }

    /// Goes on behind a comma.
    fn next(&mut self) {
        let Some(level) = self.levels.last_mut() else {
            self.state = State::Over;
            return;
        };
        if level.is_list {
            level.index += 1;
            self.enter_element();
            self.state = State::Value;
        } else {
            self.state = State::Name;
        }
    }

    /// Finds the paths that lead into the element of the innermost list.
    fn enter_element(&mut self) {
        let Some(level) = self.levels.last() else { return };
        if level.inside != 0 {
            let index = level.index.to_string();
            self.enter(&index);
        }
    }

    /// Finds the paths that lead into the member of this name of the innermost object or list.
    fn enter(&mut self, name: &str) {
        let depth = self.levels.len() - 1;
        let Some(level) = self.levels.last_mut() else { return };
        let mut here = 0;
        for (at, field) in self.fields.iter().enumerate() {
            if level.inside >> at & 1 == 1 && field.get(depth).is_some_and(|wanted| wanted == name) {
                here |= 1 << at;
            }
        }
        level.here = here;
    }

    fn end_string(&mut self, is_name: bool, is_kept: bool) {
        if !is_name {
            self.state = State::Next;
            return;
        }
        if let Some(level) = self.levels.last_mut() {
            level.here = 0;
        }
        if is_kept && self.text.len() <= NAME_BYTES_MAX {
            let text = core::mem::take(&mut self.text);
            if let Some(name) = unescaped(&text) {
                self.enter(&name);
            }
            // Its memory serves the next name.
            self.text = text;
        }
        self.state = State::Colon;
    }

    fn end_number(&mut self) {
        let depth = self.levels.len();
        self.state = if depth == 0 { State::Over } else { State::Next };
        let Some(level) = self.levels.last() else { return };
        if level.here == 0 {
            return;
        }
        let number = cost_of(&self.text);
        for (at, field) in self.fields.iter().enumerate() {
            if level.here >> at & 1 == 1 && field.len() == depth {
                self.found[at] = number;
            }
        }
    }
}

/// The name as its escapes say it; `None` if they are not valid.
fn unescaped(written: &[u8]) -> Option<String> {
    if !written.contains(&b'\\') {
        return core::str::from_utf8(written).ok().map(str::to_owned);
    }
    let quoted = [b"\"", written, b"\""].concat();
    serde_json::from_slice(&quoted).ok()
}

/// A number as a cost: rounded up. `None` for one that is negative, too large or no number.
fn cost_of(written: &[u8]) -> Option<u64> {
    if written.len() > NUMBER_BYTES_MAX {
        return None;
    }
    let text = core::str::from_utf8(written).ok()?;
    if let Ok(whole) = text.parse() {
        return Some(whole);
    }
    let number: f64 = serde_json::from_str(text).ok()?;
    let rounded = number.ceil();
    // Above 2^53 not every whole number is exact; no cost is that large.
    #[expect(clippy::cast_sign_loss, reason = "it is at least 0")]
    (0.0..9e15).contains(&rounded).then_some(rounded as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn fields(texts: &[&str]) -> Arc<[FieldPath]> {
        texts.iter().map(|text| text.split('.').map(str::to_owned).collect()).collect()
    }

    fn found(document: &str, texts: &[&str]) -> Vec<Option<u64>> {
        let mut numbers = JsonNumbers::new(fields(texts));
        numbers.read(document.as_bytes());
        numbers.found().to_vec()
    }

    #[test]
    fn a_number_is_found_wherever_it_stands() {
        for (document, path, expected) in [
            (r#"{"usage":{"total_tokens":42}}"#, "usage.total_tokens", Some(42)),
            (" { \"usage\" : { \"x\" : 1 , \"total_tokens\"\n:\t42 } }", "usage.total_tokens", Some(42)),
            (
                r#"{"total_tokens":1,"usage":{"total_tokens":42},"x":{"total_tokens":3}}"#,
                "usage.total_tokens",
                Some(42),
            ),
            (r#"{"a":[{"n":1},{"n":2}]}"#, "a.1.n", Some(2)),
            (r#"{"a":[[],[5,6]]}"#, "a.1.0", Some(5)),
            ("[7]", "0", Some(7)),
            (r#"{"a":{"1":9}}"#, "a.1", Some(9)),
            (r#"{"a":1,"a":2}"#, "a", Some(2)),
            (r#"{"\u0061b\n":3}"#, "ab\n", Some(3)),
            (r#"{"x":"\"a\":1, {[","a":2}"#, "a", Some(2)),
            (r#"{"x":"\\","a":2}"#, "a", Some(2)),
            (r#"{"a":{},"b":[],"c":[1,[2,{}]],"n":4}"#, "n", Some(4)),
            (r#"{"a":true,"b":null,"c":false,"n":4}"#, "n", Some(4)),
            // Values that are no cost.
            (r#"{"a":"5"}"#, "a", None),
            (r#"{"a":-5}"#, "a", None),
            (r#"{"a":null}"#, "a", None),
            (r#"{"a":{"b":5}}"#, "a", None),
            (r#"{"a":5}"#, "a.b", None),
            (r#"{"a":5}"#, "b", None),
            (r#"{"a":1e40}"#, "a", None),
            (r#"{"a":4.2}"#, "a", Some(5)),
            (r#"{"a":4.0}"#, "a", Some(4)),
            (r#"{"a":1.5e3}"#, "a", Some(1500)),
            (r#"{"a":18446744073709551615}"#, "a", Some(u64::MAX)),
            (r#"{"a":-0}"#, "a", Some(0)),
            ("5", "a", None),
            ("", "a", None),
        ] {
            assert_eq!(found(document, &[path]), [expected], "{path} in {document}");
        }
    }

    #[test]
    fn a_document_that_is_not_valid_says_what_comes_before_the_fault() {
        for document in
            [r#"{"a":5} {"a":6}"#, r#"{"a":5,}"#, r#"{"a":5}]"#, r#"{"a":5,"b"}"#, r#"{"a":5"#, "{\"a\":5,\0"]
        {
            let expected = if document == r#"{"a":5"# { None } else { Some(5) };
            assert_eq!(found(document, &["a"]), [expected], "{document}");
        }
        for document in ["[DONE]", "hello", "{a:5}", r#"{"b":5 "a":6}"#, "]", "}", r#"{"b"5,"a":1}"#, "[}"] {
            assert_eq!(found(document, &["a"]), [None], "{document}");
        }
    }

    #[test]
    fn depth_names_and_numbers_are_bounded() {
        let deep = |depth: usize| format!("{}5{}", "[".repeat(depth), "]".repeat(depth));
        let path = ["0"; 3].join(".");
        assert_eq!(found(&deep(3), &[&path]), [Some(5)]);
        let too_deep = format!(r#"{{"x":{},"a":1}}"#, deep(DEPTH_MAX));
        assert_eq!(found(&too_deep, &["a"]), [None]);
        let fits = format!(r#"{{"x":{},"a":1}}"#, deep(DEPTH_MAX - 1));
        assert_eq!(found(&fits, &["a"]), [Some(1)]);
        let long = "x".repeat(1 << 20);
        let document = format!(r#"{{"{long}":1,"y":"{long}","z":{},"a":2}}"#, "1".repeat(1 << 20));
        let mut numbers = JsonNumbers::new(fields(&["a", "z"]));
        numbers.read(document.as_bytes());
        assert_eq!(numbers.found(), [Some(2), None]);
        assert!(numbers.text.capacity() <= 2 * NAME_BYTES_MAX + 2, "{}", numbers.text.capacity());
    }

    /// The number at a path as a general reader finds it.
    fn general(document: &Value, path: &FieldPath) -> Option<u64> {
        let mut at = document;
        for name in path {
            at = match at {
                Value::Array(all) if name.len() == 1 || !name.starts_with('0') => {
                    all.get(name.parse::<usize>().ok()?)?
                }
                Value::Array(_) => return None,
                other => other.get(name)?,
            };
        }
        let number = at.as_number()?;
        number.as_u64().or_else(|| {
            Some(number.as_f64()?.ceil())
                .filter(|one| *one >= 0.0)
                .map(|one| format!("{one}").parse().unwrap())
        })
    }

    fn name() -> impl Strategy<Value = String> {
        prop::sample::select(vec!["a", "b", "0", "1", "é", "a\"b", "\\", "\u{1}"]).prop_map(str::to_owned)
    }

    fn document() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<u32>().prop_map(Value::from),
            (-1000_i64..1000).prop_map(Value::from),
            (-100.0_f64..100.0).prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map(name(), inner, 0..4)
                    .prop_map(|all| Value::Object(all.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_found_is_what_a_general_reader_finds_however_the_document_is_cut(
            document in document(),
            paths in prop::collection::vec(prop::collection::vec(name(), 1..4), 1..4),
            cut in 1_usize..20,
            pretty in any::<bool>(),
        ) {
            let text = if pretty { serde_json::to_string_pretty(&document) } else { serde_json::to_string(&document) };
            let text = text.unwrap();
            let mut numbers = JsonNumbers::new(paths.clone().into());
            for piece in text.as_bytes().chunks(cut) {
                numbers.read(piece);
            }
            let expected: Vec<_> = paths.iter().map(|path| general(&document, path)).collect();
            prop_assert_eq!(numbers.found(), &expected[..], "{} {:?}", text, paths);
        }

        #[test]
        fn whatever_is_sent_is_read_within_its_bounds(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..64), 0..16)) {
            let mut numbers = JsonNumbers::new(fields(&["a.b", "0"]));
            for piece in pieces {
                numbers.read(&piece);
                prop_assert!(numbers.levels.len() <= DEPTH_MAX);
            }
        }
    }
}
