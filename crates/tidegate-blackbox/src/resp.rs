//! A client for RESP, and a reader of its values.

use std::io::{BufRead, BufReader, Error, ErrorKind, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;

use crate::http1::READ_TIMEOUT;

/// The largest text or array that is read.
const LENGTH_MAX: usize = 16 << 20;

/// A value of RESP version 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A simple or a bulk string.
    Text(Vec<u8>),
    /// An error.
    Error(String),
    /// A whole number.
    Number(i64),
    /// Nothing.
    Null,
    /// An array.
    Array(Vec<Self>),
}

/// A connection.
#[derive(Debug)]
pub struct RespConnection {
    stream: BufReader<TcpStream>,
}

impl RespConnection {
    /// Connects to `address`.
    pub fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&address, READ_TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        stream.set_write_timeout(Some(READ_TIMEOUT))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// The stream itself.
    pub fn stream(&mut self) -> &mut TcpStream {
        self.stream.get_mut()
    }

    /// Sends `bytes`.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Reads a value.
    pub fn value(&mut self) -> Result<Value> {
        read_value(&mut self.stream)
    }

    /// Sends a command and reads its reply.
    pub fn ask(&mut self, words: &[&str]) -> Result<Value> {
        self.send(&command(words))?;
        self.value()
    }
}

/// The bytes of a command.
pub fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}

/// Reads a value.
pub fn read_value(from: &mut impl BufRead) -> Result<Value> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Err(Error::new(ErrorKind::UnexpectedEof, "the connection ended before the reply did"));
    }
    let invalid = || Error::new(ErrorKind::InvalidData, format!("no RESP value: {line:?}"));
    let rest = line.get(1..).map(str::trim_end).ok_or_else(invalid)?;
    let number = || rest.parse::<i64>().map_err(|_| invalid());
    // Negative is null.
    let length = || match usize::try_from(number()?) {
        Ok(length) if length > LENGTH_MAX => Err(invalid()),
        Ok(length) => Ok(Some(length)),
        Err(_) => Ok(None),
    };
    match line.as_bytes()[0] {
        b'+' => Ok(Value::Text(rest.as_bytes().to_vec())),
        b'-' => Ok(Value::Error(rest.to_owned())),
        b':' => Ok(Value::Number(number()?)),
        b'$' => match length()? {
            None => Ok(Value::Null),
            Some(length) => {
                let mut text = vec![0; length + 2];
                from.read_exact(&mut text)?;
                text.truncate(length);
                Ok(Value::Text(text))
            }
        },
        b'*' => match length()? {
            None => Ok(Value::Null),
            Some(length) => (0..length).map(|_| read_value(from)).collect::<Result<_>>().map(Value::Array),
        },
        _ => Err(invalid()),
    }
}

/// How many commands [`flood`] sends before it reads their replies.
const PIPELINE: u64 = 128;

/// Sends `count` commands, which `command` makes of their number, over `connections` pipelined
/// connections. Returns how many replies were errors. `replied` sees every reply.
pub fn flood(
    address: SocketAddr,
    count: u64,
    connections: u64,
    command: impl Fn(u64) -> Vec<u8> + Sync,
    replied: impl Fn(&Value) + Sync,
) -> Result<u64> {
    let (command, replied) = (&command, &replied);
    let errors: Vec<Result<u64>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..connections)
            .map(|number| {
                let (from, to) = (count * number / connections, count * (number + 1) / connections);
                scope.spawn(move || {
                    let mut connection = RespConnection::open(address)?;
                    let (mut next, mut errors) = (from, 0);
                    while next < to {
                        let until = to.min(next + PIPELINE);
                        let batch: Vec<u8> = (next..until).flat_map(command).collect();
                        connection.send(&batch)?;
                        for _ in next..until {
                            let value = connection.value()?;
                            errors += u64::from(matches!(value, Value::Error(_)));
                            replied(&value);
                        }
                        next = until;
                    }
                    Ok(errors)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a flood does not panic")).collect()
    });
    errors.into_iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_value_is_read() {
        let mut bytes: &[u8] = b"*5\r\n+OK\r\n-ERR no\r\n:-7\r\n$2\r\nab\r\n$-1\r\n";
        let expected = Value::Array(vec![
            Value::Text(b"OK".to_vec()),
            Value::Error("ERR no".to_owned()),
            Value::Number(-7),
            Value::Text(b"ab".to_vec()),
            Value::Null,
        ]);
        assert_eq!(read_value(&mut bytes).unwrap(), expected);
    }

    #[test]
    fn a_length_beyond_the_bound_is_no_value() {
        assert!(read_value(&mut &b"$99999999\r\n"[..]).is_err());
        assert!(read_value(&mut &b"\r\n"[..]).is_err());
    }
}
