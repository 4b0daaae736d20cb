//! An invalid command line, in words: clap shows the errors of Rust's own parsers of numbers, and
//! does not know where an option has gone.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The errors of Rust's parsers of numbers, each with the words for a user.
const WORDS: [(&str, &str); 5] = [
    ("invalid digit found in string", "write a whole number"),
    ("cannot parse integer from empty string", "write a whole number"),
    ("number would be zero for non-zero type", "write a whole number from 1"),
    ("number too large to fit in target type", "the number is too large"),
    ("number too small to fit in target type", "the number is too small"),
];

/// Options that commands of `tidegate simulate` had until the laboratory compared designs, by the
/// command.
const OF_LABORATORY: [(&str, &[&str]); 2] = [
    ("capacity", &["--workload", "--experiment", "--design", "--scale"]),
    ("overload", &["--experiment", "--design"]),
];

/// Says what is wrong; the exit status of the process. Help and version are no errors.
pub(crate) fn report(error: &clap::Error) -> ExitCode {
    if let Some(text) = laboratory(error) {
        let _ = io::stderr().write_all(text.as_bytes());
        return exit_code(error);
    }
    if error.kind() != ErrorKind::ValueValidation {
        let _ = error.print();
        return exit_code(error);
    }
    let rendered = error.render();
    let mut stderr = io::stderr();
    let text = if stderr.is_terminal() { rendered.ansi().to_string() } else { rendered.to_string() };
    let _ = stderr.write_all(in_words(text).as_bytes());
    exit_code(error)
}

fn exit_code(error: &clap::Error) -> ExitCode {
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// The message for a command line that asks for a comparison of designs.
fn laboratory(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) else { return None };
    let usage = usage.to_string();
    let is_used = |command: &str| usage.contains(&format!("simulate {command} "));
    let (command, options) = OF_LABORATORY.iter().find(|(command, _)| is_used(command))?;
    let place =
        format!("in a checkout of Tidegate run `cargo run --release -p tidegate-lab -- {command} --help`");
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(option)))
            if options.contains(&option.as_str()) =>
        {
            Some(format!(
                "error: '{option}' is an option of the laboratory, which compares designs; {place}\n\n{usage}\n"
            ))
        }
        (ErrorKind::MissingRequiredArgument, _) => {
            let rendered = error.render();
            Some(format!("{rendered}\nThe laboratory compares designs without a file; {place}\n"))
        }
        _ => None,
    }
}

fn in_words(text: String) -> String {
    WORDS.iter().fold(text, |text, (rust, words)| text.replace(rust, words))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::arguments::Arguments;

    fn told(arguments: &[&str]) -> String {
        let all = ["tidegate"].iter().chain(arguments);
        let text = Arguments::try_parse_from(all).unwrap_err().render().to_string();
        in_words(text).lines().next().unwrap().to_owned()
    }

    #[test]
    fn a_number_that_is_none_is_told_in_words() {
        for (arguments, fix) in [
            (&["check", "api", "--cost", "0"][..], "write a whole number from 1"),
            (&["check", "api", "--cost", "1.5"], "write a whole number"),
            (&["check", "api", "--cost", ""], "write a whole number"),
            (&["check", "api", "--cost", "99999999999999999999"], "the number is too large"),
            (&["simulate", "fleet", "--seconds", "abc"], "write a whole number"),
            (&["simulate", "capacity", "--tables", "-", "--seeds", "many"], "write a whole number"),
        ] {
            let told = told(arguments);
            assert!(told.ends_with(fix), "{arguments:?}: {told}");
        }
    }
}
