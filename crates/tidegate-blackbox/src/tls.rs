//! TLS from the client's side: an authority, certificates that expire, and clients that resume
//! sessions.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tidegate_test_support::TemporaryFolder;

use crate::attack::Failure;
use crate::http1::{Http1Client, get};

/// A certificate authority.
#[derive(Debug)]
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM.
#[derive(Debug)]
pub struct IssuedCertificate {
    cert: String,
    key: String,
}

impl Authority {
    /// A new authority.
    pub fn new() -> Result<Self, Failure> {
        let mut params = CertificateParams::new(Vec::new()).map_err(unfinished)?;
        params.distinguished_name.push(DnType::CommonName, "the suite's authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().map_err(unfinished)?;
        CertifiedIssuer::self_signed(params, key).map(Self).map_err(unfinished)
    }

    /// A certificate for localhost that a server shows.
    pub fn issue_to_server(&self) -> Result<IssuedCertificate, Failure> {
        self.issue(ExtendedKeyUsagePurpose::ServerAuth, None)
    }

    /// A certificate that a client shows, valid for `duration` from now on.
    pub fn issue_to_client(&self, duration: Duration) -> Result<IssuedCertificate, Failure> {
        self.issue(ExtendedKeyUsagePurpose::ClientAuth, Some(duration))
    }

    fn issue(
        &self,
        purpose: ExtendedKeyUsagePurpose,
        duration: Option<Duration>,
    ) -> Result<IssuedCertificate, Failure> {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).map_err(unfinished)?;
        params.extended_key_usages = vec![purpose];
        if let Some(duration) = duration {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).map_err(unfinished)?;
            params.not_after = rcgen::date_time_ymd(1970, 1, 1) + since + duration;
        }
        let key = KeyPair::generate().map_err(unfinished)?;
        let cert = params.signed_by(&key, &self.0).map_err(unfinished)?;
        Ok(IssuedCertificate { cert: cert.pem(), key: key.serialize_pem() })
    }

    /// Writes what a listener needs to `folder` and returns its `tls` setting. With `asks_clients`
    /// clients need a certificate of this authority.
    pub fn listener_setting(&self, folder: &TemporaryFolder, asks_clients: bool) -> Result<String, Failure> {
        let server = self.issue_to_server()?;
        let cert = folder.write("server.pem", &server.cert);
        let key = folder.write("server.key", &server.key);
        let authority = folder.write("clients.pem", self.0.pem());
        let (cert, key, authority) = (cert.display(), key.display(), authority.display());
        let clients = if asks_clients { format!(", client_ca: {authority}") } else { String::new() };
        Ok(format!("{{ cert: {cert}, key: {key}{clients} }}"))
    }

    /// A client's settings, with its certificate if it has one. They keep sessions, so a second
    /// connection with the same settings resumes the first.
    pub fn client(
        &self,
        issued: Option<&IssuedCertificate>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Result<Arc<ClientConfig>, Failure> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).map_err(unfinished)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_protocol_versions(versions).map_err(unfinished)?;
        let builder = builder.with_root_certificates(roots);
        let Some(issued) = issued else { return Ok(Arc::new(builder.with_no_client_auth())) };
        let chain = vec![CertificateDer::from_pem_slice(issued.cert.as_bytes()).map_err(unfinished)?];
        let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).map_err(unfinished)?;
        builder.with_client_auth_cert(chain, key).map(Arc::new).map_err(unfinished)
    }
}

/// Asks for `/healthz` over TLS: the status, or the reason for its absence.
pub fn ask(address: SocketAddr, config: &Arc<ClientConfig>) -> Result<u16, String> {
    let answer = Http1Client::open_tls(address, config).and_then(|mut client| client.ask(get("/healthz")));
    answer.map(|answer| answer.status).map_err(|error| error.to_string())
}

fn unfinished(error: impl core::fmt::Display) -> Failure {
    Failure::Unfinished(format!("TLS: {error}"))
}
