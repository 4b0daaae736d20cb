//! The algorithms of signatures, and the errors of keys for them.

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
    #[error("`secret_file` holds a key in PEM; name its public key under `keys_file`")]
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
