//! The script: the numbers of the call format and its parts in the order they are read, as one
//! text.

use redis::Script;

/// All of it.
const TEXT: &str = concat!(
    lua_numbers!(),
    include_str!("script/prelude.lua"),
    include_str!("script/epoch.lua"),
    include_str!("script/bucket.lua"),
    include_str!("script/windows.lua"),
    include_str!("script/rolling_window.lua"),
    include_str!("script/permits.lua"),
    include_str!("script/counters.lua"),
    include_str!("script/notes.lua"),
    include_str!("script/loans.lua"),
    include_str!("script/ledger.lua"),
    include_str!("script/batches.lua"),
    include_str!("script/runs.lua"),
    include_str!("script/main.lua"),
);

/// The text and the name under which a server knows it once it has been sent.
#[derive(Clone, Debug)]
pub(crate) struct Sha {
    pub(crate) hash: String,
    pub(crate) text: &'static str,
}

impl Sha {
    pub(crate) fn new() -> Self {
        Self { hash: Script::new(TEXT).get_hash().to_owned(), text: TEXT }
    }
}

/// The layouts of values in Redis that this version reads; `prelude.lua` has their meaning. The
/// first byte of a value is its layout.
pub const VALUE_LAYOUTS: [u8; 2] = [1, 2];

#[cfg(test)]
mod tests;
