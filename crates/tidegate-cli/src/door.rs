//! Asking a running daemon: where it is, which door is meant, and how to get through it.
//!
//! Every door is spoken over one connection that is made here, so that Unix sockets, TLS and the
//! deadline are the same for all of them.

mod grpc;
mod http;
mod resp;
mod tls;

use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use std::io;
use std::path::PathBuf;

use ::http::uri::Authority;
use serde::Serialize;
use tidegate_wire::display::HumanDuration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::arguments::asking::{Class, Daemon, Question};
use crate::exit::{self, Exit, chain, complain};

pub(crate) use http::{
    Left, Refusing, Said, acknowledge, encoded, explain, get, leases, limit_attributes, object, operate,
    target,
};

/// How long all of asking may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// The longest answer in bytes. A longer one is none of a daemon.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// The environment variable with the token to ask with.
const TOKEN: &str = "TIDEGATE_TOKEN";

/// The longest file with a token.
const TOKEN_FILE_BYTES_MAX: u64 = 64 << 10;

/// A door of a daemon, written as a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Door {
    speaks: Speaks,
    place: Place,
    is_tls: bool,
    written: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speaks {
    Http,
    Resp,
    Grpc,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

impl Door {
    /// `http`, `resp` or `grpc`.
    pub(crate) const fn name(&self) -> &'static str {
        match self.speaks {
            Speaks::Http => "http",
            Speaks::Resp => "resp",
            Speaks::Grpc => "grpc",
        }
    }

    /// What stands in the `host` field of a request.
    fn authority(&self) -> String {
        match &self.place {
            Place::Tcp { host, port } if host.contains(':') => format!("[{host}]:{port}"),
            Place::Tcp { host, port } => format!("{host}:{port}"),
            Place::Unix(_) => "localhost".to_owned(),
        }
    }
}

impl FromStr for Door {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let written = text.to_owned();
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err("a Unix socket has a path; write unix:/run/tidegate.sock".to_owned());
            }
            let place = Place::Unix(PathBuf::from(path));
            return Ok(Self { speaks: Speaks::Http, place, is_tls: false, written });
        }
        let wrong = || {
            "invalid address; expected http://host:port, https://, unix:/path, redis://, rediss://, grpc:// or grpcs://"
                .to_owned()
        };
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let (speaks, is_tls, port) = match scheme {
            "http" => (Speaks::Http, false, 8080),
            "https" => (Speaks::Http, true, 443),
            "redis" => (Speaks::Resp, false, 6380),
            "rediss" => (Speaks::Resp, true, 6380),
            "grpc" => (Speaks::Grpc, false, 8081),
            "grpcs" => (Speaks::Grpc, true, 443),
            _ => return Err(wrong()),
        };
        let authority: Authority = rest.strip_suffix('/').unwrap_or(rest).parse().map_err(|_| {
            format!("after {scheme}:// there is a host, a port, and nothing else; write {scheme}://127.0.0.1:{port}")
        })?;
        if authority.as_str().contains('@') {
            return Err(format!("credentials are not accepted in the address; use --token-file or {TOKEN}"));
        }
        if authority.host().is_empty() {
            return Err(format!("it has no host; write {scheme}://127.0.0.1:{port}"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let has_port = authority.as_str().len() > authority.host().len();
        let port = match authority.port_u16() {
            Some(port) => port,
            None if has_port => return Err(format!("invalid port; expected {scheme}://{host}:{port}")),
            None => port,
        };
        Ok(Self { speaks, place: Place::Tcp { host, port }, is_tls, written })
    }
}

impl fmt::Display for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// The question cannot be taken, and this is what is wrong with it.
    Untaken(String),
    /// A file cannot be read or used.
    File(String),
    /// The daemon does not answer, or not as one.
    Silent(String),
}

impl Unanswered {
    /// Says it on standard error.
    pub(crate) fn complain(self) -> Exit {
        let (exit, why) = match self {
            Self::Untaken(why) => (Exit::Untaken, why),
            Self::File(why) | Self::Silent(why) => (Exit::Unreadable, why),
        };
        complain(why);
        exit
    }

    fn silent(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::Silent(chain(error))
    }
}

/// What is to be asked, beside the request itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) peek: bool,
    pub(crate) class: Option<Class>,
}

/// Asks whether a request may go ahead.
pub(crate) async fn check(daemon: &Daemon, question: &Question, terms: Terms) -> Result<Said, Unanswered> {
    within_deadline(&daemon.at, async {
        let token = token(daemon)?;
        let token = token.as_deref();
        match daemon.at.speaks {
            Speaks::Http => http::check(daemon, question, terms, token).await,
            Speaks::Resp => resp::check(daemon, question, terms, token).await,
            Speaks::Grpc => grpc::check(daemon, question, terms, token).await,
        }
    })
    .await
}

async fn within_deadline<T>(
    door: &Door,
    asking: impl Future<Output = Result<T, Unanswered>>,
) -> Result<T, Unanswered> {
    let answer = tokio::time::timeout(DEADLINE, asking).await;
    let late = || Unanswered::Silent(format!("there was no answer within {}", HumanDuration(DEADLINE)));
    match answer.unwrap_or_else(|_| Err(late())) {
        Err(Unanswered::Silent(why)) => Err(Unanswered::Silent(format!("{door} cannot be asked: {why}"))),
        answer => answer,
    }
}

