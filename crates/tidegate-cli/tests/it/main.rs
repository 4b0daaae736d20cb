//! The command as people and scripts meet it: a real process, its output, its exit code.

#![expect(clippy::unwrap_used, reason = "in a test it says what must hold")]

mod abuse;

mod check;
mod clients;
mod command;
mod deploy;
mod documents;

mod durable;
mod features;
mod fleet;
mod gateways;
mod kill;
mod migration;
mod operator_commands;
mod process;
mod ratelimit_files;
mod readme;
mod resource_picture;
mod seed;
mod serve;
mod service_manager;
mod simulate;
mod simulate_capacity;
mod simulate_overload;
mod swaps;
mod upstream;
mod validate;
mod validate_against;
