//! The messages to a service manager: at the start, around reloads, at the end, and to a watchdog.

use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use tidegate_server::{Handle, ManualClock, ServiceManager, SystemClock};
use tidegate_test_support::{PATIENCE, TemporaryFolder};
use tokio::time::Instant;

use crate::restartable_daemon::{Kept, RestartableDaemon};
use crate::world::{START, World, api, loopback};

const THREE: &str = "  api: { limits: [{ name: per-user, key: [user], fixed: { limit: 3, window: 1h } }] }\n";
const FIVE: &str = "  api: { limits: [{ name: per-user, key: [user], fixed: { limit: 5, window: 1h } }] }\n";
const WRONG: &str = "  api: { limits: [{ name: per-user, key: [user], fixed: { limit: 3, widnow: 1h } }] }\n";

/// The span of a watchdog.
const WATCHDOG: Duration = Duration::from_millis(60);

/// A socket that a service manager would read.
struct ManagerSocket {
    socket: UnixDatagram,
    name: OsString,
    /// Where its file is, if it has one.
    _folder: TemporaryFolder,
}

impl ManagerSocket {
    fn new() -> Self {
        let folder = TemporaryFolder::new();
        let path = folder.join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        Self::with(socket, path.into_os_string(), folder)
    }

    /// One with an abstract name, which is no file.
    fn abstract_name() -> Self {
        let folder = TemporaryFolder::new();
        // The folder is this test's alone, and so is the name.
        let name = folder.path().to_str().unwrap().to_owned();
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        Self::with(socket, format!("@{name}").into(), folder)
    }

    fn with(socket: UnixDatagram, name: OsString, folder: TemporaryFolder) -> Self {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket, name, _folder: folder }
    }

    /// The manager, with these further variables.
    fn manager(&self, variables: &[(&str, &str)]) -> Option<ServiceManager> {
        let value = |name: &str| variables.iter().find(|(of, _)| *of == name).map(|(_, value)| value.into());
        ServiceManager::from_variables(&|name| {
            if name == "NOTIFY_SOCKET" { Some(self.name.clone()) } else { value(name) }
        })
    }

    /// The next message, as long as the socket waits for one.
    fn next(&self) -> Option<String> {
        let mut buffer = [0; 4096];
        let length = self.socket.recv(&mut buffer).ok()?;
        Some(String::from_utf8(buffer[..length].to_vec()).unwrap())
    }

    fn waits_for(&self, span: Duration) {
        self.socket.set_read_timeout(Some(span)).unwrap();
    }

    /// The messages that are there already.
    fn rest(&self) -> Vec<String> {
        self.socket.set_nonblocking(true).unwrap();
        let rest = core::iter::from_fn(|| self.next()).collect();
        self.socket.set_nonblocking(false).unwrap();
        rest
    }

    /// The messages of this span, which are read as they come: a socket has room for few.
    async fn during(&self, span: Duration) -> Vec<String> {
        let end = Instant::now() + span;
        let mut messages = Vec::new();
        while Instant::now() < end {
            // Sleeps: on tokio's paused clock, no real time passes.
            tokio::time::sleep(WATCHDOG / 3).await;
            messages.extend(self.rest());
        }
        messages
    }

    /// The first assignments of the next messages, and the last status.
    async fn states<const COUNT: usize>(self: &Arc<Self>) -> ([String; COUNT], String) {
        let this = Arc::clone(self);
        let read = tokio::task::spawn_blocking(move || {
            let mut status = String::new();
            let told = core::array::from_fn(|_| {
                let message = this.next().expect("another message");
                let mut lines = message.lines();
                let state = lines.next().unwrap().to_owned();
                if state == "RELOADING=1" {
                    let micros = lines.next().unwrap().strip_prefix("MONOTONIC_USEC=").unwrap();
                    assert!(micros.parse::<u64>().unwrap() > 0, "{message}");
                }
                lines.next().unwrap().strip_prefix("STATUS=").unwrap().clone_into(&mut status);
                assert_eq!(lines.next(), None, "{message}");
                state
            });
            (told, status)
        });
        read.await.unwrap()
    }
}

async fn report(handle: &mut Handle, socket: &ManagerSocket) {
    handle.report_to(socket.manager(&[]).unwrap()).await;
}