/// Runs what asks.
pub(crate) fn wait_for<T>(asking: impl Future<Output = Result<T, Unanswered>>) -> Result<T, Unanswered> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Unanswered::Silent(format!("cannot begin: {error}")))?.block_on(asking)
}

/// Prints an answer, as JSON or in words; how the command ends then.
pub(crate) fn print<T: Serialize>(
    json: bool,
    answer: Result<T, Unanswered>,
    words: impl FnOnce(&T) -> String,
) -> Exit {
    let answer = match answer {
        Ok(answer) => answer,
        Err(unanswered) => return unanswered.complain(),
    };
    let text = if json {
        serde_json::to_string_pretty(&answer).expect("text and numbers always serialise") + "\n"
    } else {
        words(&answer)
    };
    exit::answer(&text, Exit::Done)
}

/// A connection to a door.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

async fn connect(daemon: &Daemon) -> Result<Box<dyn Stream>, Unanswered> {
    let door = &daemon.at;
    let silent = |error: io::Error| Unanswered::silent(&error);
    let (host, port) = match &door.place {
        Place::Unix(path) => return Ok(Box::new(UnixStream::connect(path).await.map_err(silent)?)),
        Place::Tcp { host, port } => (host.as_str(), *port),
    };
    let connector = door.is_tls.then(|| tls::connector(daemon)).transpose()?;
    let stream = TcpStream::connect((host, port)).await.map_err(silent)?;
    stream.set_nodelay(true).map_err(silent)?;
    match connector {
        None => Ok(Box::new(stream)),
        Some(connector) => Ok(Box::new(connector.connect(tls::name(host)?, stream).await.map_err(silent)?)),
    }
}

/// The token to ask with, if there is one.
fn token(daemon: &Daemon) -> Result<Option<String>, Unanswered> {
    let Some(path) = &daemon.token_file else {
        return match std::env::var(TOKEN) {
            Ok(token) if token.is_empty() => Ok(None),
            Ok(token) => graphic(&token).ok_or_else(|| Unanswered::Untaken(no_token(TOKEN))).map(Some),
            Err(std::env::VarError::NotPresent) => Ok(None),
            Err(std::env::VarError::NotUnicode(_)) => Err(Unanswered::Untaken(no_token(TOKEN))),
        };
    };
    let shown = path.display().to_string();
    let text = read_text(path).map_err(|error| Unanswered::File(format!("cannot read {shown}: {error}")))?;
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.next().and_then(graphic).map(Some).ok_or_else(|| Unanswered::File(no_token(&shown)))
}

/// Whether there is a token to ask with.
pub(crate) fn has_token(daemon: &Daemon) -> bool {
    !matches!(token(daemon), Ok(None))
}

fn read_text(path: &std::path::Path) -> io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::open(path)?.take(TOKEN_FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// A token, if the text is one: it must stand in a header field.
fn graphic(text: &str) -> Option<String> {
    let is_token = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    is_token.then(|| text.to_owned())
}

fn no_token(place: &str) -> String {
    format!("{place} holds no token: printable characters without spaces, as `tidegate token` makes them")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door(text: &str) -> (Speaks, bool, String) {
        let door: Door = text.parse().unwrap();
        assert_eq!(door.to_string(), text);
        let place = match &door.place {
            Place::Tcp { .. } => door.authority(),
            Place::Unix(path) => path.display().to_string(),
        };
        (door.speaks, door.is_tls, place)
    }

    #[test]
    fn the_scheme_says_which_door_is_meant() {
        for (text, speaks, is_tls, place) in [
            ("http://127.0.0.1:9", Speaks::Http, false, "127.0.0.1:9"),
            ("http://localhost", Speaks::Http, false, "localhost:8080"),
            ("https://gate.example/", Speaks::Http, true, "gate.example:443"),
            ("unix:/run/t.sock", Speaks::Http, false, "/run/t.sock"),
            ("redis://[::1]:7", Speaks::Resp, false, "[::1]:7"),
            ("rediss://h", Speaks::Resp, true, "h:6380"),
            ("grpc://h", Speaks::Grpc, false, "h:8081"),
            ("grpcs://h:1", Speaks::Grpc, true, "h:1"),
        ] {
            assert_eq!(door(text), (speaks, is_tls, place.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_is_no_door_says_what_to_write() {
        for (text, hint) in [
            ("127.0.0.1:8080", "http://host:port"),
            ("ftp://h", "http://host:port"),
            ("unix:", "unix:/run/tidegate.sock"),
            ("http://h/v1", "http://127.0.0.1:8080"),
            ("http://", "http://127.0.0.1:8080"),
            ("http://h:99999999", "http://h:8080"),
            ("redis://:secret@h", "--token-file"),
        ] {
            let why = text.parse::<Door>().unwrap_err();
            assert!(why.contains(hint) && !why.contains("secret"), "{text}: {why}");
        }
    }
}
