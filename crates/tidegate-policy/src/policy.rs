//! Checked settings: what the daemon runs on. Immutable; every number in it is one that works.

mod address;
pub mod authorization;
pub mod claims;
pub mod deferral;
pub mod envoy;
mod listener;
pub mod planes;
pub mod proxy;
pub mod resources;
pub mod rlqs;
pub mod store;

use core::time::Duration;
use std::collections::BTreeMap;

pub use self::address::{Address, NotAnAddress};
use self::authorization::Grant;
use self::claims::RequestClaims;
use self::deferral::DeferralPolicy;
use self::envoy::EnvoyRatelimit;
pub use self::listener::{ListenerPolicy, ListenerRole, Tls};
use self::proxy::Proxy;
use self::resources::ResourcePolicy;
use self::rlqs::Rlqs;
pub use self::store::{Durability, Embedded, Redis, RedisTls, StoreChoice, StoreKind};
use crate::check::route_attributes::RouteAttributes;
use crate::compare::leaves::PolicySettings;
use http::HeaderName;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_capacity::{AccountConfig, CapacityBuilder, NodeConfig, TableConfig};
pub use tidegate_core::limit::OnStoreFailure;
use tidegate_core::limit::{Consistency, Mode};
use tidegate_core::limit::{CostRow, Plans};
use tidegate_core::{Limit, NamespaceConfig, Rate, WhenFull};
use tidegate_overload::{FeatureConfig, Overload, OverloadBuilder, SignalConfig};

/// The seed of the cohorts: the same on all members of a fleet, so that all shed the same tenants.
/// The cohorts move with time, so that no tenant is always among the first.
const COHORT_SEED: u64 = 0x7469_6465_6761_7465;

/// A checked configuration.
///
/// Made by [`crate::parse()`] only.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Policy {
    /// The listeners, in the order of their roles, of which each has at most one. The API is always
    /// among them; its default is `127.0.0.1:8080`. Without [`ListenerRole::Admin`] the listener of
    /// the API serves operators if it [is local](Address::is_local), and nobody does otherwise.
    pub listen: Vec<ListenerPolicy>,
    /// Where the counters of exact limits are kept.
    pub store: StoreChoice,
    /// The memory for counters.
    pub memory: Memory,
    /// The record of who used what.
    pub metering: Metering,
    /// The namespaces, by name in alphabetical order. May be empty.
    pub namespaces: Vec<NamespacePolicy>,
    /// The nodes on which the partitions of all tables lie; empty: one node that can do what all
    /// tables are promised.
    pub nodes: Vec<NodeConfig>,
    /// The accounts that bound several tables together. May be empty.
    pub accounts: Vec<AccountConfig>,
    /// The resources, by name in alphabetical order. May be empty.
    pub resources: Vec<ResourcePolicy>,
    /// The signals in the order of the file. May be empty.
    pub signals: Vec<SignalConfig>,
    /// The features of the services in the order of the file, at most 1000, with names of their
    /// own. Those with levels name one of the resources; those without are only counted. May be
    /// empty.
    pub features: Vec<FeatureConfig>,
    /// The grants of callers; empty: every caller that reaches a listener may do everything.
    pub authorization: Vec<Grant>,
    /// Where gateway subrequests get their namespace and attributes from.
    pub authorize: Authorize,
    /// The reverse proxy.
    pub proxy: Proxy,
    /// The files of envoyproxy/ratelimit that are served; `None`: there are none.
    pub envoy_ratelimit: Option<EnvoyRatelimit>,
    /// The bounds of Envoys that hold parts of limits.
    pub rlqs: Rlqs,
    /// How HTTP is answered, and its bounds.
    pub http: Http,
    /// The settings of the log.
    pub log: Log,
    /// All of these by their paths, as [`crate::compare()`] compares them.
    pub(crate) settings: PolicySettings,
}

