//! Places, queue and load level, as the daemon reports them.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::attack::Failure;
use crate::http1;
use serde_json::Value;

/// How often a daemon is asked while an instant is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// The page of the load levels.
pub const RESOURCES_PATH: &str = "/v1/resources";

/// Gauges of the daemon's metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Places that are taken, of all resources.
    pub places: u64,
    /// Requests that wait, for a place, a limit or a permit.
    pub waiting: u64,
    /// Permits that are kept until they are released.
    pub permits: u64,
}

impl Gauges {
    /// Reads them at the listener for operators.
    pub fn read(address: SocketAddr) -> Result<Self, Failure> {
        let answer = http1::ask(address, http1::get("/metrics"))?;
        if answer.status != 200 {
            return Err(Failure::Unfinished(format!("/metrics answers {}", answer.status)));
        }
        Self::from_metrics(&answer.text())
    }

    fn from_metrics(metrics: &str) -> Result<Self, Failure> {
        let sum = |name: &str| {
            let series = metrics.lines().filter_map(|line| {
                let rest = line.strip_prefix(name)?;
                rest.starts_with(['{', ' ']).then(|| rest.rsplit(' ').next()?.parse::<u64>().ok())?
            });
            let values: Vec<u64> = series.collect();
            // A renamed metric must not read as nothing in use.
            if values.is_empty() {
                return Err(Failure::Unfinished(format!("/metrics has no {name}")));
            }
            Ok(values.iter().sum())
        };
        Ok(Self {
            places: sum("tidegate_resource_in_flight")?,
            waiting: sum("tidegate_proxy_waiting")?,
            permits: sum("tidegate_permits_kept")?,
        })
    }

    /// The larger of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            places: self.places.max(other.places),
            waiting: self.waiting.max(other.waiting),
            permits: self.permits.max(other.permits),
        }
    }

    /// Whether nothing is taken and nothing waits.
    pub fn is_idle(self) -> bool {
        self.places == 0 && self.waiting == 0
    }
}

/// The time from now until the gauges are as `is_meant` says; nothing if that takes longer than
/// `for_at_most`.
pub fn time_until(
    address: SocketAddr,
    for_at_most: Duration,
    is_meant: impl Fn(Gauges) -> bool,
) -> Result<Option<Duration>, Failure> {
    let began = Instant::now();
    loop {
        let asked = began.elapsed();
        if is_meant(Gauges::read(address)?) {
            return Ok(Some(asked));
        }
        if asked > for_at_most {
            return Ok(None);
        }
        thread::sleep(LOOK);
    }
}

/// The load level of a resource: its word in lower case. The error says why it could not be read.
pub fn level(address: SocketAddr, resource: &str) -> Result<String, String> {
    let answer = http1::ask(address, http1::get(RESOURCES_PATH)).map_err(|error| error.to_string())?;
    if answer.status != 200 {
        return Err(format!("GET {RESOURCES_PATH} answers {}", answer.status));
    }
    let body: Value = serde_json::from_slice(&answer.body).map_err(|error| error.to_string())?;
    level_in(&body, resource).ok_or_else(|| format!("GET {RESOURCES_PATH} has no level of {resource}"))
}

/// The level of the first object that is called `resource` and has one.
fn level_in(value: &Value, resource: &str) -> Option<String> {
    match value {
        Value::Array(elements) => elements.iter().find_map(|element| level_in(element, resource)),
        Value::Object(members) => {
            let is_meant = ["name", "resource"].iter().any(|name| {
                members.get(*name).and_then(Value::as_str).is_some_and(|found| found == resource)
            });
            match members.get("level") {
                Some(Value::String(level)) if is_meant => Some(level.to_lowercase()),
                Some(Value::Number(level)) if is_meant => Some(level.to_string()),
                _ => members.values().find_map(|member| level_in(member, resource)),
            }
        }
        _ => None,
    }
}

/// Whether a level is the lowest one.
pub fn is_normal(level: &str) -> bool {
    level == "normal" || level == "0"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const METRICS: &str = "# TYPE tidegate_resource_in_flight gauge\n\
        tidegate_resource_in_flight{resource=\"app\"} 3\n\
        tidegate_resource_in_flight{resource=\"other\"} 1\n\
        tidegate_resource_in_flight_max{resource=\"app\"} 64\n\
        tidegate_proxy_waiting 2\ntidegate_permits_kept 0\n";

    #[test]
    fn gauges_are_added_up_over_resources_and_not_over_other_names() {
        let gauges = Gauges::from_metrics(METRICS).unwrap();
        assert_eq!(gauges, Gauges { places: 4, waiting: 2, permits: 0 });
        assert!(!gauges.is_idle());
    }

    #[test]
    fn a_missing_gauge_is_an_error_and_not_zero() {
        assert!(Gauges::from_metrics("tidegate_resource_in_flight_max{resource=\"app\"} 64\n").is_err());
    }

    #[test]
    fn the_level_is_that_of_the_resource_as_a_word_or_a_number() {
        let body =
            json!({"resources": [{"name": "other", "level": "Hard"}, {"name": "app", "level": "Normal"}]});
        assert_eq!(level_in(&body, "app").as_deref(), Some("normal"));
        assert!(is_normal("normal") && is_normal("0") && !is_normal("hard"));
        assert_eq!(level_in(&json!([{"resource": "app", "level": 3}]), "app").as_deref(), Some("3"));
        assert_eq!(level_in(&body, "third"), None);
    }
}
