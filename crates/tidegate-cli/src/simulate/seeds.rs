//! Many seeds, on all cores; each of them in one thread.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use serde::Serialize;
use tidegate_sim::fleet::{Report, Scenario, ScenarioError, simulate};
use tidegate_sim::kit::{FailedSeeds, Seeds};

use super::progress::Progress;
use super::scenario::{json, scenario, untaken};
use crate::arguments::simulation::{Fleet, Subject};
use crate::exit::{Exit, answer};

/// The results of all seeds.
#[derive(Debug, Serialize)]
struct SeedsReport {
    from: u64,
    seeds: u64,
    decisions: u64,
    /// In the order of their seeds; at most [`REPORTS_MAX`].
    violated: Vec<Report>,
    violated_total: u64,
}

/// How many reports are kept.
const REPORTS_MAX: usize = 20;

pub(crate) fn run(fleet: &Fleet, count: u64) -> Exit {
    let progress = Progress::new(count, "seeds");
    let seeds = Seeds::new(fleet.seed, count);
    let (next, done, decisions) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let violated = Mutex::new(FailedSeeds::new(REPORTS_MAX));
    let failed: Mutex<Option<ScenarioError>> = Mutex::default();
    let is_over = AtomicBool::new(false);
    let work = || {
        loop {
            // Relaxed throughout: each number by itself matters, and the threads are joined before
            // they are read.
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count || is_over.load(Ordering::Relaxed) {
                return;
            }
            let seed = seeds.at(at);
            let drawn = match fleet.subject {
                Some(Subject::Table) => Scenario::drawn_with_tables(seed),
                _ => Scenario::drawn(seed),
            };
            match simulate(&scenario(fleet, drawn)) {
                Ok(report) => {
                    decisions.fetch_add(report.decisions, Ordering::Relaxed);
                    if report.violations_total > 0 {
                        violated.lock().unwrap_or_else(PoisonError::into_inner).add(seed, report);
                    }
                }
                Err(error) => {
                    *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    is_over.store(true, Ordering::Relaxed);
                }
            }
            progress.at(done.fetch_add(1, Ordering::Relaxed) + 1);
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    drop(progress);
    if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return untaken(&error);
    }
    let violated = violated.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (violated_total, violated) = (violated.total(), violated.into_kept());
    let decisions = decisions.into_inner();
    let report = SeedsReport { from: fleet.seed, seeds: count, decisions, violated, violated_total };
    let text = if fleet.json { json(&report) } else { report.text() };
    answer(&text, if violated_total == 0 { Exit::Done } else { Exit::Problems })
}

impl SeedsReport {
    fn text(&self) -> String {
        let mut text = String::new();
        for report in &self.violated {
            let _ = write!(text, "{report}");
        }
        let Self { from, seeds, decisions, violated_total, .. } = self;
        let _ = writeln!(
            text,
            "{seeds} seeds from {from}, {decisions} decisions: {violated_total} seeds in which a checker found something"
        );
        text
    }
}
