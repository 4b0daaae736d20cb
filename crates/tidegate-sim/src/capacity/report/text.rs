//! The report as text for a terminal.

use core::fmt;

use super::CapacityReport;
use super::experiment_section::{name_of, refused_by, shown_streams};
use crate::kit::report::{fmt_counts, fmt_gate, seeds_in_words};

impl fmt::Display for CapacityReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.runs.is_empty() {
            return writeln!(f, "nothing was simulated");
        }
        let seeds = seeds_in_words(&self.seeds());
        let scale = match self.divisor {
            Some(1) => ", full rates".to_owned(),
            Some(divisor) => format!(", rates at 1/{divisor}"),
            None => String::new(),
        };
        let seconds = self.compared().next();
        let seconds = seconds.map_or(String::new(), |run| format!(", {} s{scale}", run.scenario.seconds));
        writeln!(f, "{seeds}{seconds}, {} decisions", self.decisions)?;
        if !self.tables.is_empty() {
            self.fmt_shares(f)?;
        }
        self.fmt_experiments(f)?;
        fmt_gate(f, &self.gate, 7)?;
        for run in &self.runs {
            for (design, breach) in
                run.designs.iter().flat_map(|one| one.breaches.iter().map(move |b| (one, b)))
            {
                writeln!(
                    f,
                    "  {} under {}, seed {}, {} ms, table {}: {}",
                    breach.invariant.id(),
                    design.design.letters(),
                    breach.seed,
                    breach.at_ms,
                    breach.table,
                    breach.what
                )?;
            }
        }
        fmt_counts(f, &self.gate)
    }
}

impl CapacityReport {
    /// The requests of each experiment, of the first seed.
    fn fmt_experiments(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for run in self.shown() {
            let Some(experiment) = run.scenario.experiment else { continue };
            let seconds = run.scenario.seconds;
            writeln!(f, "\n{}: {}, {seconds} s", experiment.name, experiment.title)?;
            for design in &run.designs {
                for stream in shown_streams(run, design) {
                    writeln!(
                        f,
                        "  {:<3} {:<28} {:>9} asked {:>8.3} % throttled   refused by {}",
                        design.design.letters(),
                        name_of(stream),
                        stream.offered,
                        stream.throttled_share() * 100.0,
                        refused_by(stream)
                    )?;
                }
            }
        }
        Ok(())
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
