//! Messages to the service manager that started the process, as systemd with `Type=notify`.
//!
//! A message is one datagram to the Unix socket in `NOTIFY_SOCKET`, with an assignment on each line
//! ([sd_notify(3)](https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html)). The
//! daemon says when it accepts connections, when it begins and ends a reload, and when it stops,
//! and it feeds the watchdog. A manager that cannot be reached costs a warning and nothing else.

use core::time::Duration;
use std::ffi::{OsStr, OsString};
use std::io;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::{Mutex, MutexGuard};

/// How long a manager may leave its queue full. Above it the message is given up.
const SEND_MAX: Duration = Duration::from_secs(1);

/// The shortest pause between two messages to a watchdog.
const FEED_PAUSE_MIN: Duration = Duration::from_millis(1);

/// The service manager that wants to know the state of this process.
#[derive(Debug)]
pub struct ServiceManager {
    address: SocketAddr,
    watchdog: Option<Duration>,
    state: Mutex<ManagerState>,
}

/// The service manager that is told, and the part that stays the same in each message.
#[derive(Debug)]
pub(crate) struct ServiceReport {
    pub(crate) manager: ServiceManager,
    /// Where the daemon listens, for people.
    pub(crate) listening: String,
}

/// The reports to a service manager, and the ticks by which the daemon is seen to be alive.
#[derive(Debug, Default)]
pub(crate) struct ServiceReports {
    /// The service manager that is told of the daemon, once there is one.
    pub(crate) report: OnceLock<ServiceReport>,
    /// How often the daemon has ticked the engine, which the watchdog follows.
    pub(crate) ticks: AtomicU64,
}

/// The progress of the conversation. Its lock also puts messages in order.
#[derive(Debug, Default)]
struct ManagerState {
    is_stopping: bool,
    /// Whether the last message could not be sent, which is logged once.
    is_failing: bool,
}

/// A state that a service manager is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServiceState {
    /// All listeners accept connections; also the end of a reload.
    Ready,
    /// A policy is read, and perhaps taken over. [`ServiceState::Ready`] follows in any case.
    Reloading,
    /// The drain has begun. Nothing but the watchdog follows.
    Stopping,
}

impl ServiceManager {
    /// The manager that the environment of this process names: its socket in `NOTIFY_SOCKET`, its
    /// watchdog in `WATCHDOG_USEC` and `WATCHDOG_PID`. `None` without `NOTIFY_SOCKET`.
    ///
    /// A value that cannot be used is logged as a warning, and counts as absent.
    pub fn from_environment() -> Option<Self> {
        Self::from_variables(&|name| std::env::var_os(name))
    }

    /// As [`ServiceManager::from_environment`], of these variables.
    pub fn from_variables(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<Self> {
        let socket = variable("NOTIFY_SOCKET")?;
        let address = match address(&socket) {
            Ok(address) => address,
            Err(error) => {
                tracing::warn!(
                    target: "tidegate::service",
                    %error,
                    "NOTIFY_SOCKET={socket:?} is no Unix socket, so no service manager is told of this daemon; use an \
                     absolute path, or an abstract name as `@name`"
                );
                return None;
            }
        };
        let watchdog = variable("WATCHDOG_USEC").and_then(|span| watchdog(&span, variable("WATCHDOG_PID")));
        Some(Self { address, watchdog, state: Mutex::default() })
    }

    /// How often the watchdog is fed: three times in the span after which it ends the process.
    /// `None` without a watchdog.
    pub(crate) fn feed_each(&self) -> Option<Duration> {
        self.watchdog.map(|watchdog| (watchdog / 3).max(FEED_PAUSE_MIN))
    }

    /// Says that the daemon is in `state`, and what a person reads about it. Does nothing once the
    /// daemon is stopping.
    pub(crate) async fn tell(&self, state: ServiceState, status: &str) {
        let mut sent = self.state.lock().await;
        if sent.is_stopping {
            return;
        }
        sent.is_stopping = state == ServiceState::Stopping;
        let state = match state {
            ServiceState::Ready => "READY=1".to_owned(),
            // A manager compares the instant with that of its own request to reload.
            ServiceState::Reloading => format!("RELOADING=1\nMONOTONIC_USEC={}", monotonic_micros()),
            ServiceState::Stopping => "STOPPING=1".to_owned(),
        };
        // A line break would end the status, and begin another assignment.
        let status = status.replace(char::is_control, " ");
        self.send(&mut sent, &format!("{state}\nSTATUS={status}\n")).await;
    }

    /// Says that the daemon is alive.
    pub(crate) async fn feed_watchdog(&self) {
        let mut sent = self.state.lock().await;
        self.send(&mut sent, "WATCHDOG=1\n").await;
    }

    async fn send(&self, sent: &mut MutexGuard<'_, ManagerState>, message: &str) {
        let result = tokio::time::timeout(SEND_MAX, self.send_datagram(message.as_bytes())).await;
        let result = result.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let was_failing = core::mem::replace(&mut sent.is_failing, result.is_err());
        if let (Err(error), false) = (result, was_failing) {
            tracing::warn!(
                target: "tidegate::service",
                %error,
                socket = ?self.address,
                "the service manager at NOTIFY_SOCKET cannot be told the state of this daemon"
            );
        }
    }

    /// Sends from a socket of its own, so that a manager which was started anew gets it.
    async fn send_datagram(&self, message: &[u8]) -> io::Result<()> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.connect_addr(&self.address)?;
        tokio::net::UnixDatagram::from_std(socket)?.send(message).await?;
        Ok(())
    }
}

/// The socket of this name: an absolute path, or `@` and an abstract name.
fn address(socket: &OsStr) -> io::Result<SocketAddr> {
    match socket.as_bytes() {
        [b'/', ..] => SocketAddr::from_pathname(socket),
        #[cfg(target_os = "linux")]
        [b'@', name @ ..] if !name.is_empty() => SocketAddr::from_abstract_name(name),
        _ => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "neither an absolute path nor an abstract name"))
        }
    }
}

/// The span of a watchdog, if it is this process that has to feed it.
fn watchdog(span: &OsStr, process: Option<OsString>) -> Option<Duration> {
    let number = |text: &OsStr| text.to_str().and_then(|text| text.parse::<u64>().ok()).filter(|n| *n > 0);
    let warn = |name, value: &OsStr, unit| {
        tracing::warn!(
            target: "tidegate::service",
            "{name}={value:?} is no number of {unit} above 0, so the watchdog of the service manager is not fed"
        );
    };
    let Some(micros) = number(span) else {
        warn("WATCHDOG_USEC", span, "microseconds");
        return None;
    };
    if let Some(process) = process {
        let Some(id) = number(&process) else {
            warn("WATCHDOG_PID", &process, "a process");
            return None;
        };
        // The watchdog of a process that started this one.
        if id != u64::from(std::process::id()) {
            return None;
        }
    }
    Some(Duration::from_micros(micros))
}

/// The clock that systemd compares reloads by.
fn monotonic_micros() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.saturating_mul(1_000_000).saturating_add(now.tv_nsec / 1000)
}