impl Policy {
    /// The configuration that `tidegate serve` runs without a config: five requests a minute for
    /// each user, a hundred a second for each API key.
    pub const fn example() -> &'static str {
        include_str!("example.yaml")
    }

    /// The configuration that `tidegate serve --upstream` runs without a config: fifty requests a
    /// second for each address, two hundred at a time in all.
    pub const fn upstream_example() -> &'static str {
        include_str!("upstream.yaml")
    }

    /// This policy as a daemon takes it over that runs with `running`: the settings that take a
    /// restart stay as they are there.
    ///
    /// [`crate::compare()`] says which these are, and so does `x-reload` in [`crate::schema()`].
    #[must_use]
    pub fn in_place_of(self, running: &Self) -> Self {
        Self {
            listen: running.listen.clone(),
            store: running.store.clone(),
            memory: Memory { waiting_bytes: self.memory.waiting_bytes, ..running.memory },
            metering: running.metering,
            http: Http { bounds: running.http.bounds, ..self.http },
            log: Log { refusals: self.log.refusals, ..running.log.clone() },
            settings: self.settings.in_place_of(&running.settings),
            ..self
        }
    }

    /// The namespace called `name`.
    pub fn namespace(&self, name: &str) -> Option<&NamespacePolicy> {
        self.namespaces.iter().find(|namespace| namespace.name == name)
    }

    /// The listener with this role.
    pub fn listener(&self, role: ListenerRole) -> Option<&ListenerPolicy> {
        self.listen.iter().find(|listener| listener.role == role)
    }

    /// The nodes, accounts and tables as a capacity plane takes them. Without nodes in the policy
    /// all tables lie on one that can do [`TableConfig::UNITS_PER_SECOND_MAX`] units a second.
    pub fn capacity(&self) -> CapacityBuilder {
        let tables = self.namespaces.iter().flat_map(|namespace| &namespace.tables);
        planes::capacity(&self.nodes, &self.accounts, tables)
    }

    /// The overload plane of its resources, signals and features with levels.
    pub fn overload(&self) -> OverloadBuilder {
        let resources = self.resources.iter();
        let builder = resources
            .fold(Overload::builder(COHORT_SEED), |builder, one| builder.resource(&one.name, one.config));
        let builder = self.signals.iter().fold(builder, |builder, one| builder.signal(one.clone()));
        let features = self.features.iter().filter(|feature| !feature.levels.is_empty());
        features.fold(builder, |builder, one| builder.feature(one.clone()))
    }

    /// The file with the key that the tickets of all resources are signed with; `None`: no resource
    /// names one, and the store keeps the key.
    pub fn ticket_key_file(&self) -> Option<&str> {
        self.deferrals().find_map(|(_, deferral)| deferral.key_file.as_deref())
    }

    /// The resources that defer requests, by their names, in the order of
    /// [`Policy::resources`].
    pub fn deferrals(&self) -> impl Iterator<Item = (&str, &DeferralPolicy)> {
        self.resources.iter().filter_map(|one| Some((one.name.as_str(), one.deferral.as_ref()?)))
    }

    /// The namespaces of the routes whose requests become streams of this resource, without order;
    /// a namespace of several such routes comes several times.
    pub fn stream_namespaces<'a>(&'a self, resource: &'a str) -> impl Iterator<Item = &'a str> {
        let routes = self
            .proxy
            .routes
            .iter()
            .filter(move |route| route.hold == proxy::RouteHold::FirstByte && route.upstream == resource);
        routes.filter_map(|route| route.namespace.as_deref())
    }

    /// The namespaces as an engine takes them.
    pub fn namespace_configs(&self) -> impl Iterator<Item = NamespaceConfig> {
        self.namespaces.iter().map(NamespacePolicy::config)
    }

    /// The limits that a store decides where there is one, each with the name of its namespace:
    /// those that are not [local](Consistency::Local). Limits in files of `envoy_ratelimit` are not
    /// among them.
    pub fn stored_limits(&self) -> impl Iterator<Item = (&str, &Limit)> {
        self.namespaces
            .iter()
            .flat_map(|namespace| namespace.stored_limits().map(|limit| (namespace.name.as_str(), limit)))
    }

    /// The quotas that a store has to keep: those of [`Policy::stored_limits`] that are over an
    /// hour or longer.
    pub fn quotas(&self) -> impl Iterator<Item = (&str, &Limit)> {
        self.stored_limits().filter(|(_, limit)| limit.algorithm.is_quota())
    }
}

/// The longest path of a file or a directory in bytes.
pub const PATH_BYTES_MAX: usize = 4096;

/// The memory for counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Memory {
    /// The size of the key table in bytes, [`Memory::KEYS_BYTES_MIN`] to
    /// [`Memory::KEYS_BYTES_MAX`]; default [`Memory::KEYS_BYTES_DEFAULT`].
    pub keys_bytes: usize,
    /// The most memory of all requests that wait, in bytes, [`Memory::WAITING_BYTES_MIN`] to
    /// [`Memory::KEYS_BYTES_MAX`]; default [`Memory::WAITING_BYTES_DEFAULT`].
    pub waiting_bytes: usize,
    /// The treatment of a new key when the table is full; default [`WhenFull::Refuse`].
    pub when_full: WhenFull,
}

