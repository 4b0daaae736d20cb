//! Deferral tickets as requests show them.
//!
//! A request is never malformed by its ticket: what cannot be a ticket is handed on as
//! [`MALFORMED`], which counts for nothing.

use http::HeaderMap;

use crate::headers::TICKET;

/// The longest ticket in bytes.
pub const BYTES_MAX: usize = 256;

/// A text that is no ticket, in place of one that is longer than [`BYTES_MAX`] or is no text.
pub const MALFORMED: &str = "";

/// A ticket as it is handed on: [`MALFORMED`] if it is too long.
pub fn bounded(ticket: &str) -> &str {
    if ticket.len() > BYTES_MAX { MALFORMED } else { ticket }
}

/// The ticket in the header `tidegate-ticket`, [`MALFORMED`] if the header comes twice, is too long
/// or holds anything but visible ASCII; `None` without the header.
pub fn in_headers(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(TICKET).iter();
    let first = values.next()?;
    if values.next().is_some() {
        return Some(MALFORMED);
    }
    Some(first.to_str().map_or(MALFORMED, bounded))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn what_cannot_be_a_ticket_is_handed_on_as_malformed() {
        let longest = "x".repeat(BYTES_MAX);
        let longer = "x".repeat(BYTES_MAX + 1);
        for (values, expected) in [
            (&[][..], None),
            (&["AbC-_".as_bytes()], Some("AbC-_")),
            (&[longest.as_bytes()], Some(&*longest)),
            (&[longer.as_bytes()], Some(MALFORMED)),
            (&["\u{fc}".as_bytes()], Some(MALFORMED)),
            (&[b"\xff"], Some(MALFORMED)),
            (&[b""], Some(MALFORMED)),
            (&[b"a", b"a"], Some(MALFORMED)),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(TICKET, HeaderValue::from_bytes(value).unwrap());
            }
            assert_eq!(in_headers(&headers), expected, "{values:?}");
        }
        assert_eq!((bounded(&longest), bounded(&longer), bounded("")), (&*longest, MALFORMED, MALFORMED));
    }
}
