//! Claims of a bearer token (RFC 7519), which say who the caller is only if its issuer signed them.
//!
//! The key decides how a token may be signed, never the token: a key made from an RSA public key
//! verifies RSA signatures and nothing else, so a token "signed" with HMAC over that public text,
//! or with `none`, is rejected as forged. A token without expiry is rejected by default, because
//! nothing ends it.

use core::fmt;
use core::time::Duration;
use std::borrow::Cow;
use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use serde::Deserialize;
use serde_json::{Map, Number, Value};
use tidegate_core::Timestamp;
use tidegate_net::file_backed::Refresh;

use crate::rejection::{Rejection, RejectionCode};

mod algorithm;
mod base64;
mod der;
mod file;
mod jwks;
mod keys;
mod signature;

pub use algorithm::{Algorithm, KEYS_MAX, KeyError};
pub use file::{KeyFile, KeyFileError, KeyFormat};
pub use keys::KeySet;

/// The longest token in bytes. Above it: 401.
pub const TOKEN_BYTES_MAX: usize = 8 << 10;

/// How far the clocks of issuer and proxy may differ, unless it is set otherwise.
pub const LEEWAY: Duration = Duration::from_mins(1);

/// Which tokens say the truth.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Those that one of these keys verifies.
    Keys(KeySet),
    /// Those that one of the keys in this file verifies, as it is now.
    File(KeyFile),
    /// All that are well-formed and in date. Anybody can write such a token, so this is only for a
    /// proxy behind a gateway that has verified it.
    Unverified,
}

/// Whether a token must say when it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expiry {
    /// A token without `exp` is rejected. The default.
    #[default]
    Required,
    /// A token without `exp` is valid for ever.
    Optional,
}

/// Reads the token of a request.
#[derive(Clone, Debug)]
pub struct TokenReader {
    trust: Trust,
    audiences: Vec<String>,
    issuer: Option<String>,
    leeway: Duration,
    expiry: Expiry,
}

/// The claims of a token that is valid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims(Map<String, Value>);

/// The header of a token, which describes its signature. The derived reader rejects duplicate
/// names.
#[derive(Deserialize)]
struct JoseHeader<'a> {
    #[serde(borrow)]
    alg: Cow<'a, str>,
    #[serde(borrow, default)]
    kid: Option<Cow<'a, str>>,
    /// Extensions that must be understood. None is.
    #[serde(default)]
    crit: Option<Value>,
    /// Whether the payload is encoded (RFC 7797).
    #[serde(default)]
    b64: Option<Value>,
}

impl TokenReader {
    /// A reader that takes tokens for any audience from any issuer, with [`LEEWAY`], that say when
    /// they end.
    pub fn new(trust: Trust) -> Self {
        Self { trust, audiences: Vec::new(), issuer: None, leeway: LEEWAY, expiry: Expiry::Required }
    }

    /// The same reader for tokens that name one of these audiences in `aud`. None: any will do, and
    /// tokens without.
    #[must_use]
    pub fn audiences<A: Into<String>>(mut self, audiences: impl IntoIterator<Item = A>) -> Self {
        self.audiences = audiences.into_iter().map(Into::into).collect();
        self
    }

    /// The same reader for tokens of this issuer (`iss`), byte for byte.
    #[must_use]
    pub fn issuer(mut self, issuer: impl Into<String>) -> Self {
        self.issuer = Some(issuer.into());
        self
    }

    /// The same reader with another tolerance for clocks that differ. Zero: none. Default
    /// [`LEEWAY`].
    #[must_use]
    pub fn leeway(mut self, leeway: Duration) -> Self {
        self.leeway = leeway;
        self
    }

    /// The same reader with another answer to tokens that do not say when they end.
    #[must_use]
    pub fn expiry(mut self, expiry: Expiry) -> Self {
        self.expiry = expiry;
        self
    }

    /// The file that the keys are in, if they are in one.
    pub(crate) fn files(&self) -> Option<Arc<dyn Refresh>> {
        match &self.trust {
            Trust::File(file) => Some(file.files()),
            Trust::Keys(_) | Trust::Unverified => None,
        }
    }

