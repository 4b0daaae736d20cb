//! Instructions and allocations a call of the paths that must stay quick, held against committed
//! baselines (`cargo xtask instructions`).
//!
//! `tidegate-bench gated-paths`, built in the profile `release`, calls each path under callgrind.
//! Counts do not depend on what else the machine does. They depend on the compiler and on the C
//! library, so baselines of another version of either are not compared.

use std::fmt::{self, Write};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{cargo, output_of, succeeds, target_directory};
use crate::steps::{StepReport, skipped};
use crate::tally::Tally;
use crate::{checkout, prerequisites};

/// The baselines, from the root of the checkout.
const BASELINES: &str = "crates/tidegate-bench/instructions.txt";

/// The command that writes them.
const BLESS: &str = "cargo xtask instructions --bless";

/// How far above its baseline a path may be, in percent.
const ALLOWED_PERCENT: f64 = 3.0;

/// How many allocations a call make no difference: counts have two digits after the point.
const SAME_ALLOCATIONS: f64 = 0.01;

/// Settings of glibc under which counts repeat.
///
/// glibc chooses its memory functions by the processor. Without these features it chooses those for
/// SSE2, which every x86-64 has. The last two keep the allocator from taking another course when
/// large blocks were freed before, or when small ones lie elsewhere.
const PIN: &str = "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX2,-AVX,-AVX_Fast_Unaligned_Load,\
                   -BMI2,-BMI1,-ERMS,-FSRM,-SSE4_2,-SSE4_1,-SSSE3,-RTM:\
                   glibc.malloc.mmap_threshold=131072:glibc.malloc.mxfast=0";

/// The function of `tidegate-bench` that ends a count. Names of functions are mangled.
const END_OF_WORK: &str = "*end_of_work*";

/// How often each path is called; the first time is not looked at.
const DUMPS_OF_PATH: usize = 3;

/// The functions of the C library that allocate.
const ALLOCATORS: [&str; 5] = ["malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc"];

/// The beginning of the committed file.
const HEADING: &str = "\
# Instructions and allocations a call of the paths that the gate counts (docs/internals/gate.md).
# `cargo xtask instructions --bless` writes this file. Other versions of Rust and of the C library
# are not compared with it.
";

/// The versions and settings that counts depend on, beside the code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct CountedWith {
    rust: String,
    target: String,
    libc: String,
    /// [`PIN`].
    pin: String,
}

/// The cost of a call.
#[derive(Clone, Debug, PartialEq)]
struct PathCost {
    name: String,
    instructions: f64,
    allocations: f64,
}

/// The committed file.
#[derive(Clone, Debug, Default, PartialEq)]
struct Baselines {
    counted_with: CountedWith,
    paths: Vec<PathCost>,
}

/// Counts, and compares with the baselines. Skipped where nothing can be counted or compared.
pub(crate) fn check() -> StepReport {
    let valgrind = match prerequisites::valgrind() {
        Ok(valgrind) => valgrind,
        Err(reason) => return skipped(reason),
    };
    let compared = read_baselines().and_then(|baselines| {
        let here = CountedWith::here()?;
        if let Some(difference) = baselines.counted_with.other_toolchain(&here) {
            return Ok(skipped(difference));
        }
        if baselines.counted_with.pin != here.pin {
            return Err(format!("{BASELINES} was counted with other settings of glibc; run `{BLESS}`"));
        }
        let counted = count(&valgrind)?;
        Ok(compare(&baselines.paths, &counted))
    });
    compared.unwrap_or_else(|error| {
        println!("{error}");
        StepReport { tally: Tally::FAILED, ..StepReport::default() }
    })
}

/// As [`check`], as a command; true if nothing failed.
pub(crate) fn run_check() -> bool {
    let report = check();
    println!("\n{}", report.tally);
    report.tally.failed == 0
}

/// Writes the baselines anew; false if that cannot be done.
pub(crate) fn bless() -> bool {
    let written = prerequisites::valgrind().and_then(|valgrind| {
        let baselines = Baselines { counted_with: CountedWith::here()?, paths: count(&valgrind)? };
        fs::write(checkout::root().join(BASELINES), baselines.to_text())
            .map_err(|error| format!("{BASELINES} cannot be written: {error}"))
    });
    match &written {
        Ok(()) => println!("wrote {BASELINES}"),
        Err(error) => println!("{error}"),
    }
    written.is_ok()
}