impl Memory {
    /// The size of the table unless told otherwise: 256 MiB, of which only what is used is ever
    /// touched.
    pub const KEYS_BYTES_DEFAULT: usize = 256 << 20;
    /// The smallest table: 1 MiB, about fifty thousand keys.
    pub const KEYS_BYTES_MIN: u64 = 1 << 20;
    /// The memory of waiting requests unless told otherwise: 64 MiB.
    pub const WAITING_BYTES_DEFAULT: usize = 64 << 20;
    /// The least memory for waiting requests: 1 MiB.
    pub const WAITING_BYTES_MIN: u64 = 1 << 20;
    /// The largest table, and the most memory for waiting requests: 1 TiB.
    pub const KEYS_BYTES_MAX: u64 = 1 << 40;
}

/// The record of who used what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metering {
    /// How many tenants are tracked, 0 to [`Metering::TENANTS_MAX`]; default
    /// [`Metering::TENANTS_DEFAULT`].
    pub tenants: u32,
    /// The memory for the history of resources in bytes, [`Metering::HISTORY_BYTES_MIN`] to
    /// [`Metering::HISTORY_BYTES_MAX`], or 0 for none; default
    /// [`Metering::HISTORY_BYTES_DEFAULT`].
    pub history_bytes: usize,
}

impl Metering {
    /// The tenants that are tracked unless told otherwise.
    pub const TENANTS_DEFAULT: u32 = 10_000;
    /// The most tenants that can be tracked.
    pub const TENANTS_MAX: u32 = 1_000_000;
    /// The memory for histories unless told otherwise: 16 MiB, a day of nine resources whose
    /// samples name as much as they can, and of about thirty that name a few features.
    pub const HISTORY_BYTES_DEFAULT: usize = 16 << 20;
    /// The least memory for histories: 64 KiB.
    pub const HISTORY_BYTES_MIN: u64 = 64 << 10;
    /// The most memory for histories: 1 TiB.
    pub const HISTORY_BYTES_MAX: u64 = 1 << 40;
}

impl Default for Metering {
    fn default() -> Self {
        Self { tenants: Self::TENANTS_DEFAULT, history_bytes: Self::HISTORY_BYTES_DEFAULT }
    }
}

/// One namespace.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NamespacePolicy {
    /// Its name, 1 to [`NamespacePolicy::NAME_BYTES_MAX`] bytes.
    pub name: String,
    /// Its limits in the order of the file, ready for [`tidegate_core::Gate::builder`].
    pub limits: Vec<Limit>,
    /// The HTTP status of refusals, 400 to 599, by the name of the limit; limits that do not set
    /// one are absent.
    pub statuses: BTreeMap<String, u16>,
    /// Its plans; `None` without any.
    pub plans: Option<Plans>,
    /// The rows of its cost table in the order of the file.
    pub costs: Vec<CostRow>,
    /// Its tables in the order of the file.
    pub tables: Vec<TableConfig>,
    /// The claims of its requests, and the classes of its tenants.
    pub request: RequestClaims,
}

impl NamespacePolicy {
    /// The namespace as an engine takes it.
    pub fn config(&self) -> NamespaceConfig {
        NamespaceConfig::new(self.name.clone(), self.limits.iter().cloned())
            .plans(self.plans.clone())
            .costs(self.costs.iter().cloned())
    }

    /// The longest name in bytes.
    pub const NAME_BYTES_MAX: usize = 128;
    /// The most namespaces in one configuration.
    pub const COUNT_MAX: usize = 1024;

    /// The attributes that its limits, its plans and its cost table look at; some may be in it more
    /// than once.
    pub fn attributes(&self) -> impl Iterator<Item = &str> {
        let of_limits = self.limits.iter().flat_map(Limit::attributes);
        let of_plans = self.plans.iter().flat_map(Plans::attributes);
        of_limits.chain(of_plans).chain(self.costs.iter().flat_map(CostRow::attributes))
    }

    /// Whether a limit may apply to some request that has these attributes and no other.
    pub fn counts_requests_with(&self, attributes: &[&str]) -> bool {
        let route = RouteAttributes::Named(attributes);
        self.limits.iter().any(|limit| route.never_fits(limit).is_none())
    }

    /// The first limit that refuses every request that has these attributes and no other, and the
    /// attribute that it needs.
    pub fn refuses_requests_with(&self, attributes: &[&str]) -> Option<(&Limit, &str)> {
        let route = RouteAttributes::Named(attributes);
        let mut enforced = self.limits.iter().filter(|limit| limit.mode == Mode::Enforce);
        enforced.find_map(|limit| Some((limit, route.always_lacks(limit)?)))
    }

