//! The memory of a key, and the slowest single call while a table fills.
//!
//! Each figure is taken in a process of its own, since an allocator does not give back what it once
//! had.

use std::process::Command;
use std::time::Instant;

use crate::calls::{check_one, gate_of_one};
use crate::machine::{nanos_put_aside, resident_bytes};
use crate::workload::{self, Clock, table_of_words};

/// Whose memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Keeper {
    /// Tidegate's table, sized for the number of keys.
    Tidegate,
    /// `governor` with its default store.
    Governor,
    /// `throttlecrab` with its server's default store.
    Throttlecrab,
    /// `ratelimit` in a `dashmap`.
    Ratelimit,
}

impl Keeper {
    /// All that this build has.
    pub const ALL: &[Self] = if cfg!(feature = "rivals") {
        &[Self::Tidegate, Self::Governor, Self::Throttlecrab, Self::Ratelimit]
    } else {
        &[Self::Tidegate]
    };

    const fn name(self) -> &'static str {
        match self {
            Self::Tidegate => "tidegate",
            Self::Governor => "governor",
            Self::Throttlecrab => "throttlecrab",
            Self::Ratelimit => "ratelimit",
        }
    }
}

/// Bytes of table for each key it is sized for: at 20 bytes, four words in five are taken.
const BYTES_SIZED: usize = 20;

/// Calls that take longer are looked at twice: was the thread put aside in the middle?
const SLOW_NS: u64 = 20_000;

/// The cost of filling a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Filled {
    /// Bytes of the process for each key.
    pub bytes_a_key: f64,
    /// Nanoseconds of the slowest call.
    pub worst_ns: u64,
    /// Nanoseconds of a call on average, with making the key and reading the clock.
    pub mean_ns: f64,
    /// Keys that found no room.
    pub refused: u64,
}

impl Filled {
    /// Reads what [`print`] writes.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        Some(Self {
            bytes_a_key: words.next()?.parse().ok()?,
            worst_ns: words.next()?.parse().ok()?,
            mean_ns: words.next()?.parse().ok()?,
            refused: words.next()?.parse().ok()?,
        })
    }
}

/// Brings `keys` keys to a keeper that had none, in this process.
pub fn fill(keeper: Keeper, keys: usize) -> Filled {
    let clock = Clock::start();
    match keeper {
        Keeper::Tidegate => {
            let bytes = resident_bytes();
            let gate = gate_of_one(workload::endless(), table_of_words(keys * BYTES_SIZED));
            timed(bytes, keys, |key| check_one(&gate, key, clock.now()))
        }
        #[cfg(feature = "rivals")]
        Keeper::Governor => {
            let bytes = resident_bytes();
            let governor = crate::rival::Governor::new(crate::rival::Numbers::ENDLESS);
            timed(bytes, keys, |key| governor.check(key))
        }
        #[cfg(feature = "rivals")]
        Keeper::Throttlecrab => {
            let bytes = resident_bytes();
            let crab = crate::rival::Crab::new(crate::rival::Numbers::ENDLESS);
            timed(bytes, keys, |key| crab.check(key))
        }
        #[cfg(feature = "rivals")]
        Keeper::Ratelimit => {
            let bytes = resident_bytes();
            let ratelimits = crate::rival::Ratelimits::new(crate::rival::Numbers::ENDLESS);
            timed(bytes, keys, |key| ratelimits.check(key))
        }
        #[cfg(not(feature = "rivals"))]
        _ => panic!("build with --features rivals to measure rivals"),
    }
}

fn timed(bytes_before: u64, keys: usize, check: impl Fn(&String) -> bool) -> Filled {
    let (mut worst_ns, mut refused) = (0, 0);
    let mut put_aside = nanos_put_aside();
    let start = Instant::now();
    for number in 0..keys {
        let key = workload::key(number);
        let before = Instant::now();
        let admitted = check(&key);
        let mut took = before.elapsed().as_nanos() as u64;
        if took > SLOW_NS {
            // Other processes ran meanwhile: that says nothing of the table.
            let now = nanos_put_aside();
            took = took.saturating_sub(now - put_aside);
            put_aside = now;
        }
        worst_ns = worst_ns.max(took);
        refused += u64::from(!admitted);
    }
    let mean_ns = start.elapsed().as_nanos() as f64 / keys as f64;
    let bytes = resident_bytes().saturating_sub(bytes_before);
    Filled { bytes_a_key: bytes as f64 / keys as f64, worst_ns, mean_ns, refused }
}

/// The figures in a line that [`fill_in_process`] reads.
pub fn print(filled: &Filled) {
    println!("{} {} {} {}", filled.bytes_a_key, filled.worst_ns, filled.mean_ns, filled.refused);
}

/// [`fill`] in a new process, so often; the least of each figure, since other processes only add to
/// them.
pub fn fill_in_process(keeper: Keeper, keys: usize, times: usize) -> Result<Filled, String> {
    let mut best: Option<Filled> = None;
    for _ in 0..times {
        let this = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
        let output = Command::new(this)
            .args(["fill", "--keeper", keeper.name(), "--keys", &keys.to_string()])
            .output()
            .map_err(|error| format!("cannot start this program again: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let now = Filled::parse(&text).ok_or_else(|| {
            format!("{} failed: {}", keeper.name(), String::from_utf8_lossy(&output.stderr))
        })?;
        best = Some(best.map_or(now, |best| Filled {
            bytes_a_key: best.bytes_a_key.min(now.bytes_a_key),
            worst_ns: best.worst_ns.min(now.worst_ns),
            mean_ns: best.mean_ns.min(now.mean_ns),
            refused: best.refused.max(now.refused),
        }));
    }
    best.ok_or_else(|| "measured no times".to_owned())
}

/// The table of the report.
pub fn table(worst_keys: usize) -> Result<String, String> {
    let mut text = format!(
        "\n### Memory a key, and the worst single call\n\nKeys of 20 characters, one process a figure; the table of \
         Tidegate is sized at {BYTES_SIZED} bytes a key. The\nworst call is the least of three runs, without the \
         time in which the process was not running.\n\n\
         | | bytes a key, 1 M | bytes a key, 5 M | worst call at {} M | keys without room |\n|---|---|---|---|---|\n",
        worst_keys / 1_000_000
    );
    text += "| budget | | 24 | 1 ms | |\n";
    for keeper in Keeper::ALL {
        let one = fill_in_process(*keeper, 1_000_000, 1)?;
        let five = fill_in_process(*keeper, 5_000_000, 1)?;
        let worst = fill_in_process(*keeper, worst_keys, 3)?;
        let refused = one.refused + five.refused + worst.refused;
        let ours = if *keeper == Keeper::Tidegate { "**" } else { "" };
        text += &format!(
            "| {ours}{}{ours} | {:.1} | {:.1} | {:.3} ms | {refused} |\n",
            keeper.name(),
            one.bytes_a_key,
            five.bytes_a_key,
            worst.worst_ns as f64 / 1e6
        );
    }
    Ok(text)
}
