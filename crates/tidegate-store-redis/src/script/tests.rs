use std::io::Write;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::{Connection, Script};

use super::TEXT;
use crate::call_format::CALL_FORMAT;

/// A server that keeps nothing and is killed when dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server with a connection to it; `None` if the program is missing.
fn server() -> Option<(Server, Connection)> {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    let server = Server(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?);
    let client = redis::Client::open(("127.0.0.1", port)).unwrap();
    let started = Instant::now();
    loop {
        match client.get_connection() {
            Ok(connection) => return Some((server, connection)),
            Err(error) if started.elapsed() > Duration::from_secs(20) => panic!("{error}"),
            Err(_) => std::thread::yield_now(),
        }
    }
}

#[test]
fn a_call_of_another_format_is_an_error_and_writes_nothing() {
    let Some((_server, mut connection)) = server() else {
        let _ = writeln!(
            std::io::stdout(),
            "skipped: a_call_of_another_format_is_an_error_and_writes_nothing: redis-server is not installed"
        );
        return;
    };
    let mut run = |format: u8| {
        let mut header = vec![0_u8; 57];
        header[0] = format;
        let script = Script::new(TEXT);
        let mut call = script.prepare_invoke();
        call.key("marker").arg(header).arg("").arg("life");
        let reply = call.invoke::<redis::Value>(&mut connection);
        (reply, redis::cmd("DBSIZE").query::<u64>(&mut connection).unwrap())
    };
    let (reply, keys) = run(CALL_FORMAT + 1);
    let error = reply.unwrap_err().to_string();
    assert!(error.contains("call format 2 is not 1, which this script reads"), "{error}");
    assert_eq!(keys, 0);
    let (reply, keys) = run(CALL_FORMAT);
    assert!(reply.is_ok(), "{reply:?}");
    assert_eq!(keys, 1, "the marker");
}
