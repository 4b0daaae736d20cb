//! The keys of an issuer, and the algorithms that each of them may verify.

use core::fmt;

use super::signature::Verifier;
use super::{base64, der, jwks};

/// The most keys of an issuer: a token that names none is tried with each that fits.
pub const KEYS_MAX: usize = 64;

/// How a token is signed. There is no `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// HMAC with SHA-256.
    Hs256,
    /// HMAC with SHA-384.
    Hs384,
    /// HMAC with SHA-512.
    Hs512,
    /// RSA (PKCS #1 1.5) with SHA-256.
    Rs256,
    /// RSA (PKCS #1 1.5) with SHA-384.
    Rs384,
    /// RSA (PKCS #1 1.5) with SHA-512.
    Rs512,
    /// RSA (PSS) with SHA-256.
    Ps256,
    /// RSA (PSS) with SHA-384.
    Ps384,
    /// RSA (PSS) with SHA-512.
    Ps512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Self; 12] = [
        Self::Hs256,
        Self::Hs384,
        Self::Hs512,
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
        Self::Es256,
        Self::Es384,
        Self::EdDsa,
    ];

    /// The name in tokens and keys (RFC 7518, RFC 8037).
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hs256 => "HS256",
            Self::Hs384 => "HS384",
            Self::Hs512 => "HS512",
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
        }
    }

    /// The algorithm of that name; `None` for every other, `none` among them.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.as_str() == name)
    }
}

/// Keys that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The secret is shorter than the digest it is used with.
    #[error("a secret of {0} bytes can be guessed; use at least 32 random bytes, 64 for HS512")]
    ShortSecret(usize),
    /// The secret is a key in PEM.
    #[error("the secret is a key in PEM, which is no secret; give it as a public key")]
    SecretIsPem,
    /// The text holds no block of PEM.
    #[error("there is no public key in PEM; the file should hold -----BEGIN PUBLIC KEY-----")]
    NoPem,
    /// A block of PEM is of another kind.
    #[error(
        "\"{0}\" in PEM is not a public key; write one with `openssl pkey -in private.pem -pubout`, or `openssl x509 -in certificate.pem -noout -pubkey`"
    )]
    NotPublic(String),
    /// The key is invalid, or of an unknown kind.
    #[error(
        "{0} is not a public key that can be used; use RSA of 2048 to 8192 bits, P-256, P-384 or Ed25519"
    )]
    Unusable(String),
    /// The file is not a JSON Web Key Set.
    #[error("the file is not a JSON Web Key Set: {0}; it should hold {{\"keys\": [..]}}")]
    NotJwks(String),
    /// No key of the set is of use here.
    #[error(
        "none of {0} keys in the JSON Web Key Set verifies signatures; use RSA, EC (P-256, P-384), OKP (Ed25519) or oct keys"
    )]
    NoneUsable(usize),
    /// More keys than [`KEYS_MAX`].
    #[error("{0} keys are more than {KEYS_MAX}; remove those that are no longer signed with")]
    TooMany(usize),
}

/// One key, and the algorithms that it may verify.
#[derive(Clone)]
pub(super) struct Key {
    pub(super) id: Option<String>,
    /// The one algorithm it is meant for; `None`: all that its kind allows.
    pub(super) algorithm: Option<Algorithm>,
    pub(super) verifier: Verifier,
}

/// The keys of an issuer.
///
/// A secret verifies HMAC only, and a public key only the algorithms of its own kind, so that no
/// token can choose.
#[derive(Clone)]
pub struct KeySet(Vec<Key>);

