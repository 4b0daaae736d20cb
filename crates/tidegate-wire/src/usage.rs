//! The answers of `GET /v1/usage`: what was offered, by namespace, tenant, feature and resource.
//!
//! All counts are of one member since a row began; answers of several members can be added up.

use core::cmp::Reverse;

use serde::{Deserialize, Serialize};
use tidegate_core::{Class, RequestOutcome};

/// The usage of all namespaces, features and resources of one member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct UsageBody {
    /// The member that has counted: its id among those that share a store, otherwise the address
    /// at which it listens.
    pub member: String,
    /// When it began to count, as RFC 3339.
    pub since: String,
    /// The column by which rows are sorted.
    pub by: String,
    /// The sum of all namespaces, of all features, and of all resources: they are equal.
    pub total: UsageColumns,
    /// The namespaces, those with the largest numbers first.
    pub namespaces: Vec<UsageRow>,
    /// How many further namespaces have a row.
    pub more_namespaces: usize,
    /// The features.
    pub features: Vec<UsageRow>,
    /// How many further features have a row.
    pub more_features: usize,
    /// The resources.
    pub resources: Vec<UsageRow>,
    /// How many further resources have a row.
    pub more_resources: usize,
    /// The bytes that the meter takes.
    pub metering_bytes: u64,
}

/// The usage of a namespace and of its tenants, as one member has counted it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NamespaceUsageBody {
    /// The member that has counted, as in `/v1/usage`.
    pub member: String,
    /// The column by which tenants are sorted.
    pub by: String,
    /// The namespace: the sum of `no_tenant`, `other` and all tracked tenants.
    pub namespace: UsageRow,
    /// The part of requests that name no tenant.
    pub no_tenant: UsageRow,
    /// The part of tenants that are not tracked, or no more.
    pub other: UsageRow,
    /// How many tenants are tracked: have a row of their own.
    pub tracked: usize,
    /// How many of these are not listed.
    pub more: usize,
    /// The tracked tenants, those with the largest numbers first.
    pub tenants: Vec<UsageRow>,
}

/// The usage of a tenant, as one member has counted it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TenantUsageBody {
    /// The member that has counted, as in `/v1/usage`.
    pub member: String,
    /// The namespace.
    pub namespace: String,
    /// The tenant.
    pub tenant: UsageRow,
}

/// A row: one name, all requests without a name, or all names that have no row of their own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct UsageRow {
    /// The kind of the row.
    #[serde(default)]
    pub row: UsageRowKind,
    /// The name of a row of the kind `named`; of a tenant at most 128 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether the name is longer than shown. Tenants whose names begin alike have different rows.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub is_cut: bool,
    /// When the row began, as RFC 3339. The use of a tenant before that is in
    /// `other` of its namespace.
    pub since: String,
    /// The sum of all classes.
    pub total: UsageColumns,
    /// The classes that counted something, the most important first.
    pub classes: Vec<UsageOfClass>,
}

/// The requests that a row counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum UsageRowKind {
    /// Requests with one name.
    #[default]
    Named,
    /// Requests without a name.
    None,
    /// Requests with names that have no row of their own.
    Other,
}

/// The part of a class in a row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct UsageOfClass {
    /// `critical_plus`, `critical`, `sheddable_plus` or `sheddable`.
    pub class: String,
    /// Its columns.
    pub usage: UsageColumns,
}

/// The columns of a row. `offered` is the sum of all outcomes and of `under_way`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct UsageColumns {
    /// Requests that asked to go ahead.
    pub offered: u64,
    /// How they ended.
    pub outcomes: UsageOutcomes,
    /// Requests that are not decided yet: they wait for a place, a lease or the store.
    pub under_way: u64,
    /// Of `offered`, the requests that repeat an earlier attempt.
    pub repeated: u64,
    /// Units at admission, without those of admissions that were undone.
    pub units: u64,
    /// Units of refused requests: of all outcomes but `admitted`, `failed` and `cancelled`.
    pub refused_units: u64,
    /// Units of settled requests as they truly were.
    pub true_units: u64,
    /// How long admitted requests were in flight, where the end of their work is known, in seconds.
    pub place_time_seconds: f64,
    /// How long requests waited until they were decided, in seconds.
    pub wait_seconds: f64,
    /// Units that were reported without a request to admit.
    pub reported: u64,
    /// Units that were refunded.
    pub refunded: u64,
    /// Units that settlements added to what was charged.
    pub settled_more: u64,
    /// Units that settlements gave back of what was charged.
    pub settled_less: u64,
    /// Requests that Envoys admitted by themselves, as they report; not in `offered`.
    pub reported_admitted: u64,
    /// Requests that Envoys denied by themselves, as they report; not in `offered`.
    pub reported_denied: u64,
    /// Whether a column has reached 2^64 - 1, at which it stays.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub saturated: bool,
}