    /// The limits that a store decides where there is one.
    pub(crate) fn stored_limits(&self) -> impl Iterator<Item = &Limit> {
        self.limits.iter().filter(|limit| limit.consistency != Consistency::Local)
    }
}

/// Where gateway subrequests get their namespace and attributes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Authorize {
    /// Headers, each with the attribute it becomes. No header and no attribute is in it twice.
    pub headers: Vec<(HeaderName, String)>,
    /// The namespace of requests that name none; it is one of [`Policy::namespaces`].
    pub namespace: Option<String>,
}

/// How HTTP is answered, and its bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Http {
    /// Whether answers carry `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset`;
    /// default no.
    pub rate_limit_headers: bool,
    /// Whether answers carry `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`;
    /// default no.
    pub x_rate_limit_headers: bool,
    /// The most of everything a request may bring.
    pub bounds: Bounds,
}

/// The most of everything a request may bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bounds {
    /// Bytes of a body, 1 KiB to 64 MiB; default 64 KiB.
    pub body_bytes: usize,
    /// Bytes of all headers together, 8 KiB to 1 MiB; default 16 KiB.
    pub header_bytes: usize,
    /// Headers, 1 to 1000; default 100.
    pub headers: usize,
    /// Attributes, 1 to [`tidegate_core::Attributes::MAX`], which is the default.
    pub attributes: usize,
    /// Bytes of the name and of the value of an attribute, each, 16 B to 64 KiB; default 1 KiB.
    pub attribute_bytes: usize,
    /// Connections open at once on all listeners, 1 to 1 000 000; default 10 000.
    pub connections: usize,
    /// How long a request may take to arrive whole, and its answer to be taken, 10 ms to 1 h;
    /// default 10 s.
    pub request_timeout: Duration,
    /// How long requests that were read may take to be answered at the end, 0 to 1 h; default 30 s.
    pub drain_timeout: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            body_bytes: 64 << 10,
            header_bytes: 16 << 10,
            headers: 100,
            attributes: tidegate_core::Attributes::MAX,
            attribute_bytes: 1 << 10,
            connections: 10_000,
            request_timeout: Duration::from_secs(10),
            drain_timeout: Duration::from_secs(30),
        }
    }
}

/// The settings of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Log {
    /// The least important lines that are written; default [`Level::Info`].
    pub level: Level,
    /// How lines are written; default [`Format::Text`].
    pub format: Format,
    /// The most lines about refusals, for each reason; `None` writes none. Default 10 a second.
    pub refusals: Option<Rate>,
    /// The decision log; `None`, which is the default, writes none.
    pub decisions: Option<Decisions>,
}

/// The decision log: a file with one JSON object a line for each decision.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decisions {
    /// The file, 1 to [`PATH_BYTES_MAX`] bytes.
    pub path: String,
    /// How large the file may grow before it is renamed, in bytes, [`Decisions::SIZE_BYTES_MIN`] to
    /// [`Decisions::SIZE_BYTES_MAX`]; default [`Decisions::SIZE_BYTES_DEFAULT`].
    pub size_bytes: u64,
    /// How many renamed files are kept, 1 to 1000; default [`Decisions::FILES_DEFAULT`].
    pub files: u16,
    /// How many lines may wait to be written, 1 to 1 000 000; default [`Decisions::QUEUE_DEFAULT`].
    pub queue: usize,
    /// Which decisions get a line; default [`Sample::All`].
    pub sample: Sample,
}

impl Decisions {
    /// The size unless told otherwise: 64 MiB.
    pub const SIZE_BYTES_DEFAULT: u64 = 64 << 20;
    /// The smallest size: 64 KiB, larger than any line.
    pub const SIZE_BYTES_MIN: u64 = 64 << 10;
    /// The largest size: 1 TiB.
    pub const SIZE_BYTES_MAX: u64 = 1 << 40;
    /// How many renamed files are kept unless told otherwise.
    pub const FILES_DEFAULT: u16 = 4;
    /// How many lines may wait unless told otherwise.
    pub const QUEUE_DEFAULT: usize = 65_536;
}

/// Which decisions get a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case", rename = "sample")]
pub enum Sample {
    /// Every decision.
    #[default]
    All,
    /// Refusals only.
    Refusals,
}

/// How important a line is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something does not work.
    Error,
    /// Something will not work, or not as meant.
    Warn,
    /// Events of a healthy daemon that matter to an operator.
    #[default]
    Info,
    /// Details of what the daemon does.
    Debug,
    /// Everything.
    Trace,
}

impl Level {
    /// The name in configuration and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// How lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case", rename = "format")]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}