impl KeySet {
    /// A secret that the issuer shares, from the contents of its file, for HS256, and HS384 and
    /// HS512 where it is as long as their digest. One line end at its end is not part of it.
    pub fn from_secret(contents: &[u8]) -> Result<Self, KeyError> {
        let secret = contents.strip_suffix(b"\n").unwrap_or(contents);
        let secret = secret.strip_suffix(b"\r").unwrap_or(secret);
        // A public key is known to all: used as a secret, it would let every client sign.
        if secret.windows(11).any(|window| window == b"-----BEGIN ") {
            return Err(KeyError::SecretIsPem);
        }
        Ok(Self(vec![Key { id: None, algorithm: None, verifier: Verifier::secret(secret)? }]))
    }

    /// The public keys in PEM: `PUBLIC KEY` (RSA, P-256, P-384, Ed25519) or `RSA PUBLIC KEY`, at
    /// least one.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let mut keys = Vec::new();
        let mut rest = text;
        while let Some((_, begun)) = rest.split_once("-----BEGIN ") {
            let (kind, body) = begun.split_once("-----").ok_or(KeyError::NoPem)?;
            let (body, after) = body.split_once("-----END ").ok_or(KeyError::NoPem)?;
            rest = after;
            let shown: String = kind.chars().take(64).collect();
            if !matches!(kind, "PUBLIC KEY" | "RSA PUBLIC KEY") {
                return Err(KeyError::NotPublic(shown));
            }
            let unusable = || KeyError::Unusable(format!("\"{shown}\" in PEM"));
            let bytes = base64::decode_lines(body).ok_or_else(unusable)?;
            let verifier = match kind {
                "PUBLIC KEY" => public_key(&bytes),
                _ => Verifier::rsa(&bytes),
            };
            keys.push(Key { id: None, algorithm: None, verifier: verifier.ok_or_else(unusable)? });
        }
        if keys.is_empty() {
            return Err(KeyError::NoPem);
        }
        Self::bounded(keys)
    }

    /// The keys of a JSON Web Key Set (RFC 7517). Keys for encryption and of unknown kinds are
    /// passed over; at least one must be left.
    pub fn from_jwks(json: &[u8]) -> Result<Self, KeyError> {
        Self::bounded(jwks::keys(json)?)
    }

    /// These keys and those of `other`.
    pub fn and(mut self, other: Self) -> Result<Self, KeyError> {
        self.0.extend(other.0);
        Self::bounded(self.0)
    }

    fn bounded(keys: Vec<Key>) -> Result<Self, KeyError> {
        if keys.len() > KEYS_MAX { Err(KeyError::TooMany(keys.len())) } else { Ok(Self(keys)) }
    }

    /// Whether a key that may is the one that signed. A token that names a key is tried with that
    /// one, and with keys that have no name.
    pub(super) fn verify(
        &self,
        algorithm: Algorithm,
        id: Option<&str>,
        message: &[u8],
        signature: &[u8],
    ) -> bool {
        let may = |key: &&Key| {
            let is_named = id.is_none() || key.id.is_none() || key.id.as_deref() == id;
            is_named && key.algorithm.is_none_or(|only| only == algorithm)
        };
        self.0.iter().filter(may).any(|key| key.verifier.verify(algorithm, message, signature))
    }
}

/// Shows the number of keys and never their bytes.
impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeySet").field(&self.0.len()).finish()
    }
}

const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];

/// A `SubjectPublicKeyInfo` (RFC 5280); `None` if it is malformed or of an unknown kind.
fn public_key(bytes: &[u8]) -> Option<Verifier> {
    let (whole, []) = der::element(bytes, der::SEQUENCE)? else { return None };
    let (kind, rest) = der::element(whole, der::SEQUENCE)?;
    let (kind, parameters) = der::element(kind, der::OBJECT)?;
    let ([0, key @ ..], []) = der::element(rest, der::BIT_STRING)? else { return None };
    match kind {
        RSA => Verifier::rsa(key),
        ED25519 => Verifier::ed25519(key),
        EC => match der::element(parameters, der::OBJECT)? {
            (P256, []) => Verifier::p256(key),
            (P384, []) => Verifier::p384(key),
            _ => None,
        },
        _ => None,
    }
}
