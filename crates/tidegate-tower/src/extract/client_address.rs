//! The address of the client, behind proxies as well.

use std::borrow::Cow;
use std::net::IpAddr;

use tidegate_core::matcher::MatcherError;
use tidegate_wire::client_address::ClientAddress;

use super::{Extract, Head, Rejection};

/// The address of the client: `peer` reads the address of the connection, which a server leaves in
/// the extensions of a request.
///
/// With axum that is `ConnectInfo`, for a server made by `into_make_service_with_connect_info`:
///
/// ```
/// use std::net::SocketAddr;
/// use axum::extract::ConnectInfo;
/// use tidegate_tower::extract::client_address;
///
/// let direct = client_address(|head| Some(head.extensions.get::<ConnectInfo<SocketAddr>>()?.0.ip()));
/// let behind_a_proxy = direct.clone().behind(["10.0.0.0/8"])?;
/// # Ok::<(), tidegate_core::matcher::MatcherError>(())
/// ```
pub fn client_address<F>(peer: F) -> FromClientAddress<F>
where
    F: Fn(&Head<'_>) -> Option<IpAddr> + Send + Sync + 'static,
{
    FromClientAddress { peer, behind: ClientAddress::default() }
}

/// See [`client_address`].
#[derive(Clone)]
pub struct FromClientAddress<F> {
    peer: F,
    behind: ClientAddress,
}

impl<F> FromClientAddress<F> {
    /// Trusts the proxies in these networks: of a connection from one of them the client is the
    /// last address in `X-Forwarded-For` that is not one of them, as the reverse proxy reads it
    /// ([`ClientAddress::of`]). Default: no proxy is trusted, and the header is not looked at,
    /// since every client can write it.
    pub fn behind<'n>(mut self, networks: impl IntoIterator<Item = &'n str>) -> Result<Self, MatcherError> {
        for network in networks {
            self.behind = self.behind.trusting(network.parse()?);
        }
        Ok(self)
    }

    /// Reads `Forwarded` (RFC 7239) instead of `X-Forwarded-For`. Choose the one that the proxies
    /// write: the other one comes from the client unchanged.
    #[must_use]
    pub fn by_forwarded(mut self) -> Self {
        self.behind = self.behind.by_forwarded();
        self
    }
}

impl<F> Extract for FromClientAddress<F>
where
    F: Fn(&Head<'_>) -> Option<IpAddr> + Send + Sync + 'static,
{
    fn extract<'h>(&'h self, head: &Head<'h>) -> Result<Option<Cow<'h, str>>, Rejection> {
        let client = (self.peer)(head).map(|peer| self.behind.of(head.headers, peer));
        Ok(client.map(|address| Cow::Owned(address.to_string())))
    }
}

tidegate_core::debug_fields!(FromClientAddress<F> { behind });
