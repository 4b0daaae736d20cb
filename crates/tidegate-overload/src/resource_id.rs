//! The number of a resource within its overload plane.

/// A resource of one overload plane: an upstream of the proxy, a tower layer, a namespace at the
/// API.
///
/// Only `Overload::find` and `Overload::resources` make one. It belongs to the plane that made it;
/// a plane panics at an id that is larger than the number of its resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId(pub(crate) u16);

impl ResourceId {
    /// Its position among the resources of its plane.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
