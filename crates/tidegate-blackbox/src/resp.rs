//! A client for RESP.

use std::io::{Error, Result};
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

pub(crate) use redis::Value;
use redis::{Client, Connection};

use crate::http1::READ_TIMEOUT;
use crate::raw;

/// A connection.
pub(crate) struct RespConnection(Connection);

impl RespConnection {
    /// Connects to `address`.
    pub(crate) fn open(address: SocketAddr) -> Result<Self> {
        let client = Client::open(format!("redis://{address}")).map_err(Error::other)?;
        let connection = client.get_connection_with_timeout(READ_TIMEOUT).map_err(Error::other)?;
        connection.set_write_timeout(Some(READ_TIMEOUT)).map_err(Error::other)?;
        let connection = Self(connection);
        connection.set_read_timeout(READ_TIMEOUT)?;
        Ok(connection)
    }

    /// Waits for a reply for at most `timeout` from now on.
    pub(crate) fn set_read_timeout(&self, timeout: Duration) -> Result<()> {
        self.0.set_read_timeout(Some(timeout)).map_err(Error::other)
    }

    /// Sends commands.
    pub(crate) fn send(&mut self, commands: &[u8]) -> Result<()> {
        self.0.send_packed_command(commands).map_err(Error::other)
    }

    /// Reads a reply, which may be an error of the server.
    pub(crate) fn value(&mut self) -> Result<Value> {
        self.0.recv_response().map_err(Error::other)
    }

    /// Sends a command and reads its reply.
    pub(crate) fn ask(&mut self, words: &[&str]) -> Result<Value> {
        self.send(&command(words))?;
        self.value()
    }
}

/// The bytes of a command.
pub(crate) fn command(words: &[&str]) -> Vec<u8> {
    let mut command = redis::Cmd::new();
    command.arg(words);
    command.get_packed_command()
}

/// The text of a reply, if it is one.
pub(crate) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        Value::Okay => Some("OK"),
        _ => None,
    }
}

/// Whether a reply is an error.
pub(crate) fn is_error(value: &Value) -> bool {
    matches!(value, Value::ServerError(_))
}

/// Sends `count` commands, which `command` makes of their number, over `connections` pipelined
/// connections. Returns the replies.
pub(crate) fn flood(
    address: SocketAddr,
    count: u64,
    connections: u64,
    command: impl Fn(u64) -> Vec<u8> + Sync,
) -> Result<Vec<Value>> {
    let exchange = |connection: &mut RespConnection, numbers: Range<u64>| {
        let batch: Vec<u8> = numbers.clone().flat_map(&command).collect();
        connection.send(&batch)?;
        numbers.map(|_| connection.value()).collect()
    };
    raw::pipelined(count, connections, || RespConnection::open(address), exchange)
}

/// How many replies are errors.
pub(crate) fn errors(replies: &[Value]) -> usize {
    replies.iter().filter(|reply| is_error(reply)).count()
}
