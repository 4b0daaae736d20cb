//! Paths that mean the same to this proxy and to the server behind it.
//!
//! A route and its limits are chosen by the path. A path that two readers take differently, such as
//! `/v1/../admin` or `/v1/%2e%2e/admin`, would be counted as one thing and served as another. So a
//! path is matched in its decoded form, shapes that have no honest use are always rejected, and
//! shapes that have a plain spelling are rejected or replaced by it. The forwarded path is either
//! byte for byte the one that was sent, or the plain spelling that was matched.
//!
//! Not the proxy's to know, and so left alone: whether a service takes `/Admin` for `/admin`, or
//! `/a/` for `/a`. A route that must cover both needs a pattern for both.

use std::borrow::Cow;

use tidegate_policy::policy::proxy::UnusualPaths;
use tidegate_wire::text::shortened;

use crate::rejection::{Rejection, RejectionCode};

/// The treatment of a `;`, behind which some servers (Java's) ignore the rest of a segment and
/// others do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Semicolons {
    /// The path is rejected with 400. The default: `/admin;x` would be matched as something other
    /// than `/admin`.
    #[default]
    Reject,
    /// It is a character like any other. Only for services that do not cut segments there. A
    /// segment that has nothing but dots before it is rejected all the same.
    Keep,
}

/// How paths are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathRules {
    /// The treatment of a path that has a plainer spelling.
    pub unusual: UnusualPaths,
    /// The treatment of a `;`.
    pub semicolons: Semicolons,
}

impl PathRules {
    /// This treatment of unusual paths, and paths with a `;` rejected.
    pub fn new(unusual: UnusualPaths) -> Self {
        Self { unusual, semicolons: Semicolons::Reject }
    }
}

/// A path that has one meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainPath<'a> {
    matched: Cow<'a, str>,
    forwarded: Cow<'a, str>,
}

impl<'a> PlainPath<'a> {
    /// The decoded path, which routes match on. Begins with `/` and has no empty, `.` or `..`
    /// segment, except that it may end with `/`.
    pub fn matched(&self) -> &str {
        &self.matched
    }

    /// The path for the upstream: the received one, or its plainer spelling.
    pub fn forwarded(&self) -> &str {
        &self.forwarded
    }

    /// Whether the forwarded path differs from the received one.
    pub fn is_rewritten(&self) -> bool {
        matches!(self.forwarded, Cow::Owned(_))
    }

    /// The segment at `index`, decoded and counted from 0; `None` past the last one. `/` has none,
    /// and the empty one behind a last `/` does not count.
    pub fn segment(&self, index: usize) -> Option<&str> {
        self.matched[1..].split('/').nth(index).filter(|segment| !segment.is_empty())
    }

    /// Reads the path of a request, without its query. The reader of the request bounds its length.
    pub fn read(path: &'a str, rules: PathRules) -> Result<Self, Rejection> {
        if !path.starts_with('/') {
            return Err(ambiguous(path, "does not begin with /", "send a path that begins with /"));
        }
        let forwarded = plainer(path, rules)?;
        if matches!(forwarded, Cow::Owned(_)) && rules.unusual == UnusualPaths::Reject {
            let fix = format!("send {}", shortened(&forwarded, 200));
            return Err(ambiguous(path, "has a shape that servers read differently", &fix));
        }
        let matched = match &forwarded {
            Cow::Borrowed(sent) => decoded(path, sent)?,
            Cow::Owned(plain) => decoded(path, plain)?.into_owned().into(),
        };
        Ok(Self { matched, forwarded })
    }
}

fn ambiguous(path: &str, what: &str, fix: &str) -> Rejection {
    let path = shortened(path, 200);
    Rejection::new(RejectionCode::AmbiguousPath, format_args!("path \"{path}\" {what}")).fix(fix)
}

/// The decoded form of a path whose every `%` is known to be followed by two digits.
fn decoded<'a>(path: &str, plain: &'a str) -> Result<Cow<'a, str>, Rejection> {
    percent_encoding::percent_decode_str(plain)
        .decode_utf8()
        .map_err(|_| ambiguous(path, "is not UTF-8 when decoded", "encode text as UTF-8"))
}

