//! The importance of a request: Google's criticality.

use core::fmt;
use core::str::FromStr;

/// The criticality of a request, most important last.
///
/// When the system is over what it can bear, a class is shed only after all lower ones are.
/// Defaults to [`Class::SheddablePlus`]. Source: *Site Reliability Engineering*, chapter 21,
/// "Handling Overload".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Shed first; its callers expect to be partly unavailable.
    Sheddable,
    /// The default: batch work and whatever says nothing of itself.
    #[default]
    SheddablePlus,
    /// A user sees it fail.
    Critical,
    /// The most serious; shed last.
    CriticalPlus,
}

impl Class {
    /// All classes, least important first.
    pub const ALL: [Self; 4] = [Self::Sheddable, Self::SheddablePlus, Self::Critical, Self::CriticalPlus];

    /// The name it has in policies, requests and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sheddable => "sheddable",
            Self::SheddablePlus => "sheddable_plus",
            Self::Critical => "critical",
            Self::CriticalPlus => "critical_plus",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A name that is no class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("class \"{0}\" does not exist; use critical_plus, critical, sheddable_plus or sheddable")]
pub struct UnknownClass(pub String);

impl FromStr for Class {
    type Err = UnknownClass;

    fn from_str(name: &str) -> Result<Self, UnknownClass> {
        Self::ALL
            .into_iter()
            .find(|class| class.as_str() == name)
            .ok_or_else(|| UnknownClass(name.chars().take(64).collect()))
    }
}
