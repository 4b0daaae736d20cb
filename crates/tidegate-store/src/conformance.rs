//! The conformance suite of stores: the contract of [`Store`] as tests.
//!
//! A store brings a [`ConformanceStore`], which opens it and sets its clock, and writes in its
//! tests:
//!
//! ```no_run
//! # use std::sync::{Arc, atomic::{AtomicU64, Ordering::Relaxed}};
//! # use tidegate_store::{MemoryConfig, MemoryStore};
//! # #[derive(Default)]
//! # struct Harness(Arc<AtomicU64>);
//! # impl tidegate_store::conformance::ConformanceStore for Harness {
//! #     type Store = MemoryStore;
//! #     fn open(&self) -> MemoryStore {
//! #         let now = Arc::clone(&self.0);
//! #         let clock = move || tidegate_core::Timestamp::from_nanos(now.load(Relaxed));
//! #         MemoryStore::new(MemoryConfig::new([1, 2, 3, 4]), clock)
//! #     }
//! #     fn set_now(&self, now: tidegate_core::Timestamp) { self.0.store(now.as_nanos(), Relaxed); }
//! # }
//! tidegate_store::conformance_tests!(Harness);
//! ```
//!
//! which makes one test of each case. [`run`] runs all of them and reports instead, as for a store
//! that is only there sometimes: what was skipped says so and is never a success.
//!
//! Counts are compared, operation by operation, with a model: for limits whose state is one word
//! the pure functions of [`tidegate_core::algorithm::Counter`], for rolling and concurrency limits
//! lists so plain that they can be seen to be right; for ledgers [`tidegate_core::lease::Ledger`].
//! The model shares no code with the memory store. Random lists come from a seed that a failure
//! names.
//!
//! The suite starts threads and needs no particular executor; it waits by
//! [`ConformanceStore::block_on`].
//!
//! [`Store`]: crate::Store

mod concurrent_callers;
mod contract;
mod counts;
mod executor;
mod harness;
mod keys;
mod ledgers;
mod lists;
mod model;
mod notes;
mod operations;
mod random;
mod recovery;
mod time;
mod trial;

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;

use core::fmt;

pub use self::concurrent_callers::*;
pub use self::contract::*;
pub use self::counts::*;
pub use self::harness::{Capabilities, ConformanceStore};
pub use self::keys::*;
pub use self::ledgers::*;
pub use self::lists::*;
pub use self::notes::*;
pub use self::operations::*;
pub use self::random::Random;
pub use self::recovery::*;
pub use self::time::*;
pub use self::trial::{Passed, Stopped, Trial};

/// One case of the suite.
pub struct Case<H: ConformanceStore> {
    /// The claim that the case checks.
    pub name: &'static str,
    run: fn(&Trial<'_, H>) -> Passed,
}

impl<H: ConformanceStore> fmt::Debug for Case<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Case").field(&self.name).finish()
    }
}

/// The result of a suite.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The cases that hold.
    pub passed: Vec<&'static str>,
    /// The cases that the store cannot be asked, with why.
    pub skipped: Vec<(&'static str, String)>,
    /// The cases that do not hold, with what was seen.
    pub failed: Vec<(&'static str, String)>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, why) in &self.skipped {
            writeln!(f, "skipped {name}: {why}")?;
        }
        for (name, seen) in &self.failed {
            writeln!(f, "FAILED {name}: {seen}")?;
        }
        let (passed, skipped, failed) = (self.passed.len(), self.skipped.len(), self.failed.len());
        write!(f, "{passed} passed, {skipped} skipped, {failed} failed")
    }
}

/// Runs every case on a store of its own.
pub fn run<H: ConformanceStore>(harness: &H) -> Report {
    let mut report = Report::default();
    for case in cases::<H>() {
        match (case.run)(&Trial::new(harness)) {
            Ok(()) => report.passed.push(case.name),
            Err(Stopped::Skipped(why)) => report.skipped.push((case.name, why)),
            Err(Stopped::Failed(seen)) => report.failed.push((case.name, seen)),
        }
    }
    report
}

/// Runs one case, for the tests that [`conformance_tests`](crate::conformance_tests) makes: panics
/// if it does not hold and prints why if it is skipped.
#[doc(hidden)]
pub fn assert_case<H: ConformanceStore>(harness: &H, name: &str) {
    let cases = cases::<H>();
    let case = cases.iter().find(|case| case.name == name).expect("the list of tests is the list of cases");
    match (case.run)(&Trial::new(harness)) {
        Ok(()) => {}
        Err(Stopped::Skipped(why)) => println!("skipped {name}: {why}"),
        Err(Stopped::Failed(seen)) => panic!("{name}: {seen}"),
    }
}

