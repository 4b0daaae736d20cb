//! The seeds that the tests take: a few in the gate, more by environment. `cargo xtask acceptance`
//! sets the variable and reads the lines that begin with `acceptance:`.

use tidegate_sim::kit::Seeds;

/// The variable, with a range such as `0..10000`.
const VARIABLE: &str = "TIDEGATE_SEEDS";

/// The seeds of the environment, if it has any.
#[expect(clippy::disallowed_methods, reason = "a test that takes longer when it is told to")]
pub(crate) fn chosen() -> Option<Seeds> {
    let range = std::env::var(VARIABLE).ok()?;
    let seeds = range.split_once("..").and_then(|(first, end)| {
        let (first, end): (u64, u64) = (first.parse().ok()?, end.parse().ok()?);
        Some(Seeds::new(first, end.checked_sub(first)?))
    });
    Some(seeds.unwrap_or_else(|| panic!("{VARIABLE}={range:?} is no range; use FIRST..END, as 0..10000")))
}
