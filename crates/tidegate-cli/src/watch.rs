//! `--watch`: a command that shows its answer again and again until Ctrl-C.
//!
//! A command gives the text of one round. A round that fails is reported on standard error, and the
//! next one goes on: a daemon that restarts is watched again.

use core::pin::pin;
use std::io::{self, IsTerminal, Write};

use tokio::signal::unix::{SignalKind, signal};

use crate::arguments::request::Watch;
use crate::client::{ClientError, wait_for};
use crate::exit::{self, Exit};

/// Puts the cursor of a terminal into its first cell and clears the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Shows the text of one round, or with `--watch` of one after the other until Ctrl-C.
pub(crate) fn show(watch: Watch, mut round: impl AsyncFnMut() -> Result<String, ClientError>) -> Exit {
    let shown = wait_for(async {
        match watch.interval {
            None => round().await.map(|text| exit::answer(&text, Exit::Done)),
            Some(interval) => {
                let failed = |error| ClientError::Silent(format!("cannot listen for signals: {error}"));
                // Before the first round: a signal that comes early must not be missed.
                let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
                let rounds = async {
                    let mut is_first = true;
                    loop {
                        let shown = show_round(round().await, is_first);
                        if shown.is_err() {
                            return exit::ended(Exit::Done, shown);
                        }
                        is_first = false;
                        tokio::time::sleep(interval).await;
                    }
                };
                let rounds = pin!(rounds);
                tokio::select! {
                    _ = interrupt.recv() => Ok(Exit::Done),
                    exit = rounds => Ok(exit),
                }
            }
        }
    });
    shown.unwrap_or_else(ClientError::complain)
}

/// Shows the answer of a round, or its error. The result is that of writing to standard output.
fn show_round(answer: Result<String, ClientError>, is_first: bool) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let before = separator(stdout.is_terminal(), is_first || answer.is_err());
    stdout.write_all(before.as_bytes())?;
    // An error goes past the buffer of standard output: cleared later, it would not be seen.
    stdout.flush()?;
    match answer {
        Ok(text) => stdout.write_all(text.as_bytes())?,
        Err(error) => drop(error.complain()),
    }
    stdout.flush()
}

/// The text between the answers of two rounds: on a terminal each replaces the one before.
const fn separator(is_terminal: bool, is_first: bool) -> &'static str {
    match (is_terminal, is_first) {
        (true, _) => CLEAR,
        (false, true) => "",
        (false, false) => "\n",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_terminal_is_cleared() {
        assert_eq!([separator(true, true), separator(true, false)], [CLEAR, CLEAR]);
        assert_eq!([separator(false, true), separator(false, false)], ["", "\n"]);
    }
}
