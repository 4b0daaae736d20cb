//! Finds numbers in the events of a stream (`text/event-stream`) that arrives in pieces.
//!
//! The data of each event is read as a JSON document. Of each field the number of the last event
//! that has it counts; data that is no JSON, such as `[DONE]`, has none. Lines end with CR, LF or
//! both, as the HTML standard has it (section 9.2.6). Nothing is kept of an event but its numbers.

use std::sync::Arc;

use tidegate_policy::grammar::{FIELDS_MAX, FieldPath};

use super::json_numbers::JsonNumbers;

/// The field of a line that has the data.
const DATA: &[u8] = b"data";

/// The mark that a stream may begin with.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Finds the numbers of some fields in the data of events.
#[derive(Debug)]
pub(crate) struct EventNumbers {
    /// The numbers of the event that is being read.
    event: JsonNumbers,
    last: [Option<u64>; FIELDS_MAX],
    line: Line,
    /// Whether the last byte was a CR, so that an LF behind it ends no further line.
    is_after_cr: bool,
    /// How much of a byte order mark was read; more than its length behind it.
    mark: usize,
}

/// The line that is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// So many bytes, all of them those of [`DATA`].
    Field(usize),
    /// Behind the colon of a line with data.
    Colon,
    Data,
    /// Another field, or a comment.
    Other,
}

impl EventNumbers {
    pub(crate) fn new(fields: Arc<[FieldPath]>) -> Self {
        Self {
            event: JsonNumbers::new(fields),
            last: [None; FIELDS_MAX],
            line: Line::Field(0),
            is_after_cr: false,
            mark: 0,
        }
    }

    /// The last number of each field, those of an event that has not ended included.
    pub(crate) fn found(&self) -> Vec<Option<u64>> {
        self.event.found().iter().zip(self.last).map(|(now, before)| now.or(before)).collect()
    }

    /// Reads a piece of the stream.
    pub(crate) fn read(&mut self, piece: &[u8]) {
        let mut rest = piece;
        while let Some((&byte, after)) = rest.split_first() {
            if self.mark < BYTE_ORDER_MARK.len() && byte == BYTE_ORDER_MARK[self.mark] {
                self.mark += 1;
                rest = after;
                continue;
            }
            self.mark = BYTE_ORDER_MARK.len();
            let is_rest_of_end = core::mem::take(&mut self.is_after_cr) && byte == b'\n';
            if is_rest_of_end {
                rest = after;
                continue;
            }
            if matches!(byte, b'\r' | b'\n') {
                self.is_after_cr = byte == b'\r';
                self.end_line();
                rest = after;
                continue;
            }
            rest = match self.line {
                Line::Field(length) => {
                    self.line = match byte {
                        b':' if length == DATA.len() => Line::Colon,
                        byte if DATA.get(length) == Some(&byte) => Line::Field(length + 1),
                        _ => Line::Other,
                    };
                    after
                }
                // One space behind the colon is not part of the data.
                Line::Colon if byte == b' ' => {
                    self.line = Line::Data;
                    after
                }
                Line::Colon | Line::Data => {
                    self.line = Line::Data;
                    let end = line_end(rest);
                    self.event.read(&rest[..end]);
                    &rest[end..]
                }
                Line::Other => &rest[line_end(rest)..],
            };
        }
    }

    fn end_line(&mut self) {
        match self.line {
            // An empty line ends the event.
            Line::Field(0) => {
                for (last, now) in self.last.iter_mut().zip(self.event.found()) {
                    *last = now.or(*last);
                }
                self.event.restart();
            }
            // Lines of data are joined by LF.
            Line::Colon | Line::Data => self.event.read(b"\n"),
            Line::Field(_) | Line::Other => {}
        }
        self.line = Line::Field(0);
    }
}

/// Where the first line of a piece ends.
fn line_end(piece: &[u8]) -> usize {
    piece.iter().position(|byte| matches!(byte, b'\r' | b'\n')).unwrap_or(piece.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fields(texts: &[&str]) -> Arc<[FieldPath]> {
        texts.iter().map(|text| text.split('.').map(str::to_owned).collect()).collect()
    }

    fn found_in_pieces(stream: &str, texts: &[&str], cut: usize) -> Vec<Option<u64>> {
        let mut numbers = EventNumbers::new(fields(texts));
        for piece in stream.as_bytes().chunks(cut) {
            numbers.read(piece);
        }
        numbers.found()
    }

    fn found(stream: &str, texts: &[&str]) -> Vec<Option<u64>> {
        let whole = found_in_pieces(stream, texts, stream.len().max(1));
        for cut in 1..8 {
            assert_eq!(found_in_pieces(stream, texts, cut), whole, "{cut} bytes at a time: {stream:?}");
        }
        whole
    }

    #[test]
    fn the_last_event_that_has_a_field_counts() {
        for (stream, expected) in [
            ("data: {\"n\":1}\n\ndata: {\"n\":2}\n\n", Some(2)),
            ("data: {\"n\":1}\n\ndata: {\"m\":2}\n\ndata: [DONE]\n\n", Some(1)),
            ("data:{\"n\":1}\r\n\r\ndata:{\"n\":3}\r\n\r\n", Some(3)),
            ("data: {\"n\":1}\r\rdata: {\"n\":4}\r\r", Some(4)),
            ("event: usage\nid: 7\n: a comment {\"n\":9}\ndata: {\"n\":\ndata: 5}\n\n", Some(5)),
            ("\u{feff}data: {\"n\":6}\n\n", Some(6)),
            // A stream that ends, or is cut off, within an event.
            ("data: {\"n\":7}", Some(7)),
            ("data: {\"n\":1}\n\ndata: {\"n\":7", Some(1)),
            // Fields that only begin like data, and lines without a colon.
            ("data2: {\"n\":1}\n\ndat: {\"n\":1}\n\ndata\n\n", None),
            ("", None),
            ("\n\n\n", None),
        ] {
            assert_eq!(found(stream, &["n"]), [expected], "{stream:?}");
        }
    }

    #[test]
    fn fields_may_come_in_different_events() {
        let stream = "event: message_start\n\
                      data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n\
                      event: content_block_delta\n\
                      data: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"\\n\\ndata: {\\\"usage\\\":1}\"}}\n\n\
                      event: message_delta\n\
                      data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":15}}\n\n\
                      event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
        assert_eq!(
            found(stream, &["message.usage.input_tokens", "usage.output_tokens"]),
            [Some(25), Some(15)]
        );
    }

    proptest! {
        #[test]
        fn whatever_is_sent_is_found_however_it_is_cut(
            stream in "(data: ?|event: |:|\\{\"n\":[0-9]{1,2}\\}|\n|\r|\n\n|x){0,24}",
            cut in 1_usize..9,
        ) {
            let whole = found_in_pieces(&stream, &["n"], stream.len().max(1));
            prop_assert_eq!(found_in_pieces(&stream, &["n"], cut), whole);
        }
    }
}
