use super::*;
use http::HeaderValue;
use proptest::prelude::*;
use serde_json::json;

mod vectors;

/// Between `nbf` (1 000 000 000) and `exp` (2 000 000 000) of the tokens.
const NOW: Timestamp = Timestamp::from_secs(1_500_000_000);

fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let word =
            chunk.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for digit in 0..=chunk.len() {
            out.push(char::from(DIGITS[(word >> (18 - 6 * digit) & 63) as usize]));
        }
    }
    out
}

/// A token signed with HMAC and this secret, whatever its header says.
fn signed_with(secret: &[u8], how: ring::hmac::Algorithm, header: &Value, claims: &Value) -> String {
    let message =
        format!("{}.{}", encode(header.to_string().as_bytes()), encode(claims.to_string().as_bytes()));
    let key = ring::hmac::Key::new(how, secret);
    format!("{message}.{}", encode(ring::hmac::sign(&key, message.as_bytes()).as_ref()))
}

/// A token signed with HS256 and the shared secret.
fn signed(header: &Value, claims: &Value) -> String {
    signed_with(&vectors::secret(), ring::hmac::HMAC_SHA256, header, claims)
}

fn claiming(claims: &Value) -> String {
    signed(&json!({"alg": "HS256"}), claims)
}

fn secret() -> KeySet {
    KeySet::from_secret(&vectors::secret()).unwrap()
}

fn reader(keys: KeySet) -> TokenReader {
    TokenReader::new(Trust::Keys(keys))
}

fn rejected(reader: &TokenReader, token: &str) -> String {
    let rejection = reader.verify(token.as_bytes(), NOW).unwrap_err();
    assert_eq!((rejection.status, rejection.code), (401, RejectionCode::InvalidToken));
    assert!(rejection.fix.is_some(), "{}", rejection.detail);
    rejection.detail
}

fn bearer(value: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
    headers
}

