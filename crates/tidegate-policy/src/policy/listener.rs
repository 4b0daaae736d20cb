//! Checked listeners.

use core::fmt;

use super::Address;

/// The role of a listener: its protocol and its callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ListenerRole {
    /// The HTTP API.
    Http,
    /// The HTTP API for operators only: health, metrics and changes.
    Admin,
    /// The reverse proxy.
    Proxy,
    /// gRPC: Envoy's rate limit service, health, reflection.
    Grpc,
    /// Redis clients.
    Resp,
}

impl ListenerRole {
    /// All roles, in the order of the policy.
    pub const ALL: [Self; 5] = [Self::Http, Self::Admin, Self::Proxy, Self::Grpc, Self::Resp];

    /// Its key under `listen:`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Admin => "admin",
            Self::Proxy => "proxy",
            Self::Grpc => "grpc",
            Self::Resp => "resp",
        }
    }

    /// The port that callers expect of its protocol; `None` if there is no such port.
    pub(crate) const fn usual_port(self) -> Option<u16> {
        match self {
            Self::Grpc => Some(8081),
            Self::Resp => Some(6380),
            Self::Http | Self::Admin | Self::Proxy => None,
        }
    }

    /// Whether its callers need a grant where a policy has grants. A request that the reverse proxy
    /// passes on shows none to this daemon.
    pub const fn asks_for_grants(self) -> bool {
        !matches!(self, Self::Proxy)
    }
}

impl fmt::Display for ListenerRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One listener.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListenerPolicy {
    /// Its protocol and callers.
    pub role: ListenerRole,
    /// Where.
    pub address: Address,
    /// Whether it was said to listen beyond loopback without authorization; always true for an
    /// address beyond loopback.
    pub insecure: bool,
    /// Whether connections begin with the PROXY protocol, version 1 or 2; only ever on the listener
    /// of the reverse proxy. Then each must, and come from a peer that the proxy trusts; others are
    /// closed.
    pub proxy_protocol: bool,
    /// Its TLS; default none.
    pub tls: Option<Tls>,
}

impl ListenerPolicy {
    /// A listener without TLS.
    pub const fn new(role: ListenerRole, address: Address) -> Self {
        Self { role, address, insecure: false, proxy_protocol: false, tls: None }
    }

    /// Whether it serves only clients with a certificate of its authorities.
    pub fn asks_for_certificates(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some())
    }
}

/// The files of a listener's TLS, each a path of 1 to [`PATH_BYTES_MAX`](super::PATH_BYTES_MAX)
/// bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The certificate, followed by those that lead to a root.
    pub cert: String,
    /// Its private key.
    pub key: String,
    /// Certificates that clients must come from; `None` asks clients for none.
    pub client_ca: Option<String>,
}
