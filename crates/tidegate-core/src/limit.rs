//! A limit: its conditions, its key, its algorithm, and the consequences of exceeding it.

mod cost_table;
mod error;
mod numbers;
mod plan;
mod refund_on;

use core::time::Duration;

pub use cost_table::CostRow;
pub use error::{LimitError, LimitProblem};
pub use plan::{PlanAssignment, PlanNumbers, Plans};
pub use refund_on::{Outcome, RefundOn, RefundOnError, WorkEnd};

use crate::algorithm::Algorithm;
use crate::lease::Terms;
use crate::matcher::Matcher;

/// A limit as it stands in a policy, checked when a [`crate::Gate`] is built from it.
///
/// A new limit matches every request, has one counter for all, enforces, and is decided by this
/// member alone.
///
/// ```
/// # use tidegate_core::{Limit, Matcher};
/// let exports = Limit::rolling("exports", 20, "10m")?
///     .key(["user"])
///     .when("operation", Matcher::exact("Export"));
/// assert_eq!(exports.attributes().collect::<Vec<_>>(), ["user", "operation"]);
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limit {
    /// Its name, unique in the namespace; 1 to [`Limit::NAME_BYTES_MAX`] bytes.
    pub name: String,
    /// The conditions on a request: all of them must hold. Empty matches every request.
    pub matches: Vec<Condition>,
    /// The scope: one counter for each distinct tuple of these attributes. Empty: one counter for
    /// all requests.
    pub key: Vec<KeyPart>,
    /// The treatment of a request that lacks an attribute of `key`.
    pub missing: Missing,
    /// How it counts.
    pub algorithm: Algorithm,
    /// Whether the burst of a rate is the units of the rate because none was given. Numbers that
    /// change the rate then bring the units of the new rate; a burst that was given is a length of
    /// time, and follows the rate. Default: whether the burst is the units of the rate.
    pub has_default_burst: bool,
    /// Whether it refuses, or only reports that it would.
    pub mode: Mode,
    /// The consequence for a key that exceeds it, beyond the refusal.
    pub on_exceed: OnExceed,
    /// The endings of work on which it gives its charge back. Default none: charges stay.
    pub refund_on: RefundOn,
    /// Other numbers for some keys. The one with the most attributes wins, then the first.
    pub overrides: Vec<Override>,
    /// Other numbers for the requests of some plans, at most one for each plan of the namespace;
    /// see [`Plans`]. An override wins over them.
    pub plans: Vec<PlanNumbers>,
    /// The attribute whose value is the time zone of a calendar limit, as an IANA name. The zone of
    /// the algorithm counts for requests that lack it or name no zone. Default `None`.
    ///
    /// The usage of a key is kept when its zone changes: it counts in the window of the new zone. A
    /// caller that may choose its zone can choose where the next window begins, so the value must
    /// come from a source that the caller does not write.
    pub zone_from: Option<String>,
    /// Where it is decided.
    pub consistency: Consistency,
    /// The name it had before, so that usage is kept when it is renamed; see the engine's lineage.
    /// A gate alone does not use it.
    pub was: Option<String>,
    /// The behaviour while the store that decides or leases it does not answer. Not used where this
    /// member alone decides it.
    pub on_store_failure: OnStoreFailure,
    /// How long a lease of it lasts, from [`Terms::PERIOD_MIN`] to [`Terms::PERIOD_MAX`]; default
    /// [`Terms::PERIOD`]. A longer one costs fewer calls to the store, and what a lost member holds
    /// is missing for longer. Only of a limit with [`Consistency::Leased`].
    pub lease_period: Duration,
    /// Whether its numbers are those of all members together, each of which decides by an equal
    /// part; see [`Algorithm::divided`] and `GateBuilder::members`. Only of a limit with
    /// [`Consistency::Local`].
    pub is_divided: bool,
    /// Whether an engine may lend it, with [`Consistency::Leased`] in place of
    /// [`Consistency::Local`], once others than this member hold parts of it: where it is decided
    /// was left open. A gate alone does not use it.
    pub is_lendable: bool,
    /// The first problem with its settings, which a gate reports when it is built.
    problem: Option<LimitProblem>,
}

impl Limit {
    /// The longest name in bytes.
    pub const NAME_BYTES_MAX: usize = 128;
    /// The most attributes in one key.
    pub const KEY_PARTS_MAX: usize = 16;

    /// A limit that matches every request and has one counter for all.
    pub fn new(name: impl Into<String>, algorithm: Algorithm) -> Self {
        let has_default_burst =
            matches!(&algorithm, Algorithm::Bucket(bucket) if bucket.burst() == bucket.rate().units());
        Self {
            name: name.into(),
            has_default_burst,
            matches: Vec::new(),
            key: Vec::new(),
            missing: Missing::Skip,
            algorithm,
            mode: Mode::Enforce,
            on_exceed: OnExceed::Refuse,
            refund_on: RefundOn::default(),
            overrides: Vec::new(),
            plans: Vec::new(),
            zone_from: None,
            consistency: Consistency::Local,
            was: None,
            on_store_failure: OnStoreFailure::default(),
            lease_period: Terms::PERIOD,
            is_divided: false,
            is_lendable: false,
            problem: None,
        }
    }

