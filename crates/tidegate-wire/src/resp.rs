//! RESP, the protocol that Redis clients speak: commands as a server reads them, replies as it
//! writes them.
//!
//! [`read_command`] reads one command from the bytes that have come so far, and copies nothing but
//! inline arguments that are quoted. Every part of a command has a bound that is looked at before
//! anything is waited for or kept: a client that announces two gigabytes is told so at once.
//! [`Replies`] writes both versions of the protocol, so that a command says what it answers once.
//!
//! ```
//! use tidegate_wire::resp::{Arguments, Protocol, Read, Replies, read_command};
//!
//! let mut arguments = Arguments::new();
//! let read = read_command(b"*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n", &mut arguments)?;
//! assert_eq!(read, Read::Command { bytes: 22 });
//!
//! let mut out = Vec::new();
//! Replies::new(&mut out, Protocol::Two).bulk(&arguments[1]);
//! assert_eq!(out, b"$2\r\nhi\r\n");
//! # Ok::<(), tidegate_wire::resp::ProtocolError>(())
//! ```

mod command;
mod inline;
mod outcome;
mod reply;

pub use command::read_command;
pub use outcome::{
    ARGUMENT_BYTES_MAX, ARGUMENTS_MAX, Arguments, COMMAND_BYTES_MAX, INLINE_BYTES_MAX, ProtocolError, Read,
};
pub use reply::{BulkText, Protocol, Replies};
