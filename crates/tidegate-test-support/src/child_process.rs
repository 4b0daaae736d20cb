//! Processes that tests start and stop.

use std::io;
use std::process::{Child, Command, ExitStatus};

/// A process that is killed, by its id, when it is dropped.
#[derive(Debug)]
pub struct ChildProcess(Child);

impl ChildProcess {
    /// Starts it.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        command.spawn().map(Self)
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Sends it a signal, such as `TERM`; whether that could be done.
    pub fn signal(&self, name: &str) -> bool {
        // By its id: nothing else is touched.
        let status = Command::new("kill").args([&format!("-{name}"), &self.id().to_string()]).status();
        status.is_ok_and(|status| status.success())
    }

    /// How it ended; nothing while it runs.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.0.try_wait()
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.0.wait()
    }

    /// Whether it has not ended.
    pub fn is_running(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }

    /// Kills it and waits for its end.
    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// The process as the standard library has it, such as for its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_runs_until_it_is_signalled_or_dropped() {
        let start = || ChildProcess::spawn(Command::new("sleep").arg("600")).unwrap();
        let (mut one, other) = (start(), start());
        assert!(one.is_running() && one.signal("TERM"));
        assert!(!one.wait().unwrap().success() && !one.is_running());
        let id = other.id().to_string();
        drop(other);
        assert!(!Command::new("kill").args(["-0", &id]).status().unwrap().success());
    }
}
