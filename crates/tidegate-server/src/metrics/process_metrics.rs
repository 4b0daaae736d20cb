//! The `process_*` metrics that Prometheus client libraries give, from `/proc/self`. Other systems
//! than Linux have none.

use core::fmt;
use std::fs;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Their names and help texts; the page ends counters with `_total`.
pub const TABLE: [(&str, &str); 7] = [
    ("process_cpu_seconds", "Total user and system CPU time spent in seconds"),
    ("process_resident_memory_bytes", "Resident memory size in bytes"),
    ("process_virtual_memory_bytes", "Virtual memory size in bytes"),
    ("process_open_fds", "Number of open file descriptors"),
    ("process_max_fds", "Maximum number of open file descriptors"),
    ("process_start_time_seconds", "Start time of the process since the Unix epoch in seconds"),
    ("process_threads", "Number of OS threads in the process"),
];

/// Ticks a second in `/proc`: `USER_HZ`, which is 100 on every architecture that the standard
/// library supports.
const TICKS_PER_SECOND: f64 = 100.0;

/// The system's numbers of this process. A number that cannot be read is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct ProcessStats {
    cpu_seconds: Option<f64>,
    resident_bytes: Option<f64>,
    virtual_bytes: Option<f64>,
    open_fds: Option<f64>,
    max_fds: Option<f64>,
    start_time_seconds: Option<f64>,
    threads: Option<f64>,
}

impl ProcessStats {
    fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let mut stats = Self::parse(
            &text("/proc/self/stat"),
            &text("/proc/self/status"),
            &text("/proc/self/limits"),
            &text("/proc/stat"),
        );
        // The descriptor that lists them is one of them.
        stats.open_fds = fs::read_dir("/proc/self/fd").ok().map(|open| count(open.count().saturating_sub(1)));
        stats
    }

    /// From the text of `/proc/self/stat`, `/proc/self/status`, `/proc/self/limits` and
    /// `/proc/stat`.
    fn parse(stat: &str, status: &str, limits: &str, system: &str) -> Self {
        // The name of the command is in parentheses and may hold spaces and parentheses; the third
        // field follows it.
        let fields: Vec<&str> =
            stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
        let ticks = |field: usize| fields.get(field - 3)?.parse::<f64>().ok();
        let kibibytes = |name: &str| number_after(status, name).map(|size| size * 1024.0);
        Self {
            cpu_seconds: ticks(14).zip(ticks(15)).map(|(user, system)| (user + system) / TICKS_PER_SECOND),
            resident_bytes: kibibytes("VmRSS:"),
            virtual_bytes: kibibytes("VmSize:"),
            open_fds: None,
            max_fds: number_after(limits, "Max open files"),
            start_time_seconds: number_after(system, "btime")
                .zip(ticks(22))
                .map(|(boot, since)| boot + since / TICKS_PER_SECOND),
            threads: number_after(status, "Threads:"),
        }
    }

    /// In the order of [`TABLE`].
    const fn values(self) -> [Option<f64>; TABLE.len()] {
        [
            self.cpu_seconds,
            self.resident_bytes,
            self.virtual_bytes,
            self.open_fds,
            self.max_fds,
            self.start_time_seconds,
            self.threads,
        ]
    }
}

/// The first word behind `name` at the start of a line, if it is a number.
fn number_after(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[expect(clippy::cast_precision_loss, reason = "a process has fewer than 2^52 descriptors")]
const fn count(number: usize) -> f64 {
    number as f64
}

/// Writes the metrics that the system gives.
pub(crate) fn encode(encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    for ((name, help), value) in TABLE.into_iter().zip(ProcessStats::read().values()) {
        let Some(value) = value else { continue };
        if name == "process_cpu_seconds" {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        } else {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "17701 (a (b) c) R 17692 17692 380 0 -1 4194304 102 0 0 0 250 50 0 0 20 0 9 0 1412301 3133440 412 1";

    #[test]
    fn numbers_come_from_their_fields_whatever_the_command_is_called() {
        let status = "Name:\ttidegate\nVmSize:\t    3060 kB\nVmRSS:\t    1768 kB\nThreads:\t9\n";
        let limits =
            "Limit   Soft Limit  Hard Limit  Units\nMax open files            20000      30000      files\n";
        let read = ProcessStats::parse(STAT, status, limits, "cpu 1 2\nbtime 1795000000\n");
        let expected = ProcessStats {
            cpu_seconds: Some(3.0),
            resident_bytes: Some(1768.0 * 1024.0),
            virtual_bytes: Some(3060.0 * 1024.0),
            open_fds: None,
            max_fds: Some(20_000.0),
            start_time_seconds: Some(1_795_014_123.01),
            threads: Some(9.0),
        };
        assert_eq!(read, expected);
    }

    #[test]
    fn an_unreadable_number_is_absent() {
        assert_eq!(ProcessStats::parse("", "", "", ""), ProcessStats::default());
        let unlimited = "Max open files            unlimited      unlimited      files\n";
        assert_eq!(ProcessStats::parse("1 (x) R", "", unlimited, "").max_fds, None);
    }
}
