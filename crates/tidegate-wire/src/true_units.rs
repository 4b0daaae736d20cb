//! Capacity units that an access truly took, as callers and upstreams say them.

use core::fmt;
use core::str::FromStr;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

/// Capacity units that an access truly took, in thousandths; 0 to [`TrueUnits::MAX`].
///
/// In text a decimal with at most three places, such as `40` or `0.5`; in JSON the same as a number
/// or in quotes.
///
/// ```
/// # use tidegate_wire::true_units::TrueUnits;
/// assert_eq!("0.5".parse(), Ok(TrueUnits::from_thousandths(500).unwrap()));
/// assert!("0.0005".parse::<TrueUnits>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrueUnits(u32);

/// A text or a number that is not [`TrueUnits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("units are a decimal from 0 to {} with at most three places, such as 40 or 0.5", TrueUnits::MAX)]
pub struct NotUnits;

impl TrueUnits {
    /// The most units.
    pub const MAX: u32 = 1_000_000;

    /// So many thousandths; `None` for more than [`TrueUnits::MAX`] units.
    pub const fn from_thousandths(thousandths: u32) -> Option<Self> {
        if thousandths <= Self::MAX * 1000 { Some(Self(thousandths)) } else { None }
    }

    /// The thousandths.
    pub const fn as_thousandths(self) -> u32 {
        self.0
    }
}

impl FromStr for TrueUnits {
    type Err = NotUnits;

    fn from_str(text: &str) -> Result<Self, NotUnits> {
        let (whole, places) = text.split_once('.').unwrap_or((text, "0"));
        let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(whole) || !is_number(places) || places.len() > 3 {
            return Err(NotUnits);
        }
        let thousandths: u32 = format!("{places:0<3}").parse().map_err(|_| NotUnits)?;
        let whole: u32 = whole.parse().map_err(|_| NotUnits)?;
        let all = whole.checked_mul(1000).and_then(|whole| whole.checked_add(thousandths));
        all.and_then(Self::from_thousandths).ok_or(NotUnits)
    }
}

impl<'de> Deserialize<'de> for TrueUnits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct UnitsVisitor;
        impl Visitor<'_> for UnitsVisitor {
            type Value = TrueUnits;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a decimal from 0 to 1000000 with at most three places")
            }

            fn visit_u64<E: de::Error>(self, units: u64) -> Result<TrueUnits, E> {
                self.visit_str(&units.to_string())
            }

            fn visit_f64<E: de::Error>(self, units: f64) -> Result<TrueUnits, E> {
                self.visit_str(&units.to_string())
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<TrueUnits, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(UnitsVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_with_three_places_are_units_and_others_are_told_what_is() {
        for (text, thousandths) in [
            ("0", 0),
            ("40", 40_000),
            ("0.5", 500),
            ("1.025", 1025),
            ("00.50", 500),
            ("1000000", 1_000_000_000),
        ] {
            assert_eq!(text.parse().map(TrueUnits::as_thousandths), Ok(thousandths), "{text}");
        }
        for text in
            ["", ".", ".5", "5.", "-1", "+1", "1e3", "0.0001", "1000000.001", "4294967296", "nan", "1,5"]
        {
            assert_eq!(text.parse::<TrueUnits>(), Err(NotUnits), "{text}");
        }
    }

    #[test]
    fn json_has_them_as_a_number_or_in_quotes() {
        for (json, thousandths) in [("40", 40_000), ("0.5", 500), ("\"0.5\"", 500), ("1.0", 1000)] {
            let units: TrueUnits = serde_json::from_str(json).unwrap();
            assert_eq!(units.as_thousandths(), thousandths, "{json}");
        }
        for json in ["-1", "0.0001", "1e9", "true", "null", "[]"] {
            assert!(serde_json::from_str::<TrueUnits>(json).is_err(), "{json}");
        }
    }
}
