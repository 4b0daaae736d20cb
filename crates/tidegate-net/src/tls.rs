//! TLS of a listener: certificates from files, reloaded when the files change.
//!
//! TLS 1.2 and 1.3, with HTTP/2 and HTTP/1.1 by ALPN. With a CA for clients, the handshake fails
//! for a client without a certificate of that CA, and no session can be resumed: each connection
//! verifies the certificate anew.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use crate::file_backed::{FileBacked, Source};

mod client;
mod pem;

pub use client::{ClientCertificate, PemFile, client_config};
pub use pem::TlsError;

use pem::{certificates, private_key};

/// The files of a listener's TLS, all in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate of the listener, followed by those that lead to a root.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Certificates that clients must come from. `None` asks clients for none.
    pub client_ca: Option<PathBuf>,
}

/// TLS of a listener as it is now.
pub type Tls = FileBacked<TlsFiles>;

impl Tls {
    /// The acceptor of new connections.
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.get())
    }
}

impl Source for TlsFiles {
    type Made = Arc<ServerConfig>;
    type Error = TlsError;

    const WHAT: &'static str = "certificates";

    fn paths(&self) -> Vec<&Path> {
        [&self.cert, &self.key].into_iter().chain(&self.client_ca).map(PathBuf::as_path).collect()
    }

    fn unreadable(path: &Path, source: io::Error) -> TlsError {
        TlsError::Unreadable { path: path.to_owned(), source }
    }

