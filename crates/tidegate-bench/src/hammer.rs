//! Two threads against one `rolling` limit: is any window ever over it?
//!
//! Every admitted instant is written down, the lists of both threads are merged, and every window
//! that begins with an admission is counted.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use tidegate_core::algorithm::Rolling;
use tidegate_core::{Algorithm, Cost};

use crate::calls::{HOT, check_one, gate_of_one};
use crate::workload::{Clock, table_of_words};

/// Threads that hammer.
const THREADS: usize = 2;

/// How a limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The rings themselves.
    Ring,
    /// A gate, by key.
    Gate,
}

/// The result of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hammered {
    /// Decisions that admitted.
    pub admitted: u64,
    /// Decisions that refused.
    pub refused: u64,
    /// Windows with more admissions than the limit.
    pub windows_over: u64,
    /// The most admissions in a window.
    pub most: u64,
    /// Nanoseconds a call and thread.
    pub ns_a_call: f64,
}

/// Between which instants an admission was counted.
#[derive(Clone, Copy, Debug)]
struct Admitted {
    earliest: u64,
    latest: u64,
}

/// Calls a limit of `limit` in any `window` `calls` times in all.
///
/// A ring says at which instant it counted a unit: the `now` of the decision, or the instant of the
/// unit before if that was later, as happens when a thread is put aside between reading the clock
/// and deciding. A gate does not say; there it lies between the `now` of the decision and the clock
/// after it, and only a window that is over the limit wherever those instants lie is counted.
pub fn hammer(way: Way, limit: u64, window: Duration, calls: u64) -> Hammered {
    let rolling = Rolling::new(limit, window).expect("the numbers are valid");
    let clock = Clock::start();
    match way {
        Way::Ring => {
            let rings = tidegate_core::ring::Rings::new(16 << 20);
            let ring = rings.create().expect("there is room for one ring");
            run(limit, window, calls, || {
                let charge = rings.admit(ring, &rolling, Cost::ONE, clock.now()).ok()?;
                let at = charge.at().as_nanos();
                Some(Admitted { earliest: at, latest: at })
            })
        }
        Way::Gate => {
            let mut table = table_of_words(16 << 20);
            table.ring_share_percent = 50;
            let gate = gate_of_one(Algorithm::Rolling(rolling), table);
            run(limit, window, calls, || {
                let now = clock.now();
                check_one(&gate, HOT, now)
                    .then(|| Admitted { earliest: now.as_nanos(), latest: clock.now().as_nanos() })
            })
        }
    }
}

fn run(limit: u64, window: Duration, calls: u64, admit: impl Fn() -> Option<Admitted> + Sync) -> Hammered {
    let each = calls / THREADS as u64;
    let barrier = Barrier::new(THREADS);
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let (lists, took): (Vec<Vec<Admitted>>, Vec<Duration>) = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (barrier, admit) = (&barrier, &admit);
                let core = (!cores.is_empty()).then(|| cores[thread % cores.len()]);
                scope.spawn(move || {
                    core.map(core_affinity::set_for_current);
                    barrier.wait();
                    let start = Instant::now();
                    let admitted: Vec<_> = (0..each).filter_map(|_| admit()).collect();
                    (admitted, start.elapsed())
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a hammer does not panic")).unzip()
    });
    let all = lists.concat();
    let (windows_over, most) = count_over(&all, limit, window);
    let admitted = all.len() as u64;
    let calls = each * THREADS as u64;
    Hammered {
        admitted,
        refused: calls - admitted,
        windows_over,
        most,
        ns_a_call: took.iter().sum::<Duration>().as_nanos() as f64 / calls as f64,
    }
}

/// How many windows that begin with an admission surely hold more than `limit` of them, and the
/// most that one holds.
fn count_over(admitted: &[Admitted], limit: u64, window: Duration) -> (u64, u64) {
    let window = window.as_nanos() as u64;
    let mut earliest: Vec<u64> = admitted.iter().map(|one| one.earliest).collect();
    let mut latest: Vec<u64> = admitted.iter().map(|one| one.latest).collect();
    earliest.sort_unstable();
    latest.sort_unstable();
    let (mut before, mut within, mut over, mut most) = (0_usize, 0_usize, 0, 0);
    for &begin in &earliest {
        while earliest[before] < begin {
            before += 1;
        }
        while latest.get(within).is_some_and(|latest| *latest < begin + window) {
            within += 1;
        }
        // Those surely before the window ends, without those that may lie before it begins.
        let held = within.saturating_sub(before) as u64;
        most = most.max(held);
        over += u64::from(held > limit);
    }
    (over, most)
}

/// The limits that [`table`] hammers.
pub const LIMITS: [u64; 4] = [10, 100, 1_000, 10_000];
/// The windows.
pub const WINDOWS: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(100)];

/// Hammers every limit in every window both ways, with `calls` in all, and says whether no window
/// was over.
pub fn table(calls: u64) -> (String, bool) {
    let each = calls / (LIMITS.len() * WINDOWS.len() * 2) as u64;
    let mut holds = true;
    let mut text =
        "| N | window | through | admitted | refused | most in a window | windows over | ns a call |\n\
                    |---|---|---|---|---|---|---|---|\n"
            .to_owned();
    for limit in LIMITS {
        for window in WINDOWS {
            for way in [Way::Ring, Way::Gate] {
                let Hammered { admitted, refused, windows_over, most, ns_a_call } =
                    hammer(way, limit, window, each);
                holds &= windows_over == 0;
                let way = if way == Way::Ring { "ring" } else { "gate" };
                text += &format!(
                    "| {limit} | {window:?} | {way} | {admitted} | {refused} | {most} | {windows_over} | {ns_a_call:.0} |\n"
                );
            }
        }
    }
    (text, holds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(instants: &[u64]) -> Vec<Admitted> {
        instants.iter().map(|&at| Admitted { earliest: at, latest: at }).collect()
    }

    #[test]
    fn a_window_over_the_limit_is_found() {
        let window = Duration::from_nanos(10);
        assert_eq!(count_over(&at(&[0, 1, 2, 10, 11]), 3, window), (0, 3));
        assert_eq!(count_over(&at(&[11, 0, 1, 2, 9]), 3, window), (1, 4));
    }

    #[test]
    fn an_admission_that_may_lie_outside_is_not_held_against_a_window() {
        let mut admitted = at(&[0, 1, 2]);
        admitted.push(Admitted { earliest: 3, latest: 12 });
        assert_eq!(count_over(&admitted, 3, Duration::from_nanos(10)), (0, 3));
    }
}
