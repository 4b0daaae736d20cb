//! The settings of deferral at one resource.

use core::time::Duration;

use tidegate_core::Class;

use crate::queue::fair_queue::{QueueConfig, Share};

/// The settings of deferral at one resource: whose refusals bring a ticket, and how much of the
/// resource is reserved for those who come back with one.
///
/// ```
/// # use tidegate_core::Class;
/// # use tidegate_overload::{DeferralConfig, DeferralConfigError, QueueConfig, Share};
/// let defer = DeferralConfig::new([Class::Sheddable]);
/// let queue = QueueConfig::default();
/// assert_eq!(defer.check(Some(&queue)), Ok(()));
/// let nothing = DeferralConfig { share: Share::NONE, ..defer };
/// assert_eq!(nothing.check(Some(&queue)), Err(DeferralConfigError::ShareZero));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeferralConfig {
    /// Whether requests of each class are deferred, in the order of [`Class::ALL`]. At least one
    /// class is.
    pub classes: [bool; Class::ALL.len()],
    /// The part of what is served that is reserved for requests with tickets, above 0 and at most
    /// [`DeferralConfig::SHARE_MAX`]; with the smallest shares of the classes in the background at
    /// most the whole. Default 0.2.
    pub share: Share,
    /// How far ahead seconds are sold, in whole seconds, [`DeferralConfig::HORIZON_MIN`] to
    /// [`DeferralConfig::HORIZON_MAX`]. Default an hour.
    pub horizon: Duration,
    /// The deferrals of one request that raise it by a cohort each, 0 to
    /// [`DeferralConfig::DEFERRALS_BOUND`]; further ones raise it no more. Default 5. 0: none does.
    pub max_deferrals: u8,
}

impl DeferralConfig {
    /// The largest share.
    pub const SHARE_MAX: Share = Share::ten_thousandths(9_000);
    /// The shortest horizon: 10 seconds.
    pub const HORIZON_MIN: Duration = Duration::from_secs(10);
    /// The longest horizon: an hour.
    pub const HORIZON_MAX: Duration = Duration::from_hours(1);
    /// The largest [`DeferralConfig::max_deferrals`].
    pub const DEFERRALS_BOUND: u8 = 100;

    /// The default settings for these classes.
    pub fn new(classes: impl IntoIterator<Item = Class>) -> Self {
        let mut of_class = [false; Class::ALL.len()];
        for class in classes {
            of_class[class as usize] = true;
        }
        Self {
            classes: of_class,
            share: Share::ten_thousandths(2_000),
            horizon: Self::HORIZON_MAX,
            max_deferrals: 5,
        }
    }

    /// Whether requests of a class are deferred.
    pub const fn takes(&self, class: Class) -> bool {
        self.classes[class as usize]
    }

    /// Whether a resource with this queue can work with these settings; the first mistake
    /// otherwise.
    pub fn check(&self, queue: Option<&QueueConfig>) -> Result<(), DeferralConfigError> {
        let Some(queue) = queue else { return Err(DeferralConfigError::NoQueue) };
        if self.classes == [false; Class::ALL.len()] {
            return Err(DeferralConfigError::NoClass);
        }
        if self.share == Share::NONE {
            return Err(DeferralConfigError::ShareZero);
        }
        let promised: u32 = queue.min_shares.into_iter().flatten().map(ten_thousandths_of).sum();
        let left = ten_thousandths_of(Self::SHARE_MAX)
            .min(ten_thousandths_of(Share::WHOLE).saturating_sub(promised));
        if ten_thousandths_of(self.share) > left {
            let most = Share::ten_thousandths(left as u16);
            return Err(DeferralConfigError::Share { share: self.share, most });
        }
        let is_whole = self.horizon.subsec_nanos() == 0;
        if !is_whole || !(Self::HORIZON_MIN..=Self::HORIZON_MAX).contains(&self.horizon) {
            return Err(DeferralConfigError::Horizon(self.horizon));
        }
        if self.max_deferrals > Self::DEFERRALS_BOUND {
            return Err(DeferralConfigError::MaxDeferrals(self.max_deferrals));
        }
        Ok(())
    }
}

/// A share in ten-thousandths.
fn ten_thousandths_of(share: Share) -> u32 {
    share.as_ten_thousandths().into()
}

/// Settings with which a resource cannot defer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeferralConfigError {
    /// No class is deferred.
    #[error("no class is deferred; name at least one, such as `classes: [sheddable]`")]
    NoClass,
    /// The resource has no fair queue, in which tickets could have a part of their own.
    #[error("a resource without a fair queue cannot reserve a part of itself; add `queue`")]
    NoQueue,
    /// Nothing is reserved.
    #[error("share 0 reserves nothing for those who come back; use a share such as 0.2, or remove `defer`")]
    ShareZero,
    /// The share is larger than what can be reserved.
    #[error(
        "share {share} is more than the {most} that can be reserved beside `min_share`; use at most {most}"
    )]
    Share {
        /// The share.
        share: Share,
        /// The largest one.
        most: Share,
    },
    /// The horizon is too short, too long or not of whole seconds.
    #[error("horizon {0:?} is not a number of whole seconds from 10s to 1h")]
    Horizon(Duration),
    /// Too many deferrals count.
    #[error("max_deferrals {0} is more than 100; use at most 100")]
    MaxDeferrals(u8),
}