    /// The attributes that it looks at, of its key, its conditions and its time zone; some may come
    /// twice.
    pub fn attributes(&self) -> impl Iterator<Item = &str> {
        let keys = self.key.iter().map(|part| part.attribute.as_str());
        let conditions = self.matches.iter().map(|condition| condition.attribute.as_str());
        keys.chain(conditions).chain(self.zone_from.as_deref())
    }

    /// Counts by these attributes, in this order.
    #[must_use]
    pub fn key<P: Into<KeyPart>>(mut self, parts: impl IntoIterator<Item = P>) -> Self {
        self.key = parts.into_iter().map(Into::into).collect();
        self
    }

    /// Applies only where `attribute` matches; may be called several times, all must hold.
    #[must_use]
    pub fn when(mut self, attribute: impl Into<String>, matcher: Matcher) -> Self {
        self.matches.push(Condition { attribute: attribute.into(), matcher });
        self
    }

    /// Sets what happens to a request that lacks an attribute of the key.
    #[must_use]
    pub fn missing(mut self, missing: Missing) -> Self {
        self.missing = missing;
        self
    }

    /// Makes it a shadow limit: it reports the requests that it would refuse, and refuses nothing.
    #[must_use]
    pub fn shadow(mut self) -> Self {
        self.mode = Mode::Shadow;
        self
    }

    /// For how long it blocks a key that exceeds it; `None` for not at all, as of a shadow limit,
    /// which refuses nothing.
    pub fn blocks_for(&self) -> Option<Duration> {
        self.on_exceed.blocks_for().filter(|_| self.mode == Mode::Enforce)
    }

    /// Refuses a key that exceeded it for `span`, whatever is left by then.
    #[must_use]
    pub fn block_on_exceed(mut self, span: Duration) -> Self {
        self.on_exceed = OnExceed::Block(span);
        self
    }

    /// Gives the charge back when the work has ended so.
    #[must_use]
    pub fn refund_on(mut self, endings: RefundOn) -> Self {
        self.refund_on = endings;
        self
    }

    /// Uses `algorithm` for keys whose attributes have these values.
    #[must_use]
    pub fn override_for<'a>(
        mut self,
        values: impl IntoIterator<Item = (&'a str, &'a str)>,
        algorithm: Algorithm,
    ) -> Self {
        let when = values.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        self.overrides.push(Override::new(when, algorithm));
        self
    }

    /// Uses `algorithm` for the requests of this plan; see [`Plans`].
    #[must_use]
    pub fn plan(mut self, plan: impl Into<String>, algorithm: Algorithm) -> Self {
        self.plans.push(PlanNumbers { plan: plan.into(), algorithm: Some(algorithm) });
        self
    }

    /// Neither charges nor refuses the requests of this plan; see [`Plans`].
    #[must_use]
    pub fn unlimited_for_plan(mut self, plan: impl Into<String>) -> Self {
        self.plans.push(PlanNumbers { plan: plan.into(), algorithm: None });
        self
    }

    /// Takes the time zone of a calendar limit from this attribute; see [`Limit::zone_from`].
    #[must_use]
    pub fn zone_from(mut self, attribute: impl Into<String>) -> Self {
        self.zone_from = Some(attribute.into());
        self
    }

    /// Decides it where `consistency` says.
    #[must_use]
    pub fn consistency(mut self, consistency: Consistency) -> Self {
        self.consistency = consistency;
        self
    }

    /// Has its leases last for `period`.
    #[must_use]
    pub fn lease_period(mut self, period: Duration) -> Self {
        self.lease_period = period;
        self
    }

    /// Divides its numbers among the members.
    #[must_use]
    pub fn divided(mut self) -> Self {
        self.is_divided = true;
        self
    }

    /// Leaves open where it is decided, so that an engine may [lend](Limit::is_lendable) it.
    #[must_use]
    pub fn lendable(mut self) -> Self {
        self.is_lendable = true;
        self
    }

    /// Says that the limit was called `name` before, so that a reload keeps what was used under
    /// that name.
    #[must_use]
    pub fn was(mut self, name: impl Into<String>) -> Self {
        self.was = Some(name.into());
        self
    }

    /// Sets what happens while the store that decides it does not answer.
    #[must_use]
    pub fn on_store_failure(mut self, on_store_failure: OnStoreFailure) -> Self {
        self.on_store_failure = on_store_failure;
        self
    }
}

