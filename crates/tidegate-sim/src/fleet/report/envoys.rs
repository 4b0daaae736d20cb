//! The part of a report about Envoys.

use core::fmt;

use serde::Serialize;

/// The figures of Envoys, for the hottest key.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct EnvoyReport {
    /// Reports that Envoys sent to members.
    pub reports: u64,
    /// Responses that members sent to Envoys.
    pub responses: u64,
    /// Reports and responses for each decision.
    pub messages_per_decision: f64,
    /// The most that was admitted in any span of a second.
    pub second_max: u64,
    /// The same once all should have been well.
    pub steady_second_max: u64,
    /// The most that may be admitted in a span of a second: the rate for 1.1 seconds, and the
    /// burst.
    pub second_bound: u64,
    /// Envoys of which the same is asked, those with the lower numbers first. Counted once all
    /// should have been well, and from 15 s after demand has moved.
    pub groups: Vec<EnvoyGroup>,
    /// The least that one Envoy got, as a part of what is due to it by its demand.
    pub least_part: f64,
    /// The most that one got.
    pub most_part: f64,
    /// How long after demand had moved a second began in which the half that is busy since then got
    /// 90 % of what is due to it. `None` where demand does not move.
    pub followed_after_ms: Option<u64>,
    /// Which part of the limit was used in the 15 s after demand had moved.
    pub used_after_move: Option<f64>,
}

/// Envoys of which the same is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct EnvoyGroup {
    /// How many.
    pub envoys: usize,
    /// Requests a second at all of them.
    pub offered_per_second: f64,
    /// Requests a second that they admitted.
    pub admitted_per_second: f64,
}

impl fmt::Display for EnvoyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = self.messages_per_decision * 100.0;
        writeln!(
            f,
            "  messages        {} reports, {} responses ({percent:.3} % of decisions)",
            self.reports, self.responses
        )?;
        writeln!(
            f,
            "  in a second     {} at most of the {} there may be, {} once all was well",
            self.second_max, self.second_bound, self.steady_second_max
        )?;
        for group in &self.groups {
            let EnvoyGroup { envoys, offered_per_second, admitted_per_second } = group;
            writeln!(
                f,
                "  share           {envoys} of the Envoys: {admitted_per_second:.1}/s of {offered_per_second:.1}/s"
            )?;
        }
        writeln!(
            f,
            "  of its part     {:.2} at the Envoy with the least, {:.2} at the one with the most",
            self.least_part, self.most_part
        )?;
        let Some(used) = self.used_after_move else { return Ok(()) };
        let after = match self.followed_after_ms {
            Some(ms) => format!("after {:.1} s", ms as f64 / 1000.0),
            None => "never".to_owned(),
        };
        writeln!(
            f,
            "  moved demand    followed {after}, {:.2} % of the limit used in the 15 s since it moved",
            used * 100.0
        )
    }
}
