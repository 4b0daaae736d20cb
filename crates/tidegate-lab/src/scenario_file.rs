//! Reading a file of tables or services.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::exit::{Exit, complain};

/// The most bytes that are read of a file. The parser refuses fewer.
const BYTES_MAX: u64 = 64 << 20;

/// Reads a file, or standard input for `-`, and lets `parse` make sense of its name and bytes.
/// `subject` begins the sentence about its problems.
pub(crate) fn read<T, E: Display>(
    path: &Path,
    subject: &str,
    parse: impl FnOnce(&str, &[u8]) -> Result<T, E>,
) -> Result<T, Exit> {
    let is_input = path == Path::new("-");
    let mut bytes = Vec::new();
    let read = if is_input {
        io::stdin().lock().take(BYTES_MAX).read_to_end(&mut bytes)
    } else {
        File::open(path).and_then(|file| file.take(BYTES_MAX).read_to_end(&mut bytes))
    };
    if let Err(error) = read {
        complain(format_args!("cannot read {}: {error}", path.display()));
        return Err(Exit::Unreadable);
    }
    let name = if is_input { "<stdin>".to_owned() } else { path.display().to_string() };
    parse(&name, &bytes).map_err(|problems| {
        complain(format_args!("{subject} problems\n{problems}"));
        Exit::Untaken
    })
}
