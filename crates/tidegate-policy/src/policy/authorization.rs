//! The grants of callers, checked.

use core::fmt;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_core::Class;

/// The verbs and namespaces of callers with a token or a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// The name of the caller in logs; 1 to 128 bytes.
    pub name: String,
    /// The credential of the caller.
    pub credential: Credential,
    /// The namespaces in which the verbs are allowed.
    pub namespaces: Namespaces,
    /// The allowed verbs, at least one.
    pub verbs: Verbs,
    /// The highest class that its requests may claim; default [`Class::CriticalPlus`].
    pub ceiling: Class,
}

impl Grant {
    /// The most grants in a policy.
    pub const COUNT_MAX: usize = 4096;
    /// The shortest token in bytes: 16 random characters are beyond guessing. The length of a token
    /// that a policy has as a hash is unknown.
    pub const TOKEN_BYTES_MIN: usize = 16;
    /// The longest token in bytes.
    pub const TOKEN_BYTES_MAX: usize = 1024;

    /// The SHA-256 of nothing, and of an empty line: what a pipe to `sha256sum` prints when there
    /// is no token in it.
    const HASHES_OF_NOTHING: [&str; 3] = [
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "01ba4719c80b6fe911b091a7c05124b64eeece964e09c058ef8f9805daca546b",
        "7eb70257593da06f682a3ddda54a9d260d4fc514f645237f5ca74b08f8da61a6",
    ];

    /// Whether `token`, as a policy or a file writes it, is `sha256:` and the hash of nothing or of
    /// an empty line (ending in `\n` or `\r\n`).
    pub fn is_hash_of_nothing(token: &str) -> bool {
        let Some(digits) = token.strip_prefix("sha256:") else { return false };
        Self::HASHES_OF_NOTHING.iter().any(|hash| digits.eq_ignore_ascii_case(hash))
    }
}

/// The credential of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Credential {
    /// One of the tokens in a file, by its path of 1 to [`super::PATH_BYTES_MAX`] bytes.
    TokenFile(String),
    /// This token.
    Token(Secret),
    /// A certificate with this name, 1 to 1024 bytes.
    Certificate(String),
}

/// A token, or what it is recognised by. Its text is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text: the token, of [`Grant::TOKEN_BYTES_MIN`] to [`Grant::TOKEN_BYTES_MAX`] bytes, or
    /// `sha256:` and 64 hexadecimal digits.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Where something may be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespaces {
    /// Everywhere.
    All,
    /// In these, at least one. They need not exist.
    Some(Vec<String>),
}

/// Something that may be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[repr(u8)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case", rename = "verb")]
pub enum Verb {
    /// Check: check, peek, reserve, settle and release, gateway subrequests, Envoy's,
    /// `CL.THROTTLE`, `TG.CHECK`.
    Check,
    /// Charge work that is already done.
    Report,
    /// Give units back.
    Refund,
    /// Forget used units, also `DEL`.
    Reset,
    /// Refuse a key for a while.
    Block,
    /// Look at limits, refused keys, metrics and the description of the API. These are not of one
    /// namespace, so the grant needs `"*"`.
    Inspect,
    /// Set and remove overrides, and place partitions of tables on nodes.
    Change,
    /// Name a resource in a request, beside the verb of the request: all namespaces share its
    /// places in flight.
    Place,
    /// Send values of signals, from which load levels are made. A signal is not of one namespace,
    /// so the grant needs `"*"`.
    Signal,
    /// Pin features at a level, and remove pins. A feature is not of one namespace, so the grant
    /// needs `"*"`.
    Feature,
}

impl Verb {
    /// Every verb.
    pub const ALL: [Self; 10] = [
        Self::Check,
        Self::Report,
        Self::Refund,
        Self::Reset,
        Self::Block,
        Self::Inspect,
        Self::Change,
        Self::Place,
        Self::Signal,
        Self::Feature,
    ];

    /// The name in policies and answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Report => "report",
            Self::Refund => "refund",
            Self::Reset => "reset",
            Self::Block => "block",
            Self::Inspect => "inspect",
            Self::Change => "change",
            Self::Place => "place",
            Self::Signal => "signal",
            Self::Feature => "feature",
        }
    }
}

/// Some verbs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verbs(u16);

impl Verbs {
    /// Whether `verb` is one of them.
    pub const fn has(self, verb: Verb) -> bool {
        self.0 & 1 << verb as u8 != 0
    }

    /// Those of them, in the order of [`Verb::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Verb> {
        Verb::ALL.into_iter().filter(move |verb| self.has(*verb))
    }
}

impl FromIterator<Verb> for Verbs {
    fn from_iter<I: IntoIterator<Item = Verb>>(verbs: I) -> Self {
        Self(verbs.into_iter().fold(0, |all, verb| all | 1 << verb as u16))
    }
}