/// The outcomes of requests, each request in one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct UsageOutcomes {
    /// Went ahead.
    pub admitted: u64,
    /// Denied by a limit or a block.
    pub denied: u64,
    /// Throttled by a table.
    pub throttled: u64,
    /// Shed by the load of a resource, or for want of room to wait.
    pub shed: u64,
    /// Given an instant to come back at.
    pub deferred: u64,
    /// For a feature that is switched off.
    pub disabled: u64,
    /// Refused because their deadline was over or could not be met.
    pub expired: u64,
    /// Refused because the store did not answer, or the key table had no room.
    pub unavailable: u64,
    /// Ended in an error.
    pub failed: u64,
    /// Left before they were decided, or undone.
    pub cancelled: u64,
}

impl UsageOutcomes {
    /// The counts in the order of [`RequestOutcome::ALL`].
    pub fn from_counts(mut count: impl FnMut(RequestOutcome) -> u64) -> Self {
        let mut outcomes = Self::default();
        for outcome in RequestOutcome::ALL {
            *outcomes.count_mut(outcome) = count(outcome);
        }
        outcomes
    }

    /// The requests with this outcome.
    pub const fn count(&self, outcome: RequestOutcome) -> u64 {
        let mut copy = *self;
        *copy.count_mut(outcome)
    }

    const fn count_mut(&mut self, outcome: RequestOutcome) -> &mut u64 {
        match outcome {
            RequestOutcome::Admitted => &mut self.admitted,
            RequestOutcome::Denied => &mut self.denied,
            RequestOutcome::Throttled => &mut self.throttled,
            RequestOutcome::Shed => &mut self.shed,
            RequestOutcome::Deferred => &mut self.deferred,
            RequestOutcome::Disabled => &mut self.disabled,
            RequestOutcome::Expired => &mut self.expired,
            RequestOutcome::Unavailable => &mut self.unavailable,
            RequestOutcome::Failed => &mut self.failed,
            RequestOutcome::Cancelled => &mut self.cancelled,
        }
    }
}

impl UsageColumns {
    /// Adds the columns of another row, or of the same row at another member; saturates.
    pub fn add(&mut self, other: &Self) {
        for outcome in RequestOutcome::ALL {
            let count = self.outcomes.count_mut(outcome);
            *count = count.saturating_add(other.outcomes.count(outcome));
        }
        for (sum, more) in [
            (&mut self.offered, other.offered),
            (&mut self.under_way, other.under_way),
            (&mut self.repeated, other.repeated),
            (&mut self.units, other.units),
            (&mut self.refused_units, other.refused_units),
            (&mut self.true_units, other.true_units),
            (&mut self.reported, other.reported),
            (&mut self.refunded, other.refunded),
            (&mut self.settled_more, other.settled_more),
            (&mut self.settled_less, other.settled_less),
            (&mut self.reported_admitted, other.reported_admitted),
            (&mut self.reported_denied, other.reported_denied),
        ] {
            let (added, is_over) = sum.overflowing_add(more);
            *sum = if is_over { u64::MAX } else { added };
            self.saturated |= is_over;
        }
        self.place_time_seconds = to_millis(self.place_time_seconds + other.place_time_seconds);
        self.wait_seconds = to_millis(self.wait_seconds + other.wait_seconds);
        self.saturated |= other.saturated;
    }
}

impl UsageRow {
    /// Adds the same row of another member. The row then began when the first of the two did.
    pub fn add(&mut self, other: &Self) {
        self.total.add(&other.total);
        for theirs in &other.classes {
            match self.classes.iter_mut().find(|mine| mine.class == theirs.class) {
                Some(mine) => mine.usage.add(&theirs.usage),
                None => self.classes.push(theirs.clone()),
            }
        }
        self.classes.sort_by_key(|one| Reverse(one.class.parse::<Class>().ok()));
        // Without the end, so that a whole second is before its milliseconds.
        let [mine, theirs] = [&self.since, &other.since].map(|since| since.trim_end_matches('Z'));
        if mine.is_empty() || theirs < mine {
            self.since.clone_from(&other.since);
        }
    }
}

/// Seconds, rounded to milliseconds.
pub fn to_millis(seconds: f64) -> f64 {
    (seconds * 1e3).round() / 1e3
}

/// A column by which rows are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageColumn {
    /// `offered`.
    Offered,
    /// `units`.
    Units,
    /// `refused_units`.
    RefusedUnits,
    /// `place_time`: `place_time_seconds`.
    PlaceTime,
    /// `reported_admitted`.
    ReportedAdmitted,
    /// `reported_denied`.
    ReportedDenied,
    /// The word of an outcome.
    Outcome(RequestOutcome),
}

