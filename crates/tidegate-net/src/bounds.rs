//! The bounds of requests, connections, buffers and waits of callers.

use core::time::Duration;

/// Every bound of a listener, with its default and the reaction at the bound.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bounds {
    /// The largest body in bytes. Default 64 KiB. Above it: 413, and the rest of the body is
    /// discarded for at most [`Bounds::linger`] so that the sender gets to read the answer.
    pub body_bytes: usize,
    /// The largest message of a gRPC call in bytes. Default 256 KiB, which holds several
    /// descriptors with as much as Envoy takes of one client's headers. Above it the call is a bad
    /// one. Also the largest body of `/json`.
    pub grpc_message_bytes: usize,
    /// The most headers of a request. Default 100. Above it: 431 and the connection closes.
    pub headers: usize,
    /// The largest request line and headers together in bytes. Default 16 KiB, at least 8 KiB.
    /// Above it: 431 and the connection closes.
    pub header_bytes: usize,
    /// The longest request target in bytes. Default 8 KiB. Above it: 414.
    pub uri_bytes: usize,
    /// The most attributes of a request. Default 64, which is also the most there may be. Above
    /// it: 400.
    pub attributes: usize,
    /// The longest name or value of an attribute in bytes. Default 1 KiB. Above it: 400; cutting it
    /// would join counters.
    pub attribute_bytes: usize,
    /// The most connections of all callers' listeners together. Default 10 000. At it they accept
    /// no more until one closes; new ones wait in the backlog of the kernel.
    pub connections: usize,
    /// The most connections of the admin listener, if it has an address of its own. Default 64.
    /// They do not count as callers', so that a full listener leaves metrics and health in reach.
    pub admin_connections: usize,
    /// How many connections the kernel keeps waiting. Default 1024.
    pub backlog: u32,
    /// The most requests at a time on one HTTP/2 connection. Default 256. Above it the stream is
    /// refused.
    pub streams: u32,
    /// How long a request line and headers may take from their first byte. Default 10 s. After it
    /// the connection closes.
    pub header_timeout: Duration,
    /// How long a body may take after the headers. Default 10 s. After it: 408 and the connection
    /// closes.
    pub body_timeout: Duration,
    /// How long a connection may stay without a request. Default 75 s, longer than gateways keep
    /// theirs. After it the connection closes. It also bounds how long an answer may wait for a
    /// client that does not read, and how long a list that is made while it is sent may take in
    /// all; an answer that is passed on, as long as its route says.
    pub idle_timeout: Duration,
    /// How long the rest of a body that was refused is discarded. Default 2 s.
    pub linger: Duration,
    /// How long requests in flight are waited for when the daemon stops. Default 30 s. After it
    /// they are cut off, which is logged.
    pub drain: Duration,
    /// How long, of that time, a connection that is open when the daemon begins to drain may still
    /// send a request: it is answered and then closed. A connection without a request is closed
    /// when this is over. Default 500 ms; zero closes idle connections at once, and a request on
    /// its way to one of them is lost.
    pub drain_grace: Duration,
    /// How long a permit is kept when its holds do not expire by themselves. Default 1 min. After
    /// it the permit is dropped, which returns its holds.
    pub permit_expiry: Duration,
    /// How long one call to the store may take. Default 50 ms. After it the request is decided
    /// without the store, as the policy says.
    pub store_timeout: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            body_bytes: 64 << 10,
            grpc_message_bytes: 256 << 10,
            headers: 100,
            header_bytes: 16 << 10,
            uri_bytes: 8 << 10,
            attributes: tidegate_core::Attributes::MAX,
            attribute_bytes: 1 << 10,
            connections: 10_000,
            admin_connections: 64,
            backlog: 1024,
            streams: 256,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            linger: Duration::from_secs(2),
            drain: Duration::from_secs(30),
            drain_grace: Duration::from_millis(500),
            permit_expiry: Duration::from_mins(1),
            store_timeout: Duration::from_millis(50),
        }
    }
}
