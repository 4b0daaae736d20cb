//! The sets of features each crate is checked with.

/// Above this many features the sets would double with each further one, so that only the sets most
/// likely to break are taken: none, each alone, all but each, all.
const FEATURES_TAKEN_IN_EVERY_SET: usize = 4;

/// The sets of `features` to check, each joined by commas, the empty set first.
///
/// All of them up to [`FEATURES_TAKEN_IN_EVERY_SET`]; beyond that a number that grows with twice
/// the features.
pub(crate) fn of(features: &[String]) -> Vec<String> {
    let count = features.len();
    let join = |is_in: &dyn Fn(usize) -> bool| {
        let chosen: Vec<&str> =
            (0..count).filter(|index| is_in(*index)).map(|index| &*features[index]).collect();
        chosen.join(",")
    };
    if count <= FEATURES_TAKEN_IN_EVERY_SET {
        return (0..1_u32 << count).map(|set| join(&|index| set & (1 << index) != 0)).collect();
    }
    let mut sets = vec![join(&|_| false)];
    sets.extend((0..count).map(|alone| join(&|index| index == alone)));
    sets.extend((0..count).map(|absent| join(&|index| index != absent)));
    sets.push(join(&|_| true));
    sets
}

#[cfg(test)]
mod tests {
    use super::of;

    fn features(names: &str) -> Vec<String> {
        names.chars().map(String::from).collect()
    }

    #[test]
    fn few_features_are_taken_in_every_set() {
        assert_eq!(of(&features("")), [""]);
        assert_eq!(of(&features("ab")), ["", "a", "b", "a,b"]);
        assert_eq!(of(&features("abcd")).len(), 16);
    }

    #[test]
    fn many_features_are_taken_alone_and_left_out_alone() {
        let sets = of(&features("abcde"));
        assert_eq!(sets.len(), 12);
        for set in ["", "c", "a,b,d,e", "a,b,c,d,e"] {
            assert!(sets.contains(&set.to_owned()), "{set:?} is missing");
        }
    }
}
