//! The report as text for a terminal.

use core::fmt;

use super::CapacityReport;
use crate::kit::report::{fmt_gate, seeds_in_words};

impl fmt::Display for CapacityReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.runs.is_empty() {
            return writeln!(f, "nothing was simulated");
        }
        self.fmt_head(f)?;
        self.fmt_gate(f)
    }
}

impl CapacityReport {
    /// The beginning of the text: seeds, length and shares.
    pub fn fmt_head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seeds = seeds_in_words(&self.seeds());
        let scale = match self.divisor {
            Some(1) => ", full rates".to_owned(),
            Some(divisor) => format!(", rates at 1/{divisor}"),
            None => String::new(),
        };
        let seconds = self.compared().next();
        let seconds = seconds.map_or(String::new(), |run| format!(", {} s{scale}", run.scenario.seconds));
        writeln!(f, "{seeds}{seconds}, {} decisions", self.decisions)?;
        if self.tables.is_empty() { Ok(()) } else { self.fmt_shares(f) }
    }

    /// The end of the text: the gate, and what checkers found.
    pub fn fmt_gate(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_gate(f, &self.gate, 7, self.findings())
    }

    /// The throttled shares in hundredths: the median of the seeds, and the worst if there are
    /// several; the fluid model and the reference behind them.
    fn fmt_shares(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_seeds = self.seeds().len() > 1;
        writeln!(f, "\nthrottled while demand is within the table's throughput, in %")?;
        let header = if has_seeds { "median / worst" } else { "" };
        write!(f, "  {header:<16}")?;
        for design in self.designs() {
            write!(f, "{:>17}", design.letters())?;
        }
        writeln!(f, "{:>9}   model: S, B, G   reference", "floor")?;
        for summary in &self.tables {
            write!(f, "  {:<16}", summary.id)?;
            for design in &summary.designs {
                let cell = if has_seeds {
                    format!("{:.2} / {:.2}", design.median * 100.0, design.worst * 100.0)
                } else {
                    format!("{:.2}", design.median * 100.0)
                };
                write!(f, "{cell:>17}")?;
            }
            let fluid = summary.fluid;
            write!(
                f,
                "{:>9.2}   {:.2}, {:.2}, {:.2}",
                fluid.floor * 100.0,
                fluid.static_shares * 100.0,
                fluid.burst * 100.0,
                fluid.global * 100.0
            )?;
            if let Some(workload) = summary.workload {
                let references = self.designs().iter().map(|design| {
                    let value = workload.reference_percent(*design);
                    value.map_or("-".to_owned(), |value| format!("{value}"))
                });
                write!(f, "   {}", references.collect::<Vec<_>>().join(", "))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