    fn make(&self, texts: &[Vec<u8>]) -> Result<Arc<ServerConfig>, TlsError> {
        let chain = certificates(&self.cert, &texts[0])?;
        let key = private_key(&self.key, &texts[1])?;
        let unusable = |source| TlsError::Unusable { cert: self.cert.clone(), key: self.key.clone(), source };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?;
        let asks_certificates = self.client_ca.is_some();
        let builder = match (&self.client_ca, texts.get(2)) {
            (Some(path), Some(text)) => {
                let failed = |why: String| TlsError::ClientCa { path: path.clone(), why };
                let mut roots = RootCertStore::empty();
                for certificate in certificates(path, text)? {
                    roots.add(certificate).map_err(|error| failed(error.to_string()))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder
                    .with_client_cert_verifier(verifier.build().map_err(|error| failed(error.to_string()))?)
            }
            _ => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(chain, key).map_err(unusable)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // Data sent before the handshake ends can be replayed by anybody who recorded it.
        config.max_early_data_size = 0;
        if asks_certificates {
            // A resumed session takes over the certificate that was verified when the session
            // began, and does not verify it again: a certificate that has expired since would be
            // good for as long as its client resumes.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(Arc::new(config))
    }
}

/// The names in a certificate that was verified already: host names and URIs of its subject's
/// alternative names. The common name is not one of them, since its meaning is not specified.
pub fn names_in(certificate: &CertificateDer<'_>) -> Arc<[String]> {
    let Ok(certificate) = webpki::EndEntityCert::try_from(certificate) else { return Arc::default() };
    certificate.valid_uri_names().chain(certificate.valid_dns_names()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustls::pki_types::PrivateKeyDer;
    use rustls::pki_types::pem::PemObject;
    use tidegate_test_support::TemporaryFolder;

    use super::*;

    struct Folder(TemporaryFolder);

    impl Folder {
        fn files(&self) -> TlsFiles {
            TlsFiles { cert: self.0.join("cert.pem"), key: self.0.join("key.pem"), client_ca: None }
        }

        /// A self-signed certificate for localhost.
        fn issue(&self) {
            let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
            self.0.write("cert.pem", made.cert.pem());
            self.0.write("key.pem", made.signing_key.serialize_pem());
        }
    }

    #[test]
    fn files_that_change_are_taken_up_and_broken_ones_leave_what_there_was() {
        let folder = Folder(TemporaryFolder::new());
        folder.issue();
        let tls = Tls::open(folder.files()).unwrap();
        assert!(!tls.refresh().unwrap(), "nothing has changed");
        let before = Arc::as_ptr(&tls.get());
        fs::write(folder.0.join("cert.pem"), "half").unwrap();
        let error = tls.refresh().unwrap_err();
        assert!(error.to_string().contains("cert.pem holds no certificate"), "{error}");
        assert_eq!(Arc::as_ptr(&tls.get()), before);
        folder.issue();
        assert!(tls.refresh().unwrap());
        assert_ne!(Arc::as_ptr(&tls.get()), before);
    }

    /// A CA for clients, and a client with a certificate of that CA that speaks `version` and keeps
    /// its sessions.
    fn authority_and_client(
        name: &str,
        version: &'static rustls::SupportedProtocolVersion,
        folder: &Folder,
    ) -> (String, Arc<rustls::ClientConfig>) {
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority =
            rcgen::CertifiedIssuer::self_signed(params, rcgen::KeyPair::generate().unwrap()).unwrap();
        let mut params = rcgen::CertificateParams::new(["client".to_owned()]).unwrap();
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let key = rcgen::KeyPair::generate().unwrap();
        let issued = params.signed_by(&key, &authority).unwrap();
        let mut roots = RootCertStore::empty();
        for certificate in certificates(Path::new(""), &fs::read(folder.0.join("cert.pem")).unwrap()).unwrap()
        {
            roots.add(certificate).unwrap();
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(
                vec![issued.der().clone()],
                PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap(),
            )
            .unwrap();
        (authority.pem(), Arc::new(client))
    }

    /// Whether both sides end the handshake, and the first byte of the listener reaches the client.
    async fn is_served(tls: &Tls, client: &Arc<rustls::ClientConfig>) -> bool {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (near, far) = tokio::io::duplex(1 << 16);
        let acceptor = tls.acceptor();
        let serving = tokio::spawn(async move {
            let mut stream = acceptor.accept(far).await.ok()?;
            stream.write_all(b"x").await.ok()?;
            stream.flush().await.ok()
        });
        let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
        let connected = tokio_rustls::TlsConnector::from(Arc::clone(client)).connect(name, near).await;
        let is_read = match connected {
            Ok(mut stream) => stream.read_u8().await.is_ok(),
            Err(_) => false,
        };
        serving.await.unwrap().is_some() && is_read
    }

    #[tokio::test]
    async fn a_client_of_the_ca_before_is_not_let_in_by_a_session_from_before() {
        for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
            let folder = Folder(TemporaryFolder::new());
            folder.issue();
            let (before, client) = authority_and_client("before", version, &folder);
            let (after, _) = authority_and_client("after", version, &folder);
            let path = folder.0.join("clients.pem");
            fs::write(&path, before).unwrap();
            let tls = Tls::open(TlsFiles { client_ca: Some(path.clone()), ..folder.files() }).unwrap();
            assert!(is_served(&tls, &client).await && is_served(&tls, &client).await);
            fs::write(path, after).unwrap();
            assert!(tls.refresh().unwrap());
            assert!(!is_served(&tls, &client).await, "{version:?}");
        }
    }

    #[test]
    fn what_is_wrong_with_the_files_is_said_with_their_names() {
        let folder = Folder(TemporaryFolder::new());
        let said = |files: TlsFiles| Tls::open(files).unwrap_err().to_string();
        assert!(said(folder.files()).contains("cert.pem cannot be read"));
        folder.issue();
        fs::write(folder.0.join("key.pem"), "").unwrap();
        assert!(said(folder.files()).contains("key.pem holds no private key"));
        folder.issue();
        let cert = fs::read(folder.0.join("cert.pem")).unwrap();
        folder.issue();
        fs::write(folder.0.join("cert.pem"), cert).unwrap();
        assert!(
            said(folder.files()).contains("cannot be used as certificate and key"),
            "the key of another certificate"
        );
        folder.issue();
        let files = TlsFiles { client_ca: Some(folder.0.join("key.pem")), ..folder.files() };
        assert!(said(files).contains("key.pem holds no certificate"));
    }
}
