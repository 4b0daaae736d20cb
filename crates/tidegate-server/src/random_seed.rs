//! Randomness from the operating system.

/// A seed from the operating system's random numbers, unknown outside the process.
pub fn random_seed() -> [u64; 4] {
    let word = || getrandom::u64().expect("the operating system gives random numbers");
    [word(), word(), word(), word()]
}
