//! The listener for Redis clients, and a client that speaks RESP byte by byte, so that tests can
//! also speak it badly.

mod authorization;
mod check;
mod commands;
mod drain;
mod protocol;
mod store;
mod throttle;
mod transactions;

use std::fmt;
use std::net::SocketAddr;

use tidegate_engine::NamespaceConfig;
use tidegate_server::{ListenerRole, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::world::{World, api, loopback};

/// One reply. Maps are those of RESP3.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Reply {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Null,
    Array(Vec<Reply>),
    Map(Vec<Reply>),
}

impl fmt::Display for Reply {
    /// On one line, as `[0, 16, 15, -1, 2]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, parts: &[Self], ends: [&str; 2]| {
            let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
            write!(f, "{}{}{}", ends[0], parts.join(", "), ends[1])
        };
        match self {
            Self::Simple(word) => write!(f, "+{word}"),
            Self::Error(text) => write!(f, "-{text}"),
            Self::Integer(value) => value.fmt(f),
            Self::Bulk(bytes) => bytes.escape_ascii().fmt(f),
            Self::Null => f.write_str("null"),
            Self::Array(parts) => list(f, parts, ["[", "]"]),
            Self::Map(parts) => list(f, parts, ["{", "}"]),
        }
    }
}

/// One connection.
pub(crate) struct Client<S = TcpStream> {
    stream: S,
    buffer: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self::over(stream)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Reads something; `false` at the end.
    async fn fill(&mut self) -> bool {
        self.buffer.reserve(16 << 10);
        self.stream.read_buf(&mut self.buffer).await.is_ok_and(|count| count > 0)
    }

    async fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|bytes| bytes == b"\r\n") {
                let line = self.buffer.drain(..end + 2).take(end).collect();
                return String::from_utf8(line).unwrap();
            }
            assert!(self.fill().await, "the connection ended inside of a reply: {:?}", self.buffer);
        }
    }

    async fn reply(&mut self) -> Reply {
        let line = self.line().await;
        let (kind, rest) = line.split_at(1);
        let count = || rest.parse::<i64>().unwrap();
        match kind {
            "+" => Reply::Simple(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Integer(count()),
            "_" => Reply::Null,
            "$" => match usize::try_from(count()) {
                Err(_) => Reply::Null,
                Ok(length) => {
                    while self.buffer.len() < length + 2 {
                        assert!(self.fill().await, "the connection ended inside of a reply");
                    }
                    let bytes: Vec<u8> = self.buffer.drain(..length + 2).collect();
                    assert!(bytes.ends_with(b"\r\n"));
                    Reply::Bulk(bytes[..length].to_vec())
                }
            },
            "*" => Reply::Array(Box::pin(self.replies(count())).await),
            "%" => Reply::Map(Box::pin(self.replies(count() * 2)).await),
            other => panic!("a reply that begins with {other:?}"),
        }
    }

    async fn replies(&mut self, count: i64) -> Vec<Reply> {
        let mut replies = Vec::new();
        for _ in 0..count {
            replies.push(self.reply().await);
        }
        replies
    }

    /// The reply to the words of a line, on one line.
    pub(crate) async fn ask(&mut self, words: &str) -> String {
        let words: Vec<&str> = words.split(' ').collect();
        self.ask_for(&words).await
    }

    pub(crate) async fn ask_for(&mut self, arguments: &[impl AsRef<[u8]>]) -> String {
        self.send(framed(arguments)).await;
        self.reply().await.to_string()
    }

    /// Sends the words of each line at once.
    pub(crate) async fn send_lines(&mut self, lines: &[&str]) {
        let bytes: Vec<u8> = lines.iter().flat_map(|line| words(line)).collect();
        self.send(bytes).await;
    }

    /// The next reply, on one line.
    pub(crate) async fn reply_text(&mut self) -> String {
        self.reply().await.to_string()
    }

    /// Waits until the server ends the connection, and sees that it says nothing more.
    async fn is_ended(&mut self) -> bool {
        while self.fill().await {}
        self.buffer.is_empty()
    }
}

/// A command as clients send it.
fn framed(arguments: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        let argument = argument.as_ref();
        bytes.extend(format!("${}\r\n", argument.len()).as_bytes());
        bytes.extend(argument);
        bytes.extend(b"\r\n");
    }
    bytes
}

/// The words of a line as clients send them.
fn words(line: &str) -> Vec<u8> {
    framed(&line.split(' ').collect::<Vec<_>>())
}

fn config() -> ServerConfig {
    let mut config = loopback();
    config.listen(ListenerRole::Resp, "127.0.0.1:0".parse().unwrap());
    config
}

fn address(world: &World) -> SocketAddr {
    world.handle.resp().unwrap().tcp().unwrap()
}

async fn world_with(
    namespaces: impl IntoIterator<Item = NamespaceConfig>,
    config: ServerConfig,
) -> (World, Client) {
    let world = World::with(namespaces, config).await;
    let client = Client::connect(address(&world)).await;
    (world, client)
}

/// The namespace `api`, and a client.
async fn world() -> (World, Client) {
    world_with([api()], config()).await
}