#[tokio::test]
async fn the_start_good_and_rejected_reloads_and_the_end_are_told_in_order() {
    let socket = Arc::new(ManagerSocket::new());
    let mut daemon = RestartableDaemon::start(Kept::Memory, THREE, START).await;
    report(daemon.handle(), &socket).await;
    let (told, status) = socket.states().await;
    assert_eq!(told, ["READY=1"]);
    assert!(status.starts_with("policy version 1 is in force; http on 127.0.0.1:"), "{status}");

    assert_eq!(daemon.reload(FIVE).await, None);
    let (told, status) = socket.states().await;
    assert_eq!(told, ["RELOADING=1", "READY=1"]);
    assert!(status.starts_with("policy version 2 is in force; "), "{status}");

    daemon.reload(WRONG).await.expect("it is rejected");
    let (told, status) = socket.states().await;
    assert_eq!(told, ["RELOADING=1", "READY=1"], "a rejected policy ends the reload too");
    assert!(status.starts_with("policy version 2 is in force; the policy file was changed and "), "{status}");

    // The text of the policy in force again.
    daemon.write(FIVE);
    daemon.handle().reload();
    let (told, status) = socket.states().await;
    assert_eq!(told, ["RELOADING=1", "READY=1"]);
    assert!(status.starts_with("policy version 2 is in force; http on "), "{status}");

    daemon.end().await;
    let (told, status) = socket.states().await;
    assert_eq!((told, status.as_str()), (["STOPPING=1".to_owned()], "draining, open connections: 0"));
    assert_eq!(socket.rest(), [""; 0]);
}

#[tokio::test]
async fn a_policy_file_that_changed_without_a_signal_is_told_as_a_reload() {
    let socket = Arc::new(ManagerSocket::abstract_name());
    let mut daemon = RestartableDaemon::start(Kept::Memory, THREE, START).await;
    report(daemon.handle(), &socket).await;
    assert_eq!(socket.states().await.0, ["READY=1"]);
    daemon.write(FIVE);
    let (told, status) = socket.states().await;
    assert_eq!(told, ["RELOADING=1", "READY=1"]);
    assert!(status.starts_with("policy version 2 is in force; "), "{status}");
    daemon.write(WRONG);
    let (told, status) = socket.states().await;
    assert_eq!(told, ["RELOADING=1", "READY=1"]);
    assert!(status.contains("rejected"), "{status}");
}

#[tokio::test]
async fn a_reload_without_a_policy_file_ends_too() {
    let socket = Arc::new(ManagerSocket::new());
    let mut world = World::api().await;
    report(&mut world.handle, &socket).await;
    world.handle.reload();
    assert_eq!(socket.states().await.0, ["READY=1", "RELOADING=1", "READY=1"]);
}

#[tokio::test]
async fn the_end_is_the_last_state_and_the_drain_counts_connections() {
    let socket = Arc::new(ManagerSocket::new());
    let mut world = World::api().await;
    report(&mut world.handle, &socket).await;
    let mut client = world.client().await;
    assert_eq!(client.get("/healthz").await.status, 200);
    world.handle.shutdown().await;
    let (told, status) = socket.states().await;
    assert_eq!(told, ["READY=1", "STOPPING=1"]);
    assert_eq!(status, "draining, open connections: 1");
}

