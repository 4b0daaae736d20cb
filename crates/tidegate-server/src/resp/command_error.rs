//! Errors that are replies to commands.

use core::fmt::{self, Display, Write};
use std::borrow::Cow;

use tidegate_wire::Fault;
use tidegate_wire::resp::Replies;

use super::command::Command;
use crate::context::DaemonContext;

/// How much of an unknown command is shown to its sender, in bytes.
const SHOWN_BYTES_MAX: usize = 128;

/// Why a command has an error for a reply.
pub(super) enum CommandError {
    Fault(Fault),
    Text(&'static str, String),
}

impl CommandError {
    pub(super) fn err(text: String) -> Self {
        Self::Text("ERR", text)
    }
}

impl CommandError {
    pub(super) fn write(&self, daemon: &DaemonContext, replies: &mut Replies<'_>) {
        match self {
            Self::Fault(fault) => {
                daemon.metrics.fault(fault.code);
                write_fault(fault, replies);
            }
            Self::Text(code, text) => replies.error(code, text),
        }
    }
}

impl From<Fault> for CommandError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Bytes of a stranger, shown as far as they are few.
pub(super) struct EscapedBytes<'a>(pub(super) &'a [u8]);

impl Display for EscapedBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..self.0.len().min(SHOWN_BYTES_MAX)].escape_ascii().fmt(f)
    }
}

/// Redis's error for an unknown command.
pub(super) fn unknown(arguments: &[Cow<'_, [u8]>]) -> CommandError {
    let mut text = format!("unknown command '{}', with args beginning with: ", EscapedBytes(&arguments[0]));
    for argument in &arguments[1..] {
        if text.len() > SHOWN_BYTES_MAX * 2 {
            break;
        }
        let _ = write!(text, "'{}' ", EscapedBytes(argument));
    }
    CommandError::err(text)
}

pub(super) fn wrong_number(command: Command) -> CommandError {
    let about = command.about();
    let mut text = format!("wrong number of arguments for '{}' command", about.name);
    if !about.form.is_empty() {
        let _ = write!(text, "; write {} {}", about.name.to_uppercase(), about.form);
    }
    CommandError::err(text)
}

pub(super) fn unknown_subcommand(command: Command, subcommand: &[u8]) -> CommandError {
    let about = command.about();
    let name = about.name.to_uppercase();
    CommandError::err(format!(
        "unknown subcommand '{}'; there are {name} {}",
        EscapedBytes(subcommand),
        about.form
    ))
}

/// Writes a fault with its fix.
pub(super) fn write_fault(fault: &Fault, replies: &mut Replies<'_>) {
    match &fault.fix {
        // The detail already names the namespace or limit; a URL would not help a Redis client.
        Some(fix) => replies.error("ERR", format_args!("{}; {fix}", fault.detail)),
        None => replies.error("ERR", &fault.detail),
    }
}
