//! The token of the caller, from a file or the environment.

use std::io::{self, Read};
use std::path::Path;

use super::error::ClientError;
use crate::address::TOKEN_VARIABLE;
use crate::arguments::request::Daemon;

/// The longest file with a token.
const TOKEN_FILE_BYTES_MAX: u64 = 64 << 10;

/// The token to ask with, if there is one.
pub(super) fn token(daemon: &Daemon) -> Result<Option<String>, ClientError> {
    let Some(path) = &daemon.credentials.token_file else {
        return match std::env::var(TOKEN_VARIABLE) {
            Ok(token) if token.is_empty() => Ok(None),
            Ok(token) => {
                graphic(&token).ok_or_else(|| ClientError::Untaken(no_token(TOKEN_VARIABLE))).map(Some)
            }
            Err(std::env::VarError::NotPresent) => Ok(None),
            Err(std::env::VarError::NotUnicode(_)) => Err(ClientError::Untaken(no_token(TOKEN_VARIABLE))),
        };
    };
    let shown = path.display().to_string();
    let text = read_text(path).map_err(|error| ClientError::File(format!("cannot read {shown}: {error}")))?;
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.next().and_then(graphic).map(Some).ok_or_else(|| ClientError::File(no_token(&shown)))
}

/// Whether there is a token to ask with.
pub(crate) fn has_token(daemon: &Daemon) -> bool {
    !matches!(token(daemon), Ok(None))
}

fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(TOKEN_FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// The text if it is a token: a header field must be able to carry it.
fn graphic(text: &str) -> Option<String> {
    let is_token = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    is_token.then(|| text.to_owned())
}

fn no_token(place: &str) -> String {
    format!("{place} holds no token: printable characters without spaces, as `tidegate token` makes them")
}
