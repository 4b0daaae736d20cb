//! The answer to a request that is malformed and therefore not proxied.
//!
//! A rejection is not a refusal: nothing was decided and nothing was charged. Its body is a problem
//! (RFC 9457) of type `about:blank`, as that of a fault at the other protocols.

use core::fmt;

use serde::Serialize;
use tidegate_wire::fault::DETAIL_BYTES_MAX;
use tidegate_wire::text::shortened;

/// The reasons for a rejection, as a closed and stable list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectionCode {
    /// The path has a shape that two readers take differently.
    AmbiguousPath,
    /// A part of the request that names the caller is duplicate, or cannot be read in one way only.
    AmbiguousAttribute,
    /// Something that names the caller is longer than the bound.
    AttributeTooLong,
    /// A header that the proxy reads cannot be read.
    MalformedHeader,
    /// The token is malformed, forged, expired or not for us.
    InvalidToken,
}

impl RejectionCode {
    /// Every code.
    pub const ALL: [Self; 5] = [
        Self::AmbiguousPath,
        Self::AmbiguousAttribute,
        Self::AttributeTooLong,
        Self::MalformedHeader,
        Self::InvalidToken,
    ];

    /// The name in bodies and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AmbiguousPath => "ambiguous_path",
            Self::AmbiguousAttribute => "ambiguous_attribute",
            Self::AttributeTooLong => "attribute_too_long",
            Self::MalformedHeader => "malformed_header",
            Self::InvalidToken => "invalid_token",
        }
    }

    /// The HTTP status: 401 for a token, 400 for everything else.
    pub const fn status(self) -> u16 {
        match self {
            Self::InvalidToken => 401,
            Self::AmbiguousPath
            | Self::AmbiguousAttribute
            | Self::AttributeTooLong
            | Self::MalformedHeader => 400,
        }
    }
}

/// One rejection, as the answer to the sender of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The HTTP status.
    pub status: u16,
    /// The reason.
    pub code: RejectionCode,
    /// The reason as a sentence that shows the value; at most [`DETAIL_BYTES_MAX`] bytes. A token
    /// is never shown.
    pub detail: String,
    /// The advice to the sender.
    pub fix: Option<String>,
}

impl Rejection {
    /// A rejection with a sentence, which is cut at [`DETAIL_BYTES_MAX`] bytes.
    pub fn new(code: RejectionCode, detail: impl fmt::Display) -> Self {
        let detail = shortened(&detail.to_string(), DETAIL_BYTES_MAX).into_owned();
        Self { status: code.status(), code, detail, fix: None }
    }

    /// The same rejection with advice to the sender.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// The value of `WWW-Authenticate`, which a 401 must carry (RFC 6750, section 3).
    pub fn challenge(&self) -> Option<&'static str> {
        (self.status == 401).then_some("Bearer error=\"invalid_token\"")
    }

    /// Appends the body, of type `application/problem+json`.
    pub fn write_body(&self, out: &mut Vec<u8>) {
        let body = RejectionBody {
            r#type: "about:blank",
            title: if self.status == 401 { "Unauthorized" } else { "Bad Request" },
            status: self.status,
            error: self.code.as_str(),
            detail: &self.detail,
            fix: self.fix.as_deref(),
        };
        serde_json::to_writer(out, &body)
            .expect("text and numbers always serialise, and a vector takes all bytes");
    }
}

#[derive(Serialize)]
struct RejectionBody<'a> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    error: &'static str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(rejection: &Rejection) -> String {
        let mut out = Vec::new();
        rejection.write_body(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_body_is_a_problem_that_says_what_to_do() {
        let rejection = Rejection::new(RejectionCode::AmbiguousAttribute, "duplicate header x-user");
        assert_eq!(
            body(&rejection.fix("send it once")),
            r#"{"type":"about:blank","title":"Bad Request","status":400,"error":"ambiguous_attribute","detail":"duplicate header x-user","fix":"send it once"}"#
        );
    }

    #[test]
    fn only_a_bad_token_is_answered_with_a_challenge() {
        for code in RejectionCode::ALL {
            let rejection = Rejection::new(code, "no");
            assert_eq!(rejection.challenge().is_some(), code == RejectionCode::InvalidToken);
            assert_eq!(rejection.status == 401, code == RejectionCode::InvalidToken);
        }
        assert!(body(&Rejection::new(RejectionCode::InvalidToken, "no")).contains("Unauthorized"));
    }

    #[test]
    fn what_a_stranger_sent_is_quoted_only_in_part() {
        let long = "\u{1f30a}".repeat(10_000);
        let rejection = Rejection::new(RejectionCode::MalformedHeader, long);
        assert!(rejection.detail.len() <= DETAIL_BYTES_MAX + 8, "{}", rejection.detail.len());
    }
}
