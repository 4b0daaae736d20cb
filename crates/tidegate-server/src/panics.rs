//! Panics: each is a defect. One in a handler ends its request only, with an error for the caller.

use core::future::Future;
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::PanicHookInfo;
use std::sync::atomic::Ordering;

use futures_util::FutureExt;
use tidegate_core::planted_fault::planted;
use tidegate_wire::{Fault, FaultCode};

use crate::metrics::Metrics;
use crate::records::log_interval::EveryTenSeconds;

/// The result of `handler`. If it panics, the panic is counted, and the fault is for the caller;
/// what the handler holds is given back while it unwinds.
pub(crate) async fn caught<T>(metrics: &Metrics, handler: impl Future<Output = T>) -> Result<T, Fault> {
    // No lock of the daemon stays poisoned, and what it guards is whole at every step.
    AssertUnwindSafe(handler).catch_unwind().await.map_err(|_| {
        metrics.shared().panics.fetch_add(1, Ordering::Relaxed);
        Fault::new(FaultCode::Internal, "the daemon met a defect of its own and gave up this request")
            .fix("report the panic in the log of the daemon")
    })
}

/// How long a background task that has panicked waits before it begins anew.
const RESTART_AFTER: Duration = Duration::from_secs(1);

/// Runs a background task to its end. When it panics, that is counted, and it begins anew: without
/// it the daemon would go on half alive, permits would never expire and connections never time out.
pub(crate) async fn kept_running<F: Future<Output = ()>>(metrics: &Metrics, task: impl Fn() -> F) {
    while caught(metrics, task()).await.is_err() {
        tokio::time::sleep(RESTART_AFTER).await;
    }
}

/// Has every panic of this process written to its log, at most one each ten seconds, in place of a
/// message and a backtrace on standard error.
pub fn log_panics() {
    std::panic::set_hook(Box::new(hook()));
}

fn hook() -> impl Fn(&PanicHookInfo<'_>) {
    let line = EveryTenSeconds::default();
    move |panic| {
        if let Some(left_out) = line.take() {
            // Not `message`, which the text of the log would hold unescaped.
            let payload = panic.payload_as_str().unwrap_or("none");
            let location = panic.location().map(tracing::field::display);
            tracing::error!(payload, location, left_out, "a panic: please report this defect of Tidegate");
        }
    }
}

/// A fault that a test plants: the handler panics while it holds what was admitted.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlantedPanic;

impl PlantedPanic {
    /// Panics where the fault is planted in this thread; does nothing without the cfg.
    #[inline]
    pub(crate) fn meet() {
        assert!(planted::<Self>().is_none(), "planted by a test");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::written_log::WrittenLog;

    #[tokio::test(start_paused = true)]
    async fn a_background_task_that_panics_is_counted_and_begins_anew() {
        let metrics = Metrics::new();
        let begun = core::cell::Cell::new(0);
        let task = async || {
            begun.set(begun.get() + 1);
            assert!(begun.get() > 2, "turn {}", begun.get());
        };
        kept_running(&metrics, task).await;
        assert_eq!((begun.get(), metrics.shared().panics.load(Ordering::Relaxed)), (3, 2));
    }

    /// The hook is one for the whole process: panics of other tests go to the one before.
    #[test]
    fn many_panics_are_one_line_of_the_log() {
        let (ours, before) = (hook(), std::panic::take_hook());
        let this = std::thread::current().id();
        std::panic::set_hook(Box::new(move |panic| {
            if std::thread::current().id() == this { ours(panic) } else { before(panic) }
        }));
        let (written, _listening) = WrittenLog::new();
        for turn in 0..100 {
            assert!(std::panic::catch_unwind(|| panic!("turn {turn}\n\u{1b}[2Jforged")).is_err());
        }
        let text = written.text();
        assert!(text.lines().count() == 1 && text.contains("turn 0") && text.contains("panics.rs"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}
