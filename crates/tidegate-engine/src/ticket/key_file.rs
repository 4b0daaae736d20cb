//! Key files: one or two lines of base64, as `openssl rand -base64 32` prints them.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::keys::{TicketKeyError, TicketKeys};

impl TicketKeys {
    /// The most bytes of a key file; two of the longest keys have 2740.
    pub const FILE_BYTES_MAX: usize = 4096;

    /// The keys of a file.
    ///
    /// A line is a key in base64 (RFC 4648, section 4, with padding), as `openssl rand -base64 32`
    /// prints it. The first key signs, a second one is valid too, and more are an error. Blank
    /// lines and spaces around a key do not count. Errors name the line and what to write.
    pub fn parse(file: &[u8]) -> Result<Self, TicketKeyError> {
        if file.len() > Self::FILE_BYTES_MAX {
            return Err(TicketKeyError::LongFile { bytes: file.len() });
        }
        let lines = file.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).zip(1..);
        let mut lines = lines.filter(|(text, _)| !text.is_empty());
        let (signing, line) = lines.next().ok_or(TicketKeyError::EmptyFile)?;
        let in_line = |line| move |problem| TicketKeyError::InLine { line, problem: Box::new(problem) };
        let keys = key_in(signing).and_then(|key| Self::new(&key)).map_err(in_line(line))?;
        let Some((second, line)) = lines.next() else { return Ok(keys) };
        let keys = key_in(second).and_then(|key| keys.beside(&key)).map_err(in_line(line))?;
        match lines.next() {
            Some((_, line)) => Err(TicketKeyError::ThirdKey { line }),
            None => Ok(keys),
        }
    }
}

fn key_in(text: &[u8]) -> Result<Vec<u8>, TicketKeyError> {
    BASE64_STANDARD.decode(text).map_err(|_| TicketKeyError::NotBase64)
}
