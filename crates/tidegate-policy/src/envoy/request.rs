//! The descriptors of a request.

use super::Unit;

/// The most descriptors that the attributes of one request may match.
pub const DESCRIPTORS_MAX: usize = 128;

/// One descriptor of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Descriptor<'a> {
    /// Its entries in order, each a key and a value. The value may be empty.
    pub entries: Vec<(&'a str, &'a str)>,
    /// A limit that takes the place of the file's; `None` leaves it to the file.
    pub limit: Option<DescriptorLimit>,
    /// How many hits it is; 0 only looks. `None` takes the request's, and at least 1.
    pub hits: Option<u64>,
    /// Whether the hits are given back rather than charged. Such a descriptor is never over its
    /// limit.
    pub gives_back: bool,
    /// Whether it is only asked if there is room for the hits, and nothing is charged.
    pub peeks: bool,
}

impl<'a> Descriptor<'a> {
    /// A descriptor of these entries that leaves everything else to the request and the files.
    pub fn new(entries: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self {
            entries: entries.into_iter().collect(),
            limit: None,
            hits: None,
            gives_back: false,
            peeks: false,
        }
    }
}

/// A limit that comes with a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorLimit {
    /// How many hits in each unit; 0 lets nothing through.
    pub requests_per_unit: u32,
    /// The unit.
    pub unit: Unit,
}

impl DescriptorLimit {
    /// A limit with the unit that has this number in a message: 1 to 7, of which 7 is a week.
    ///
    /// The error is for the sender: the number is 0 or stands for no unit.
    pub fn new(requests_per_unit: u32, unit: i32) -> Result<Self, RequestError> {
        let unit = Unit::from_number(unit).ok_or(RequestError::Unit(unit))?;
        Ok(Self { requests_per_unit, unit })
    }
}

/// Why a request cannot be decided upon; its sender is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestError {
    /// It names no domain.
    NoDomain,
    /// It has no descriptor.
    NoDescriptors,
    /// The limit of a descriptor has no unit that there is.
    Unit(i32),
    /// The attributes match more descriptors of the files than [`DESCRIPTORS_MAX`], or thousands of
    /// ways to none.
    TooManyDescriptors,
}

impl core::fmt::Display for RequestError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NoDomain => f.write_str("the domain of the request is empty; name the domain of a file"),
            Self::NoDescriptors => f.write_str("the request has no descriptors; send at least one"),
            Self::TooManyDescriptors => write!(
                f,
                "the attributes match more than {DESCRIPTORS_MAX} descriptors of the files, or too many above them; send fewer \
                 attributes"
            ),
            Self::Unit(number) => {
                let range = "use 1 (second) to 6 (year), or 7 (week)";
                write!(f, "the limit of a descriptor has unknown unit {number}; {range}")
            }
        }
    }
}

impl core::error::Error for RequestError {}
