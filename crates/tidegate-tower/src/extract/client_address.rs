//! The address of the client, behind proxies as well.

use core::fmt;
use std::borrow::Cow;
use std::net::IpAddr;

use http::header::HeaderName;
use tidegate_core::matcher::{MatcherError, Network};

use super::{Extract, Head, Rejection};

/// How many proxies are followed; a longer list is cut off at its left.
const PROXIES_MAX: usize = 32;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

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
    FromClientAddress { peer, trusted: Vec::new() }
}

/// See [`client_address`].
#[derive(Clone)]
pub struct FromClientAddress<F> {
    peer: F,
    trusted: Vec<Network>,
}

impl<F> FromClientAddress<F> {
    /// Trusts the proxies in these networks: of a connection from one of them the client is the
    /// last address in `X-Forwarded-For` that is not one of them. Default: no proxy is trusted, and
    /// the header is not looked at, since every client can write it.
    pub fn behind<'n>(mut self, networks: impl IntoIterator<Item = &'n str>) -> Result<Self, MatcherError> {
        for network in networks {
            self.trusted.push(network.parse()?);
        }
        Ok(self)
    }

    fn is_trusted(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains_address(address))
    }
}

impl<F> Extract for FromClientAddress<F>
where
    F: Fn(&Head<'_>) -> Option<IpAddr> + Send + Sync + 'static,
{
    fn extract<'h>(&'h self, head: &Head<'h>) -> Result<Option<Cow<'h, str>>, Rejection> {
        let Some(peer) = (self.peer)(head) else { return Ok(None) };
        let mut client = peer.to_canonical();
        let values = head.headers.get_all(X_FORWARDED_FOR);
        // Each proxy appends the address that it saw, in the last of several header lines.
        let hops = values.iter().rev().flat_map(|value| value.as_bytes().rsplit(|byte| *byte == b','));
        for hop in hops.take(PROXIES_MAX) {
            if !self.is_trusted(client) {
                break;
            }
            // Anything but an address ends the list: the trusted proxy before it is the client.
            let Some(address) =
                core::str::from_utf8(hop).ok().and_then(|hop| hop.trim().parse::<IpAddr>().ok())
            else {
                break;
            };
            client = address.to_canonical();
        }
        Ok(Some(Cow::Owned(client.to_string())))
    }
}

impl<F> fmt::Debug for FromClientAddress<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromClientAddress").field("trusted", &self.trusted).finish_non_exhaustive()
    }
}
