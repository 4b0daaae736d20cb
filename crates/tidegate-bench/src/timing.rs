//! Measuring candidates side by side: all of them in turn inside each repetition, so that whatever
//! else the machine does falls on all alike.

use std::fmt;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Whose code is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Tidegate.
    Ours,
    /// Somebody else's.
    Rival,
    /// The floor of a decision: a clock, or one exchange of an atomic.
    Floor,
}

/// The work of one thread in one repetition.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// The first index the thread passes on; threads start apart.
    pub first: usize,
    /// How many decisions it makes.
    pub calls: usize,
}

type Run = Box<dyn Fn(Share) -> u64 + Send + Sync>;

/// Something that decides.
pub struct Candidate {
    /// Its name in the table.
    pub name: String,
    /// Whose it is.
    pub side: Side,
    /// One in how many calls of the scenario it is asked: slow ones need fewer to be measured.
    pub rarity: usize,
    /// The runs of a repetition.
    pub runs: usize,
    /// The budget in nanoseconds for one thread and for two; `None` without a budget.
    pub budgets: [Option<f64>; 2],
    run: Run,
}

impl Candidate {
    /// A candidate that decides one request at a time; `decide` is called with an index and says
    /// whether it admitted.
    pub fn each(name: &str, side: Side, decide: impl Fn(usize) -> bool + Send + Sync + 'static) -> Self {
        let run = move |share: Share| {
            let mut admitted = 0;
            for index in share.first..share.first + share.calls {
                admitted += u64::from(black_box(decide(index)));
            }
            admitted
        };
        Self { name: name.to_owned(), side, rarity: 1, runs: SLICES, budgets: [None; 2], run: Box::new(run) }
    }

    /// A candidate that decides `batch` requests at a time and says how many of them it admitted.
    pub fn batched(
        name: &str,
        side: Side,
        batch: usize,
        decide: impl Fn(usize) -> u64 + Send + Sync + 'static,
    ) -> Self {
        let run = move |share: Share| {
            let batches = (share.first..share.first + share.calls).step_by(batch);
            batches.map(|index| black_box(decide(index))).sum()
        };
        Self { name: name.to_owned(), side, rarity: 1, runs: SLICES, budgets: [None; 2], run: Box::new(run) }
    }

    /// Makes these decisions; how many of them admitted.
    pub fn run(&self, share: Share) -> u64 {
        (self.run)(share)
    }

    /// Gives it a budget for one thread.
    #[must_use]
    pub fn within(mut self, nanos: f64) -> Self {
        self.budgets[0] = Some(nanos);
        self
    }

    /// Gives it a budget for each of two threads.
    #[must_use]
    pub fn within_by_two(mut self, nanos: f64) -> Self {
        self.budgets[1] = Some(nanos);
        self
    }

    /// Asks it only one in `rarity` calls.
    #[must_use]
    pub fn rarely(mut self, rarity: usize) -> Self {
        self.rarity = rarity;
        self
    }

    /// Makes so many runs of a repetition rather than 64, where one takes long.
    #[must_use]
    pub fn in_runs(mut self, runs: usize) -> Self {
        self.runs = runs;
        self
    }
}

impl fmt::Debug for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidate")
            .field("name", &self.name)
            .field("side", &self.side)
            .finish_non_exhaustive()
    }
}

/// Requests that are all admitted or all refused, and those who decide them.
#[derive(Debug)]
pub struct Scenario {
    /// The title of the scenario.
    pub title: String,
    /// Whether every decision is to admit; if not, every one is to refuse. `None` where it is
    /// mixed.
    pub admits: Option<bool>,
    /// Decisions a thread makes in a repetition.
    pub calls: usize,
    /// The candidates that decide.
    pub candidates: Vec<Candidate>,
}

/// The times of a candidate, in nanoseconds a decision and thread.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The median over the repetitions.
    pub median: f64,
    /// The least of the repetitions.
    pub least: f64,
    /// The most.
    pub most: f64,
}

impl Figures {
    fn new(mut figures: Vec<f64>) -> Self {
        figures.sort_by(f64::total_cmp);
        let (least, most) = (figures[0], figures[figures.len() - 1]);
        Self { median: figures[figures.len() / 2], least, most }
    }
}

/// How often and how widely to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Repetitions; the figure is their median.
    pub repetitions: usize,
    /// Rounds of repetitions; the figure is the least of their medians. On a machine that does
    /// other work at the same time, a round may be disturbed as a whole.
    pub rounds: usize,
}

