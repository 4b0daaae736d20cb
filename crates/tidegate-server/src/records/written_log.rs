//! The text of the log of one thread, for tests.

use std::io::Write;
use std::sync::{Arc, Mutex};

use tracing::subscriber::DefaultGuard;

/// The text that was logged so far.
#[derive(Clone, Default)]
pub(crate) struct WrittenLog(Arc<Mutex<Vec<u8>>>);

impl WrittenLog {
    /// The text of all that this thread logs until the guard is dropped.
    pub(crate) fn new() -> (Self, DefaultGuard) {
        let written = Self::default();
        let writer = written.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        (written, tracing::subscriber::set_default(subscriber))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for WrittenLog {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
