//! Whether the parts of what is shared bound those that have more.
//!
//! They do once one was refused that had less than its part while another had more than its own,
//! and for a minute after.

use core::time::Duration;

use tidegate_core::Timestamp;

/// One that has less than this part of what is right lacks it, if it was refused.
const LACKING: f64 = 0.9;
/// For so long the parts hold after one lacked its own.
const HELD: Duration = Duration::from_mins(1);

/// The amount that one asks for and the amount that it has, in the unit of its part.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PartClaim {
    pub(crate) wanted: f64,
    pub(crate) had: f64,
    /// Whether enough of what it asks for was refused.
    pub(crate) is_refused: bool,
}

impl PartClaim {
    fn lacks(&self, part: f64) -> bool {
        self.is_refused && self.had < LACKING * self.wanted.min(part)
    }
}

/// Whether parts hold.
///
/// Default: they do not.
#[derive(Debug, Default)]
pub(crate) struct HeldParts {
    until: Option<Timestamp>,
}

impl HeldParts {
    /// Whether the parts may hold in a tick. If not, nobody needs to divide them.
    pub(crate) const fn may_hold(&self, is_any_refused: bool) -> bool {
        is_any_refused || self.until.is_some()
    }

    /// Takes in a tick: each claim with its part. Whether the parts hold.
    pub(crate) fn tick<'a>(
        &mut self,
        claims: impl Iterator<Item = (&'a PartClaim, &'a f64)>,
        now: Timestamp,
    ) -> bool {
        let (mut is_lacking, mut is_over) = (false, false);
        for (claim, part) in claims {
            is_lacking |= claim.lacks(*part);
            is_over |= claim.had > *part;
        }
        if is_lacking && is_over {
            self.until = Some(now.saturating_add(HELD));
        }
        // A clock that steps back far lifts the bounds.
        self.until = self.until.filter(|until| now < *until && *until <= now.saturating_add(HELD));
        self.until.is_some()
    }
}
