//! The command of the laboratory.

use std::process::ExitCode;

use clap::Parser;
use tidegate_lab::arguments::{Arguments, Comparison};
use tidegate_lab::{compare_capacity, compare_overload};

fn main() -> ExitCode {
    let exit = match Arguments::parse().comparison {
        Comparison::Capacity(arguments) => compare_capacity::run(&arguments),
        Comparison::Overload(arguments) => compare_overload::run(&arguments),
    };
    exit.into()
}
