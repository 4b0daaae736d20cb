//! The keys of tickets: one signs, and up to one more is still valid while they rotate.

use core::fmt;

use ring::digest::{self, SHA256};
use ring::hmac::{self, HMAC_SHA256};

use crate::fault::Fault;

/// The keys that sign and verify tickets: one signs, and up to one more is still valid while they
/// rotate.
///
/// [`Debug`](fmt::Debug) shows the numbers of the keys and nothing else of them.
///
/// ```
/// use tidegate_core::{Class, Cost, Timestamp};
/// use tidegate_engine::{TicketFault, TicketIssuer, TicketKeys, TicketNumber, TicketSubject, TicketTerms};
///
/// let keys = TicketKeys::parse(b"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n")?;
/// let (class, cost) = (Class::SheddablePlus, Cost::ONE);
/// let not_before = Timestamp::from_secs(1_800_000_200);
/// let expires = Timestamp::from_secs(1_800_000_205);
/// let issuer = TicketIssuer { member: 7, start: 1_800_000_000 };
/// let number = TicketNumber { issuer, slot: 200, sequence: 0 };
/// let terms = TicketTerms { class, cost, number, not_before, expires, deferrals: 1 };
/// let ada = TicketSubject { namespace: "api", resource: Some("db"), operation: None, tenant: Some("ada") };
/// let eve = TicketSubject { tenant: Some("eve"), ..ada };
///
/// let ticket = keys.seal(&ada, &terms);
/// assert_eq!(keys.open(&ticket, &ada, (class, cost)), Ok(terms));
/// assert_eq!(keys.open(&ticket, &eve, (class, cost)), Err(TicketFault::Tenant));
/// # Ok::<(), tidegate_engine::TicketKeyError>(())
/// ```
#[derive(Clone)]
pub struct TicketKeys {
    signing: TicketKey,
    second: Option<SecondKey>,
}

/// The key that is valid beside the one that signs.
#[derive(Clone)]
struct SecondKey {
    key: TicketKey,
    /// Whether the keys were given with it, and it did not stay from the keys before.
    is_listed: bool,
}

/// The error of a key, or of a file of keys. It shows no byte of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TicketKeyError {
    /// The key has fewer than [`TicketKeys::KEY_BYTES_MIN`] bytes.
    #[error(
        "the key has {bytes} bytes; use at least {min} random bytes, as `openssl rand -base64 32` prints them",
        min = TicketKeys::KEY_BYTES_MIN
    )]
    Short {
        /// The bytes of the key.
        bytes: usize,
    },
    /// The key has more than [`TicketKeys::KEY_BYTES_MAX`] bytes.
    #[error("the key has {bytes} bytes; use at most {max}, 32 are enough", max = TicketKeys::KEY_BYTES_MAX)]
    Long {
        /// The bytes of the key.
        bytes: usize,
    },
    /// There are two keys already.
    #[error("two keys are valid already; use one that signs, and at most one more while they rotate")]
    TooMany,
    /// The line of a key file is not base64.
    #[error(
        "the key is not base64 with `+`, `/` and padding; write it as `openssl rand -base64 32` prints it"
    )]
    NotBase64,
    /// The line of a key file has an error.
    #[error("line {line}: {problem}")]
    InLine {
        /// The line, counted from 1.
        line: usize,
        /// The error.
        problem: Box<Self>,
    },
    /// A key file has no key.
    #[error("the key file has no key; write one with `openssl rand -base64 32`")]
    EmptyFile,
    /// A key file has more than [`TicketKeys::FILE_BYTES_MAX`] bytes.
    #[error(
        "the key file has {bytes} bytes; use at most {max}, one or two lines of base64",
        max = TicketKeys::FILE_BYTES_MAX
    )]
    LongFile {
        /// The bytes of the file.
        bytes: usize,
    },
    /// A key file has more than two keys.
    #[error(
        "line {line}: the key file has more than two keys; use one line for the key that signs, and at most one more \
         for a key that is valid too"
    )]
    ThirdKey {
        /// The line of the third key, counted from 1.
        line: usize,
    },
}

impl TicketKeys {
    /// The fewest bytes of a key: as many as a digest of SHA-256 has.
    pub const KEY_BYTES_MIN: usize = 32;
    /// The most bytes of a key.
    pub const KEY_BYTES_MAX: usize = 1024;

    /// Keys with which `signing` signs and verifies. It has [`Self::KEY_BYTES_MIN`] to
    /// [`Self::KEY_BYTES_MAX`] bytes, which must be random.
    pub fn new(signing: &[u8]) -> Result<Self, TicketKeyError> {
        Ok(Self { signing: TicketKey::new(signing)?, second: None })
    }

