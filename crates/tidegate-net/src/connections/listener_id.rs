//! Which listener a connection belongs to.

/// Which listener accepted a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListenerId {
    /// Different for each listener of a daemon.
    pub index: usize,
    /// Its name in the policy: `http`, `admin`, `proxy`, `grpc` or `resp`.
    pub name: &'static str,
}