#[tokio::test]
async fn a_manager_that_is_gone_or_comes_late_costs_no_more_than_its_messages() {
    let socket = Arc::new(ManagerSocket::new());
    let manager = socket.manager(&[]).unwrap();
    let path = std::path::PathBuf::from(&socket.name);
    std::fs::remove_file(&path).unwrap();
    let mut world = World::api().await;
    world.handle.report_to(manager).await;
    assert_eq!(world.check(r#"{"user":"ada"}"#).await.status, 200);
    // Another socket of the same name, as after a new start of the manager.
    let late = UnixDatagram::bind(&path).unwrap();
    let late = Arc::new(ManagerSocket::with(late, socket.name.clone(), TemporaryFolder::new()));
    world.handle.shutdown().await;
    assert_eq!(late.states().await.0, ["STOPPING=1"]);
}

#[tokio::test]
async fn a_manager_that_reads_nothing_does_not_hold_up_the_daemon() {
    let socket = ManagerSocket::new();
    let filler = UnixDatagram::unbound().unwrap();
    filler.set_nonblocking(true).unwrap();
    while filler.send_to(b"STATUS=full\n", &socket.name).is_ok() {}
    let mut world = World::api().await;
    report(&mut world.handle, &socket).await;
    assert_eq!(world.check(r#"{"user":"ada"}"#).await.status, 200);
    assert_eq!(world.handle.shutdown().await.cut_off, 0);
}

/// The watchdog of this process.
fn watched(socket: &ManagerSocket) -> ServiceManager {
    let (span, process) = (WATCHDOG.as_micros().to_string(), std::process::id().to_string());
    socket.manager(&[("WATCHDOG_USEC", &span), ("WATCHDOG_PID", &process)]).unwrap()
}

#[test]
fn a_runtime_that_is_stuck_no_longer_feeds_the_watchdog() {
    let socket = ManagerSocket::new();
    let manager = watched(&socket);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let mut world = runtime.block_on(async {
        let clock = Arc::new(ManualClock::new(START));
        World::timed_by([api()], loopback(), clock, Arc::new(SystemClock::new())).await
    });
    runtime.block_on(world.handle.report_to(manager));
    assert!(socket.next().unwrap().starts_with("READY=1\n"));
    for _ in 0..3 {
        assert_eq!(socket.next().as_deref(), Some("WATCHDOG=1\n"));
    }
    let (stuck, is_stuck) = mpsc::channel();
    let (release, released) = mpsc::channel();
    runtime.spawn(async move {
        stuck.send(()).unwrap();
        // The only thread of the runtime waits here, as in a deadlock.
        released.recv().unwrap();
    });
    is_stuck.recv().unwrap();
    socket.rest();
    // As a service manager waits, and then ends the process.
    socket.waits_for(WATCHDOG);
    assert_eq!(socket.next(), None);
    release.send(()).unwrap();
    socket.waits_for(PATIENCE);
    assert_eq!(socket.next().as_deref(), Some("WATCHDOG=1\n"), "it goes on");
    runtime.block_on(world.handle.shutdown());
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_no_longer_ticks_starves_the_watchdog() {
    let socket = ManagerSocket::new();
    // Its clock stands still, so that no further tick is due.
    let mut world = World::api().await;
    world.handle.report_to(watched(&socket)).await;
    let fed = socket.during(Duration::from_secs(4)).await.len();
    assert!(fed > 150, "{fed} messages, one each 20 ms");
    socket.during(Duration::from_secs(2)).await;
    assert_eq!(socket.during(Duration::from_mins(1)).await, [""; 0]);
    world.clock.advance(Duration::from_secs(2));
    assert!(socket.during(Duration::from_secs(1)).await.len() > 40, "it goes on");
}

#[tokio::test(start_paused = true)]
async fn the_watchdog_is_fed_until_the_drain_has_ended_and_not_for_another_process() {
    let socket = ManagerSocket::new();
    let mut config = loopback();
    config.bounds.drain = Duration::from_secs(3);
    config.bounds.drain_grace = Duration::from_secs(3);
    let mut world = World::with([api()], config).await;
    let _idle = world.client().await;
    world.handle.report_to(watched(&socket)).await;
    assert!(socket.next().unwrap().starts_with("READY=1\n"));
    let (told, _) = tokio::join!(socket.during(Duration::from_secs(4)), world.handle.shutdown());
    let (stopping, fed) = told.split_first().unwrap();
    assert!(stopping.starts_with("STOPPING=1\n"), "{stopping}");
    assert!(fed.iter().all(|message| message == "WATCHDOG=1\n"), "{fed:?}");
    assert!((120..180).contains(&fed.len()), "{} in the 3 s of the drain", fed.len());

    let mut world = World::api().await;
    let others = socket.manager(&[("WATCHDOG_USEC", "60000"), ("WATCHDOG_PID", "1")]).unwrap();
    world.handle.report_to(others).await;
    assert_eq!(socket.during(Duration::from_secs(1)).await.len(), 1, "READY alone");
}

#[test]
fn variables_that_are_absent_or_wrong_leave_the_daemon_without_a_manager_or_a_watchdog() {
    assert!(ServiceManager::from_variables(&|_| None).is_none());
    let of_a_watchdog = |name: &str| (name != "NOTIFY_SOCKET").then(|| OsString::from("1000000"));
    assert!(ServiceManager::from_variables(&of_a_watchdog).is_none(), "a watchdog alone");
    let long = format!("/{}", "x".repeat(108));
    for name in ["", "@", "notify", "./notify", "vsock:2:1234", "/with\0zero", &long, &format!("@{long}")] {
        let manager = ServiceManager::from_variables(&|of| (of == "NOTIFY_SOCKET").then(|| name.into()));
        assert!(manager.is_none(), "{name:?}");
    }
    let socket = ManagerSocket::new();
    let warnings = |variables: &[(&str, &str)]| {
        let written = WarningLog::default();
        let writer = written.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        let manager = tracing::subscriber::with_default(subscriber, || socket.manager(variables));
        assert!(manager.is_some(), "{variables:?}");
        written.text()
    };
    assert_eq!(warnings(&[]), "");
    assert_eq!(warnings(&[("WATCHDOG_PID", "x")]), "", "without a watchdog it means nothing");
    for (variables, name) in [
        (&[("WATCHDOG_USEC", "0")][..], "WATCHDOG_USEC"),
        (&[("WATCHDOG_USEC", "soon")], "WATCHDOG_USEC"),
        (&[("WATCHDOG_USEC", "-1"), ("WATCHDOG_PID", "x")], "WATCHDOG_USEC"),
        (&[("WATCHDOG_USEC", "18446744073709551616")], "WATCHDOG_USEC"),
        (&[("WATCHDOG_USEC", "1000"), ("WATCHDOG_PID", "me")], "WATCHDOG_PID"),
    ] {
        let text = warnings(variables);
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains("WARN tidegate::service: ") && text.contains(name), "{text}");
    }
}

/// The text of what is logged.
#[derive(Clone, Default)]
struct WarningLog(Arc<Mutex<Vec<u8>>>);

impl WarningLog {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl std::io::Write for WarningLog {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
