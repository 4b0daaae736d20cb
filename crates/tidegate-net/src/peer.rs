//! The peer of a connection.

use core::net::IpAddr;

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Its address; `None` on a Unix socket.
    pub address: Option<IpAddr>,
    /// Whether it speaks TLS.
    pub is_tls: bool,
    /// Whether the address is the peer's own. Behind a load balancer that names no client it is
    /// not, and forwarding headers are then ignored: any client of the balancer may have sent them.
    pub is_named: bool,
}
