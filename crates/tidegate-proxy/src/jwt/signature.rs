//! The one place where signatures are verified.

use std::sync::Arc;

use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, UnparsedPublicKey, VerificationAlgorithm,
};
use ring::{digest, hmac};

use super::algorithm::{Algorithm, KeyError};
use super::der;

/// One key, and the algorithms that it may verify.
#[derive(Clone)]
pub(super) struct Key {
    pub(super) id: Option<String>,
    /// The one algorithm it is meant for; `None`: all that its kind allows.
    pub(super) algorithm: Option<Algorithm>,
    pub(super) verifier: Verifier,
}

/// A key as it verifies. Whether it is one of its curve shows only when it is used: if not, it
/// verifies nothing.
#[derive(Clone)]
pub(super) struct Verifier {
    kind: KeyKind,
    bytes: Arc<[u8]>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum KeyKind {
    Secret,
    Rsa,
    P256,
    P384,
    Ed25519,
}

/// The shortest secret in bytes: the digest of HS256 (RFC 7518, section 3.2).
const SECRET_BYTES_MIN: usize = 32;

/// The lengths of an RSA modulus in bits that verify. Shorter ones can be factored.
const RSA_BITS: core::ops::RangeInclusive<usize> = 2048..=8192;

impl Verifier {
    pub(super) fn secret(secret: &[u8]) -> Result<Self, KeyError> {
        if secret.len() < SECRET_BYTES_MIN {
            return Err(KeyError::ShortSecret(secret.len()));
        }
        Ok(Self { kind: KeyKind::Secret, bytes: secret.into() })
    }

    /// An `RSAPublicKey` (RFC 8017) in DER; `None` for anything else, as below.
    pub(super) fn rsa(bytes: &[u8]) -> Option<Self> {
        let (numbers, []) = der::element(bytes, der::SEQUENCE)? else { return None };
        let (modulus, rest) = der::element(numbers, der::INTEGER)?;
        let (_, []) = der::element(rest, der::INTEGER)? else { return None };
        let modulus = modulus.strip_prefix(&[0]).unwrap_or(modulus);
        let bits = modulus.len() * 8 - modulus.first()?.leading_zeros() as usize;
        RSA_BITS.contains(&bits).then(|| Self { kind: KeyKind::Rsa, bytes: bytes.into() })
    }

    /// An uncompressed point of P-256.
    pub(super) fn p256(bytes: &[u8]) -> Option<Self> {
        Self::point(KeyKind::P256, 32, bytes)
    }

    /// An uncompressed point of P-384.
    pub(super) fn p384(bytes: &[u8]) -> Option<Self> {
        Self::point(KeyKind::P384, 48, bytes)
    }

    fn point(kind: KeyKind, coordinate: usize, bytes: &[u8]) -> Option<Self> {
        let is_point = bytes.len() == 1 + 2 * coordinate && bytes.first() == Some(&4);
        is_point.then(|| Self { kind, bytes: bytes.into() })
    }

    /// The 32 bytes of an Ed25519 key.
    pub(super) fn ed25519(bytes: &[u8]) -> Option<Self> {
        (bytes.len() == 32).then(|| Self { kind: KeyKind::Ed25519, bytes: bytes.into() })
    }

    /// Whether this key made the signature in that way. False for an algorithm that is not of its
    /// kind.
    pub(super) fn verify(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        use Algorithm as A;
        let (kind, how): (KeyKind, &'static dyn VerificationAlgorithm) = match algorithm {
            A::Hs256 => return self.is_hmac(hmac::HMAC_SHA256, &digest::SHA256, message, signature),
            A::Hs384 => return self.is_hmac(hmac::HMAC_SHA384, &digest::SHA384, message, signature),
            A::Hs512 => return self.is_hmac(hmac::HMAC_SHA512, &digest::SHA512, message, signature),
            A::Rs256 => (KeyKind::Rsa, &RSA_PKCS1_2048_8192_SHA256),
            A::Rs384 => (KeyKind::Rsa, &RSA_PKCS1_2048_8192_SHA384),
            A::Rs512 => (KeyKind::Rsa, &RSA_PKCS1_2048_8192_SHA512),
            A::Ps256 => (KeyKind::Rsa, &RSA_PSS_2048_8192_SHA256),
            A::Ps384 => (KeyKind::Rsa, &RSA_PSS_2048_8192_SHA384),
            A::Ps512 => (KeyKind::Rsa, &RSA_PSS_2048_8192_SHA512),
            A::Es256 => (KeyKind::P256, &ECDSA_P256_SHA256_FIXED),
            A::Es384 => (KeyKind::P384, &ECDSA_P384_SHA384_FIXED),
            A::EdDsa => (KeyKind::Ed25519, &ED25519),
        };
        self.kind == kind && UnparsedPublicKey::new(how, &self.bytes).verify(message, signature).is_ok()
    }

    /// Whether `signature` is the HMAC of `message`, compared in constant time. A secret shorter
    /// than the digest signs nothing.
    fn is_hmac(
        &self,
        how: hmac::Algorithm,
        digest: &digest::Algorithm,
        message: &[u8],
        signature: &[u8],
    ) -> bool {
        self.kind == KeyKind::Secret
            && self.bytes.len() >= digest.output_len()
            && hmac::verify(&hmac::Key::new(how, &self.bytes), message, signature).is_ok()
    }
}
