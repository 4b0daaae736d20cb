//! The pressure of a sample, divided by whose work it came from.

use tidegate_core::Class;

use super::history_sample::{HistorySample, ShareTotals};

/// The name of the one area of a sample without work.
pub const UNATTRIBUTED: &str = "unattributed";

/// Whose work an area stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AreaOwner {
    /// A feature.
    #[default]
    Feature,
    /// A class.
    Class,
    /// A namespace.
    Namespace,
}

impl AreaOwner {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Feature, Self::Class, Self::Namespace];

    /// The name: `feature`, `class` or `namespace`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Feature => "feature",
            Self::Class => "class",
            Self::Namespace => "namespace",
        }
    }

    /// The one of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|owner| owner.as_str() == name)
    }
}

/// The measure by which the pressure of a sample is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AreaMeasure {
    /// By the time for which requests held places.
    PlaceTime,
    /// By units, because no end of the work is known.
    Units,
    /// By nothing: there was no work.
    Nothing,
}

impl AreaMeasure {
    /// The measure of a sample.
    pub fn from_sample(sample: &HistorySample) -> Self {
        if sample.classes.iter().any(|totals| totals.place_time_ns > 0) {
            Self::PlaceTime
        } else if sample.classes.iter().any(|totals| totals.units > 0) {
            Self::Units
        } else {
            Self::Nothing
        }
    }

    /// The name: `place_time`, `units` or `nothing`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PlaceTime => "place_time",
            Self::Units => "units",
            Self::Nothing => "nothing",
        }
    }

    const fn weight(self, totals: ShareTotals) -> u64 {
        match self {
            Self::PlaceTime => totals.place_time_ns,
            Self::Units => totals.units,
            Self::Nothing => 0,
        }
    }
}

impl HistorySample {
    /// The work of the sample, by name. Classes begin with the most important one, without those
    /// that had no work.
    pub fn work(&self, by: AreaOwner) -> Vec<(&str, ShareTotals)> {
        let of_rows = match by {
            AreaOwner::Feature => &self.features,
            AreaOwner::Namespace => &self.namespaces,
            AreaOwner::Class => {
                let classes = Class::ALL.into_iter().zip(self.classes).rev();
                let worked = classes.filter(|(_, totals)| *totals != ShareTotals::default());
                return worked.map(|(class, totals)| (class.as_str(), totals)).collect();
            }
        };
        of_rows.iter().map(|row| (&*row.name, row.totals)).collect()
    }
}

/// The areas of a sample: names and heights, which add up to its pressure. Empty if its pressure is
/// not known; without work, one area [`UNATTRIBUTED`] of the whole height.
pub fn areas(sample: &HistorySample, by: AreaOwner) -> Vec<(&str, f64)> {
    let Some(pressure) = sample.pressure else { return Vec::new() };
    let measure = AreaMeasure::from_sample(sample);
    let weights: Vec<(&str, u64)> =
        sample.work(by).into_iter().map(|(name, totals)| (name, measure.weight(totals))).collect();
    let whole: u128 = weights.iter().map(|(_, weight)| u128::from(*weight)).sum();
    if whole == 0 {
        return vec![(UNATTRIBUTED, pressure)];
    }
    let worked = weights.into_iter().filter(|(_, weight)| *weight > 0);
    worked.map(|(name, weight)| (name, pressure * part(weight, whole))).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a part of a picture, exact to 1e-15")]
fn part(weight: u64, whole: u128) -> f64 {
    weight as f64 / whole as f64
}
