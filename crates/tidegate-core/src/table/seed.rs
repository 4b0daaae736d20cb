//! Seeds of the key hash.

use core::hash::BuildHasher;

/// A random seed, unknown outside of the process: that of [`TableConfig::default`], and for
/// whatever else wants one, such as [`TableConfig::seeded`] and stores in memory.
///
/// This is the one source of seeds, and the one place of the pure crates where anything comes from
/// outside: a program that names no seed must be safe from strangers who choose keys. Simulations
/// and tests pass a seed. Secrets, such as tokens and the key of permit names, are no seeds and
/// come from the operating system directly.
///
/// [`TableConfig::default`]: super::TableConfig
/// [`TableConfig::seeded`]: super::TableConfig::seeded
#[expect(clippy::disallowed_types, reason = "the one place where a seed is drawn")]
pub fn random_seed() -> [u64; 4] {
    // Each state has keys of its own, and the hash of a number under unknown keys is as good as a
    // random number.
    let state = std::collections::hash_map::RandomState::new();
    [0, 1, 2, 3_u64].map(|part| state.hash_one(part))
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn two_seeds_differ_in_each_part() {
        let (one, other) = (random_seed(), random_seed());
        assert!(one.iter().zip(&other).all(|(one, other)| one != other), "{one:?} {other:?}");
    }
}
