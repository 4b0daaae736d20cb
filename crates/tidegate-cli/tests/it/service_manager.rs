//! `tidegate serve` under a service manager: what the environment of the process says.

use std::os::unix::net::UnixDatagram;

use tidegate_test_support::{PATIENCE, TemporaryFolder};

use crate::command::tidegate;
use crate::process::{Daemon, post};

const POLICY: &str =
    "listen: { http: 127.0.0.1:0 }\nnamespaces: { api: { limits: [{ name: all, rate: 5/m }] } }\n";

fn serving(folder: &TemporaryFolder, variables: &[(&str, &str)]) -> Daemon {
    let policy = folder.write("policy.yaml", POLICY);
    let mut command = tidegate();
    command.args(["serve", "--config"]).arg(policy).envs(variables.iter().copied());
    Daemon::spawn(command)
}

fn next(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 4096];
    let length = socket.recv(&mut buffer).unwrap();
    String::from_utf8(buffer[..length].to_vec()).unwrap()
}

#[test]
fn the_manager_in_the_environment_is_told_of_start_signal_and_end() {
    let folder = TemporaryFolder::new();
    let path = folder.join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut daemon = serving(&folder, &[("NOTIFY_SOCKET", path.to_str().unwrap())]);
    let ready = next(&socket);
    assert!(ready.starts_with("READY=1\nSTATUS=policy version 1 is in force; http on 127.0.0.1:"), "{ready}");
    // The listeners accept connections when the manager reads READY.
    let address = ready.trim().rsplit(' ').next().unwrap().to_owned();
    assert_eq!(post(&address, "/v1/check", r#"{"namespace":"api","attributes":{}}"#).0, 200);
    daemon.signal("HUP");
    assert!(next(&socket).starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert!(next(&socket).starts_with("READY=1\n"));
    daemon.signal("TERM");
    assert!(next(&socket).starts_with("STOPPING=1\nSTATUS=draining, open connections: "));
    let (code, err) = daemon.end();
    assert_eq!(code, Some(0), "{err}");
    assert!(!err.contains("tidegate::service"), "{err}");
}

#[test]
fn a_manager_that_cannot_be_told_is_one_warning() {
    let folder = TemporaryFolder::new();
    let gone = folder.join("gone");
    for socket in ["", "notify", "@", gone.to_str().unwrap()] {
        let mut daemon = serving(&folder, &[("NOTIFY_SOCKET", socket), ("WATCHDOG_USEC", "30000")]);
        let address = daemon.address();
        assert_eq!(post(&address, "/v1/check", r#"{"namespace":"api","attributes":{}}"#).0, 200);
        daemon.signal("TERM");
        let (code, err) = daemon.end();
        assert_eq!(code, Some(0), "{err}");
        assert_eq!(err.matches("WARN tidegate::service: ").count(), 1, "{socket:?}: {err}");
    }
}

#[test]
fn without_a_manager_nothing_is_said() {
    let folder = TemporaryFolder::new();
    let mut daemon = serving(&folder, &[("WATCHDOG_USEC", "soon")]);
    daemon.address();
    daemon.signal("TERM");
    let (code, err) = daemon.end();
    assert!(code == Some(0) && !err.contains("tidegate::service"), "{err}");
}
