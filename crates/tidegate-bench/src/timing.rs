//! Measuring candidates side by side: all of them in turn inside each repetition, so that whatever
//! else the machine does falls on all alike.

use std::fmt;
use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

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
        Self { name: name.to_owned(), side, rarity: 1, budgets: [None; 2], run: Box::new(run) }
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
        Self { name: name.to_owned(), side, rarity: 1, budgets: [None; 2], run: Box::new(run) }
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
    fn of(mut figures: Vec<f64>) -> Self {
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
        all.into_iter().map(Figures::of).collect::<Vec<_>>()
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

/// Nanoseconds a decision and thread, over one repetition.
///
/// Panics if the candidate did not decide as the scenario says: whoever does less work is not
/// compared.
fn once(scenario: &Scenario, candidate: &Candidate, threads: usize) -> f64 {
    let calls = scenario.calls / candidate.rarity;
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let barrier = Barrier::new(threads);
    let total: f64 = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..threads)
            .map(|thread| {
                // One thread runs on the last core, which has the fewest interrupts.
                let core = cores.len().checked_sub(1 + thread).map(|index| cores[index]);
                let (barrier, run) = (&barrier, &candidate.run);
                scope.spawn(move || {
                    core.map(core_affinity::set_for_current);
                    let share = Share { first: thread * (crate::workload::DRAWS / 2), calls };
                    barrier.wait();
                    let start = Instant::now();
                    let admitted = run(share);
                    (start.elapsed(), admitted)
                })
            })
            .collect();
        runs.into_iter()
            .map(|run| {
                let (took, admitted) = run.join().expect("a measurement does not panic");
                if let Some(admits) = scenario.admits {
                    let expected = if admits { calls as u64 } else { 0 };
                    assert!(
                        admitted == expected,
                        "{} admitted {admitted} of {calls} in \"{}\"",
                        candidate.name,
                        scenario.title
                    );
                }
                took.as_nanos() as f64 / calls as f64
            })
            .sum()
    });
    total / threads as f64
}