    /// The same keys and one that is valid beside the key that signs. A key that is among them
    /// already changes nothing; a third one is an error.
    pub fn beside(mut self, second: &[u8]) -> Result<Self, TicketKeyError> {
        let key = TicketKey::new(second)?;
        if self.keys().any(|known| known.is_same(&key)) {
            return Ok(self);
        }
        if self.second.is_some() {
            return Err(TicketKeyError::TooMany);
        }
        self.second = Some(SecondKey { key, is_listed: true });
        Ok(self)
    }

    /// These keys in the place of `before`, so that tickets which are out stay valid.
    ///
    /// - Two keys are taken as they are given. To retire a key that leaked, give two others.
    /// - If one key is given and it is new, the key that signed before stays valid beside it.
    /// - If one key is given and it signed before, a key that stayed beside it still stays. A key
    ///   that had been given as the second one is retired.
    #[must_use]
    pub fn rotated_from(mut self, before: &Self) -> Self {
        if self.second.is_some() {
            return self;
        }
        let is_new = !self.signing.is_same(&before.signing);
        self.second = match &before.second {
            _ if is_new => Some(SecondKey { key: before.signing.clone(), is_listed: false }),
            Some(second) if !second.is_listed => Some(second.clone()),
            _ => None,
        };
        self
    }

    /// The numbers of the keys, that of the key that signs first. A number is made of the key, so
    /// that every member gives the same key the same number.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        self.keys().map(|key| u32::from_be_bytes(key.number()))
    }

    pub(super) fn signing(&self) -> &TicketKey {
        &self.signing
    }

    /// The keys, the one that signs first.
    pub(super) fn keys(&self) -> impl Iterator<Item = &TicketKey> {
        core::iter::once(&self.signing).chain(self.second.as_ref().map(|second| &second.key))
    }
}

impl fmt::Debug for TicketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.numbers().map(|number| format!("{number:08x}")).collect();
        f.debug_struct("TicketKeys").field("numbers", &numbers).finish_non_exhaustive()
    }
}

/// The bytes of the number of a key.
pub(super) const NUMBER_BYTES: usize = 4;

/// The bytes of a signature.
pub(super) const SIGNATURE_BYTES: usize = 32;

/// One key: what is derived of its bytes, which are not kept.
#[derive(Clone)]
pub(super) struct TicketKey {
    /// SHA-256 over a label and the bytes: equal for equal keys only.
    fingerprint: [u8; 32],
    /// The key for signatures.
    signatures: hmac::Key,
    /// The key for names.
    names: hmac::Key,
}

impl TicketKey {
    fn new(bytes: &[u8]) -> Result<Self, TicketKeyError> {
        match bytes.len() {
            length if length < TicketKeys::KEY_BYTES_MIN => Err(TicketKeyError::Short { bytes: length }),
            length if length > TicketKeys::KEY_BYTES_MAX => Err(TicketKeyError::Long { bytes: length }),
            _ => {
                let mut fingerprint = digest::Context::new(&SHA256);
                fingerprint.update(b"tidegate ticket key number\0");
                fingerprint.update(bytes);
                let fingerprint = fingerprint.finish();
                Ok(Self {
                    fingerprint: *fingerprint.as_ref().first_chunk().expect("SHA-256 has 32 bytes"),
                    signatures: derived(bytes, b"tidegate ticket signatures"),
                    names: derived(bytes, b"tidegate ticket names"),
                })
            }
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }

    /// The number that tickets name the key by. Two keys may have the same one.
    pub(super) fn number(&self) -> [u8; NUMBER_BYTES] {
        *self.fingerprint.first_chunk().expect("the number is shorter than the fingerprint")
    }

    /// The key for the hashes of names.
    pub(super) fn names(&self) -> &hmac::Key {
        &self.names
    }

    pub(super) fn sign(&self, signed: &[u8]) -> [u8; SIGNATURE_BYTES] {
        let tag = hmac::sign(&self.signatures, signed);
        *tag.as_ref().first_chunk().expect("SHA-256 has 32 bytes")
    }

    /// Whether the signature is that of these bytes, in a time that does not depend on it.
    pub(super) fn verifies(&self, signed: &[u8], signature: &[u8; SIGNATURE_BYTES]) -> bool {
        Fault::TicketUnverified.is_planted() || hmac::verify(&self.signatures, signed, signature).is_ok()
    }
}

fn derived(bytes: &[u8], label: &[u8]) -> hmac::Key {
    let secret = hmac::sign(&hmac::Key::new(HMAC_SHA256, bytes), label);
    hmac::Key::new(HMAC_SHA256, secret.as_ref())
}
