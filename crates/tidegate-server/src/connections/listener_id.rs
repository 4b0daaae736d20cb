//! Which listener a connection belongs to.

/// Which listener accepted a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListenerId {
    /// Different for each listener of a daemon.
    pub(crate) index: usize,
    /// Its name in the policy: `http`, `admin`, `proxy`, `grpc` or `resp`.
    pub(crate) name: &'static str,
}