fn all_keys() -> [(&'static str, KeySet); 5] {
    [
        ("HS", secret()),
        ("RS", KeySet::from_pem(vectors::RSA).unwrap()),
        ("ES256", KeySet::from_pem(vectors::P256).unwrap()),
        ("ES384", KeySet::from_pem(vectors::P384).unwrap()),
        ("EdDSA", KeySet::from_pem(vectors::ED25519).unwrap()),
    ]
}

#[test]
fn a_token_is_verified_by_the_key_of_its_kind_and_by_no_other() {
    for (kind, keys) in all_keys() {
        for (algorithm, token) in vectors::TOKENS {
            let is_its_kind = algorithm.starts_with(kind) || (kind == "RS" && algorithm.starts_with("PS"));
            let found = reader(keys.clone()).verify(token.as_bytes(), NOW);
            assert_eq!(found.is_ok(), is_its_kind, "{algorithm} with a key for {kind}");
            if let Ok(claims) = found {
                assert_eq!(claims.text(&["sub".to_owned()]).unwrap().unwrap(), "ada");
            }
        }
    }
}

#[test]
fn both_spellings_of_an_rsa_key_and_several_keys_in_one_file_are_read() {
    let several = [vectors::ED25519, vectors::RSA_PKCS1].concat();
    let keys = reader(KeySet::from_pem(&several).unwrap());
    for (algorithm, token) in vectors::TOKENS {
        let is_one =
            matches!(algorithm, "EdDSA") || algorithm.starts_with("RS") || algorithm.starts_with("PS");
        assert_eq!(keys.verify(token.as_bytes(), NOW).is_ok(), is_one, "{algorithm}");
    }
    let joined = KeySet::from_pem(vectors::P256).unwrap().and(secret()).unwrap();
    assert_eq!(format!("{joined:?}"), "KeySet(2)");
}

#[test]
fn a_token_cannot_choose_how_it_is_verified() {
    let every =
        all_keys().into_iter().map(|(_, keys)| keys).reduce(|all, keys| all.and(keys).unwrap()).unwrap();
    for token in vectors::CONFUSED {
        for keys in [KeySet::from_pem(vectors::RSA).unwrap(), every.clone()] {
            assert!(rejected(&reader(keys), token).contains("not signed by a key"));
        }
    }
    // Nor with any spelling of a public key as the secret: its text, or the bytes that it is kept
    // as.
    let claims = json!({"sub": "ada", "exp": 2_000_000_000});
    for (pem, length) in [
        (vectors::RSA, 270),
        (vectors::RSA_PKCS1, 270),
        (vectors::P256, 65),
        (vectors::P384, 97),
        (vectors::ED25519, 32),
    ] {
        let body: Vec<_> = pem.lines().filter(|line| !line.starts_with('-')).collect();
        let bytes = base64::decode_lines(&body.concat()).unwrap();
        for secret in [pem.as_bytes(), pem.trim().as_bytes(), &bytes, &bytes[bytes.len() - length..]] {
            let header = json!({"alg": "HS256"});
            let token = signed_with(secret, ring::hmac::HMAC_SHA256, &header, &claims);
            assert!(
                rejected(&reader(KeySet::from_pem(pem).unwrap()), &token).contains("not signed by a key")
            );
        }
    }
    // The public key as a secret is refused before it can let anybody sign.
    let pem = vectors::RSA.as_bytes();
    assert_eq!(KeySet::from_secret(pem).unwrap_err(), KeyError::SecretIsPem);
    for algorithm in ["none", "None", "NONE", "", "HS1", "hs256", "RS256 ", "ES256K", "RSA1_5"] {
        let signed = signed(&json!({"alg": algorithm}), &claims);
        assert!(
            rejected(&reader(every.clone()), &signed).contains("in a way that is not accepted"),
            "{algorithm}"
        );
        let unsigned = format!("{}.", signed.rsplit_once('.').unwrap().0);
        rejected(&reader(every.clone()), &unsigned);
    }
}

#[test]
fn a_changed_token_is_forged() {
    for (kind, keys) in all_keys() {
        let reader = reader(keys);
        for (algorithm, token) in vectors::TOKENS.iter().filter(|(algorithm, _)| algorithm.starts_with(kind))
        {
            let (message, signature) = token.rsplit_once('.').unwrap();
            let (header, _) = message.split_once('.').unwrap();
            let other = encode(br#"{"sub":"eve","exp":2000000000}"#);
            rejected(&reader, &format!("{header}.{other}.{signature}"));
            rejected(&reader, &format!("{message}."));
            rejected(&reader, &format!("{message}.{}", &signature[..signature.len() - 4]));
            rejected(&reader, &format!("{message}.{signature}AAAA"));
            rejected(&reader, &format!("{message}.{}", encode(&[0; 64])));
            for at in 0..signature.len() {
                let mut changed = signature.as_bytes().to_vec();
                changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
                let changed = String::from_utf8(changed).unwrap();
                assert!(
                    reader.verify(format!("{message}.{changed}").as_bytes(), NOW).is_err(),
                    "{algorithm} {at}"
                );
            }
        }
    }
}

#[test]
fn a_key_is_found_by_its_name() {
    let keys = KeySet::from_jwks(vectors::JWKS.as_bytes()).unwrap();
    assert_eq!(format!("{keys:?}"), "KeySet(5)");
    let reader = reader(keys);
    for (_, token) in vectors::NAMED {
        assert!(reader.verify(token.as_bytes(), NOW).is_ok());
    }
    // Tokens that name no key are tried with each that fits; the set allows its RSA key RS256 and
    // its secret HS256.
    for (algorithm, token) in vectors::TOKENS {
        let is_allowed = matches!(algorithm, "RS256" | "HS256" | "ES256" | "ES384" | "EdDSA");
        assert_eq!(reader.verify(token.as_bytes(), NOW).is_ok(), is_allowed, "{algorithm}");
    }
    let claims = json!({"exp": 2_000_000_000});
    for id in ["r", "e2", "enc", "unknown", ""] {
        assert!(
            rejected(&reader, &signed(&json!({"alg": "HS256", "kid": id}), &claims)).contains("not signed")
        );
    }
    assert!(reader.verify(signed(&json!({"alg": "HS256", "kid": "s"}), &claims).as_bytes(), NOW).is_ok());
    // A key without a name, as from PEM, is tried with every token of its kind.
    let named = signed(&json!({"alg": "HS256", "kid": "any"}), &claims);
    assert!(TokenReader::new(Trust::Keys(secret())).verify(named.as_bytes(), NOW).is_ok());
}

#[test]
fn a_token_is_valid_from_its_beginning_to_its_end_give_or_take_the_leeway() {
    let token = claiming(&json!({"nbf": 1000, "exp": 2000}));
    for (leeway, now, expected) in [
        (60, 939, Err("is not valid yet")),
        (60, 940, Ok(())),
        (60, 1500, Ok(())),
        (60, 2059, Ok(())),
        (60, 2060, Err("has expired")),
        (0, 999, Err("is not valid yet")),
        (0, 1000, Ok(())),
        (0, 1999, Ok(())),
        (0, 2000, Err("has expired")),
        (u64::MAX, 0, Ok(())),
    ] {
        let reader = reader(secret()).leeway(Duration::from_secs(leeway));
        let found = reader.verify(token.as_bytes(), Timestamp::from_secs(now));
        match (found, expected) {
            (Ok(_), Ok(())) => {}
            (Err(rejection), Err(hint)) => assert!(rejection.detail.contains(hint), "{}", rejection.detail),
            (found, _) => panic!("{leeway} {now}: {found:?}"),
        }
    }
    assert!(reader(secret()).verify(token.as_bytes(), Timestamp::from_secs(2059)).is_ok(), "60 s by default");
}

#[test]
fn times_that_are_none_or_strange_never_make_a_token_valid() {
    for claims in [
        json!({"exp": "2000000000"}),
        json!({"exp": null}),
        json!({"exp": true}),
        json!({"exp": [2_000_000_000]}),
        json!({"exp": -1}),
        json!({"exp": 0}),
        json!({"exp": 1.5e9 - 61.0}),
        json!({"exp": -1e300}),
        json!({"exp": 2_000_000_000, "nbf": "0"}),
        json!({"exp": 2_000_000_000, "nbf": 1e300}),
        json!({"exp": 2_000_000_000, "nbf": u64::MAX}),
        json!([{"exp": 2_000_000_000}]),
        json!("exp"),
    ] {
        rejected(&reader(secret()), &claiming(&claims));
    }
    for claims in
        [json!({"exp": 1.5e9 + 0.5}), json!({"exp": 1e300}), json!({"exp": u64::MAX, "nbf": -1e300})]
    {
        assert!(reader(secret()).verify(claiming(&claims).as_bytes(), NOW).is_ok(), "{claims}");
    }
    let forever = claiming(&json!({"sub": "ada"}));
    assert!(rejected(&reader(secret()), &forever).contains("does not say when it ends"));
    assert!(reader(secret()).expiry(Expiry::Optional).verify(forever.as_bytes(), NOW).is_ok());
    let expired = claiming(&json!({"exp": 1}));
    assert!(rejected(&reader(secret()).expiry(Expiry::Optional), &expired).contains("has expired"));
}

#[test]
fn issuer_and_audience_must_be_ours_where_they_are_configured() {
    let ours = || reader(secret()).issuer("https://issuer.example").audiences(["api", "web"]);
    let end = 2_000_000_000;
    for audience in [json!("api"), json!(["other", "web"])] {
        let claims = json!({"exp": end, "iss": "https://issuer.example", "aud": audience});
        assert!(ours().verify(claiming(&claims).as_bytes(), NOW).is_ok());
    }
    for claims in [
        json!({"exp": end, "iss": "https://issuer.example"}),
        json!({"exp": end, "iss": "https://issuer.example", "aud": "API"}),
        json!({"exp": end, "iss": "https://issuer.example", "aud": []}),
        json!({"exp": end, "iss": "https://issuer.example", "aud": {"api": 1}}),
        json!({"exp": end, "iss": "https://issuer.example", "aud": [["api"]]}),
        json!({"exp": end, "iss": "https://issuer.example/", "aud": "api"}),
        json!({"exp": end, "iss": ["https://issuer.example"], "aud": "api"}),
        json!({"exp": end, "aud": "api"}),
    ] {
        let detail = rejected(&ours(), &claiming(&claims));
        assert!(detail.contains("another"), "{claims}: {detail}");
    }
}

#[test]
fn what_is_no_token_is_rejected_and_never_shown() {
    let good = claiming(&json!({"exp": 2_000_000_000}));
    let (message, signature) = good.rsplit_once('.').unwrap();
    let (header, payload) = message.split_once('.').unwrap();
    let deep = encode(format!("{}{}", "[".repeat(3000), "]".repeat(3000)).as_bytes());
    for token in [
        "",
        ".",
        "..",
        "...",
        "a.b.c",
        "a.b",
        header,
        message,
        &format!("{good}.{signature}"),
        &format!(" {good}"),
        &format!("{header}=.{payload}.{signature}"),
        &format!("{header}.{payload}=.{signature}"),
        &format!("{good}="),
        &format!("{good}\n"),
        &format!("{}.{payload}.{signature}", encode(b"[]")),
        &format!("{}.{payload}.{signature}", encode(b"{}")),
        &format!("{}.{payload}.{signature}", encode(br#"{"alg":1}"#)),
        &format!("{}.{payload}.{signature}", encode(br#"{"alg":"HS256","alg":"none"}"#)),
        &format!("{}.{payload}.{signature}", encode(b"\xff")),
        &format!("{deep}.{payload}.{signature}"),
        &format!("{header}.{deep}.{signature}"),
        &"a".repeat(TOKEN_BYTES_MAX + 1),
    ] {
        let detail = rejected(&reader(secret()), token);
        assert!(token.len() < 20 || !detail.contains(&token[..20]), "{detail}");
    }
    for header in [json!({"alg": "HS256", "crit": ["exp"]}), json!({"alg": "HS256", "b64": false})] {
        let detail = rejected(&reader(secret()), &signed(&header, &json!({"exp": 2_000_000_000})));
        assert!(detail.contains("extension"), "{detail}");
    }
    let long = claiming(&json!({"exp": 2_000_000_000, "pad": "x".repeat(TOKEN_BYTES_MAX)}));
    assert!(rejected(&reader(secret()), &long).contains("more than 8192"));
}

#[test]
fn only_a_bearer_token_is_read() {
    let reader = reader(secret());
    let good = claiming(&json!({"exp": 2_000_000_000}));
    assert_eq!(reader.read(&HeaderMap::new(), NOW), Ok(None));
    for other in ["Basic YTpi", "Bearers x", "Token x", ""] {
        assert_eq!(reader.read(&bearer(other), NOW), Ok(None), "{other}");
    }
    for scheme in ["Bearer", "bearer", "BEARER", "Bearer ", "Bearer\t"] {
        assert!(reader.read(&bearer(&format!("{scheme} {good}")), NOW).unwrap().is_some());
    }
    for nothing in ["Bearer", "Bearer ", "Bearer x y", "Bearer \u{7f}"] {
        if let Ok(value) = HeaderValue::from_bytes(nothing.as_bytes()) {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, value)]);
            assert_eq!(reader.read(&headers, NOW).unwrap_err().status, 401, "{nothing}");
        }
    }
    let mut twice = bearer(&format!("Bearer {good}"));
    twice.append(AUTHORIZATION, HeaderValue::from_static("Bearer x"));
    let rejection = reader.read(&twice, NOW).unwrap_err();
    assert_eq!((rejection.status, rejection.code), (400, RejectionCode::AmbiguousAttribute));
}

#[test]
fn a_token_that_nobody_verified_is_taken_only_where_that_is_configured_and_in_date() {
    let unverified = TokenReader::new(Trust::Unverified);
    let payload = encode(br#"{"sub":"ada","exp":2000000000}"#);
    for token in [
        format!("{}.{payload}.", encode(br#"{"alg":"none"}"#)),
        format!("{}.{payload}.AAAA", encode(br#"{"alg":"RS256"}"#)),
    ] {
        let claims = unverified.verify(token.as_bytes(), NOW).unwrap();
        assert_eq!(claims.text(&["sub".to_owned()]).unwrap().unwrap(), "ada");
        rejected(&reader(secret()), &token);
    }
    rejected(&unverified, &claiming(&json!({"exp": 1})));
    rejected(&unverified, "a.b.c");
}

#[test]
fn keys_that_cannot_be_used_say_what_to_do() {
    let private = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    for (found, hint) in [
        (KeySet::from_secret(b"secret"), "a secret of 6 bytes can be guessed"),
        (KeySet::from_secret(&[7; 31]), "at least 32 random bytes"),
        (KeySet::from_secret(b""), "a secret of 0 bytes"),
        (KeySet::from_pem(""), "-----BEGIN PUBLIC KEY-----"),
        (KeySet::from_pem("-----BEGIN PUBLIC KEY-----\nAAAA"), "no public key in PEM"),
        (KeySet::from_pem(private), "openssl pkey"),
        (KeySet::from_pem(vectors::P521), "P-256, P-384 or Ed25519"),
        (KeySet::from_pem(vectors::RSA_SHORT), "RSA of 2048 to 8192 bits"),
        (KeySet::from_pem(&vectors::RSA.replace("MII", "MIJ")), "not a public key that can be used"),
        (KeySet::from_jwks(b"{}"), "{\"keys\": [..]}"),
        (KeySet::from_jwks(b"\xff"), "not a JSON Web Key Set"),
        (KeySet::from_jwks(br#"{"keys":[]}"#), "none of 0 keys"),
        (KeySet::from_jwks(br#"{"keys":[{"kty":"RSA","use":"enc","n":"AQ","e":"AQAB"}]}"#), "none of 1 keys"),
        (KeySet::from_jwks(br#"{"keys":[{"kty":"RSA","kid":"r","n":"AQ","e":"AQAB"}]}"#), "RSA key \"r\""),
        (
            KeySet::from_jwks(br#"{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}"#),
            "EC key \"without a kid\"",
        ),
        (KeySet::from_jwks(br#"{"keys":[{"kty":"oct","k":"AAAA"}]}"#), "a secret of 3 bytes"),
        (KeySet::from_pem(&vectors::ED25519.repeat(KEYS_MAX + 1)), "65 keys are more than 64"),
    ] {
        let message = found.unwrap_err().to_string();
        assert!(message.contains(hint), "{hint}: {message}");
    }
}

#[test]
fn a_secret_signs_only_with_digests_that_are_no_longer() {
    let (claims, any) = (json!({"exp": 2_000_000_000}), vectors::secret());
    for (length, algorithm, how, is_enough) in [
        (32, "HS256", ring::hmac::HMAC_SHA256, true),
        (47, "HS384", ring::hmac::HMAC_SHA384, false),
        (48, "HS384", ring::hmac::HMAC_SHA384, true),
        (63, "HS512", ring::hmac::HMAC_SHA512, false),
        (64, "HS512", ring::hmac::HMAC_SHA512, true),
    ] {
        let secret = &any[..length];
        let token = signed_with(secret, how, &json!({"alg": algorithm}), &claims);
        for ended in [secret.to_vec(), [secret, b"\n"].concat(), [secret, b"\r\n"].concat()] {
            let reader = reader(KeySet::from_secret(&ended).unwrap());
            assert_eq!(reader.verify(token.as_bytes(), NOW).is_ok(), is_enough, "{length} {algorithm}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn whatever_is_sent_is_rejected(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..5)) {
        let plain: Vec<u8> = parts.join(&b'.');
        let encoded: Vec<String> = parts.iter().map(|part| encode(part)).collect();
        for token in [plain, encoded.join(".").into_bytes()] {
            prop_assert!(reader(secret()).verify(&token, NOW).is_err());
        }
    }

    #[test]
    fn whatever_a_file_holds_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = KeySet::from_jwks(&bytes);
        let _ = KeySet::from_pem(&String::from_utf8_lossy(&bytes));
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----", encode(&bytes));
        let _ = KeySet::from_pem(&pem);
        let rsa = format!("-----BEGIN RSA PUBLIC KEY-----\n{}\n-----END RSA PUBLIC KEY-----", encode(&bytes));
        let _ = KeySet::from_pem(&rsa);
    }

    #[test]
    fn bytes_are_read_as_they_were_written(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        prop_assert_eq!(base64::decode_url(encode(&bytes).as_bytes()).unwrap(), bytes);
    }
}
