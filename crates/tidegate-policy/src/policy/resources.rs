//! Checked settings of the overload plane: resources, their queues, and signals.

use core::time::Duration;
use std::collections::BTreeMap;

use tidegate_core::Class;

/// A resource: a thing that requests are served by.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourcePolicy {
    /// Its name, unique, 1 to [`ResourcePolicy::NAME_BYTES_MAX`] bytes.
    pub name: String,
    /// The most requests in flight at once.
    pub concurrency: ConcurrencyPolicy,
    /// Whether the members of a fleet share its numbers; default [`ResourceShare::Full`].
    pub share: ResourceShare,
    /// The part of the places that only `critical_plus` may use at the level emergency, in
    /// hundredths, 0 to [`ResourcePolicy::RESERVE_PERCENT_MAX`]; default
    /// [`ResourcePolicy::RESERVE_PERCENT`].
    pub reserve_percent: u8,
    /// How requests wait for a place; `None`: they do not wait.
    pub queue: Option<QueuePolicy>,
    /// The shares of namespaces within each class, in proportion, 1 to
    /// [`ResourcePolicy::SHARE_MAX`], of at most [`ResourcePolicy::SHARES_MAX`] namespaces. All
    /// others have a share of 1, the default.
    pub shares: BTreeMap<String, u32>,
    /// The HTTP status of its refusals, 400 to 599; `None`: that of the reason.
    pub status: Option<u16>,
    /// Whether answers about it carry its load level and its cursor; default false.
    pub show_load: bool,
}

impl ResourcePolicy {
    /// The longest name in bytes.
    pub const NAME_BYTES_MAX: usize = 128;
    /// The largest concurrency.
    pub const CONCURRENCY_MAX: u64 = 1_000_000;
    /// The most resources in one configuration.
    pub const COUNT_MAX: usize = 1000;
    /// The reserve unless told otherwise: 5 %.
    pub const RESERVE_PERCENT: u8 = 5;
    /// The largest reserve: half of the places.
    pub const RESERVE_PERCENT_MAX: u8 = 50;
    /// The largest share of a namespace.
    pub const SHARE_MAX: u32 = 10_000;
    /// The most namespaces with a share: as many as a resource tells apart.
    pub const SHARES_MAX: usize = 64;

    /// How long a request of this class may wait for a place; zero: it does not wait.
    pub fn wait(&self, class: Class) -> Duration {
        self.queue.as_ref().map_or(Duration::ZERO, |queue| queue.wait[class as usize])
    }

    /// How long a request of this class may wait whose route of the proxy lets it wait for `own`,
    /// zero for a route without `wait`: no longer than `queue.wait` says.
    pub fn wait_at_route(&self, own: Duration, class: Class) -> Duration {
        match &self.queue {
            Some(queue) if queue.bounds_waits && own.is_zero() => queue.wait[class as usize],
            Some(queue) if queue.bounds_waits => own.min(queue.wait[class as usize]),
            _ => own,
        }
    }
}

/// The most requests in flight at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConcurrencyPolicy {
    /// This many, 1 to [`ResourcePolicy::CONCURRENCY_MAX`].
    Fixed(u64),
    /// As many as the latency allows.
    Adaptive(AdaptivePolicy),
}

/// A limit on requests in flight that follows the latency of its resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AdaptivePolicy {
    /// The algorithm; default [`AdaptiveAlgorithm::Vegas`].
    pub algorithm: AdaptiveAlgorithm,
    /// The lowest limit, at least 1; default [`AdaptivePolicy::MIN`].
    pub min: u64,
    /// The highest limit, at least `min`; default [`AdaptivePolicy::MAX`].
    pub max: u64,
    /// The limit at the start, between the two; default [`AdaptivePolicy::INITIAL`].
    pub initial: u64,
    /// The latency above which the limit falls, 1 ms to 1 h; `None`: no latency is too high by
    /// itself.
    pub ceiling: Option<Duration>,
}

impl AdaptivePolicy {
    /// The lowest limit unless told otherwise.
    pub const MIN: u64 = 4;
    /// The highest limit unless told otherwise.
    pub const MAX: u64 = 1000;
    /// The limit at the start unless told otherwise.
    pub const INITIAL: u64 = 20;
}

impl Default for AdaptivePolicy {
    fn default() -> Self {
        Self {
            algorithm: AdaptiveAlgorithm::Vegas,
            min: Self::MIN,
            max: Self::MAX,
            initial: Self::INITIAL,
            ceiling: None,
        }
    }
}

/// The algorithm of an adaptive limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdaptiveAlgorithm {
    /// By the queue that latency shows.
    Vegas,
    /// By failures alone.
    Aimd,
    /// By the ratio of long-term to short-term latency.
    Gradient,
}

impl AdaptiveAlgorithm {
    /// The word in a policy.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Vegas => "vegas",
            Self::Aimd => "aimd",
            Self::Gradient => "gradient",
        }
    }
}

