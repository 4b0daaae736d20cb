//! That the suite catches stores that are wrong, each in one way.

mod wrong;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::Timestamp;

use self::wrong::{
    AnswersAsksAnew, ChargesOnRefusal, CountsPeeks, ForgetsIds, HalfAStep, IgnoresLifetimes, JoinsKeys,
    LendsFirst, LendsWithoutDebit, LosesUpdates, NoCalendars, NotesFirst, OwnClock, UndoesTwice,
};
use super::{Capabilities, Case, ConformanceStore, Report, run};
use crate::{DynStore, MemoryConfig, MemoryStore, Store};

/// A clock that the suite sets.
#[derive(Clone, Debug, Default)]
struct Clock(Arc<AtomicU64>);

impl Clock {
    fn memory(&self) -> MemoryStore {
        let clock = self.clone();
        MemoryStore::new(MemoryConfig::new([5, 6, 7, 8]), move || clock.now())
    }

    fn now(&self) -> Timestamp {
        // Set and read by the thread that runs the suite, or not set while others read it.
        Timestamp::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

type Open = dyn Fn(&Clock) -> Arc<dyn DynStore> + Sync;

/// Opens stores made by a function. They are chosen at run time, so that the suite is compiled once
/// for all.
struct Opened {
    clock: Clock,
    open: Box<Open>,
    can: Capabilities,
}

impl Opened {
    fn new<S: Store + 'static>(open: fn(&Clock) -> S) -> Self {
        let can = Capabilities { operations: 3000, ..Capabilities::default() };
        Self { clock: Clock::default(), open: Box::new(move |clock| Arc::new(open(clock))), can }
    }
}

impl ConformanceStore for Opened {
    type Store = Arc<dyn DynStore>;

    fn open(&self) -> Self::Store {
        (self.open)(&self.clock)
    }

    fn set_now(&self, now: Timestamp) {
        self.clock.0.store(now.as_nanos(), Ordering::Relaxed);
    }

    fn capabilities(&self) -> Capabilities {
        self.can
    }
}

fn failed(report: &Report) -> Vec<&'static str> {
    report.failed.iter().map(|(name, _)| *name).collect()
}

/// Asserts that the suite fails these cases, and still passes others.
fn assert_caught(report: &Report, by: &[&str]) {
    let failed = failed(report);
    for case in by {
        assert!(failed.contains(case), "not caught by {case}, only by {failed:?}");
    }
    assert!(!report.passed.is_empty(), "a store with one fault fails every case: {report}");
}

#[test]
fn a_store_that_is_right_passes_every_case_that_it_can_be_asked() {
    let report = run(&Opened::new(Clock::memory));
    assert!(report.failed.is_empty(), "{report}");
    let skipped: Vec<_> = report.skipped.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        skipped,
        [
            "the_wait_after_a_clock_that_was_ahead_outlives_restarts",
            "a_block_of_a_clock_that_was_ahead_ends_over_restarts",
            "what_was_counted_survives_a_restart",
            "what_was_answered_survives_a_restart",
            "what_was_noted_survives_a_restart",
            "what_was_lent_survives_a_restart"
        ]
    );
    assert_eq!(report.passed.len() + skipped.len(), super::cases::<Opened>().len());
    assert!(report.to_string().contains("skipped what_was_counted_survives_a_restart: the store forgets"));
}

#[test]
fn a_store_that_charges_on_refusal_is_caught() {
    let report = run(&Opened::new(|clock| ChargesOnRefusal(clock.memory())));
    assert_caught(&report, &["a_refused_batch_leaves_every_counter_as_it_was"]);
    assert!(!failed(&report).contains(&"a_batch_of_each_charges_what_is_admitted"), "{report}");
}

#[test]
fn a_store_that_forgets_ids_is_caught() {
    let report = run(&Opened::new(|clock| ForgetsIds::new(clock.memory())));
    let by =
        ["a_batch_sent_again_gives_the_same_answer_and_charges_once", "an_undone_batch_leaves_no_charge"];
    assert_caught(&report, &by);
    assert!(!failed(&report).contains(&"a_refused_batch_leaves_every_counter_as_it_was"), "{report}");
}

#[test]
fn a_store_that_says_it_forgets_ids_is_not_asked_to_remember_them() {
    let mut harness = Opened::new(|clock| ForgetsIds::new(clock.memory()));
    harness.can.answers = 0;
    let report = run(&harness);
    assert!(report.failed.is_empty(), "{report}");
    assert!(report.skipped.len() > 5, "{report}");
}

