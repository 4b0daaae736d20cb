//! The name of a kept permit.

use core::fmt;
use core::str::FromStr;

/// The name of a kept permit: 128 bits that cannot be guessed, written as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PermitId(u128);

impl PermitId {
    pub(crate) fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    pub(crate) fn to_bits(self) -> u128 {
        self.0
    }

    /// The first 8 of the 32 digits: enough to recognise a permit, and too little to settle it.
    pub fn prefix(self) -> String {
        format!("{:08x}", self.0 >> 96)
    }
}

impl fmt::Display for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Text that is no permit's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("permit \"{0}\" is not 32 hexadecimal digits; send it as the check gave it")]
pub struct NotAPermitId(pub String);

impl FromStr for PermitId {
    type Err = NotAPermitId;

    fn from_str(text: &str) -> Result<Self, NotAPermitId> {
        let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let parsed = digits.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        parsed.map(Self).ok_or_else(|| NotAPermitId(text.chars().take(64).collect()))
    }
}
