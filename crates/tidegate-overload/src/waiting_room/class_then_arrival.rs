//! The order by class, and within a class by arrival.

use core::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use tidegate_core::Class;

use super::order::{Entrant, Obstacle, Order, Position};

/// The higher class first, then the earlier arrival, also if it has waited for something else
/// before.
#[derive(Clone, Debug, Default)]
pub struct ClassThenArrival {
    /// All lines, one after the other.
    lines: BTreeSet<(Obstacle, Rank)>,
    ranks: BTreeMap<Position, (Obstacle, Rank)>,
}

/// The rank of a request in its line; the smallest is next.
type Rank = (Reverse<Class>, Position);

/// The rank before all others.
const FIRST: Rank = (Reverse(Class::CriticalPlus), Position::new(0));

impl Order for ClassThenArrival {
    fn push(&mut self, position: Position, entrant: &Entrant) {
        let rank = (entrant.obstacle, (Reverse(entrant.class), position));
        self.lines.insert(rank);
        self.ranks.insert(position, rank);
    }

    fn next(&self, obstacle: Obstacle) -> Option<Position> {
        let (line, (_, position)) = self.lines.range((obstacle, FIRST)..).next()?;
        (*line == obstacle).then_some(*position)
    }

    fn cancel(&mut self, position: Position) {
        if let Some(rank) = self.ranks.remove(&position) {
            self.lines.remove(&rank);
        }
    }

    fn moved(&mut self, position: Position, obstacle: Obstacle) {
        if let Some(rank) = self.ranks.get_mut(&position) {
            self.lines.remove(rank);
            rank.0 = obstacle;
            self.lines.insert(*rank);
        }
    }
}
