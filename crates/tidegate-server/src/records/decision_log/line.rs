//! One decision as one line of JSON, whatever callers put into it.

use core::time::Duration;
use std::borrow::Cow;
use std::io;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::ser::Formatter;
use tidegate_core::{Attributes, Class, Reason, Text, Timestamp};
use tidegate_engine::PermitId;

use crate::protocol::Protocol;

/// The longest name or value that is written, in bytes; longer ones end with `…`.
pub(crate) const TEXT_BYTES_MAX: usize = 256;

/// The most bytes of names and values of attributes in one line; the rest is left out, and `cut`
/// says how many attributes. Escapes may make a byte six.
pub(super) const PAIRS_BYTES_MAX: usize = 4096;

/// One decision.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DecisionRecord<'a> {
    /// When it was made.
    pub(crate) at: Timestamp,
    /// The namespace of the request.
    pub(crate) namespace: &'a str,
    /// Why it was refused; `None` if it was admitted.
    pub(crate) reason: Option<Reason>,
    /// The limit that refused, or for an admitted request the tightest one.
    pub(crate) limit: Option<&'a str>,
    /// The attributes that name the counter of that limit; left out if empty.
    pub(crate) scope: &'a [(Text, Text)],
    /// The attributes of the request; left out if empty.
    pub(crate) attributes: Attributes<'a>,
    /// The cost of the request in units.
    pub(crate) cost: u64,
    /// Units left of that limit.
    pub(crate) remaining: Option<u64>,
    /// The `retry_after` of a refused request; in the line in whole milliseconds, rounded up.
    pub(crate) retry_after: Option<Duration>,
    /// The protocol it came over.
    pub(crate) protocol: Option<Protocol>,
    /// How important the request is.
    pub(crate) class: Option<Class>,
    /// The feature that the request named, listed or not.
    pub(crate) feature: Option<&'a str>,
    /// The permit that the caller has to settle.
    pub(crate) permit: Option<PermitId>,
    /// How long it took to decide; in the line in whole microseconds.
    pub(crate) took: Option<Duration>,
}

impl<'a> DecisionRecord<'a> {
    /// A line with the fields of every decision.
    pub(crate) fn new(at: Timestamp, namespace: &'a str, cost: u64) -> Self {
        Self { at, namespace, cost, ..Self::default() }
    }

    /// Appends the line with its line break.
    pub(super) fn append_to(&self, buffer: &mut Vec<u8>) {
        let mut json = serde_json::Serializer::with_formatter(&mut *buffer, SingleLineFormatter);
        self.serialize(&mut json).expect("keys are text and a vector takes every byte");
        buffer.push(b'\n');
    }
}

impl Serialize for DecisionRecord<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("time", &DisplayText(&self.at))?;
        map.serialize_entry("namespace", &cut(self.namespace))?;
        map.serialize_entry("decision", if self.reason.is_some() { "refuse" } else { "admit" })?;
        if let Some(reason) = self.reason {
            map.serialize_entry("reason", reason.as_str())?;
        }
        if let Some(limit) = self.limit {
            map.serialize_entry("limit", &cut(limit))?;
        }
        let mut bytes_left = PAIRS_BYTES_MAX;
        let scope =
            AttributesJson::take(self.scope.iter().map(|(name, value)| (&**name, &**value)), &mut bytes_left);
        let attributes = AttributesJson::take(self.attributes.iter(), &mut bytes_left);
        for (key, pairs) in [("scope", &scope), ("attributes", &attributes)] {
            if !pairs.kept.is_empty() {
                map.serialize_entry(key, pairs)?;
            }
        }
        if scope.cut + attributes.cut > 0 {
            map.serialize_entry("cut", &(scope.cut + attributes.cut))?;
        }
        map.serialize_entry("cost", &self.cost)?;
        if let Some(remaining) = self.remaining {
            map.serialize_entry("remaining", &remaining)?;
        }
        if let Some(after) = self.retry_after {
            let ms = u64::try_from(after.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
            map.serialize_entry("retry_after_ms", &ms)?;
        }
        if let Some(protocol) = self.protocol {
            map.serialize_entry("protocol", protocol.as_str())?;
        }
        if let Some(class) = self.class {
            map.serialize_entry("class", class.as_str())?;
        }
        if let Some(feature) = self.feature {
            map.serialize_entry("feature", &cut(feature))?;
        }
        if let Some(permit) = &self.permit {
            map.serialize_entry("permit", &DisplayText(permit))?;
        }
        if let Some(took) = self.took {
            map.serialize_entry("took_us", &u64::try_from(took.as_micros()).unwrap_or(u64::MAX))?;
        }
        map.end()
    }
}

/// Written as it is displayed.
struct DisplayText<'a, T>(&'a T);

impl<T: core::fmt::Display> Serialize for DisplayText<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self.0)
    }
}

/// Names and values as a JSON object.
struct AttributesJson<'a> {
    kept: smallvec::SmallVec<[(&'a str, &'a str); 8]>,
    /// How many were left out.
    cut: usize,
}

impl<'a> AttributesJson<'a> {
    /// The pairs that fit into `bytes_left`, which becomes smaller by them. The first
    /// value of a duplicate name is kept.
    fn take(pairs: impl Iterator<Item = (&'a str, &'a str)>, bytes_left: &mut usize) -> Self {
        let mut taken = Self { kept: smallvec::SmallVec::new(), cut: 0 };
        for (name, value) in pairs {
            if taken.kept.iter().any(|(known, _)| *known == name) {
                continue;
            }
            let bytes = name.len().min(TEXT_BYTES_MAX) + value.len().min(TEXT_BYTES_MAX);
            match bytes_left.checked_sub(bytes) {
                Some(left) => {
                    *bytes_left = left;
                    taken.kept.push((name, value));
                }
                None => taken.cut += 1,
            }
        }
        taken
    }
}

impl Serialize for AttributesJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.kept.iter().map(|(name, value)| (cut(name), cut(value))))
    }
}

/// `text`, or its beginning and a mark if it is too long.
fn cut(text: &str) -> Cow<'_, str> {
    if text.len() <= TEXT_BYTES_MAX {
        return text.into();
    }
    format!("{}…", &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]).into()
}

/// JSON on one line, in which also those characters are escaped that are allowed there but that a
/// terminal or an editor takes for more than text: further control characters, other line ends,
/// marks that reverse direction.
struct SingleLineFormatter;

impl Formatter for SingleLineFormatter {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let is_plain = |byte: u8| byte.is_ascii() && byte != 0x7f;
        if fragment.bytes().all(is_plain) {
            return writer.write_all(fragment.as_bytes());
        }
        let is_hostile = |c: char| {
            c.is_control()
                || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        };
        for part in fragment.split_inclusive(is_hostile) {
            match part.chars().next_back().filter(|c| is_hostile(*c)) {
                Some(last) => {
                    writer.write_all(&part.as_bytes()[..part.len() - last.len_utf8()])?;
                    // All of them are below U+10000, so one escape each.
                    write!(writer, "\\u{:04x}", u32::from(last))?;
                }
                None => writer.write_all(part.as_bytes())?,
            }
        }
        Ok(())
    }
}
