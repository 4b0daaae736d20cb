//! `tidegate completions` and `tidegate man`: what shells and readers get of the command line.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::exit::{Exit, answer, complain};

pub(crate) fn complete(shell: Shell) -> Exit {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "tidegate", &mut text);
    answer(&String::from_utf8_lossy(&text), Exit::Done)
}

pub(crate) fn write_manual(directory: &Path) -> Exit {
    match clap_mangen::generate_to(Arguments::command(), directory) {
        Ok(()) => Exit::Done,
        Err(error) => {
            complain(format_args!(
                "cannot write man pages to {}: {error}; name a directory that exists and can be written",
                directory.display()
            ));
            Exit::Unreadable
        }
    }
}
