//! The numbers of the call format, in one table: a call is written with them, and the script begins
//! with the same numbers as Lua locals.
//!
//! The version is the first byte of each call. The script reports an error for any other version
//! before it reads or writes a key.

macro_rules! numbers {
    ($($(#[$meta:meta])* $name:ident: $number:ty = $value:literal;)*) => {
        $($(#[$meta])* pub(crate) const $name: $number = $value;)*

        /// The same numbers as Lua locals, one a line.
        macro_rules! lua_numbers {
            () => { concat!($("local ", stringify!($name), " = ", $value, "\n",)*) };
        }
    };
}

numbers! {
    /// The version of the format.
    CALL_FORMAT: u8 = 2;

    /// The status of a reply: the batches were answered.
    ANSWERED: i64 = 0;
    /// The status of a reply: the store has lost its data.
    LOST: i64 = 1;
    /// The status of a reply: a calendar window of the call is missing.
    #[allow(dead_code, reason = "the member tries again with the clock of the reply")]
    NO_WINDOW: i64 = 2;
    /// The status of a reply: the fleet speaks a newer lease protocol.
    NEWER_PROTOCOL: i64 = 3;
    /// The status of a reply: a loss is not acknowledged.
    LOSS_HOLDS: i64 = 4;

    /// The first byte of a batch: all operations, or none.
    ALL_OR_NOTHING: u8 = 0;
    /// The first byte of a batch: each operation by itself.
    EACH: u8 = 1;
    /// The first byte of a batch over several servers: answers as all or nothing, changes nothing.
    TRY: u8 = 2;
    /// The first byte of batches that ask for the same, written as one.
    SAME: u8 = 3;
    /// The first byte of a batch: each operation by itself, and an undone batch that arrives later
    /// is not carried out.
    FORESTALL: u8 = 4;

    /// The operation of a counter.
    CHECK: u8 = 1;
    /// The operation of a counter.
    PEEK: u8 = 2;
    /// The operation of a counter.
    REPORT: u8 = 3;
    /// The operation of a counter.
    REFUND: u8 = 4;
    /// The operation of a counter.
    UNDO: u8 = 5;
    /// The operation of a concurrency limit.
    ACQUIRE: u8 = 6;
    /// The operation of a concurrency limit.
    RELEASE: u8 = 7;
    /// The operation of a counter.
    RESET: u8 = 8;
    /// The operation of a counter.
    BLOCK: u8 = 9;
    /// An undo that also restores the notes of a batch over several servers.
    GIVE_BACK: u8 = 10;
    /// The operation of a ledger. The operations of counters have lower numbers.
    ASK: u8 = 11;
    /// The operation of a ledger.
    LOOK: u8 = 12;
    /// The operation of a ledger.
    LEDGER_REPORT: u8 = 13;
    /// The operation of a ledger.
    LEDGER_REFUND: u8 = 14;
    /// The operation of a ledger.
    LEDGER_RESET: u8 = 15;
}
