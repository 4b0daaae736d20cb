//! `tidegate-bench`: measurements of Tidegate, and of its rivals beside it.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use tidegate_bench::flood::{Flood, describe, flood};
use tidegate_bench::instructions::{self, Kind};
use tidegate_bench::memory::{self, Keeper};
use tidegate_bench::report::{Extent, compare, many_keys, replaced_in, write_between_markers};
use tidegate_bench::scenario::many_keys_wait::{Calls, ManyKeys, Popularity};
use tidegate_bench::timing::Effort;
use tidegate_bench::{clock, gated_paths, hammer, machine, windows};

#[derive(Debug, Parser)]
#[command(about = "Measures Tidegate, and its rivals beside it when built with --features rivals")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Times scenarios with all candidates in turn, and prints Markdown.
    Compare {
        /// Scenarios; all of them if none is named.
        scenarios: Vec<String>,
        /// Writes between the markers of this document instead of printing.
        #[arg(long)]
        write: Option<PathBuf>,
        /// Repetitions of which the median is taken.
        #[arg(long, default_value_t = 7)]
        repetitions: usize,
        /// Rounds of repetitions of which the least is taken.
        #[arg(long, default_value_t = 3)]
        rounds: usize,
        /// Leaves out memory and the worst call, which take minutes.
        #[arg(long)]
        no_memory: bool,
        /// Leaves out the counts of instructions and allocations.
        #[arg(long)]
        no_instructions: bool,
    },
    /// Two threads against `rolling` limits; fails if any window was over.
    Hammer {
        /// Calls in all.
        #[arg(long, default_value_t = 100_000_000)]
        calls: u64,
    },
    /// Unique keys against a small table; fails if it grows or forgets a used-up quota.
    Flood {
        /// Seconds of the table's time.
        #[arg(long, default_value_t = Flood::FULL.seconds)]
        seconds: u64,
    },
    /// Compares the clock with `Instant`; fails if they are 0.1 ms apart, or it goes back.
    Clock {
        /// Seconds.
        #[arg(long, default_value_t = 10)]
        seconds: u64,
        /// Threads that read it.
        #[arg(long, default_value_t = 2)]
        threads: usize,
    },
    /// Admissions by the second of callers that ask for more than their limit, as JSON.
    Windows,
    /// Counts instructions and allocations a call, if valgrind is installed.
    Instructions,
    /// Makes the calls that the gate counts under callgrind.
    GatedPaths,
    /// Makes calls of one kind, for valgrind or perf.
    Work {
        /// The kind.
        #[arg(long)]
        kind: Kind,
        /// How many calls.
        #[arg(long, default_value_t = 100_000)]
        calls: u64,
    },
    /// Times single checks and batches among many keys by one thread, with keys in memory and made.
    ManyKeys {
        /// How many keys, all of which are in the table.
        #[arg(long, default_value_t = 1_000_000)]
        keys: usize,
        /// MiB of the table.
        #[arg(long, default_value_t = 32)]
        table_mib: usize,
        /// How popular the keys are.
        #[arg(long, default_value = "zipf")]
        popularity: Popularity,
        /// The calls.
        #[arg(long, default_value = "gate")]
        calls: Calls,
        /// Repetitions of which the median is taken.
        #[arg(long, default_value_t = 7)]
        repetitions: usize,
    },
    /// Fills one keeper of keys and prints bytes a key, worst ns, mean ns, and keys without room.
    Fill {
        /// The rival that keeps the keys.
        #[arg(long)]
        keeper: Keeper,
        /// How many keys.
        #[arg(long, default_value_t = 1_000_000)]
        keys: usize,
    },
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Compare { scenarios, write, repetitions, rounds, no_memory, no_instructions } => {
            let extent = Extent {
                effort: Effort { repetitions: repetitions.max(1), rounds: rounds.max(1) },
                with_memory: !no_memory && scenarios.is_empty(),
                with_instructions: !no_instructions && scenarios.is_empty(),
            };
            let report = || {
                if let Some(path) = &write {
                    replaced_in(path, "")?;
                }
                let text = compare(&scenarios, extent)?;
                match &write {
                    Some(path) => write_between_markers(path, &text)?,
                    None => println!("{text}"),
                }
                Ok::<_, String>(())
            };
            let report = report();
            match report {
                Ok(()) => ExitCode::SUCCESS,
                Err(problem) => {
                    eprintln!("{problem}");
                    ExitCode::FAILURE
                }
            }
        }
        Command::Hammer { calls } => {
            let (text, holds) = hammer::table(calls);
            println!("{}\n{text}", machine::description());
            verdict(holds)
        }
        Command::Flood { seconds } => {
            let hard = Flood { seconds, ..Flood::FULL };
            let flooded = flood(&hard);
            print!("{}", describe(&hard, &flooded));
            verdict(flooded.holds(&hard))
        }
        Command::Clock { seconds, threads } => {
            verdict(clock::report(Duration::from_secs(seconds), threads.max(1)).holds())
        }
        Command::Windows => {
            print!("{}", windows::report());
            ExitCode::SUCCESS
        }
        Command::Instructions => {
            println!("{}", instructions::table());
            ExitCode::SUCCESS
        }
        Command::GatedPaths => {
            gated_paths::run();
            ExitCode::SUCCESS
        }
        Command::Work { kind, calls } => {
            println!("{}", instructions::work(kind, calls));
            ExitCode::SUCCESS
        }
        Command::ManyKeys { keys, table_mib, popularity, calls, repetitions } => {
            let many = ManyKeys { keys, table_bytes: table_mib << 20, popularity, calls };
            print!("{}", many_keys(many, Effort { repetitions: repetitions.max(1), rounds: 1 }));
            ExitCode::SUCCESS
        }
        Command::Fill { keeper, keys } => {
            memory::print(&memory::fill(keeper, keys));
            ExitCode::SUCCESS
        }
    }
}

fn verdict(holds: bool) -> ExitCode {
    println!("{}", if holds { "held" } else { "DID NOT HOLD" });
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
