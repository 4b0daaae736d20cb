//! The designs and rivals in their worlds, and the command as people meet it.

#![expect(clippy::unwrap_used, reason = "in a test it says what must hold")]

mod capacity;
mod capacity_command;
mod command;
mod overload;
mod overload_command;
mod overload_deferral;
mod overload_features;
mod overload_gate;
