//! TLS to a daemon: the trusted roots and the client's certificate.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use super::error::ClientError;
use crate::address::Protocol;
use crate::arguments::request::Daemon;
use crate::exit::chain;

pub(super) fn connector(daemon: &Daemon) -> Result<TlsConnector, ClientError> {
    let mut roots = RootCertStore::empty();
    match &daemon.ca {
        Some(path) => {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| unusable(path, &error))?;
            }
        }
        None => {
            // Single roots that cannot be read are no reason not to trust the others.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| ClientError::silent(&error))?
        .with_root_certificates(roots);
    let mut config = match (&daemon.cert, &daemon.key) {
        (Some(cert), Some(key)) => {
            let chain = certificates(cert)?;
            let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, &error))?;
            builder.with_client_auth_cert(chain, private).map_err(|error| unusable(cert, &error))?
        }
        _ => builder.with_no_client_auth(),
    };
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

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found: Vec<_> = read.map_err(|error| unusable(path, &error))?;
    if found.is_empty() {
        return Err(ClientError::File(format!("{} holds no certificate in PEM", path.display())));
    }
    Ok(found)
}

fn unusable(path: &Path, error: &(dyn std::error::Error + 'static)) -> ClientError {
    ClientError::File(format!("{} cannot be used: {}", path.display(), chain(error)))
}
