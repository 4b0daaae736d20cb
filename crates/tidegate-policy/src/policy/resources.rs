//! Checked settings of the overload plane: the resources and their waits. Places, queues and
//! signals are the plane's own types.

use core::time::Duration;
use std::collections::BTreeMap;

use tidegate_core::Class;
use tidegate_overload::ResourceConfig;

use super::deferral::DeferralPolicy;

/// A resource: a thing that requests are served by.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ResourcePolicy {
    /// Its name, unique, 1 to [`ResourcePolicy::NAME_BYTES_MAX`] bytes.
    pub name: String,
    /// Its places, its queue and its load levels, as the overload plane takes them.
    pub config: ResourceConfig,
    /// How long a request waits at most, by its class from the least important, 0 to
    /// [`ResourcePolicy::WAIT_MAX`]; 0 does not wait. The default of a class is the longest wait of
    /// a lower class, and 0 for the lowest. `None`: no wait is written. Then a request waits as
    /// long as its route says.
    pub waits: Option<[Duration; Class::ALL.len()]>,
    /// How it defers requests, beside what [`ResourceConfig::defer`] says; `Some` where that is.
    pub deferral: Option<DeferralPolicy>,
    /// The shares of namespaces within each class, in proportion, 1 to
    /// [`NamespaceShares::MAX`](tidegate_overload::NamespaceShares::MAX), of at most
    /// [`NAMESPACES_MAX`](tidegate_overload::NAMESPACES_MAX) namespaces. All others have a share of
    /// 1, the default.
    pub shares: BTreeMap<String, u32>,
    /// The HTTP status of its refusals, 400 to 599; `None`: that of the reason.
    pub status: Option<u16>,
    /// Whether answers about it carry its load level and its cursor; default false.
    pub show_load: bool,
}

impl ResourcePolicy {
    /// The longest name in bytes.
    pub const NAME_BYTES_MAX: usize = 128;
    /// The most resources in one configuration.
    pub const COUNT_MAX: usize = 1000;
    /// How many requests may wait unless told otherwise.
    pub const REQUESTS_DEFAULT: usize = 10_000;
    /// How many bytes may wait unless told otherwise: 64 MiB.
    pub const BYTES_DEFAULT: usize = 64 << 20;
    /// The smallest bound in bytes: 64 KiB.
    pub const BYTES_MIN: u64 = 64 << 10;
    /// The largest bound in bytes: 64 GiB.
    pub const BYTES_MAX: u64 = 64 << 30;
    /// The longest wait: an hour.
    pub const WAIT_MAX: Duration = Duration::from_hours(1);

    /// How long a request of this class may wait for a place; zero: it does not wait.
    pub fn wait(&self, class: Class) -> Duration {
        self.waits.map_or(Duration::ZERO, |waits| waits[class as usize])
    }

    /// How long a request of this class may wait whose route of the proxy lets it wait for `own`,
    /// zero for a route without `wait`: no longer than `queue.wait` says.
    pub fn wait_at_route(&self, own: Duration, class: Class) -> Duration {
        match self.waits {
            Some(waits) if own.is_zero() => waits[class as usize],
            Some(waits) => own.min(waits[class as usize]),
            None => own,
        }
    }
}
