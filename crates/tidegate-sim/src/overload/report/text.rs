//! The report as text for a terminal.

use core::fmt;

use super::{OverloadReport, SHOWN_MAX};
use crate::kit::report::{fmt_gate, seeds_in_words};
use crate::overload::summary::VariantSummary;

impl fmt::Display for OverloadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.runs.is_empty() {
            return writeln!(f, "nothing was simulated");
        }
        writeln!(f, "{}, {} requests", seeds_in_words(&self.seeds()), self.requests)?;
        for experiment in self.experiments() {
            match experiment {
                Some(experiment) => writeln!(f, "\n{}: {}", experiment.name, experiment.title)?,
                None => writeln!(f, "\nscenario")?,
            }
            let variants = self.variants_of(experiment);
            for variant in variants.iter().take(SHOWN_MAX) {
                fmt_variant(f, variant)?;
            }
            if variants.len() > SHOWN_MAX {
                writeln!(f, "  and {} more, which the gate judges", variants.len() - SHOWN_MAX)?;
            }
        }
        fmt_gate(f, &self.gate, 6, self.findings().map(|finding| format!("violation of {finding}")))
    }
}

fn fmt_variant(f: &mut fmt::Formatter<'_>, variant: &VariantSummary) -> fmt::Result {
    let name = if variant.variant.is_empty() { "design" } else { &variant.variant };
    write!(f, "  {name:<16} {:>16}", "goodput")?;
    for client in variant.designs.iter().take(1).flat_map(|design| &design.clients) {
        write!(f, "   {:>22}", format!("{}: ok, p99 ms", client.client))?;
    }
    for feature in variant.designs.iter().take(1).flat_map(|design| &design.features) {
        write!(f, "   {:>16}", format!("{}: changes", feature.feature))?;
    }
    if variant.designs.iter().any(|design| design.utility.is_some()) {
        write!(f, "   {:>12}", "utility")?;
    }
    writeln!(f)?;
    for design in &variant.designs {
        let goodput = format!("{:.3} / {:.3}", design.goodput, design.goodput_worst);
        write!(f, "    {:<14} {goodput:>16}", design.design.name)?;
        for client in &design.clients {
            let cell = format!(
                "{:.2} / {:.2} %  {:.0}",
                client.success * 100.0,
                client.success_worst * 100.0,
                client.p99_ms
            );
            write!(f, "   {cell:>22}")?;
        }
        for feature in &design.features {
            let cell = format!("{:.0} / {:.0}", feature.transitions, feature.transitions_worst);
            write!(f, "   {cell:>16}")?;
        }
        if let Some(utility) = design.utility {
            write!(f, "   {utility:>12.0}")?;
        }
        writeln!(f)?;
    }
    Ok(())
}
