//! JSON Web Key Sets (RFC 7517).

use serde::Deserialize;

use super::algorithm::{Algorithm, KeyError};
use super::signature::{Key, Verifier};
use super::{base64, der};

#[derive(Deserialize)]
struct WebKeySet {
    keys: Vec<WebKey>,
}

/// One key. Other members, such as certificates, are ignored, as the RFC requires.
#[derive(Deserialize)]
struct WebKey {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    r#use: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
    k: Option<String>,
}

/// The keys of a set that verify signatures, at least one.
pub(super) fn keys(json: &[u8]) -> Result<Vec<Key>, KeyError> {
    let set: WebKeySet =
        serde_json::from_slice(json).map_err(|error| KeyError::NotJwks(error.to_string()))?;
    let mut keys = Vec::new();
    for key in &set.keys {
        keys.extend(key.read()?);
    }
    if keys.is_empty() { Err(KeyError::NoneUsable(set.keys.len())) } else { Ok(keys) }
}

impl WebKey {
    /// The key, if it is for signatures of a known kind; an error if it is and cannot be read.
    fn read(&self) -> Result<Option<Key>, KeyError> {
        let is_for_signatures = self.r#use.as_deref().is_none_or(|r#use| r#use == "sig")
            && self.key_ops.as_ref().is_none_or(|all| all.iter().any(|one| one == "verify"));
        let algorithm = self.alg.as_deref().map(Algorithm::named);
        if !is_for_signatures || algorithm == Some(None) {
            return Ok(None);
        }
        let verifier = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => self.rsa().and_then(|key| Verifier::rsa(&key)),
            ("EC", Some("P-256")) => self.point(32).and_then(|key| Verifier::p256(&key)),
            ("EC", Some("P-384")) => self.point(48).and_then(|key| Verifier::p384(&key)),
            ("OKP", Some("Ed25519")) => bytes(self.x.as_ref()).and_then(|key| Verifier::ed25519(&key)),
            ("oct", _) => bytes(self.k.as_ref()).map(|key| Verifier::secret(&key)).transpose()?,
            _ => return Ok(None),
        };
        let unusable = || {
            let name: String = self.kid.as_deref().unwrap_or("without a kid").chars().take(64).collect();
            KeyError::Unusable(format!("{} key \"{name}\"", self.kty))
        };
        let verifier = verifier.ok_or_else(unusable)?;
        Ok(Some(Key { id: self.kid.clone(), algorithm: algorithm.flatten(), verifier }))
    }

    /// An `RSAPublicKey` (RFC 8017).
    fn rsa(&self) -> Option<Vec<u8>> {
        let mut numbers = der::unsigned(&bytes(self.n.as_ref())?)?;
        numbers.extend(der::unsigned(&bytes(self.e.as_ref())?)?);
        der::written(der::SEQUENCE, &numbers)
    }

    /// A point of a curve, uncompressed. Coordinates have their full length (RFC 7518, section
    /// 6.2.1.2).
    fn point(&self, length: usize) -> Option<Vec<u8>> {
        let (x, y) = (bytes(self.x.as_ref())?, bytes(self.y.as_ref())?);
        (x.len() == length && y.len() == length).then(|| [&[4][..], &x, &y].concat())
    }
}

fn bytes(text: Option<&String>) -> Option<Vec<u8>> {
    base64::decode_url(text?.as_bytes())
}