impl CountedWith {
    fn here() -> Result<Self, String> {
        let rust = output_of(Command::new("rustc").arg("-vV"))?;
        let target = rust.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
        let libc = output_of(Command::new("getconf").arg("GNU_LIBC_VERSION"));
        Ok(Self {
            rust: rust.lines().next().unwrap_or_default().to_owned(),
            target: target.to_owned(),
            libc: libc.map_or_else(|_| "not glibc".to_owned(), |version| version.trim().to_owned()),
            pin: PIN.to_owned(),
        })
    }

    /// The reason why counts of a build `here` cannot be compared with those of `self`.
    fn other_toolchain(&self, here: &Self) -> Option<String> {
        let pairs = [(&self.rust, &here.rust), (&self.target, &here.target), (&self.libc, &here.libc)];
        let (then, now) = pairs.into_iter().find(|(then, now)| then != now)?;
        Some(format!("{BASELINES} was counted with {then}, this is {now}; `{BLESS}` counts anew"))
    }
}

impl Baselines {
    fn to_text(&self) -> String {
        let CountedWith { rust, target, libc, pin } = &self.counted_with;
        let mut text = format!("{HEADING}\nrust: {rust}\ntarget: {target}\nlibc: {libc}\npin: {pin}\n\n");
        text += "# path instructions allocations\n";
        for PathCost { name, instructions, allocations } in &self.paths {
            let _ = writeln!(text, "{name} {instructions:.1} {allocations:.2}");
        }
        text
    }

    fn from_text(text: &str) -> Result<Self, String> {
        let mut baselines = Self::default();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let with = &mut baselines.counted_with;
            match line.split_once(": ") {
                Some(("rust", value)) => value.clone_into(&mut with.rust),
                Some(("target", value)) => value.clone_into(&mut with.target),
                Some(("libc", value)) => value.clone_into(&mut with.libc),
                Some(("pin", value)) => value.clone_into(&mut with.pin),
                _ => baselines.paths.push(
                    path_cost(line)
                        .ok_or_else(|| format!("{BASELINES} has a line that is no path: {line}"))?,
                ),
            }
        }
        Ok(baselines)
    }
}

/// A line of the committed file: a name and two numbers.
fn path_cost(line: &str) -> Option<PathCost> {
    let mut words = line.split(' ');
    let (name, instructions, allocations) = (words.next()?, words.next()?, words.next()?);
    Some(PathCost {
        name: name.to_owned(),
        instructions: instructions.parse().ok()?,
        allocations: allocations.parse().ok()?,
    })
}

fn read_baselines() -> Result<Baselines, String> {
    let text = fs::read_to_string(checkout::root().join(BASELINES));
    Baselines::from_text(
        &text.map_err(|error| format!("{BASELINES} cannot be read: {error}; run `{BLESS}`"))?,
    )
}

/// Builds the program that calls the paths, and counts them.
fn count(valgrind: &Path) -> Result<Vec<PathCost>, String> {
    let mut build = cargo(&["build", "--release", "--locked", "--package", "tidegate-bench"]);
    // Flags and increments would change what is counted.
    build.env("CARGO_INCREMENTAL", "0").env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    if !succeeds(&mut build) {
        return Err("tidegate-bench could not be built".to_owned());
    }
    let folder = target_directory().join("instructions");
    // Dumps of an earlier run must not be taken for those of this one.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
    let dumps = folder.join("dump");
    let mut run = Command::new(valgrind);
    // Variables lie on the stack, so that their length changes addresses and with them counts.
    run.env_clear().env("GLIBC_TUNABLES", PIN);
    run.args(["--tool=callgrind", "--compress-strings=no"]);
    run.arg(format!("--dump-before={END_OF_WORK}"));
    run.arg(format!("--callgrind-out-file={}", dumps.display()));
    run.arg(target_directory().join("release/tidegate-bench")).arg("gated-paths");
    let announced = output_of(&mut run)?;
    let paths = announced.lines().enumerate();
    paths.map(|(index, line)| read_path(line, &dumps, 1 + index * DUMPS_OF_PATH)).collect()
}

