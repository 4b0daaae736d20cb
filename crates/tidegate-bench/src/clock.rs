//! The clock of the machine beside `Instant`: how far apart they are, and what a start and a rare
//! reading cost.

use std::hint::black_box;
use std::time::{Duration, Instant};

use tidegate_clock::{Clock, SystemClock};
use tidegate_core::Timestamp;

/// How far a reading may be from `Instant`.
const DEVIATION_NS_MAX: u64 = 100_000;

/// Pauses between readings: within a segment of the clock, and longer than one.
const PAUSES: [Duration; 3] =
    [Duration::from_micros(1), Duration::from_micros(10), Duration::from_micros(100)];

/// The clock as it was before it read the counter: the wall clock at the start, and `Instant`.
#[derive(Debug)]
pub struct InstantClock {
    anchor: Timestamp,
    started: Instant,
}

impl InstantClock {
    /// A clock that starts from the wall clock now.
    #[expect(clippy::new_without_default, reason = "as the clock that it is compared with")]
    pub fn new() -> Self {
        Self { anchor: Timestamp::from(std::time::SystemTime::now()), started: Instant::now() }
    }

    /// The present instant.
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.anchor.saturating_add(self.started.elapsed())
    }
}

/// The deviations that were found.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClockFigures {
    /// Readings that were compared with `Instant`.
    pub compared: u64,
    /// How often a reading was before an earlier one of its thread.
    pub back: u64,
    /// The furthest that a reading was outside of the two of `Instant` around it.
    pub deviation_ns: u64,
}

impl ClockFigures {
    /// Whether the clock kept its promise.
    pub fn holds(&self) -> bool {
        self.back == 0 && self.deviation_ns <= DEVIATION_NS_MAX
    }
}

/// Compares the clock with `Instant` on that many threads for `span`. Each reading lies between two
/// of `Instant`; what a reading is outside of them is its deviation.
pub fn compare(span: Duration, threads: usize) -> ClockFigures {
    let clock = SystemClock::new();
    // The time of both at once: of several pairs, the one that was read in the least time.
    let pairs = (0..1000).map(|_| {
        let before = Instant::now();
        let now = clock.now();
        (before.elapsed(), before, now)
    });
    let (_, started, anchor) = pairs.min_by_key(|(took, ..)| *took).expect("there are pairs");
    let one = |_| {
        let mut figures = ClockFigures::default();
        let mut latest = Timestamp::MIN;
        while started.elapsed() < span {
            let before = anchor.saturating_add(started.elapsed());
            let now = clock.now();
            let after = anchor.saturating_add(started.elapsed());
            let outside = now.saturating_since(after).max(before.saturating_since(now));
            figures.deviation_ns = figures.deviation_ns.max(outside.as_nanos() as u64);
            figures.back += u64::from(now < latest);
            figures.compared += 1;
            latest = now;
            // Many readings within a segment between two that are compared.
            for _ in 0..figures.compared % 64 {
                let now = clock.now();
                figures.back += u64::from(now < latest);
                latest = now;
            }
        }
        figures
    };
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..threads).map(|thread| scope.spawn(move || one(thread))).collect();
        let runs = runs.into_iter().map(|run| run.join().expect("a measurement does not panic"));
        runs.reduce(|all, one| ClockFigures {
            compared: all.compared + one.compared,
            back: all.back + one.back,
            deviation_ns: all.deviation_ns.max(one.deviation_ns),
        })
        .unwrap_or_default()
    })
}

/// The mean time of a reading that comes `pause` after the one before it, in nanoseconds. A reading
/// that took longer than 10 us was put aside, and is left out.
fn spaced_reading_ns(pause: Duration, read: impl Fn() -> Timestamp) -> f64 {
    let spans = (0..20_000).map(|_| {
        let last = Instant::now();
        while last.elapsed() < pause {
            std::hint::spin_loop();
        }
        time_ns(&read)
    });
    let spans: Vec<f64> = spans.filter(|span| *span < 10_000.0).collect();
    spans.iter().sum::<f64>() / spans.len().max(1) as f64
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Measures the clock for `span`, and prints what it was.
pub fn report(span: Duration, threads: usize) -> ClockFigures {
    let begun = Instant::now();
    let clock = SystemClock::new();
    let first = begun.elapsed();
    let later = median((0..1000).map(|_| time_ns(SystemClock::new)).collect());
    println!("start: {} ns the first clock of the process, {later} ns another", first.as_nanos());
    let figures = compare(span, threads);
    println!(
        "{threads} threads, {span:?}: {} compared, {} back, at most {} ns from Instant",
        figures.compared, figures.back, figures.deviation_ns
    );
    let former = InstantClock::new();
    for pause in PAUSES {
        let nothing = spaced_reading_ns(pause, || Timestamp::MIN);
        let before = spaced_reading_ns(pause, || former.now()) - nothing;
        let now = spaced_reading_ns(pause, || clock.now()) - nothing;
        println!("a reading each {pause:?}: Instant {before:.0} ns, the clock {now:.0} ns");
    }
    figures
}

fn time_ns<T>(make: impl Fn() -> T) -> f64 {
    let begun = Instant::now();
    black_box(make());
    begun.elapsed().as_nanos() as f64
}
