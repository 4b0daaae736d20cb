//! The numbers of one override that does not stand in the file.

use serde::Deserialize;
use tidegate_core::{Algorithm, Limit};

use crate::check;
use crate::parse::{failed, read_tree};
use crate::problem::{Problems, Report};
use crate::raw::json_value::Shaped;
use crate::raw::limit::NumbersConfig;
use crate::schema;
use crate::shape;
use crate::tree::Position;

/// The name of the text in messages.
const NAME: &str = "override";

/// The numbers of an override.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OverrideNumbers {
    /// The algorithm of the limit with these numbers.
    pub algorithm: Algorithm,
    /// Whether the time zone is among them, so that it counts whatever zone a request names.
    pub fixes_zone: bool,
}

/// The algorithm of `limit` with other numbers, in the words of a policy:
/// `{rate: 200/s, burst: 400}`, `{limit: 50}`.
///
/// The text is a mapping in YAML or JSON and is checked as an override in a file is: at least one
/// number, only numbers that the algorithm has, each within its bounds. Missing numbers are those
/// of the limit. With another rate and no burst, the burst is as long as that of the limit (20 at
/// 10/s are 2 s, 2000 at 1000/s), and the units of the new rate where the limit has none of its own
/// ([`Limit::has_default_burst`]). Where the limit has a `share`, its numbers and these are those
/// of this member. Problems are told for a file called `override`.
pub fn parse_numbers(limit: &Limit, text: &str) -> Result<OverrideNumbers, Problems> {
    let mut report = Report::new(NAME);
    let Some(root) = read_tree(text, &mut report) else { return Err(failed(report)) };
    report.locate_in(&root);
    // The text of a request must not read the environment.
    let value = shape::shape(schema::numbers(), &root, &|_| None, &mut report);
    let raw = match NumbersConfig::deserialize(Shaped(value)) {
        Ok(raw) => raw,
        Err(error) => {
            let what = format!("the numbers cannot be read: {error}");
            report.unreadable(Position::START, what, "report this as a bug");
            return Err(failed(report));
        }
    };
    let algorithm = check::numbers(limit, &raw, &mut report);
    let fixes_zone = raw.zone.is_some();
    match (report.finish(), algorithm) {
        (Ok(_), Some(algorithm)) => Ok(OverrideNumbers { algorithm, fixes_zone }),
        (Err(problems), _) => Err(problems),
        (Ok(_), None) => {
            let mut report = Report::new(NAME);
            let what =
                format!("the numbers of a limit with `{}` cannot be overridden", limit.algorithm.name());
            report.unreadable(Position::START, what, "change them in the policy");
            Err(failed(report))
        }
    }
}
