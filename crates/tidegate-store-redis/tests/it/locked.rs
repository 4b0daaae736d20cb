//! TLS, with roots of one's own and a certificate that the server asks for.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use tidegate_core::{Algorithm, Cost, Rate};
use tidegate_store::{Batch, Key, Kind, Operation, RequestId, Store, StoreError};
use tidegate_store_redis::{OpenError, RedisConfig, RedisStore, Tls};
use tidegate_test_support::TemporaryFolder;

use crate::engine::{Server, free_port, patient, skip};

fn check(id: u128) -> Batch {
    let algorithm = Algorithm::bucket(Rate::per_minute(100).unwrap()).unwrap();
    let key = Key::new("api", b"limit", b"ada").unwrap();
    Batch::all_or_nothing(RequestId(id), [Operation::new(key, algorithm, Kind::Check { cost: Cost::ONE })])
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new([]).unwrap();
    params.distinguished_name.push(DnType::CommonName, "authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate for this machine and its key, as PEM.
fn issued(by: &CertifiedIssuer<'static, KeyPair>) -> (String, String) {
    let mut params = CertificateParams::new([]).unwrap();
    params.distinguished_name.push(DnType::CommonName, "member");
    params.subject_alt_names.push(SanType::IpAddress([127, 0, 0, 1].into()));
    let key = KeyPair::generate().unwrap();
    (params.signed_by(&key, by).unwrap().pem(), key.serialize_pem())
}

#[tokio::test(flavor = "current_thread")]
async fn tls_asks_for_the_right_certificates_on_both_sides() {
    let name = "tls_asks_for_the_right_certificates_on_both_sides";
    let (ours, theirs) = (authority(), authority());
    let (certificate, key) = issued(&ours);
    let folder = TemporaryFolder::new();
    let file = |name: &str, text: &str| folder.write(name, text).to_str().unwrap().to_owned();
    let (roots, certificate, key) =
        (file("roots.pem", &ours.pem()), file("server.pem", &certificate), file("server.key", &key));
    let port = free_port();
    let text = port.to_string();
    let arguments = [
        "--tls-port",
        &text,
        "--tls-ca-cert-file",
        &roots,
        "--tls-cert-file",
        &certificate,
        "--tls-key-file",
        &key,
    ];
    let Some(_server) = Server::start(&arguments) else { return skip(name) };

    let ask = async |roots: &CertifiedIssuer<'static, KeyPair>, client: Option<(String, String)>, id| {
        let mut config = patient(RedisConfig::new([format!("rediss://127.0.0.1:{port}")]));
        config.tls = Tls {
            roots: Some(roots.pem().into_bytes()),
            client: client.map(|(certificate, key)| (certificate.into_bytes(), key.into_bytes())),
        };
        RedisStore::open(config).unwrap().run(&check(id)).await
    };
    let used = ask(&ours, Some(issued(&ours)), 1).await.unwrap().outcomes[0].used;
    assert_eq!(used, 1);
    for (roots, client) in [(&theirs, Some(issued(&ours))), (&ours, Some(issued(&theirs))), (&ours, None)] {
        let error = ask(roots, client, 2).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    }
    assert_eq!(ask(&ours, Some(issued(&ours)), 3).await.unwrap().outcomes[0].used, 2);

    let mut config = RedisConfig::new([format!("rediss://127.0.0.1:{port}")]);
    config.tls.roots = Some(b"-----BEGIN CERTIFICATE-----\nnot one\n-----END CERTIFICATE-----\n".to_vec());
    let error = RedisStore::open(config).unwrap_err();
    assert!(matches!(error, OpenError::Url { .. }), "{error}");
}
