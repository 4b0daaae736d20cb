//! Commands between `MULTI` and `EXEC`.
//!
//! They are kept as the bytes that came and are read again when `EXEC` comes, so that a connection
//! holds no more for them than its client sent. Nothing of them is decided before: a connection
//! that ends, `DISCARD` and `RESET` leave no charge.

use core::mem::take;

use super::command::Command;

/// The bytes of the commands that a transaction holds, with room for their replies: 1 MiB. A
/// command above it is an error, and `EXEC` answers that the transaction was discarded.
pub(super) const TRANSACTION_BYTES_MAX: usize = 1 << 20;

/// The commands since `MULTI`.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    commands: Vec<u8>,
    count: usize,
    /// Room that the replies take, beyond the bytes of the commands.
    reply_bytes: usize,
    /// Whether a command was an error, so that none of them is carried out.
    is_aborted: bool,
}

/// The error for a command that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TransactionFull;

impl Transaction {
    /// Keeps a command, the bytes of one, for `EXEC`.
    pub(super) fn queue(&mut self, command: Command, bytes: &[u8]) -> Result<(), TransactionFull> {
        if self.is_aborted {
            return Ok(());
        }
        let reply_bytes = self.reply_bytes + command.reply_bytes();
        if self.commands.len() + bytes.len() + reply_bytes > TRANSACTION_BYTES_MAX {
            self.abort();
            return Err(TransactionFull);
        }
        self.commands.extend_from_slice(bytes);
        self.count += 1;
        self.reply_bytes = reply_bytes;
        Ok(())
    }

    /// Sees that `EXEC` carries nothing out.
    pub(super) fn abort(&mut self) {
        self.is_aborted = true;
        self.commands = Vec::new();
    }

    /// The number of commands and their bytes, unless one of them was an error.
    pub(super) fn finish(mut self) -> Option<(usize, Vec<u8>)> {
        (!self.is_aborted).then(|| (self.count, take(&mut self.commands)))
    }

    /// The bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        self.commands.capacity()
    }
}