impl UsageColumn {
    /// All columns, in the order of documents.
    pub fn all() -> impl Iterator<Item = Self> {
        let outcomes = RequestOutcome::ALL.into_iter().map(Self::Outcome);
        let reported = [Self::ReportedAdmitted, Self::ReportedDenied];
        let amounts = [Self::Offered, Self::Units, Self::RefusedUnits, Self::PlaceTime];
        amounts.into_iter().chain(outcomes).chain(reported)
    }

    /// The column with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|column| column.as_str() == name)
    }

    /// The name in queries and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Offered => "offered",
            Self::Units => "units",
            Self::RefusedUnits => "refused_units",
            Self::PlaceTime => "place_time",
            Self::ReportedAdmitted => "reported_admitted",
            Self::ReportedDenied => "reported_denied",
            Self::Outcome(outcome) => outcome.as_str(),
        }
    }

    /// The names of all columns, for a message.
    pub fn names() -> String {
        let names: Vec<&str> = Self::all().map(Self::as_str).collect();
        names.join(", ")
    }

    /// The number of a row by which it is sorted: of a time in milliseconds.
    pub fn number(self, columns: &UsageColumns) -> u64 {
        match self {
            Self::Offered => columns.offered,
            Self::Units => columns.units,
            Self::RefusedUnits => columns.refused_units,
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a time is positive, and saturates"
            )]
            Self::PlaceTime => (columns.place_time_seconds * 1e3).round() as u64,
            Self::ReportedAdmitted => columns.reported_admitted,
            Self::ReportedDenied => columns.reported_denied,
            Self::Outcome(outcome) => columns.outcomes.count(outcome),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_have_the_words_of_the_closed_list_in_its_order() {
        let mut next = 0;
        let counted = UsageOutcomes::from_counts(|_| {
            next += 1;
            next
        });
        let text = serde_json::to_string(&counted).unwrap();
        let words: Vec<String> = RequestOutcome::ALL
            .into_iter()
            .map(|outcome| format!("\"{outcome}\":{}", outcome.index() + 1))
            .collect();
        assert_eq!(text, format!("{{{}}}", words.join(",")));
        for outcome in RequestOutcome::ALL {
            assert_eq!(counted.count(outcome), outcome.index() as u64 + 1);
        }
    }

    #[test]
    fn every_column_is_found_by_its_name_and_no_other_word_is_one() {
        for column in UsageColumn::all() {
            assert_eq!(UsageColumn::from_name(column.as_str()), Some(column));
        }
        assert_eq!(UsageColumn::from_name("place_time_seconds"), None);
        assert_eq!(
            UsageColumn::names(),
            "offered, units, refused_units, place_time, admitted, denied, throttled, shed, deferred, disabled, \
             expired, unavailable, failed, cancelled, reported_admitted, reported_denied"
        );
    }

    fn columns(offered: u64, units: u64) -> UsageColumns {
        let outcomes = UsageOutcomes { admitted: offered, ..UsageOutcomes::default() };
        UsageColumns { offered, outcomes, units, place_time_seconds: 0.1, ..UsageColumns::default() }
    }

    #[test]
    fn rows_of_two_members_add_up_by_class_and_begin_with_the_first() {
        let row = |class: &str, since: &str, usage| UsageRow {
            name: Some("ada".to_owned()),
            since: since.to_owned(),
            total: usage,
            classes: vec![UsageOfClass { class: class.to_owned(), usage }],
            ..UsageRow::default()
        };
        let mut sum = row("sheddable", "2026-11-20T23:00:00.001Z", columns(5, u64::MAX));
        sum.add(&row("critical", "2026-11-20T23:00:00Z", columns(4, 40)));
        sum.add(&row("critical", "2026-11-20T23:00:02Z", columns(3, 30)));
        assert_eq!((sum.total.offered, sum.total.outcomes.admitted), (12, 12));
        assert_eq!((sum.total.units, sum.total.saturated), (u64::MAX, true));
        assert_eq!(sum.total.place_time_seconds.to_string(), "0.3");
        assert_eq!(sum.since, "2026-11-20T23:00:00Z");
        let by_class: Vec<_> =
            sum.classes.iter().map(|one| (one.class.as_str(), one.usage.offered)).collect();
        assert_eq!(by_class, [("critical", 7), ("sheddable", 5)]);
        assert!(!sum.classes[0].usage.saturated, "another class is not marked");
    }

    #[test]
    fn columns_of_an_earlier_daemon_have_no_requests_of_envoys() {
        let columns: UsageColumns = serde_json::from_str(r#"{"offered":3,"units":4}"#).unwrap();
        assert_eq!((columns.reported_admitted, columns.reported_denied), (0, 0));
        let mut sum = UsageColumns { reported_denied: 5, reported_admitted: u64::MAX, ..columns };
        sum.add(&UsageColumns { reported_denied: 2, reported_admitted: 1, ..columns });
        assert_eq!((sum.reported_denied, sum.reported_admitted, sum.saturated), (7, u64::MAX, true));
        assert_eq!(sum.offered, 6, "they are not offered");
    }
}