/// The path in its plainest spelling, borrowed if it is in it already.
fn plainer(path: &str, rules: PathRules) -> Result<Cow<'_, str>, Rejection> {
    let unescaped = unescaped(path, rules.semicolons)?;
    let mut segments: Vec<&str> = Vec::new();
    let mut is_plain = true;
    let mut ends_open = false;
    let mut parts = unescaped[1..].split('/').peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        if begins_with_semicolon(part.trim_start_matches('.')) {
            let what = "has a segment that some servers read as empty, . or ..";
            return Err(ambiguous(path, what, "leave it out"));
        }
        match part {
            // An empty last segment is the slash at the end, which is plain.
            "" if is_last => ends_open = true,
            "" => is_plain = false,
            "." => (is_plain, ends_open) = (false, is_last),
            ".." => {
                if segments.pop().is_none() {
                    return Err(ambiguous(path, "climbs above the root", "send the path that is meant"));
                }
                (is_plain, ends_open) = (false, is_last);
            }
            _ => segments.push(part),
        }
    }
    if is_plain {
        return Ok(unescaped);
    }
    let mut plain = String::with_capacity(unescaped.len());
    for segment in &segments {
        plain.push('/');
        plain.push_str(segment);
    }
    if ends_open || segments.is_empty() {
        plain.push('/');
    }
    Ok(Cow::Owned(plain))
}

/// The path without escapes that have a plainer spelling, borrowed if the path has no such escape.
/// Rejects the escapes and characters that have no honest use.
fn unescaped(path: &str, semicolons: Semicolons) -> Result<Cow<'_, str>, Rejection> {
    let bytes = path.as_bytes();
    // Begins with the first escape that has a plainer spelling; until then nothing is copied.
    let mut plain: Option<String> = None;
    let mut copied = 0;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b';' if semicolons == Semicolons::Reject => {
                return Err(ambiguous(path, "has a ; which servers read differently", "leave it out"));
            }
            b'\\' => return Err(ambiguous(path, "has a backslash", "separate segments with /")),
            0..=0x1f | 0x7f => {
                return Err(ambiguous(path, "has a control character", "leave it out"));
            }
            b'%' => {
                let byte = escaped(bytes, at)
                    .ok_or_else(|| ambiguous(path, "has a % without two digits", "write %25 for %"))?;
                reject_escape(path, at, byte, semicolons)?;
                if byte.is_ascii_alphanumeric() || b".-_".contains(&byte) {
                    let plain = plain.get_or_insert_default();
                    plain.push_str(&path[copied..at]);
                    plain.push(char::from(byte));
                    copied = at + 3;
                }
                at += 2;
            }
            _ => {}
        }
        at += 1;
    }
    Ok(match plain {
        None => Cow::Borrowed(path),
        Some(mut plain) => {
            plain.push_str(&path[copied..]);
            Cow::Owned(plain)
        }
    })
}

/// Whether a segment begins with `;` in either spelling.
fn begins_with_semicolon(segment: &str) -> bool {
    segment.starts_with(';') || segment.get(..3).is_some_and(|begin| begin.eq_ignore_ascii_case("%3b"))
}

/// Rejects an escape that no plain path needs.
fn reject_escape(path: &str, at: usize, byte: u8, semicolons: Semicolons) -> Result<(), Rejection> {
    match byte {
        b'/' => Err(ambiguous(path, "has an encoded /", "send / or leave it out")),
        b'\\' => Err(ambiguous(path, "has an encoded backslash", "leave it out")),
        b';' if semicolons == Semicolons::Reject => {
            Err(ambiguous(path, "has an encoded ; which servers read differently", "leave it out"))
        }
        0..=0x1f | 0x7f => Err(ambiguous(path, "has an encoded control character", "leave it out")),
        b'%' if decodes_to_digits(path.as_bytes(), at + 3) => {
            Err(ambiguous(path, "is encoded twice", "encode it once"))
        }
        _ => Ok(()),
    }
}

/// The byte that the two digits behind `at` stand for.
fn escaped(bytes: &[u8], at: usize) -> Option<u8> {
    let digit = |at: usize| char::from(*bytes.get(at)?).to_digit(16);
    Some((digit(at + 1)? * 16 + digit(at + 2)?) as u8)
}

/// Whether the bytes at `at` decode to two hexadecimal digits, so that an encoded `%` before them
/// decodes twice.
fn decodes_to_digits(bytes: &[u8], at: usize) -> bool {
    let decode = |at: usize| match bytes.get(at) {
        Some(b'%') => escaped(bytes, at).map(|byte| (byte, at + 3)),
        Some(byte) => Some((*byte, at + 1)),
        None => None,
    };
    let Some((high, next)) = decode(at) else { return false };
    let Some((low, _)) = decode(next) else { return false };
    high.is_ascii_hexdigit() && low.is_ascii_hexdigit()
}

#[cfg(test)]
mod tests;