/// Measures all candidates with this many threads.
pub fn measure(scenario: &Scenario, threads: usize, effort: Effort) -> Vec<Figures> {
    let round = || {
        let mut all: Vec<Vec<f64>> = scenario.candidates.iter().map(|_| Vec::new()).collect();
        for _ in 0..effort.repetitions {
            for (candidate, figures) in scenario.candidates.iter().zip(&mut all) {
                figures.push(once(scenario, candidate, threads));
            }
        }
        all.into_iter().map(Figures::new).collect::<Vec<_>>()
    };
    let mut best = round();
    for _ in 1..effort.rounds {
        for (best, again) in best.iter_mut().zip(round()) {
            if again.median < best.median {
                *best = again;
            }
        }
    }
    best
}

/// The runs of a repetition. One is short enough that most runs fit between two decisions of the
/// scheduler on a machine that does other work.
const SLICES: usize = 64;

/// The part of the longest thread's time in which all threads of a run must have worked together.
const TOGETHER: f64 = 0.9;

/// Nanoseconds a decision and thread, over one repetition.
///
/// The repetition is made in short runs. The figure is the median of those in which all threads
/// ran together: where the scheduler starts one when another has ended, nothing is contended.
/// Where none ran together it is the median of all.
///
/// Panics if the candidate did not decide as the scenario says: whoever does less work is not
/// compared.
fn once(scenario: &Scenario, candidate: &Candidate, threads: usize) -> f64 {
    let calls = (scenario.calls / candidate.rarity / candidate.runs).max(1);
    let runs: Vec<TimedRun> = (0..candidate.runs)
        .map(|slice| run_threads(scenario, candidate, threads, slice * calls, calls))
        .collect();
    let together: Vec<f64> =
        runs.iter().filter(|run| run.together >= TOGETHER).map(|run| run.nanos).collect();
    let figures = if together.is_empty() { runs.iter().map(|run| run.nanos).collect() } else { together };
    Figures::new(figures).median
}

/// One run of all threads.
#[derive(Clone, Copy, Debug)]
struct TimedRun {
    /// Nanoseconds a decision and thread.
    nanos: f64,
    /// The time in which all threads worked, as a part of the longest one's.
    together: f64,
}

fn run_threads(
    scenario: &Scenario,
    candidate: &Candidate,
    threads: usize,
    first: usize,
    calls: usize,
) -> TimedRun {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let (ready, begun) = (AtomicUsize::new(0), Instant::now());
    let spans: Vec<[f64; 2]> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..threads)
            .map(|thread| {
                // One thread runs on the last core, which has the fewest interrupts.
                let core = cores.len().checked_sub(1 + thread).map(|index| cores[index]);
                let ready = &ready;
                scope.spawn(move || {
                    core.map(core_affinity::set_for_current);
                    let share = Share { first: first + thread * (crate::workload::DRAWS / 2), calls };
                    ready.fetch_add(1, Ordering::SeqCst);
                    while ready.load(Ordering::SeqCst) < threads {
                        std::hint::spin_loop();
                    }
                    let start = begun.elapsed();
                    let admitted = candidate.run(share);
                    (start, begun.elapsed(), admitted)
                })
            })
            .collect();
        let span = |(start, end, admitted): (Duration, Duration, u64)| {
            if let Some(admits) = scenario.admits {
                let expected = if admits { calls as u64 } else { 0 };
                assert!(
                    admitted == expected,
                    "{} admitted {admitted} of {calls} in \"{}\"",
                    candidate.name,
                    scenario.title
                );
            }
            [start, end].map(|at| at.as_nanos() as f64)
        };
        runs.into_iter().map(|run| span(run.join().expect("a measurement does not panic"))).collect()
    });
    let last_start = spans.iter().map(|span| span[0]).fold(0.0, f64::max);
    let first_end = spans.iter().map(|span| span[1]).fold(f64::MAX, f64::min);
    let took = spans.iter().map(|[start, end]| end - start);
    let longest = took.clone().fold(0.0, f64::max);
    TimedRun {
        nanos: took.sum::<f64>() / threads as f64 / calls as f64,
        together: (first_end - last_start) / longest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_is_made_once_by_one_thread_and_by_two() {
        let made = std::sync::Arc::new(AtomicUsize::new(0));
        let counted = std::sync::Arc::clone(&made);
        let count = Candidate::each("counts", Side::Ours, move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            true
        });
        let scenario = Scenario {
            title: String::new(),
            admits: Some(true),
            calls: 128 * SLICES,
            candidates: vec![count],
        };
        for threads in [1, 2] {
            let before = made.load(Ordering::Relaxed);
            let figures = measure(&scenario, threads, Effort { repetitions: 1, rounds: 1 });
            assert_eq!(made.load(Ordering::Relaxed) - before, threads * scenario.calls);
            assert!(figures[0].median > 0.0);
        }
    }
}