/// The cost of the path of a line `NAME CALLS CALLS CALLS`, whose dumps begin with the number
/// `first`.
fn read_path(line: &str, dumps: &Path, first: usize) -> Result<PathCost, String> {
    let unknown = || format!("tidegate-bench announces a path in an unknown form: {line}");
    let mut words = line.split(' ');
    let name = words.next().ok_or_else(unknown)?;
    let calls: Vec<f64> = words.map_while(|word| word.parse().ok()).collect();
    let &[_, few, many] = calls.as_slice() else { return Err(unknown()) };
    let read = |number: usize| {
        let file = PathBuf::from(format!("{}.{number}", dumps.display()));
        let text = fs::read_to_string(&file)
            .map_err(|error| format!("callgrind has not counted {name}: {error}"))?;
        counts_in(&text).ok_or_else(|| format!("{} has no totals", file.display()))
    };
    let (few_counts, many_counts) = (read(first + 1)?, read(first + 2)?);
    let a_call = |few_count: f64, many_count: f64| (many_count - few_count) / (many - few);
    Ok(PathCost {
        name: name.to_owned(),
        instructions: a_call(few_counts.0, many_counts.0),
        allocations: a_call(few_counts.1, many_counts.1),
    })
}

/// Instructions and allocations in a dump of callgrind.
fn counts_in(dump: &str) -> Option<(f64, f64)> {
    let (mut instructions, mut allocations) = (None, 0.0);
    let mut allocates = false;
    for line in dump.lines() {
        if let Some(callee) = line.strip_prefix("cfn=") {
            allocates = ALLOCATORS.contains(&callee);
        } else if let Some(calls) = line.strip_prefix("calls=").filter(|_| allocates) {
            allocations += calls.split(' ').next()?.parse::<f64>().ok()?;
        } else if let Some(totals) = line.strip_prefix("totals: ") {
            instructions = totals.parse().ok();
        }
    }
    Some((instructions?, allocations))
}

/// Holds the counts of each path against its baseline.
fn compare(baselines: &[PathCost], counted: &[PathCost]) -> StepReport {
    let mut report = StepReport::default();
    let mut is_better = false;
    for now in counted {
        let baseline = baselines.iter().find(|baseline| baseline.name == now.name);
        let held = match baseline {
            Some(baseline) => baseline.hold(now),
            None => Err(format!("{}: no baseline", now.name)),
        };
        report.tally = report.tally.plus(Tally::of(held.is_ok()));
        let has_fallen = baseline.is_some_and(|baseline| now.is_better_than(baseline));
        is_better |= has_fallen;
        match held {
            Ok(()) if has_fallen => println!("{now}: better than its baseline"),
            Ok(()) => println!("{now}"),
            Err(problem) => println!("FAILED: {problem}"),
        }
    }
    for gone in baselines.iter().filter(|one| counted.iter().all(|now| now.name != one.name)) {
        println!("FAILED: {}: a baseline of a path that is not counted", gone.name);
        report.tally = report.tally.plus(Tally::FAILED);
    }
    if report.tally.failed > 0 {
        report.note = format!("where the cost is meant, run `{BLESS}` and say why in the commit");
    } else if is_better {
        report.note = format!("better than {BASELINES}; run `{BLESS}` to keep it so");
    }
    if !report.note.is_empty() {
        println!("{}", report.note);
    }
    report
}

impl PathCost {
    /// How far the instructions of `now` are above these, in percent.
    fn rise(&self, now: &Self) -> f64 {
        (now.instructions / self.instructions - 1.0) * 100.0
    }

    /// The reason why `now` costs too much beside this baseline.
    fn hold(&self, now: &Self) -> Result<(), String> {
        let Self { name, instructions, allocations } = self;
        if now.allocations > allocations + SAME_ALLOCATIONS {
            return Err(format!("{now}; {BASELINES} has {allocations:.2} allocations"));
        }
        let rise = self.rise(now);
        if rise > ALLOWED_PERCENT {
            return Err(format!(
                "{name}: {:.1} instructions, {rise:.1} % above the {instructions:.1} in {BASELINES}; \
                 {ALLOWED_PERCENT} % are allowed",
                now.instructions
            ));
        }
        Ok(())
    }

