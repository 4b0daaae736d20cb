//! Where a figure was measured, and what a process uses.

use std::fs;
use std::process::Command;

/// Bytes of this process in memory; 0 where `/proc` does not say.
pub fn resident_bytes() -> u64 {
    line_of(STATUS, "VmRSS:")
}

/// The most bytes this process ever had in memory; 0 where `/proc` does not say.
pub fn resident_bytes_most() -> u64 {
    line_of(STATUS, "VmHWM:")
}

/// Bytes of this process in transparent huge pages; 0 where `/proc` does not say.
pub fn huge_page_bytes() -> u64 {
    line_of("/proc/self/smaps_rollup", "AnonHugePages:")
}

/// Nanoseconds this thread was ready to run and did not, because the processor was with others; 0
/// where `/proc` does not say.
pub fn nanos_put_aside() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
}

const STATUS: &str = "/proc/self/status";

fn line_of(file: &str, name: &str) -> u64 {
    let status = fs::read_to_string(file).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// The processor, the kernel, the compiler and how busy the machine is, as lines of Markdown.
pub fn description() -> String {
    let cpu_info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = cpu_info.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split(':').nth(1).unwrap_or("unknown").trim().to_owned()
    };
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = memory.lines().next().unwrap_or_default().replace("MemTotal:", "");
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("unknown").to_owned();
    format!(
        "- processor: {}, {cores} cores, {} MHz, cache {}\n- memory: {}\n- kernel: {}\n- compiler: {}\n\
         - load average when measuring began: {load}\n",
        field("model name"),
        field("cpu MHz"),
        field("cache size"),
        memory.trim(),
        release.trim(),
        first_line_of(Command::new("rustc").arg("--version")),
    )
}

/// The first line a command prints; what went wrong if it cannot be run.
pub fn first_line_of(command: &mut Command) -> String {
    match command.output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned(),
        Err(error) => format!("unknown ({error})"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_process_that_runs_has_memory() {
        assert!(super::resident_bytes() > 0 || !std::path::Path::new("/proc/self/status").exists());
    }
}
