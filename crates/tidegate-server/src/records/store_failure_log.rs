//! Log lines about batches that the shared store failed to run, with the cause and the command to
//! type.

use core::time::Duration;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tidegate_core::error_chain;
use tidegate_store::StoreError;

/// How often there is a line at most: failures come as often as requests do.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Writes such lines, no more often than [`LINE_EVERY`].
#[derive(Debug, Default)]
pub(crate) struct StoreFailureLog(Mutex<LineThrottle>);

#[derive(Debug, Default)]
struct LineThrottle {
    last: Option<Instant>,
    /// Failures without a line since the last one.
    suppressed: u64,
}

impl StoreFailureLog {
    /// Writes a line about `error`, unless one was written a moment ago.
    pub(crate) fn write(&self, error: &StoreError, now: Instant) {
        let Some(suppressed) = self.take_line(now) else { return };
        tracing::warn!(
            target: "tidegate::store",
            error = error_chain(error).as_str(),
            suppressed = (suppressed > 0).then_some(suppressed),
            "the store could not carry out a batch; each limit follows its on_store_failure",
        );
    }

    /// How many lines were suppressed since the last one, or `None` if this one is.
    fn take_line(&self, now: Instant) -> Option<u64> {
        // Every change is one assignment.
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.last.is_some_and(|last| now.saturating_duration_since(last) < LINE_EVERY) {
            lines.suppressed += 1;
            return None;
        }
        lines.last = Some(now);
        Some(core::mem::take(&mut lines.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidegate_core::{Algorithm, Cost, Rate};
    use tidegate_store::{Batch, Key, Kind, Operation, RequestId, Store};
    use tidegate_test_support::{RedisServer, skip};

    use super::*;
    use crate::fleet::redis_store;
    use crate::fleet::shared_store::SharedStore;
    use crate::records::written_log::WrittenLog;

    #[test]
    fn a_flood_of_failures_has_a_line_every_ten_seconds_that_counts_the_others() {
        let log = StoreFailureLog::default();
        let start = Instant::now();
        assert_eq!(log.take_line(start), Some(0));
        for ms in 0..1000 {
            assert_eq!(log.take_line(start + Duration::from_millis(ms * 9)), None);
        }
        assert_eq!(log.take_line(start + LINE_EVERY), Some(1000));
        assert_eq!(log.take_line(start + LINE_EVERY), None);
    }

    #[tokio::test]
    async fn a_store_out_of_memory_is_logged_with_the_setting_to_raise() {
        let name = "a_store_out_of_memory_is_logged_with_the_setting_to_raise";
        let Some(server) = RedisServer::start(&["--maxmemory", "1"]) else { return skip(name) };
        let (written, _listening) = WrittenLog::new();
        let store = redis_store::at(&server.url());
        let shared = SharedStore::new(Arc::new(store.clone()));
        let algorithm = Algorithm::bucket(Rate::per_minute(100).unwrap()).unwrap();
        let operation = Operation::new(
            Key::new("api", b"limit", b"ada").unwrap(),
            algorithm,
            Kind::Check { cost: Cost::ONE },
        );
        for id in 0..20 {
            let batch = Batch::all_or_nothing(RequestId(id), [operation.clone()]);
            let answer = store.run(&batch).await;
            shared.call_ended(Some(&answer.unwrap_err()));
        }
        let text = written.text();
        let lines: Vec<_> = text.lines().filter(|line| line.contains("could not carry out")).collect();
        assert!(lines.len() == 1 && lines[0].contains("(OOM); raise its `maxmemory`"), "{text}");
    }
}
