//! Disturbances: things that go wrong for a while, planned from the seed before anything happens.

use super::chance::Chance;
use super::clock::{MS, SECOND};

/// Something that goes wrong, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disturbance<T> {
    /// The trouble.
    pub trouble: T,
    /// When it begins.
    pub from: u64,
    /// When it ends.
    pub until: u64,
}

/// The instant before which nothing goes wrong in every second sequence.
const FIRST: u64 = 4 * SECOND;

/// The longest pause between two troubles of a sequence, in milliseconds.
const PAUSE_MAX_MS: u64 = 5000;

/// Troubles that follow one another and end before `end`, each with a pause of up to five seconds
/// before it. `draw` gives each trouble and how long it lasts. The first may come at once, before
/// anything was asked for.
pub fn sequence<T>(
    chance: &mut Chance,
    end: u64,
    mut draw: impl FnMut(&mut Chance) -> (T, u64),
) -> Vec<Disturbance<T>> {
    let mut plan = Vec::new();
    let mut at = chance.one_of(&[0, FIRST]);
    loop {
        let (trouble, lasts) = draw(chance);
        let from = at + chance.between(0, PAUSE_MAX_MS) * MS;
        let until = from + lasts;
        if until > end {
            return plan;
        }
        plan.push(Disturbance { trouble, from, until });
        at = until;
    }
}

/// Sequences that run side by side as one plan, in the order in which the troubles begin.
pub fn side_by_side<T>(sequences: impl IntoIterator<Item = Vec<Disturbance<T>>>) -> Vec<Disturbance<T>> {
    let mut plan: Vec<_> = sequences.into_iter().flatten().collect();
    plan.sort_by_key(|one| (one.from, one.until));
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn troubles_of_a_sequence_follow_one_another_and_those_of_two_overlap() {
        let end = 600 * SECOND;
        let mut chance = Chance::new(1, 1);
        let mut sequence = |name: char| sequence(&mut chance, end, |chance| (name, chance.below(9 * SECOND)));
        let (first, second) = (sequence('a'), sequence('b'));
        for sequence in [&first, &second] {
            assert!(sequence.len() > 30 && sequence.iter().all(|one| one.until <= end));
            assert!(sequence.windows(2).all(|pair| pair[0].until <= pair[1].from));
        }
        let plan = side_by_side([first, second]);
        assert!(plan.windows(2).all(|pair| pair[0].from <= pair[1].from));
        assert!(plan.windows(2).any(|pair| pair[0].until > pair[1].from));
    }
}
