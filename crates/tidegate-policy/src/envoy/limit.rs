//! One limit, from the file or from a request.

use core::time::Duration;

use tidegate_core::Algorithm;
use tidegate_core::algorithm::{Fixed, WindowStart};
use tidegate_core::rate::format_span;

use super::{DescriptorLimit, Unit};

/// A limit with what it is called and how it is told.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Limit {
    /// The number as it is written, which is what answers say.
    pub(super) requests_per_unit: u32,
    /// The unit it is told in; `None` where the window is of a length that no unit has.
    pub(super) unit: Option<Unit>,
    /// How it counts.
    pub(super) algorithm: Algorithm,
    /// The kind and the length of its windows: two limits of one descriptor that have the same are
    /// one counter.
    pub(super) identity: Box<str>,
    /// The end of the counter's key of a bucket. A bucket refills all the time, so the length of a
    /// window does not tell its counter from another limit's.
    pub(super) own_key: Option<Box<str>>,
    /// Its name; empty for none.
    pub(super) name: Box<str>,
    /// The names of the limits it takes the place of.
    pub(super) replaces: Vec<Box<str>>,
}

impl Limit {
    /// The peer's limit: so many in each window of a unit, aligned to the epoch.
    ///
    /// A second counts at most 2^29 - 1, which a single counter does not see in a second.
    pub(super) fn per_unit(requests_per_unit: u32, unit: Unit) -> Self {
        let fixed = Fixed::saturating(requests_per_unit.into(), unit.length(), WindowStart::Epoch)
            .expect("every unit is within the bounds of a window");
        Self::new(requests_per_unit, Some(unit), Algorithm::Fixed(fixed), unit.length())
    }

    /// A limit of any algorithm, without a name, that counts over `length`.
    pub(super) fn new(
        requests_per_unit: u32,
        unit: Option<Unit>,
        algorithm: Algorithm,
        length: Duration,
    ) -> Self {
        let identity: Box<str> = format!("{}/{}", algorithm.name(), format_span(length)).into();
        let own_key = matches!(algorithm, Algorithm::Bucket(_)).then(|| identity.clone());
        let (name, replaces) = ("".into(), Vec::new());
        Self { requests_per_unit, unit, algorithm, identity, own_key, name, replaces }
    }

    /// The length of its windows, where they are aligned to the epoch, so that they end without
    /// anyone being asked.
    pub(super) fn aligned(&self) -> Option<Duration> {
        match &self.algorithm {
            Algorithm::Fixed(fixed) => Some(fixed.window()),
            _ => None,
        }
    }
}

impl From<DescriptorLimit> for Limit {
    fn from(limit: DescriptorLimit) -> Self {
        Self::per_unit(limit.requests_per_unit, limit.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_every_unit_makes_a_limit() {
        let per_second_max = (1 << 29) - 1;
        for unit in Unit::ALL {
            for requests in [0, 1, per_second_max, per_second_max + 1, u32::MAX] {
                let limit = Limit::per_unit(requests, unit);
                assert_eq!((limit.requests_per_unit, limit.unit), (requests, Some(unit)));
                let counted = if unit == Unit::Second { requests.min(per_second_max) } else { requests };
                assert_eq!(limit.algorithm.limit(), u64::from(counted), "{unit:?}");
            }
        }
    }

    #[test]
    fn only_a_window_of_another_length_or_kind_is_another_counter() {
        let identity = |requests, unit| Limit::per_unit(requests, unit).identity;
        assert_eq!(identity(1, Unit::Minute), identity(2, Unit::Minute));
        let all: std::collections::BTreeSet<_> = Unit::ALL.map(|unit| identity(1, unit)).into();
        assert_eq!(all.len(), Unit::ALL.len());
    }
}
