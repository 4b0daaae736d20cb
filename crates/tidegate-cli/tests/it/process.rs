//! `tidegate serve` as a process, and a client that speaks bytes to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{ChildStdout, Command, Stdio};

use tidegate_test_support::ChildProcess;

use crate::command::tidegate;

/// A daemon that is gone when the test is.
pub(crate) struct Daemon {
    pub(crate) process: ChildProcess,
    out: BufReader<ChildStdout>,
    pub(crate) printed: String,
}

impl Daemon {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut command = tidegate();
        command.arg("serve").args(arguments);
        Self::spawn(command)
    }

    /// Starts `command`, which serves.
    pub(crate) fn spawn(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = ChildProcess::spawn(&mut command).unwrap();
        let out = BufReader::new(process.child().stdout.take().unwrap());
        Self { process, out, printed: String::new() }
    }

    /// Reads what it prints until a line contains `word`.
    pub(crate) fn read_until(&mut self, word: &str) -> String {
        loop {
            let mut line = String::new();
            let count = self.out.read_line(&mut line).unwrap();
            if count == 0 {
                let printed = self.printed.clone();
                panic!("it ended after printing {printed:?}: {:?}", self.end());
            }
            self.printed.push_str(&line);
            if line.contains(word) {
                return line;
            }
        }
    }

    pub(crate) fn address(&mut self) -> String {
        let line = self.read_until("callers");
        line.trim().rsplit("http://").next().unwrap().to_owned()
    }

    pub(crate) fn signal(&self, name: &str) {
        assert!(self.process.signal(name));
    }

    /// Waits for its end: the exit code and what it wrote to standard error.
    pub(crate) fn end(&mut self) -> (Option<i32>, String) {
        let mut err = String::new();
        self.process.child().stderr.take().unwrap().read_to_string(&mut err).unwrap();
        (self.process.wait().unwrap().code(), err)
    }
}

pub(crate) fn send(stream: &mut TcpStream, bytes: &str) {
    stream.write_all(bytes.as_bytes()).unwrap();
}

/// Status and whole text of an answer whose body has a length.
pub(crate) fn answer(stream: &mut TcpStream) -> (u16, String) {
    try_answer(stream).expect("the answer is whole")
}

/// As [`answer`]; nothing if the connection ends before the answer does.
pub(crate) fn try_answer(stream: &mut TcpStream) -> Option<(u16, String)> {
    let mut text = String::new();
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.trim().parse().ok()?;
        }
        text.push_str(&line);
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    text.push_str(core::str::from_utf8(&body).ok()?);
    Some((text.get(9..12)?.parse().ok()?, text))
}

pub(crate) fn post(address: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    send(
        &mut stream,
        &format!("POST {path} HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\n\r\n{body}", body.len()),
    );
    answer(&mut stream)
}
