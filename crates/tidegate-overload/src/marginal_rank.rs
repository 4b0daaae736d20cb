//! The least important requests that the admission cursor lets in.

use crate::cursor::Cursor;

/// The part of the demand that the cursor lets in of which the requests are marginal: the least
/// important fifth.
pub(crate) const MARGINAL_PART: f64 = 0.2;

/// The rank of a marginal request: 0 for the least important level that the cursor lets in, 255 for
/// the most important one of those that make up the least important fifth of the demand.
///
/// All requests of a tenant have the same rank until the cursor moves or the hour ends, so that
/// what is shed by rank is shed of the same tenants: their tasks fail as a whole, rather than one
/// call of everybody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MarginalRank(u8);

impl MarginalRank {
    /// The rank of a request at `level` if all from `cursor` on are let in, and those below `end`
    /// are marginal; `None` if the request is not.
    pub(crate) fn new(level: u16, cursor: Cursor, end: Cursor) -> Option<Self> {
        let (from, end) = (cursor.level(), end.level());
        if level >= end {
            return None;
        }
        let (distance, width) = (u32::from(level.saturating_sub(from)), u32::from(end.abs_diff(from)));
        Some(Self((distance * 256 / width.max(1)).min(255) as u8))
    }

    /// The rank as a part of all ranks, 0.0 to less than 1.0.
    pub fn as_ratio(self) -> f64 {
        f64::from(self.0) / 256.0
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn ranks_divide_the_levels_between_the_cursor_and_the_end() {
        let rank =
            |level| MarginalRank::new(level, Cursor::at(40), Cursor::at(80)).map(MarginalRank::as_ratio);
        assert_eq!([39, 40, 50, 60].map(rank), [Some(0.0), Some(0.0), Some(0.25), Some(0.5)]);
        assert!(rank(79).is_some_and(|ratio| ratio < 1.0));
        assert_eq!([80, 100].map(rank), [None, None]);
    }

    #[test]
    fn without_an_end_above_the_cursor_no_request_that_is_let_in_is_marginal() {
        assert_eq!(MarginalRank::new(0, Cursor::OPEN, Cursor::OPEN), None);
        assert_eq!(MarginalRank::new(50, Cursor::at(50), Cursor::at(50)), None);
        assert_eq!(MarginalRank::new(50, Cursor::at(50), Cursor::at(20)), None);
    }
}
