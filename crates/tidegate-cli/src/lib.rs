//! Internal, no promise: the commands of the program `tidegate`.
//!
//! A library, so that it is compiled beside the daemon that it starts: a program waits for the
//! machine code of all that it is linked with, a library only for the types.

#![forbid(unsafe_code)]

mod address;
mod arguments;
mod blocks;
mod build_facts;
mod check;
mod client;
mod columns;
mod command_pages;
mod exit;
mod explain;
mod features;
mod first_minute;
mod leases;
mod limits;
mod local_time;
mod logging;
mod overrides;
mod permits;
mod policy_file;
mod reference;
mod reset;
mod resources;
mod serve;
mod simulate;
mod token;
mod top;
mod unused_attributes;
mod usage;
mod validate;
mod watch;
mod wrong_arguments;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Command};

/// Runs the command that the arguments of the process name. Returns the exit status of the process.
pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if build_facts::are_asked_for(&error, std::env::args_os().skip(1)) => {
            return build_facts::print().into();
        }
        Err(error) => return wrong_arguments::report(&error),
    };
    let outcome = match arguments.command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Usage(arguments) => usage::run(&arguments),
        Command::Limits(arguments) => limits::run(&arguments),
        Command::Override(arguments) => overrides::run(&arguments),
        Command::Block(arguments) => blocks::run(&arguments),
        Command::Reset(arguments) => reset::run(&arguments),
        Command::Permits(arguments) => permits::run(&arguments),
        Command::Leases(arguments) => leases::run(&arguments),
        Command::Resources(arguments) => resources::run(&arguments),
        Command::Features(arguments) => features::run(&arguments),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Token(arguments) => token::run(&arguments),
        Command::Validate(arguments) => validate::run(&arguments),
        Command::Schema => reference::schema(),
        Command::Reference { section } => reference::reference(section.as_deref()),
        Command::Completions { shell } => command_pages::complete(shell),
        Command::Man { directory } => command_pages::write_manual(&directory),
    };
    outcome.into()
}
