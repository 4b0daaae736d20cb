//! The least important requests that the admission cursor lets in.

/// The part of the demand that the cursor lets in of which the requests are marginal: the least
/// important fifth.
pub(crate) const MARGINAL_PART: f64 = 0.2;

/// The rank of a marginal request of a namespace and class that is over its part: 0 for the least
/// important level that the cursor lets in, 255 for the level in which the least important fifth of
/// their demand ends.
///
/// All requests of a tenant have the same rank until the cursor moves or the hour ends, so that
/// what is shed by rank is shed of the same tenants: their tasks fail as a whole, rather than one
/// call of everybody's. The last level is marginal only in part. Its rank is the highest, with
/// which a request is shed where delay control would shed it as well, and sooner: so are the
/// requests of a tenant that is alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MarginalRank(u8);

impl MarginalRank {
    /// The rank of a request of a cohort if all from `cursor` on are let in, and those of cohorts
    /// below `end` are marginal; `None` if the request is not.
    pub(crate) fn new(cohort: u16, cursor: u16, end: u16) -> Option<Self> {
        let last = end.checked_sub(1)?;
        if cohort >= last {
            return (cohort == last).then_some(Self(u8::MAX));
        }
        let (distance, width) = (cohort.saturating_sub(cursor), last.abs_diff(cursor));
        Some(Self((u32::from(distance) * 255 / u32::from(width.max(1))).min(254) as u8))
    }

    /// The rank as a part of the highest, 0.0 to 1.0.
    pub fn as_ratio(self) -> f64 {
        f64::from(self.0) / f64::from(u8::MAX)
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn ranks_divide_the_levels_between_the_cursor_and_the_last_one() {
        let rank = |level| MarginalRank::new(level, 40, 92).map(MarginalRank::as_ratio);
        assert_eq!([39, 40, 91, 92].map(rank), [Some(0.0), Some(0.0), Some(1.0), None]);
        assert_eq!(rank(57), Some(1.0 / 3.0));
        assert!(rank(90).is_some_and(|ratio| (0.95..1.0).contains(&ratio)));
    }

    #[test]
    fn a_level_that_is_alone_has_the_highest_rank_and_without_an_end_none_has_one() {
        assert_eq!(MarginalRank::new(50, 0, 51).map(MarginalRank::as_ratio), Some(1.0));
        assert_eq!(MarginalRank::new(50, 50, 51).map(MarginalRank::as_ratio), Some(1.0));
        assert_eq!(MarginalRank::new(0, 0, 0), None);
        assert_eq!(MarginalRank::new(50, 50, 20), None);
    }
}