    /// The claims of the bearer token in `Authorization`; `None` without that header, or with
    /// another scheme in it.
    ///
    /// Rejected with 401: a token that is malformed, too long, forged, expired, not yet valid, or
    /// not for us. Two `Authorization` headers are rejected with 400, because the service behind
    /// may take the other one.
    pub fn read(&self, headers: &HeaderMap, now: Timestamp) -> Result<Option<Claims>, Rejection> {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let Some(value) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            let code = RejectionCode::AmbiguousAttribute;
            return Err(Rejection::new(code, "duplicate header authorization").fix("send it once"));
        }
        let bytes = value.as_bytes().trim_ascii();
        // A tab is no separator here (RFC 9110, section 11.4), but some readers take it for one.
        let end = bytes.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(bytes.len());
        let (scheme, token) = bytes.split_at(end);
        if !scheme.eq_ignore_ascii_case(b"bearer") {
            return Ok(None);
        }
        self.verify(token.trim_ascii(), now).map(Some)
    }

    /// The claims of a token in its compact form.
    pub fn verify(&self, token: &[u8], now: Timestamp) -> Result<Claims, Rejection> {
        if token.len() > TOKEN_BYTES_MAX {
            let detail = format_args!("the token has {} bytes, more than {TOKEN_BYTES_MAX}", token.len());
            return Err(
                Rejection::new(RejectionCode::InvalidToken, detail).fix("ask for one with fewer claims")
            );
        }
        let malformed = || invalid("is not three parts of JSON and a signature").fix(GET_ANOTHER);
        let dots: Vec<usize> = (0..token.len()).filter(|at| token[*at] == b'.').take(3).collect();
        let [first, second] = dots[..] else { return Err(malformed()) };
        let part = |part: &[u8]| base64::decode_url(part).ok_or_else(malformed);
        let (header, payload) = (part(&token[..first])?, part(&token[first + 1..second])?);
        let header: JoseHeader<'_> = serde_json::from_slice(&header).map_err(|_| malformed())?;
        let in_file;
        let keys = match &self.trust {
            Trust::Keys(keys) => Some(keys),
            Trust::File(file) => {
                in_file = file.keys();
                Some(&*in_file)
            }
            Trust::Unverified => None,
        };
        if let Some(keys) = keys {
            if header.crit.is_some() || header.b64.is_some() {
                return Err(invalid("asks for an extension that is not known").fix(GET_ANOTHER));
            }
            let algorithm = Algorithm::named(&header.alg).ok_or_else(|| {
                invalid("is signed in a way that is not accepted").fix("sign it as the issuer's key says")
            })?;
            let signature = part(&token[second + 1..])?;
            if !keys.verify(algorithm, header.kid.as_deref(), &token[..second], &signature) {
                return Err(invalid("is not signed by a key of the issuer").fix(GET_ANOTHER));
            }
        }
        let claims: Map<String, Value> = serde_json::from_slice(&payload).map_err(|_| malformed())?;
        self.check(&claims, now)?;
        Ok(Claims(claims))
    }

    fn check(&self, claims: &Map<String, Value>, now: Timestamp) -> Result<(), Rejection> {
        let seconds = |name: &'static str| match claims.get(name) {
            None => Ok(None),
            Some(Value::Number(number)) => Ok(Some(whole_seconds(number))),
            Some(_) => Err(invalid(format_args!("has a claim {name} that is not a time")).fix(GET_ANOTHER)),
        };
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let leeway = i64::try_from(self.leeway.as_secs()).unwrap_or(i64::MAX);
        match (seconds("exp")?, self.expiry) {
            (Some(end), _) if now >= end.saturating_add(leeway) => {
                return Err(invalid("has expired").fix(GET_ANOTHER));
            }
            (None, Expiry::Required) => {
                return Err(invalid("does not say when it ends").fix("ask for one with the claim exp"));
            }
            _ => {}
        }
        if seconds("nbf")?.is_some_and(|begin| begin > now.saturating_add(leeway)) {
            return Err(invalid("is not valid yet").fix("use it later, or set the clock of its issuer"));
        }
        if let Some(issuer) = &self.issuer
            && claims.get("iss").and_then(Value::as_str) != Some(issuer)
        {
            return Err(invalid("is of another issuer").fix(GET_ANOTHER));
        }
        let is_ours = |audience: &Value| {
            audience.as_str().is_some_and(|named| self.audiences.iter().any(|ours| ours == named))
        };
        let is_for_us = match claims.get("aud") {
            Some(Value::Array(named)) => named.iter().any(is_ours),
            Some(named) => is_ours(named),
            None => false,
        };
        if !self.audiences.is_empty() && !is_for_us {
            return Err(invalid("is for another audience").fix(GET_ANOTHER));
        }
        Ok(())
    }
}

const GET_ANOTHER: &str = "get a new one from its issuer";

fn invalid(what: impl fmt::Display) -> Rejection {
    Rejection::new(RejectionCode::InvalidToken, format_args!("the token {what}"))
}

/// A time in claims, in whole seconds rounded down; a time that 64 bits cannot hold is the nearest
/// that they can.
fn whole_seconds(number: &Number) -> i64 {
    if let Some(seconds) = number.as_i64() {
        return seconds;
    }
    // A cast of a floating number saturates, and makes zero of what is no number, which JSON cannot
    // say anyway.
    number.as_f64().map_or(i64::MIN, |seconds| seconds.floor() as i64)
}

impl Claims {
    /// The claim at the end of `path`, from the outside in, as text: text as it is, a whole number
    /// in digits, `true` or `false`. `Ok(None)` when it is absent or `null`.
    ///
    /// `Err` names the kind of anything else. Fractions, and numbers beyond 64 bits, are among
    /// them: different ones may be read as the same.
    pub fn text(&self, path: &[String]) -> Result<Option<Cow<'_, str>>, &'static str> {
        let Some((first, inner)) = path.split_first() else { return Ok(None) };
        let mut value = self.0.get(first);
        for name in inner {
            value = match value {
                Some(Value::Object(map)) => map.get(name),
                _ => None,
            };
        }
        Ok(match value {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.as_str().into()),
            Some(Value::Bool(flag)) => Some(if *flag { "true" } else { "false" }.into()),
            Some(Value::Number(number)) if number.is_i64() || number.is_u64() => {
                Some(number.to_string().into())
            }
            Some(Value::Number(_)) => return Err("a fraction or a number beyond 64 bits"),
            Some(Value::Array(_)) => return Err("a list"),
            Some(Value::Object(_)) => return Err("an object"),
        })
    }
}

impl From<Map<String, Value>> for Claims {
    fn from(claims: Map<String, Value>) -> Self {
        Self(claims)
    }
}

#[cfg(test)]
mod tests;