/// One attribute and the matcher for its value.
#[derive(Clone, Debug)]
pub struct Condition {
    /// The name of the attribute.
    pub attribute: String,
    /// The matcher for its value.
    pub matcher: Matcher,
}

/// One attribute of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyPart {
    /// The name of the attribute.
    pub attribute: String,
    /// `Some` if the value is an address: counted by its network of so many leading bits for IPv6,
    /// and by itself for IPv4. A value that is no address is counted as it is.
    pub ipv6_prefix: Option<u8>,
}

impl KeyPart {
    /// The attributes that are addresses by default.
    pub const ADDRESSES: [&'static str; 7] =
        ["ip", "client_ip", "remote_ip", "source_ip", "peer_ip", "remote_address", "client_address"];
    /// The network that IPv6 addresses are counted by: what one customer usually gets.
    pub const IPV6_PREFIX: u8 = 64;
}

impl From<&str> for KeyPart {
    /// Attributes in [`KeyPart::ADDRESSES`] are grouped by [`KeyPart::IPV6_PREFIX`].
    fn from(attribute: &str) -> Self {
        let ipv6_prefix = Self::ADDRESSES.contains(&attribute).then_some(Self::IPV6_PREFIX);
        Self { attribute: attribute.to_owned(), ipv6_prefix }
    }
}

impl From<String> for KeyPart {
    fn from(attribute: String) -> Self {
        Self::from(attribute.as_str())
    }
}

/// The treatment of a request that lacks an attribute of a limit's key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Missing {
    /// The limit does not apply to it.
    #[default]
    Skip,
    /// It is refused, with reason `attribute_missing` and no retry.
    Refuse,
    /// All that lack the same attributes share one counter.
    Group,
}

/// Whether a limit refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// It refuses.
    #[default]
    Enforce,
    /// It charges, reports the requests that it would have refused, and refuses nothing.
    Shadow,
}

/// The consequence for a key that exceeds a limit, beyond the refusal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnExceed {
    /// Nothing more.
    #[default]
    Refuse,
    /// The key is refused for this long, with reason `blocked`: from the first refusal on, or from
    /// a report that leaves nothing of the limit.
    Block(Duration),
}

impl OnExceed {
    /// For how long the key is refused; `None` for not at all.
    pub const fn blocks_for(self) -> Option<Duration> {
        match self {
            Self::Refuse => None,
            Self::Block(span) => Some(span),
        }
    }
}

/// Other numbers for the keys whose attributes have the values in `when`.
///
/// ```
/// # use tidegate_core::limit::Override;
/// # use tidegate_core::{Algorithm, Cost, Gate, Limit, Rate, Timestamp};
/// let faster = Algorithm::bucket(Rate::per_second(500)?)?;
/// let mut limit = Limit::rate("per-user", "10/s")?.key(["user"]);
/// let when = vec![("user".into(), "batch".into())];
/// limit.overrides.push(Override::new(when, faster));
/// let gate = Gate::builder("api").limit(limit).build()?;
/// let now = Timestamp::from_secs(1_800_000_000);
/// let limit_of = |user: &str| gate.peek(&[("user", user)], Cost::ONE, now).limits[0].limit;
/// assert_eq!((limit_of("ada"), limit_of("batch")), (10, 500));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// Attributes of the limit's key with the values they must have; at least one, not necessarily
    /// all.
    pub when: Vec<(String, String)>,
    /// The algorithm for those keys: the same one as the limit's, with other numbers.
    pub algorithm: Algorithm,
    /// Whether the time zone of a calendar counts for those keys although the limit takes its zone
    /// from an attribute. Default no: only the other numbers count then.
    pub fixes_zone: bool,
}

impl Override {
    /// Uses `algorithm` for the keys whose attributes have these values.
    pub fn new(when: Vec<(String, String)>, algorithm: Algorithm) -> Self {
        Self { when, algorithm, fixes_zone: false }
    }
}

/// Where a limit is decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Consistency {
    /// By this member alone, in nanoseconds.
    #[default]
    Local,
    /// In one atomic step in the store, together with all other exact limits of the request.
    Exact,
    /// By this member, from tokens that the store has lent it ahead of time; see [`crate::lease`].
    /// Buckets, fixed and calendar windows only.
    Leased,
}

/// The treatment of a request while the store that decides one of its limits does not answer.
///
/// A request with several such limits is refused if one of them says so; otherwise each goes its
/// own way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnStoreFailure {
    /// It is refused with reason `store_unavailable`, to come back in a second.
    #[default]
    Refuse,
    /// It is admitted by this limit and not counted.
    Allow,
    /// It is decided and counted in this member's own table, by this member's share of the limit,
    /// until the store answers again; see [`Share`](crate::lease::Share). Units counted meanwhile
    /// are not carried into the store. A leased limit spends what it was granted first.
    Local,
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;