/// Makes one test of each case of the suite, for the harness that the expression gives.
#[macro_export]
macro_rules! conformance_tests {
    ($harness:expr) => {
        $crate::__conformance_cases!(tests $harness);
    };
}

/// All cases by name: the only list of them.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_cases {
    ($($what:tt)*) => {
        $crate::__conformance_expand! {
            [$($what)*]
            // contract
            a_refused_batch_leaves_every_counter_as_it_was
            a_batch_of_each_charges_what_is_admitted
            a_key_that_stands_twice_is_charged_twice_in_order
            a_key_that_stands_twice_is_refused_as_a_whole
            shadow_operations_refuse_nothing
            a_batch_sent_again_gives_the_same_answer_and_charges_once
            a_refused_batch_sent_again_is_refused_again
            an_id_used_for_another_batch_charges_nothing
            the_largest_batch_is_taken_and_one_more_operation_is_an_error
            what_does_not_go_with_an_algorithm_is_an_error
            // operations
            peeking_changes_nothing
            a_report_is_charged_past_the_limit
            debt_is_bounded
            a_refund_gives_back_never_more_than_is_used
            a_reset_forgets_usage_and_block
            a_block_refuses_until_it_ends_and_no_longer
            a_block_can_be_lifted
            an_undone_batch_leaves_no_charge
            undoing_leaves_what_was_charged_on_top
            undoing_twice_gives_back_once
            undoing_what_was_not_charged_gives_nothing_back
            nothing_is_given_back_for_charges_before_a_reset
            the_largest_cost_is_refused_for_good_and_breaks_nothing
            // counts
            waiting_as_told_is_enough_and_no_less_is
            changed_numbers_keep_what_is_used
            changed_numbers_keep_the_instant_where_that_is_asked_for
            a_shorter_window_reaches_no_further_ahead_of_a_clock_that_stepped_back
            permits_are_counted_by_holder
            permits_expire
            bucket_agrees_with_the_pure_code
            bucket_that_keeps_its_instant_agrees_with_the_pure_code
            fixed_window_agrees_with_the_pure_code
            calendar_agrees_with_the_pure_code
            sliding_counter_agrees_with_the_pure_code
            rolling_window_agrees_with_a_list_of_instants
            concurrency_agrees_with_a_list_of_permits
            all_algorithms_together_agree_with_the_model
            // keys
            keys_that_look_alike_when_joined_are_different_counters
            keys_of_any_bytes_and_the_longest_keys_are_counted
            // ledgers
            bucket_ledgers_lend_as_the_pure_code_does
            fixed_window_ledgers_lend_as_the_pure_code_does
            calendar_ledgers_lend_as_the_pure_code_does
            a_ledger_of_too_many_holders_serves_them_as_the_pure_code_does
            a_ledger_of_too_many_streams_serves_them_as_the_pure_code_does
            a_stream_takes_over_the_stale_lease_of_its_peer
            a_repeated_ask_gets_the_same_grant_and_changes_nothing
            asks_in_one_batch_are_answered_in_their_order
            an_ask_takes_effect_with_the_notes_beside_it
            a_refused_batch_leaves_every_ledger_as_it_was
            // notes
            notes_are_kept_by_kind_and_name
            a_refused_batch_leaves_every_note_as_it_was
            a_note_is_created_once
            a_note_ends_on_the_clock_of_the_store
            a_batch_with_notes_sent_again_writes_them_once
            a_note_out_of_bounds_is_an_error_that_changes_nothing
            // time
            the_clock_of_the_answer_is_the_clock_of_the_store
            a_clock_that_steps_back_never_admits_more
            a_clock_that_jumps_ahead_ten_years_grants_one_burst
            a_clock_that_was_ahead_locks_nobody_for_long
            the_wait_after_a_clock_that_was_ahead_outlives_restarts
            a_block_of_a_clock_that_was_ahead_lasts_as_long_as_it_was_set_for
            a_block_of_a_clock_that_was_ahead_ends_over_restarts
            // concurrent callers
            tasks_that_take_turns_admit_exactly_the_limit
            threads_admit_exactly_the_limit
            threads_that_share_some_keys_lose_no_charge
            // recovery
            what_was_counted_survives_a_restart
            what_was_answered_survives_a_restart
            what_was_noted_survives_a_restart
            what_was_lent_survives_a_restart
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_expand {
    ([tests $harness:expr] $($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                $crate::conformance::assert_case(&$harness, stringify!($name));
            }
        )*
    };
    ([list] $($name:ident)*) => {
        vec![$(Case { name: stringify!($name), run: $name },)*]
    };
}

/// All cases, in the order of the contract.
pub fn cases<H: ConformanceStore>() -> Vec<Case<H>> {
    crate::__conformance_cases!(list)
}
