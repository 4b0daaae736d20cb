//! A report as people read it.

use core::fmt;
use core::time::Duration;

use tidegate_core::display::{HumanDuration, Quantity};

use super::{Report, seconds};
use crate::fleet::scenario::{Chaos, Load, Numbers};
use crate::kit::report::word_of;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scenario = &self.scenario;
        let (where_, load) = (word_of(&scenario.consistency), word_of(&scenario.load));
        // Callers ask as their limit allows.
        let rate = match scenario.load {
            Load::Callers => String::new(),
            _ => format!(" of {}/s", scenario.requests_per_second),
        };
        let chaos = match scenario.chaos {
            Chaos::None => "nothing goes wrong",
            Chaos::Some => "chaos",
        };
        writeln!(
            f,
            "seed {}: {}, {}, {}, {}, {where_}, {load} load{rate}, {chaos}",
            scenario.seed,
            Peers(scenario.members, scenario.envoys),
            Quantity(scenario.keys, "key"),
            span(scenario.seconds),
            scenario.limit,
        )?;
        writeln!(f, "  decisions       {}", self.decisions)?;
        writeln!(f, "  admitted        {} ({} units)", self.admitted, self.admitted_units)?;
        for (reason, count) in &self.refused {
            writeln!(f, "  refused         {count} {reason}")?;
        }
        for (count, what) in [
            (self.errors, "could not be decided"),
            (self.unreached, "found their member down"),
            (self.cut_short, "waited when their member crashed"),
        ] {
            if count > 0 {
                writeln!(f, "  not decided     {count} {what}")?;
            }
        }
        let percent = self.calls_per_decision * 100.0;
        writeln!(f, "  store calls     {} ({percent:.3} % of decisions)", self.store_calls)?;
        if let Some(used) = self.used {
            writeln!(f, "  used            {:.2} % of the limit of the hottest key", used * 100.0)?;
        }
        let fullest = self.fullest;
        writeln!(
            f,
            "  fullest         {} units of the {} there may be (key {}, after {:.1} s)",
            fullest.units,
            fullest.bound,
            fullest.key,
            seconds(fullest.at_ms)
        )?;
        if let Some(envoys) = &self.envoys {
            envoys.fmt(f)?;
        }
        let delay = self.delay;
        writeln!(
            f,
            "  decided in      {} us (half), {} us (99 %), {} us (99.9 %), {} us (all)",
            delay.p50_us, delay.p99_us, delay.p999_us, delay.max_us
        )?;
        if let Some(fairness) = self.fairness {
            writeln!(f, "  fairness        {fairness:.4} (1 is even)")?;
        }
        let conforming = self.conforming;
        if conforming.first_attempts > 0 {
            writeln!(
                f,
                "  within limits   {} of {} first attempts admitted, refused at every attempt for {:.1} s at most",
                conforming.admitted,
                conforming.first_attempts,
                seconds(conforming.refused_max_ms)
            )?;
        }
        for one in &self.recoveries {
            let after = match one.recovered_after_ms {
                Some(ms) => format!("used again after {:.1} s", seconds(ms)),
                None => "not measured".to_owned(),
            };
            writeln!(
                f,
                "  trouble         {} from {:.1} s to {:.1} s: {after}",
                one.trouble,
                seconds(one.from_ms),
                seconds(one.until_ms)
            )?;
        }
        self.show_violations(f)
    }
}

/// Members, and Envoys if there are some.
struct Peers(u32, u32);

impl fmt::Display for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Quantity(self.0, "member").fmt(f)?;
        match self.1 {
            0 => Ok(()),
            envoys => write!(f, " with {}", Quantity(envoys, "Envoy")),
        }
    }
}

impl Report {
    fn show_violations(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.violations_total == 0 {
            return writeln!(f, "  violations      none");
        }
        writeln!(f, "  violations      {}", self.violations_total)?;
        for one in &self.violations {
            writeln!(
                f,
                "    {} of key {} after {:.3} s (seed {}): {}",
                one.rule.name(),
                one.key,
                seconds(one.at_ms),
                one.seed,
                one.what
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bucket { units, seconds: 1, burst } => write!(f, "{units}/s and {burst} at once"),
            Self::Bucket { units, seconds, burst } => {
                write!(f, "{units} each {} and {burst} at once", span(*seconds))
            }
            Self::Window { units, seconds } => write!(f, "{units} in {}", span(*seconds)),
        }
    }
}

fn span(seconds: u32) -> HumanDuration {
    HumanDuration(Duration::from_secs(seconds.into()))
}