#[test]
fn a_store_that_loses_updates_between_tasks_or_threads_is_caught() {
    let report = run(&Opened::new(|clock| LosesUpdates::new(clock.clone())));
    // The units that threads lose depend on scheduling; the units that tasks lose do not.
    assert_caught(&report, &["tasks_that_take_turns_admit_exactly_the_limit"]);
    assert!(!failed(&report).contains(&"peeking_changes_nothing"), "{report}");
}

#[test]
fn a_store_whose_batch_is_two_steps_is_caught() {
    let report = run(&Opened::new(|clock| HalfAStep(clock.memory())));
    assert_caught(&report, &["a_refused_batch_leaves_every_counter_as_it_was"]);
}

#[test]
fn a_store_that_joins_keys_with_a_separator_is_caught() {
    let report = run(&Opened::new(|clock| JoinsKeys(clock.memory())));
    assert_caught(&report, &["keys_that_look_alike_when_joined_are_different_counters"]);
}

#[test]
fn a_store_that_counts_peeks_is_caught() {
    let report = run(&Opened::new(|clock| CountsPeeks(clock.memory())));
    assert_caught(&report, &["peeking_changes_nothing"]);
}

#[test]
fn a_store_with_a_clock_of_its_own_is_caught() {
    let report = run(&Opened::new(|clock| OwnClock::new(clock.clone())));
    assert_caught(&report, &["the_clock_of_the_answer_is_the_clock_of_the_store"]);
}

#[test]
fn a_store_that_undoes_by_refunding_is_caught() {
    let report = run(&Opened::new(|clock| UndoesTwice::new(clock.memory())));
    assert_caught(&report, &["undoing_twice_gives_back_once"]);
}

#[test]
fn a_store_that_writes_notes_of_refused_batches_is_caught() {
    let report = run(&Opened::new(|clock| NotesFirst(clock.memory())));
    assert_caught(&report, &["a_refused_batch_leaves_every_note_as_it_was"]);
    assert!(!failed(&report).contains(&"a_refused_batch_leaves_every_counter_as_it_was"), "{report}");
    assert!(!failed(&report).contains(&"notes_are_kept_by_kind_and_name"), "{report}");
}

#[test]
fn a_store_that_lends_without_counting_what_it_lent_as_used_is_caught() {
    let report = run(&Opened::new(|clock| LendsWithoutDebit::new(clock.clone())));
    assert_caught(
        &report,
        &["bucket_ledgers_lend_as_the_pure_code_does", "asks_in_one_batch_are_answered_in_their_order"],
    );
    assert!(!failed(&report).contains(&"a_key_that_stands_twice_is_charged_twice_in_order"), "{report}");
}

#[test]
fn a_store_that_lends_to_streams_as_to_others_is_caught() {
    let report = run(&Opened::new(|clock| IgnoresLifetimes(clock.memory())));
    assert_caught(
        &report,
        &[
            "bucket_ledgers_lend_as_the_pure_code_does",
            "a_ledger_of_too_many_streams_serves_them_as_the_pure_code_does",
            "a_stream_takes_over_the_stale_lease_of_its_peer",
        ],
    );
    let others = "a_ledger_of_too_many_holders_serves_them_as_the_pure_code_does";
    assert!(!failed(&report).contains(&others), "{report}");
}

#[test]
fn a_store_that_carries_out_every_ask_is_caught() {
    let report = run(&Opened::new(|clock| AnswersAsksAnew::new(clock.memory())));
    assert_caught(&report, &["a_repeated_ask_gets_the_same_grant_and_changes_nothing"]);
    assert!(!failed(&report).contains(&"a_refused_batch_leaves_every_ledger_as_it_was"), "{report}");
}

#[test]
fn a_store_that_lends_although_the_batch_is_refused_is_caught() {
    let report = run(&Opened::new(|clock| LendsFirst(clock.memory())));
    assert_caught(&report, &["a_refused_batch_leaves_every_ledger_as_it_was"]);
    assert!(!failed(&report).contains(&"a_refused_batch_leaves_every_counter_as_it_was"), "{report}");
}

#[test]
fn a_store_without_an_algorithm_skips_only_what_needs_it() {
    let report = run(&Opened::new(|clock| NoCalendars(clock.memory())));
    assert!(report.failed.is_empty(), "{report}");
    assert!(report.skipped.iter().any(|(name, _)| *name == "calendar_agrees_with_the_pure_code"), "{report}");
    assert!(report.passed.contains(&"bucket_agrees_with_the_pure_code"), "{report}");
}

#[test]
fn every_case_has_a_name_of_its_own() {
    let mut names: Vec<_> = super::cases::<Opened>().iter().map(|case: &Case<_>| case.name).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}
