//! The settings of a fair queue.

use core::fmt;
use core::time::Duration;

use tidegate_core::Class;

/// A part of a whole, in ten-thousandths: 0 to 1.
///
/// ```
/// # use tidegate_overload::Share;
/// assert_eq!(Share::from_ratio(0.05), Some(Share::ten_thousandths(500)));
/// assert_eq!(Share::from_ratio(f64::NAN), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share(u16);

impl Share {
    /// Nothing of the whole.
    pub const NONE: Self = Self(0);
    /// All of the whole.
    pub const WHOLE: Self = Self(10_000);
    /// Half of the whole.
    pub const HALF: Self = Self(5_000);

    /// So many ten-thousandths; more than 10 000 count as the whole.
    pub const fn ten_thousandths(count: u16) -> Self {
        Self(if count > 10_000 { 10_000 } else { count })
    }

    /// So many hundredths; more than 100 count as the whole.
    pub const fn percent(count: u8) -> Self {
        Self::ten_thousandths(count as u16 * 100)
    }

    /// The share in ten-thousandths.
    pub const fn as_ten_thousandths(self) -> u16 {
        self.0
    }

    /// The whole hundredths of the share.
    pub const fn as_percent(self) -> u8 {
        (self.0 / 100) as u8
    }

    /// The nearest share to a ratio of 0 to 1; `None` for any other number.
    #[expect(clippy::cast_sign_loss, reason = "the ratio is between 0 and 1")]
    pub fn from_ratio(ratio: f64) -> Option<Self> {
        (0.0..=1.0).contains(&ratio).then(|| Self((ratio * 10_000.0).round() as u16))
    }

    /// The share as a ratio, 0 to 1.
    pub fn as_ratio(self) -> f64 {
        f64::from(self.0) / 10_000.0
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ratio().fmt(f)
    }
}

/// The settings of a [`FairQueue`](crate::FairQueue). Arrays are in the order of [`Class::ALL`],
/// the least important class first.
///
/// ```
/// # use tidegate_core::Class;
/// # use tidegate_overload::{QueueConfig, QueueConfigError};
/// let config = QueueConfig::default().weight(Class::Sheddable, 0);
/// assert_eq!(config.check(), Err(QueueConfigError::Weight { class: Class::Sheddable, weight: 0 }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueConfig {
    /// The weight of each class, 1 to [`QueueConfig::WEIGHT_MAX`]: while several classes wait, the
    /// cost served of each is proportional to it. Defaults to 1, 4, 8 and 16.
    pub weights: [u32; 4],
    /// The queue delay that each class is to stay under; a request above twice the target is shed
    /// while the delay stands. `None`: the class is not shed by delay. Defaults to 20 ms for the
    /// sheddable classes and 5 ms for the critical ones.
    pub delay_targets: [Option<Duration>; 4],
    /// The classes whose newest request is served first once requests of the class have waited
    /// without a break for [`QueueConfig::LIFO_AFTER`]. Defaults to none.
    pub lifo: [bool; 4],
    /// The share of the served cost for a background class, 0 to [`QueueConfig::MIN_SHARE_MAX`]:
    /// beyond the share, the class is served only while no other class waits, so that it starves at
    /// a share of 0. `None`, the default: the class competes by its weight.
    pub min_shares: [Option<Share>; 4],
    /// The share of the served cost up to which `critical_plus` is served before all others; beyond
    /// the share it competes by its weight. 0: it always competes. Defaults to one half.
    pub reserve_share: Share,
    /// The share of the served cost up to which requests with tickets are served before all others;
    /// beyond the share they are the first of their class. Default 0.
    pub ticket_share: Share,
    /// The most tenants of a class that have a sub-queue of their own, 0 to
    /// [`QueueConfig::FLOWS_BOUND`], divided by the namespaces that have requests there. The
    /// requests of further tenants are distributed over 128 sub-queues of their namespace. Defaults
    /// to 4096.
    pub flows_max: usize,
}

impl QueueConfig {
    /// The largest weight.
    pub const WEIGHT_MAX: u32 = 10_000;
    /// The largest share of a background class.
    pub const MIN_SHARE_MAX: Share = Share::ten_thousandths(500);
    /// The largest [`QueueConfig::flows_max`].
    pub const FLOWS_BOUND: usize = 1 << 20;
    /// After so long a queue stands, and the classes of [`QueueConfig::lifo`] change their order.
    pub const LIFO_AFTER: Duration = Duration::from_millis(100);