/// Whether the numbers of a resource are those of one member or of the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceShare {
    /// Each member has the whole numbers.
    Full,
    /// The members have equal parts of them, of at least 1.
    Auto,
}

/// How requests wait for a place of a resource.
///
/// Arrays by class begin with the least important class.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueuePolicy {
    /// The most requests that wait at a time, 1 to 1 000 000; default
    /// [`QueuePolicy::REQUESTS_DEFAULT`].
    pub requests: usize,
    /// The most bytes of requests that wait, 64 KiB to 64 GiB; default
    /// [`QueuePolicy::BYTES_DEFAULT`].
    pub bytes: usize,
    /// How long a request waits at most, by its class from the least important, 0 to 1 h; 0 does
    /// not wait. The default of a class is the longest wait of a lower class, and 0 for the lowest.
    pub wait: [Duration; Class::ALL.len()],
    /// Whether [`QueuePolicy::wait`] is written. Then it bounds the `wait` of a route; otherwise a
    /// request waits as long as its route says.
    pub bounds_waits: bool,
    /// The shares of the classes in proportion, 1 to [`QueuePolicy::WEIGHT_MAX`]; default
    /// [`QueuePolicy::WEIGHTS`].
    pub weights: [u64; Class::ALL.len()],
    /// The delay above which requests are shed, 1 ms to 1 h; `None`: the delay sheds none. Default
    /// [`QueuePolicy::DELAY_TARGETS`].
    pub delay_targets: [Option<Duration>; Class::ALL.len()],
    /// The share, in hundredths, that is left to a class which is served after all others, 0 to
    /// [`QueuePolicy::MIN_SHARE_PERCENT_MAX`]; `None`, the default: its weight counts.
    pub min_share_percent: [Option<u8>; Class::ALL.len()],
    /// The most that `critical_plus` takes before all others, in hundredths, 0 to 100; default
    /// [`QueuePolicy::PRIORITY_SHARE_PERCENT`].
    pub priority_share_percent: u8,
    /// Whether the newest request of a tenant comes first once the queue has stood; default false.
    pub lifo: [bool; Class::ALL.len()],
}

impl QueuePolicy {
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
    /// The weights unless told otherwise.
    pub const WEIGHTS: [u64; Class::ALL.len()] = [1, 4, 8, 16];
    /// The largest weight.
    pub const WEIGHT_MAX: u64 = 10_000;
    /// The targets of the delay unless told otherwise: 20 ms, and 5 ms from `critical` on.
    pub const DELAY_TARGETS: [Option<Duration>; Class::ALL.len()] = [
        Some(Duration::from_millis(20)),
        Some(Duration::from_millis(20)),
        Some(Duration::from_millis(5)),
        Some(Duration::from_millis(5)),
    ];
    /// The largest share of a class that is served after all others: 5 %.
    pub const MIN_SHARE_PERCENT_MAX: u8 = 5;
    /// The most that `critical_plus` takes before all others unless told otherwise: a half.
    pub const PRIORITY_SHARE_PERCENT: u8 = 50;
}

/// A signal: a measured number with a target.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SignalPolicy {
    /// Its name, unique, 1 to [`ResourcePolicy::NAME_BYTES_MAX`] bytes.
    pub name: String,
    /// The source of its values.
    pub source: SignalSourcePolicy,
    /// The value at which the pressure is 1, above 0.
    pub target: f64,
    /// The unit of its values, for people; empty: none.
    pub unit: String,
    /// The time constant of its moving average, 0 to 1 h; default [`SignalPolicy::SMOOTHING`].
    pub smoothing: Duration,
    /// The resource that it is about; `None`: all of them.
    pub resource: Option<String>,
}

impl SignalPolicy {
    /// The most signals in one configuration.
    pub const COUNT_MAX: usize = 1000;
    /// The longest unit in bytes.
    pub const UNIT_BYTES_MAX: usize = 32;
    /// The time constant unless told otherwise.
    pub const SMOOTHING: Duration = Duration::from_millis(500);
    /// How long a pushed value counts unless told otherwise.
    pub const TTL: Duration = Duration::from_secs(10);
    /// The shortest time for which a pushed value counts: one tick.
    pub const TTL_MIN: Duration = Duration::from_millis(100);
    /// The longest time of any setting of a signal.
    pub const SPAN_MAX: Duration = Duration::from_hours(1);
    /// The largest target.
    pub const TARGET_MAX: f64 = 1e15;
}

/// The source of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SignalSourcePolicy {
    /// The requests in flight divided by the limit.
    InFlight,
    /// The delay of the queue, in milliseconds.
    QueueDelay,
    /// The part of the answers that took longer than this, 1 ms to 1 h.
    SlowAnswers {
        /// The latency above which an answer is slow.
        slower_than: Duration,
    },
    /// Values that are pushed.
    Push {
        /// How long a value counts, 100 ms to 1 h; default [`SignalPolicy::TTL`].
        ttl: Duration,
    },
}
