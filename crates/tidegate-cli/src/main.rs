//! The command `tidegate`.

#![forbid(unsafe_code)]

mod arguments;
mod exit;
mod first_minute;
mod logging;
mod policy_file;
mod reference;
mod serve;
mod validate;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Command};

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Validate(arguments) => validate::run(&arguments),
        Command::Schema => reference::schema(),
        Command::Reference => reference::reference(),
    };
    outcome.into()
}
