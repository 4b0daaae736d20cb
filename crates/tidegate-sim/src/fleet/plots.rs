//! Pictures of a report.

use crate::fleet::report::{Report, Second, seconds};
use crate::fleet::scenario::Numbers;
use crate::kit::{Chart, ChartError, ChartLine, Shade};

/// A picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plot {
    /// A name for its file.
    pub name: &'static str,
    /// The picture, as SVG.
    pub svg: String,
}

/// The admitted units of the hottest key beside its limit, and the units lent to its members, over
/// time. Troubles are shaded yellow. A scenario of one second is a single point.
pub fn plots(report: &Report) -> Result<Vec<Plot>, ChartError> {
    let per_second = report.scenario.limit.rate();
    let end = f64::from(report.scenario.seconds);
    let over_time = |name, shade, pick: fn(&Second) -> u64| {
        let seconds = (1..).zip(&report.series);
        let points = seconds.map(|(at, second)| (f64::from(at), pick(second) as f64)).collect();
        ChartLine { name, shade, points }
    };
    let level =
        |name, value| ChartLine { name, shade: Shade::Bound, points: vec![(0.0, value), (end, value)] };
    let most = match report.scenario.limit {
        Numbers::Bucket { burst, .. } => {
            f64::from(burst) + per_second * f64::from(report.scenario.lease_seconds)
        }
        Numbers::Window { units, .. } => f64::from(units),
    };
    let admitted = vec![
        over_time("asked for", Shade::Offered, |second| second.hot_offered),
        level("limit", per_second),
        over_time("admitted", Shade::Measured, |second| second.hot_admitted),
    ];
    let lent = vec![level("most", most), over_time("lent", Shade::Measured, |second| second.hot_lent)];
    let calls = vec![over_time("calls", Shade::Measured, |second| second.calls)];
    [
        ("admitted", "Units a second, hottest key", admitted),
        ("lent", "Units lent and not spent, hottest key", lent),
        ("calls", "Store calls a second, all keys", calls),
    ]
    .into_iter()
    .map(|(name, title, lines)| {
        let title = format!("{title} (seed {})", report.scenario.seed);
        let troubles = report.recoveries.iter();
        let shaded = troubles.map(|one| (seconds(one.from_ms), seconds(one.until_ms))).collect();
        Ok(Plot { name, svg: Chart { title, end, lines, shaded }.draw()? })
    })
    .collect()
}
