//! The listener for Redis clients: `CL.THROTTLE` and friends.
//!
//! A connection is read as far as its client has sent, and everything that has come whole is one
//! *turn*: decided at one instant, answered in order, written at once. Limits that arrive with
//! their commands are decided as one batch, so that a pipeline costs one call of the engine, and
//! one of the store where quotas are kept there.
//!
//! Redis clients send more commands than their users write: `HELLO`, `CLIENT`, `INFO` and others,
//! without whose answers some of them give up. Those are answered as far as there is something to
//! say.

mod about;
mod authorization;
mod check;
mod command;
mod command_error;
mod connection;
mod counts;
mod server;
mod session;
mod throttle;
mod transaction;
mod unanswered;

pub(crate) use connection::serve;
pub(crate) use counts::RespMetrics;
pub(crate) use server::RespServer;
