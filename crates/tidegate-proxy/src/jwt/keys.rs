//! The keys of an issuer, and the algorithms that each of them may verify.

use core::fmt;

use super::algorithm::{Algorithm, KEYS_MAX, KeyError};
use super::signature::{Key, Verifier};
use super::{base64, der, jwks};

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
