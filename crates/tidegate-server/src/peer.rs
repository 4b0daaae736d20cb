//! The peer of a connection.

use core::net::IpAddr;

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// Its address; `None` on a Unix socket.
    pub(crate) address: Option<IpAddr>,
    /// Whether it speaks TLS.
    pub(crate) is_tls: bool,
    /// Whether the address is the peer's own. Behind a load balancer that names no client it is
    /// not, and forwarding headers are then ignored: any client of the balancer may have sent them.
    pub(crate) is_named: bool,
}
