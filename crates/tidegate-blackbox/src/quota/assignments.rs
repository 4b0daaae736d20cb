//! The assignments of Envoys, as daemons list them.

use serde_json::Value;

use super::testbed::QuotaTestbed;
use crate::attack::Failure;
use crate::fleet::bound::AllowedExcess;
use crate::fleet::testbed::leases;

/// An assignment in force.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ListedAssignment {
    /// The most tokens of its bucket.
    tokens: f64,
    /// Tokens a second.
    rate: f64,
    /// Seconds until it ends at the latest. This is up to 5 s later than the time to live that
    /// Envoy was told, as the daemon adds the time that the message may take.
    life: f64,
}

impl ListedAssignment {
    /// The most that can be admitted by it until it ends.
    pub(super) fn admits(self) -> f64 {
        self.tokens + self.rate * self.life
    }

    /// The same as an exception of a bound, from this instant on.
    pub(super) fn excess_from(self, begin: f64) -> AllowedExcess {
        AllowedExcess { begin, end: begin + self.life, rate: self.rate, units: self.tokens }
    }
}

/// The assignments that a daemon gave, of all Envoys or of one.
pub(super) fn of_daemon(
    testbed: &QuotaTestbed<'_>,
    number: usize,
    envoy: Option<&str>,
) -> Result<Vec<ListedAssignment>, Failure> {
    let page = leases(testbed.daemon(number)?)?;
    listed(&page, envoy).ok_or_else(|| Failure::Unfinished(format!("/v1/leases has no Envoys: {page}")))
}

/// Those of the member that wrote the page. Others list theirs later than they give them.
fn listed(page: &Value, envoy: Option<&str>) -> Option<Vec<ListedAssignment>> {
    let own = page["members"].as_array()?.iter().find(|member| member["id"] == page["member"])?;
    // Absent without Envoys.
    let Some(envoys) = own["envoys"].as_array() else { return Some(Vec::new()) };
    let is_meant = |listed: &&Value| envoy.is_none_or(|name| listed["envoy"] == name);
    let assignment = |listed: &Value| {
        let number = |name: &str| listed[name].as_f64();
        Some(ListedAssignment {
            tokens: number("max_tokens")?,
            rate: number("rate_per_s")?,
            life: number("ends_in_ms")? / 1e3,
        })
    };
    envoys.iter().filter(is_meant).map(assignment).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn assignments_are_those_of_the_member_that_answers() {
        let envoy =
            |name: &str| json!({"envoy": name, "max_tokens": 10, "rate_per_s": 8, "ends_in_ms": 2500});
        let page = json!({"member": "b", "members": [
            {"id": "a", "envoys": [envoy("edge-1")]},
            {"id": "b", "envoys": [envoy("edge-1"), envoy("edge-2")]},
        ]});
        assert_eq!(listed(&page, None).unwrap().len(), 2);
        let one = listed(&page, Some("edge-2")).unwrap();
        assert_eq!(one, [ListedAssignment { tokens: 10.0, rate: 8.0, life: 2.5 }]);
        assert!((one[0].admits() - 30.0).abs() < 1e-9);
        let excess = AllowedExcess { begin: 4.0, end: 6.5, rate: 8.0, units: 10.0 };
        assert_eq!(one[0].excess_from(4.0), excess);
    }

    #[test]
    fn a_page_without_the_member_is_no_empty_list() {
        let page = json!({"member": "b", "members": [{"id": "a"}]});
        assert_eq!(listed(&page, None), None);
        assert_eq!(listed(&json!({"member": "a", "members": [{"id": "a"}]}), None), Some(Vec::new()));
    }
}
