//! TLS to a daemon: the trusted roots and the client's certificate.

use std::io;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tidegate_server::tls::{ClientCertificate, PemFile, TlsError, client_config};
use tokio_rustls::TlsConnector;

use super::error::ClientError;
use crate::address::Protocol;
use crate::arguments::request::Daemon;

pub(super) fn connector(daemon: &Daemon) -> Result<TlsConnector, ClientError> {
    let config = || -> Result<ClientConfig, TlsError> {
        let ca = daemon.credentials.ca.as_deref().map(PemFile::read).transpose()?;
        let certificate = match (&daemon.credentials.cert, &daemon.credentials.cert_key) {
            (Some(cert), Some(key)) => {
                Some(ClientCertificate { cert: PemFile::read(cert)?, key: PemFile::read(key)? })
            }
            _ => None,
        };
        client_config(ca.as_ref(), certificate.as_ref())
    };
    let mut config = config().map_err(|error| ClientError::File(error.to_string()))?;
    config.alpn_protocols = match daemon.at.protocol {
        Protocol::Http => vec![b"http/1.1".to_vec()],
        Protocol::Grpc => vec![b"h2".to_vec()],
        Protocol::Resp => Vec::new(),
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The name that the daemon's certificate must have.
pub(super) fn name(host: &str) -> Result<ServerName<'static>, ClientError> {
    ServerName::try_from(host.to_owned())
        .map_err(|_| ClientError::Untaken(format!("\"{host}\" is not the name of a server")))
}

/// Why TLS did not come about.
pub(super) fn failure(protocol: Protocol, error: &io::Error) -> ClientError {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    if !matches!(cause, Some(rustls::Error::InvalidMessage(_))) {
        return ClientError::silent(error);
    }
    let scheme = match protocol {
        Protocol::Http => "http",
        Protocol::Grpc => "grpc",
        Protocol::Resp => "redis",
    };
    ClientError::Silent(format!("the port does not speak TLS; write its address with {scheme}://"))
}
