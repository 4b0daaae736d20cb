//! The connection of a request, as protocols over HTTP see it.

use std::sync::Arc;

use tidegate_net::Peer;
use tidegate_net::connections::ConnectionActivity;

use crate::listener::listener_service::ListenerService;

/// The connection of a request.
#[derive(Debug)]
pub(crate) struct RequestConnection {
    pub(crate) line: Arc<ConnectionActivity>,
    /// The names in the certificate that its client showed; none without one.
    pub(crate) names: Arc<[String]>,
    pub(crate) peer: Peer,
    /// The service of its listener.
    pub(crate) serves: ListenerService,
}
