//! Connections to servers, with TLS for addresses of https.

use core::error::Error;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::io;

use http::Uri;
use http::uri::Scheme;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::AlertDescription;
use tidegate_core::display::HumanDuration;
use tidegate_policy::policy::proxy as policy;
use tower_service::Service;

use super::connection::ServerConnection;
use super::tls::UpstreamTlsConfig;

type BoxError = Box<dyn Error + Send + Sync>;

/// Connects to the servers of an upstream.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    http: HttpConnector,
    tls: Option<UpstreamTlsConfig>,
    http2: bool,
    /// How long the name of the server, the connection and TLS may take together.
    patience: Duration,
}

/// Why there is no connection. Nothing of a request was sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("no connection within {}, name and TLS included", HumanDuration(*.0))]
    Slow(Duration),
    #[error("the server's address is https, and the upstream has no TLS")]
    NoTls,
    #[error("the server does not speak TLS")]
    NotTls,
    #[error("the TLS handshake failed")]
    Handshake(#[source] io::Error),
    #[error("the server does not agree to HTTP/2 (h2 by ALPN); take out `http2`, or have it speak that")]
    NoHttp2,
    #[error(transparent)]
    Tcp(BoxError),
}

impl Connector {
    pub(super) fn new(config: &policy::Upstream, tls: Option<UpstreamTlsConfig>) -> Self {
        let mut http = HttpConnector::new();
        http.set_nodelay(true);
        // So that the first of several addresses leaves time for the others.
        http.set_connect_timeout(Some(config.connect_timeout));
        http.enforce_http(false);
        Self { http, tls, http2: config.http2, patience: config.connect_timeout }
    }
}

impl Service<Uri> for Connector {
    type Response = ServerConnection;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ConnectError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        self.http.poll_ready(cx).map_err(|error| ConnectError::Tcp(error.into()))
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let connecting = connect(self.http.clone(), self.tls.clone(), self.http2, server);
        let patience = self.patience;
        Box::pin(async move {
            tokio::time::timeout(patience, connecting).await.unwrap_or(Err(ConnectError::Slow(patience)))
        })
    }
}

async fn connect(
    mut http: HttpConnector,
    tls: Option<UpstreamTlsConfig>,
    http2: bool,
    server: Uri,
) -> Result<ServerConnection, ConnectError> {
    if server.scheme() != Some(&Scheme::HTTPS) {
        let stream = http.call(server).await.map_err(|error| ConnectError::Tcp(error.into()))?;
        return Ok(ServerConnection::new(MaybeHttpsStream::Http(stream)));
    }
    let tls = tls.ok_or(ConnectError::NoTls)?;
    // Made for each connection, so that it uses the certificates that the files hold now.
    let mut secured = HttpsConnector::new(http, tls.config(http2), true, tls.names());
    let connection = ServerConnection::new(secured.call(server).await.map_err(why)?);
    if http2 && connection.alpn_protocol() != Some(b"h2") {
        return Err(ConnectError::NoHttp2);
    }
    Ok(connection)
}

/// Errors of TLS come as the system's do; errors of TCP have their own type.
fn why(error: BoxError) -> ConnectError {
    match error.downcast::<io::Error>() {
        Err(error) => ConnectError::Tcp(error),
        Ok(error) => match of_tls(&*error) {
            Some(rustls::Error::InvalidMessage(_)) => ConnectError::NotTls,
            Some(rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)) => {
                ConnectError::NoHttp2
            }
            _ => ConnectError::Handshake(*error),
        },
    }
}

/// Whether a server turned us away for our certificate, or for having none. In TLS 1.3 this comes
/// when our side of the handshake is over, so that a request may be on its way, which such a server
/// does not read.
pub(crate) fn turned_away(error: &(dyn Error + 'static)) -> bool {
    matches!(
        of_tls(error),
        Some(rustls::Error::AlertReceived(
            AlertDescription::CertificateRequired
                | AlertDescription::BadCertificate
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateRevoked
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateUnknown
                | AlertDescription::UnknownCA
                | AlertDescription::AccessDenied
                | AlertDescription::HandshakeFailure
                | AlertDescription::DecryptError
        ))
    )
}

/// The TLS error among an error and its causes.
fn of_tls<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<rustls::Error>() {
            return Some(found);
        }
        // `io::Error` does not return the error that it wraps as a source.
        next = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}