    /// The same, with another weight of a class.
    #[must_use]
    pub const fn weight(mut self, class: Class, weight: u32) -> Self {
        self.weights[class as usize] = weight;
        self
    }

    /// The same, with another delay target of a class; `None` turns shedding by delay off.
    #[must_use]
    pub const fn delay_target(mut self, class: Class, target: Option<Duration>) -> Self {
        self.delay_targets[class as usize] = target;
        self
    }

    /// The same, with the newest request of a class first while its queue stands.
    #[must_use]
    pub const fn lifo(mut self, class: Class) -> Self {
        self.lifo[class as usize] = true;
        self
    }

    /// The same, with a class served in the background only, except for a share.
    #[must_use]
    pub const fn min_share(mut self, class: Class, share: Share) -> Self {
        self.min_shares[class as usize] = Some(share);
        self
    }

    /// The same, with another share for `critical_plus` before all others.
    #[must_use]
    pub const fn reserve_share(mut self, share: Share) -> Self {
        self.reserve_share = share;
        self
    }

    /// The same, with a share for requests with tickets before all others.
    #[must_use]
    pub const fn ticket_share(mut self, share: Share) -> Self {
        self.ticket_share = share;
        self
    }

    /// The same, with sub-queues of their own for so many tenants.
    #[must_use]
    pub const fn flows_max(mut self, flows: usize) -> Self {
        self.flows_max = flows;
        self
    }

    /// Whether a queue can work with these settings; the first mistake otherwise.
    pub fn check(&self) -> Result<(), QueueConfigError> {
        for class in Class::ALL {
            let weight = self.weights[class as usize];
            if !(1..=Self::WEIGHT_MAX).contains(&weight) {
                return Err(QueueConfigError::Weight { class, weight });
            }
            if self.delay_targets[class as usize] == Some(Duration::ZERO) {
                return Err(QueueConfigError::DelayTarget { class });
            }
            match self.min_shares[class as usize] {
                Some(_) if class == Class::CriticalPlus => return Err(QueueConfigError::MinShareOfReserve),
                Some(share) if share > Self::MIN_SHARE_MAX => {
                    return Err(QueueConfigError::MinShare { class, share });
                }
                _ => {}
            }
        }
        if self.flows_max > Self::FLOWS_BOUND {
            return Err(QueueConfigError::FlowsMax { flows_max: self.flows_max });
        }
        Ok(())
    }
}

impl Default for QueueConfig {
    fn default() -> Self {
        let (low, high) = (Some(Duration::from_millis(20)), Some(Duration::from_millis(5)));
        Self {
            weights: [1, 4, 8, 16],
            delay_targets: [low, low, high, high],
            lifo: [false; 4],
            min_shares: [None; 4],
            reserve_share: Share::HALF,
            ticket_share: Share::NONE,
            flows_max: 4096,
        }
    }
}

/// A setting with which a queue cannot work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueueConfigError {
    /// A weight is zero or too large.
    #[error(
        "weight {weight} of {class} is not between 1 and 10000; use `min_share: 0` for a class that may starve"
    )]
    Weight {
        /// The class.
        class: Class,
        /// Its weight.
        weight: u32,
    },
    /// A delay target is zero.
    #[error("delay target 0 of {class} sheds every request that waits; use at least 1ms, or turn it off")]
    DelayTarget {
        /// The class.
        class: Class,
    },
    /// The share of a background class is too large.
    #[error("min_share {share} of {class} is not between 0 and 0.05; use a weight for a larger share")]
    MinShare {
        /// The class.
        class: Class,
        /// Its share.
        share: Share,
    },
    /// The highest class is to be a background class.
    #[error("min_share of critical_plus contradicts its reserve; remove it, or give it to another class")]
    MinShareOfReserve,
    /// There are to be too many sub-queues.
    #[error(
        "{flows_max} sub-queues are too many; use at most 1048576, further tenants share 128 of a namespace"
    )]
    FlowsMax {
        /// The sub-queues.
        flows_max: usize,
    },
}