    fn is_better_than(&self, baseline: &Self) -> bool {
        baseline.rise(self) < -ALLOWED_PERCENT || self.allocations < baseline.allocations - SAME_ALLOCATIONS
    }
}

impl fmt::Display for PathCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, instructions, allocations } = self;
        write!(f, "{name}: {instructions:.1} instructions, {allocations:.2} allocations")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(name: &str, instructions: f64, allocations: f64) -> PathCost {
        PathCost { name: name.to_owned(), instructions, allocations }
    }

    #[test]
    fn a_path_may_cost_three_percent_more_and_no_allocation_more() {
        let baseline = [cost("admit", 1_000.0, 1.0)];
        for (instructions, allocations, fails) in [
            (1_000.0, 1.0, false),
            (1_029.9, 1.0, false),
            (1_030.1, 1.0, true),
            (900.0, 1.0, false),
            (1_000.0, 1.02, true),
            (1_000.0, 1.004, false),
        ] {
            let report = compare(&baseline, &[cost("admit", instructions, allocations)]);
            assert_eq!(report.tally, Tally::of(!fails), "{instructions} {allocations}");
            assert_eq!(report.note.contains("where the cost is meant"), fails, "{}", report.note);
        }
    }

    #[test]
    fn a_path_that_costs_less_is_a_note_that_says_how_to_keep_it() {
        let baseline = [cost("admit", 1_000.0, 1.0)];
        for (now, is_better) in [
            (cost("admit", 969.0, 1.0), true),
            (cost("admit", 1_000.0, 0.5), true),
            (cost("admit", 971.0, 1.0), false),
        ] {
            let report = compare(&baseline, &[now]);
            assert_eq!((report.tally, report.note.contains(BLESS)), (Tally::PASSED, is_better));
        }
    }

    #[test]
    fn a_path_without_a_baseline_fails_and_so_does_a_baseline_without_a_path() {
        let report = compare(&[cost("gone", 1.0, 0.0)], &[cost("new", 1.0, 0.0)]);
        assert_eq!(report.tally, Tally { passed: 0, failed: 2, skipped: 0 });
    }

    #[test]
    fn another_compiler_or_c_library_is_not_compared() {
        let with = |rust: &str, libc: &str| CountedWith {
            rust: rust.to_owned(),
            libc: libc.to_owned(),
            ..CountedWith::default()
        };
        let then = with("rustc 1.95.0", "glibc 2.36");
        assert_eq!(then.other_toolchain(&then.clone()), None);
        let reason = then.other_toolchain(&with("rustc 1.96.0", "glibc 2.36")).unwrap();
        assert!(reason.contains("rustc 1.95.0, this is rustc 1.96.0"), "{reason}");
        assert!(then.other_toolchain(&with("rustc 1.95.0", "glibc 2.41")).is_some());
    }

    #[test]
    fn a_dump_tells_its_instructions_and_the_calls_of_allocators() {
        let dump = "fn=work\ncfn=malloc\ncalls=3 0\n0 60\ncfn=free\ncalls=2 0\n0 10\ncfn=calloc\n\
                    calls=4 0\n0 9\n\ntotals: 12345\n";
        assert_eq!(counts_in(dump), Some((12_345.0, 7.0)));
        assert_eq!(counts_in("fn=work\n"), None);
    }

    #[test]
    fn the_committed_file_is_what_would_be_written() {
        let text = fs::read_to_string(checkout::root().join(BASELINES)).unwrap();
        let baselines = Baselines::from_text(&text).unwrap();
        assert_eq!(baselines.to_text(), text);
        assert_eq!(baselines.counted_with.pin, PIN, "run `{BLESS}`");
        assert!(baselines.paths.len() >= 12, "{baselines:?}");
        assert!(Baselines::from_text("admit many 0\n").is_err());
    }
}
