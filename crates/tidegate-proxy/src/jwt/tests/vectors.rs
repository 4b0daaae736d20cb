//! Keys and tokens made by another library, so that what is read and verified here is not what was
//! written here.

/// The secret of the tokens that are signed with HMAC: the bytes from 0 to 63.
pub(super) fn secret() -> Vec<u8> {
    (0..64).collect()
}

/// 2048 bits.
pub(super) const RSA: &str = "-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAmryXKiqo54gbfikswzl8
3eC3Hd73UjdOnZKoaSzIYijQgjviSEUv5migzaCrE5UoAvQy1dyVTxzaBl5zHc7s
qwop6pxKO40NhwDS95e71lcbCydg6QxhOBedWBtx0+0cNwIaIXT7XZL1V3YgaLG5
rkjtYKwLvbOUu5CKb7J6/zxLPjsxfYkrdzq4TmNJdCxsmwqcOURbXlr3x2Xax9BR
OzioLKdXhFfAAviexxQUGY7IIqB9XrHo+BbLyxD2lf2hBZlrNY3k8w3F+sUZcNwo
4BGOhtKmTTOe79kPDl/LhZ7zEar9L00g0Oc66SE+obYoAvN5O6WNx8xaCm0yVVLw
MwIDAQAB
-----END PUBLIC KEY-----
";

/// The same key as an `RSAPublicKey`.
pub(super) const RSA_PKCS1: &str = "-----BEGIN RSA PUBLIC KEY-----
MIIBCgKCAQEAmryXKiqo54gbfikswzl83eC3Hd73UjdOnZKoaSzIYijQgjviSEUv
5migzaCrE5UoAvQy1dyVTxzaBl5zHc7sqwop6pxKO40NhwDS95e71lcbCydg6Qxh
OBedWBtx0+0cNwIaIXT7XZL1V3YgaLG5rkjtYKwLvbOUu5CKb7J6/zxLPjsxfYkr
dzq4TmNJdCxsmwqcOURbXlr3x2Xax9BROzioLKdXhFfAAviexxQUGY7IIqB9XrHo
+BbLyxD2lf2hBZlrNY3k8w3F+sUZcNwo4BGOhtKmTTOe79kPDl/LhZ7zEar9L00g
0Oc66SE+obYoAvN5O6WNx8xaCm0yVVLwMwIDAQAB
-----END RSA PUBLIC KEY-----
";

/// 1024 bits.
pub(super) const RSA_SHORT: &str = "-----BEGIN PUBLIC KEY-----
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQC1IqPJ1UzUMYr8yNtpsbyuvkFg
sJwRO7TZvCa6PvR8Ut++3diFjmhguJ7nBWQpN1LxOxJPLdgbQH6s4aXvf5Y9Z5LL
KAX4rq3EByVO5A/t8YLFyr4x8PHsvMBtVhPNsMfOfgzep9h4XBjCP1e2dLow2iRv
NVb2TKF0ycl5UxvozQIDAQAB
-----END PUBLIC KEY-----
";

/// An EC key.
pub(super) const P256: &str = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE29+8oqg1A7t3JV1Dgr3VYz3TvOMb
AjYjfeyREZZG6jGn8llxWF/X+pyL9F03fc52qY2in3KmbRtqT0ApR+GGwA==
-----END PUBLIC KEY-----
";

/// An EC key.
pub(super) const P384: &str = "-----BEGIN PUBLIC KEY-----
MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAE0ikhOKxsVrZZzv5FJ96MM/lYNgGNBy4I
Le0DOA+AdOOtkGyHuzvJW4UNL/Eg0XhaRueYhVgKVeBBMyPKmMJMZiTjupw5ENZH
07eUrlwm05m5z0USgH6DlhETaiQR3QiY
-----END PUBLIC KEY-----
";

/// An EC key on a curve that is not accepted.
pub(super) const P521: &str = "-----BEGIN PUBLIC KEY-----
MIGbMBAGByqGSM49AgEGBSuBBAAjA4GGAAQBYUWvJSTGQ4ZMkTcZE6lCBY654foC
ZtwhEndSMvPe8e4ZyS5mJicmXiVNSO0NA5CYfBGfDYvTlcGhLM3vw6HqY3cBJd3J
McTvg2j50aUDrgpP2iOksJDzhyMGHASFnV3uPtSfWDbzLJU7t4KDS+WVtUXAFFSR
KmCE9kw/FppVm0Sbif4=
-----END PUBLIC KEY-----
";

/// An Ed25519 key.
pub(super) const ED25519: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAKEBNUNTpXAvVhOydV+o7odOMlY+W+Gh+bbi/+64x1Lk=
-----END PUBLIC KEY-----
";

/// All of the keys, one for encryption and one on another curve.
pub(super) const JWKS: &str = r#"{
 "keys": [
  {
   "kty": "RSA",
   "kid": "r",
   "use": "sig",
   "alg": "RS256",
   "n": "mryXKiqo54gbfikswzl83eC3Hd73UjdOnZKoaSzIYijQgjviSEUv5migzaCrE5UoAvQy1dyVTxzaBl5zHc7sqwop6pxKO40NhwDS95e71lcbCydg6QxhOBedWBtx0-0cNwIaIXT7XZL1V3YgaLG5rkjtYKwLvbOUu5CKb7J6_zxLPjsxfYkrdzq4TmNJdCxsmwqcOURbXlr3x2Xax9BROzioLKdXhFfAAviexxQUGY7IIqB9XrHo-BbLyxD2lf2hBZlrNY3k8w3F-sUZcNwo4BGOhtKmTTOe79kPDl_LhZ7zEar9L00g0Oc66SE-obYoAvN5O6WNx8xaCm0yVVLwMw",
   "e": "AQAB"
  },
  {
   "kty": "EC",
   "kid": "e2",
   "crv": "P-256",
   "x": "29-8oqg1A7t3JV1Dgr3VYz3TvOMbAjYjfeyREZZG6jE",
   "y": "p_JZcVhf1_qci_RdN33OdqmNop9ypm0bak9AKUfhhsA"
  },
  {
   "kty": "EC",
   "kid": "e3",
   "crv": "P-384",
   "x": "0ikhOKxsVrZZzv5FJ96MM_lYNgGNBy4ILe0DOA-AdOOtkGyHuzvJW4UNL_Eg0Xha",
   "y": "RueYhVgKVeBBMyPKmMJMZiTjupw5ENZH07eUrlwm05m5z0USgH6DlhETaiQR3QiY"
  },
  {
   "kty": "OKP",
   "kid": "d",
   "crv": "Ed25519",
   "x": "KEBNUNTpXAvVhOydV-o7odOMlY-W-Gh-bbi_-64x1Lk"
  },
  {
   "kty": "oct",
   "kid": "s",
   "alg": "HS256",
   "k": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0-Pw"
  },
  {
   "kty": "RSA",
   "kid": "enc",
   "use": "enc",
   "n": "mryXKiqo54gbfikswzl83eC3Hd73UjdOnZKoaSzIYijQgjviSEUv5migzaCrE5UoAvQy1dyVTxzaBl5zHc7sqwop6pxKO40NhwDS95e71lcbCydg6QxhOBedWBtx0-0cNwIaIXT7XZL1V3YgaLG5rkjtYKwLvbOUu5CKb7J6_zxLPjsxfYkrdzq4TmNJdCxsmwqcOURbXlr3x2Xax9BROzioLKdXhFfAAviexxQUGY7IIqB9XrHo-BbLyxD2lf2hBZlrNY3k8w3F-sUZcNwo4BGOhtKmTTOe79kPDl_LhZ7zEar9L00g0Oc66SE-obYoAvN5O6WNx8xaCm0yVVLwMw",
   "e": "AQAB"
  },
  {
   "kty": "EC",
   "kid": "k1",
   "crv": "secp256k1",
   "x": "AA",
   "y": "AA"
  }
 ]
}"#;

/// Tokens with the same claims, by how they are signed.
pub(super) const TOKENS: [(&str, &str); 12] = [
    (
        "HS256",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhZGEiLCJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwiYXVkIjpbImFwaSIsIm90aGVyIl0sImV4cCI6MjAwMDAwMDAwMCwibmJmIjoxMDAwMDAwMDAwLCJvcmciOnsiaWQiOjQyLCJsaXZlIjp0cnVlfSwiaHR0cHM6Ly9leGFtcGxlLmNvbS90ZW5hbnQiOiJ0MSJ9.yS3gwW4oofl4P9KYinT-lgk2l4VXChY6fpdavieFuQM",
    ),
    (
        "HS384",
        "eyJhbGciOiJIUzM4NCIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhZGEiLCJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwiYXVkIjpbImFwaSIsIm90aGVyIl0sImV4cCI6MjAwMDAwMDAwMCwibmJmIjoxMDAwMDAwMDAwLCJvcmciOnsiaWQiOjQyLCJsaXZlIjp0cnVlfSwiaHR0cHM6Ly9leGFtcGxlLmNvbS90ZW5hbnQiOiJ0MSJ9.JRffbh0jFlRcx1WULeEPT2oZrAKNA_lGO0t48831_Xctg-GG6DVnhTVtMF3E4Sow",
    ),
    (
        "HS512",
        "eyJhbGciOiJIUzUxMiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhZGEiLCJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwiYXVkIjpbImFwaSIsIm90aGVyIl0sImV4cCI6MjAwMDAwMDAwMCwibmJmIjoxMDAwMDAwMDAwLCJvcmciOnsiaWQiOjQyLCJsaXZlIjp0cnVlfSwiaHR0cHM6Ly9leGFtcGxlLmNvbS90ZW5hbnQiOiJ0MSJ9.nx0j5kaMQLi9b5pDqJZJD_RAxurd1gZB4ttzSNSVgOq5NcmpLfiD_NPUtX8ALgZheOwWAFZ4ZpmKwjeb0UIAeg",
    ),
    (
        "RS256",
        "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhZGEiLCJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwiYXVkIjpbImFwaSIsIm90aGVyIl0sImV4cCI6MjAwMDAwMDAwMCwibmJmIjoxMDAwMDAwMDAwLCJvcmciOnsiaWQiOjQyLCJsaXZlIjp0cnVlfSwiaHR0cHM6Ly9leGFtcGxlLmNvbS90ZW5hbnQiOiJ0MSJ9.FKMkqxKTSMHCelLHwDRKAinY5dPf6XcOGHmtTY7j4hqsrwZ0t_vROALx4BxqIqwB1fVEgC9ttLQaYTOHbIwU9MoZGFiCC067e9PfQstxaEovnkH5GliDbvhTzg27tfqIVBjkBvFUBrvX47zSPo3ff1Xc3o-5rbgsNJzhEcd53Ke2N7lqCdAp-dNqZxvHL73TxnZZta_49IbK838cJGiCGEUB7KkRknFradfOfX-N8n8-_NsOFG7Humduc3LvrF-WuEtwlcpnUiOrT1ufWEdYJpnzk788iTrIxbH7cs86GazQJFyvuEnFj9hvOx7Ci95rNuLiAGGbPBGegwUooFdp_w",
    ),
    (
        "RS384",
        "eyJhbGciOiJSUzM4NCIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhZGEiLCJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwiYXVkIjpbImFwaSIsIm90aGVyIl0sImV4cCI6MjAwMDAwMDAwMCwibmJmIjoxMDAwMDAwMDAwLCJvcmciOnsiaWQiOjQyLCJsaXZlIjp0cnVlfSwiaHR0cHM6Ly9leGFtcGxlLmNvbS90ZW5hbnQiOiJ0MSJ9.YLFu27MRG-Or75VzFVriTOiR5lFkk9V78WUB5wwcQkTE5dBMKm9-rfZUQ0reb1lWpKbvhBTN_h8Veja9UZO5SeY6_058PPjXoq2s2F0OlVWFcqgTZUvGq9yH8rKFs_mpaPKAyeShA35TFXfUQ6Ti1t744JfMrrYCauv9ICpr2zSBO-VXPp_QMLT91XULTuQF-sXELWvVTzDI0iTjXm2nSAE6IVK45lzIQbX4Q63__DYPuQnXkIY28IuHH-JkWrvwork5ARLakXdOMv2WcvdShHMc8j47H2XA9o3vqZlnLFl63JAmfYk8vm4xRG0xvj4xgPnbIdcPvAhMDObxd3dVwA",
    ),
    (
        "RS512",
        "eyJhbGciOiJSUzUxMiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhZGEiLCJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwiYXVkIjpbImFwaSIsIm90aGVyIl0sImV4cCI6MjAwMDAwMDAwMCwibmJmIjoxMDAwMDAwMDAwLCJvcmciOnsiaWQiOjQyLCJsaXZlIjp0cnVlfSwiaHR0cHM6Ly9leGFtcGxlLmNvbS90ZW5hbnQiOiJ0MSJ9.ax6AKAxNigbVTzzZcALBeMnl-KFPxX9kWdLw3FVnUbMJoL0jCGQJcH7tTzUqFTwfKXPdv9T-vb0yG8DsQm3sJGsOL4s0e2hK4f0-KsTG_-rDliCSCAV0As0gcWaxeRbNLR0XiGOxsdP-ZxpHdovV2c05rydPP5822e289Djm4X2AkGqHupnb_WdnQvKBgj1p_8JV1P6j-gk9D69CrvpWVUi1YeIWmBr3-uIxFh1ry6T6aXUYM9XkjTm2Ig2S--IYl0X9R7YUXsrQ5SJZs8rLQhTVdsxFd7lxR9cB8NWnqLcHnuVwYUxdLAraVg3DR5bJ-_sNPmMuImg-rZHNiQUFYg",
    ),
    (
        "PS256",
        "eyJhbGciOiJQUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhZGEiLCJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwiYXVkIjpbImFwaSIsIm90aGVyIl0sImV4cCI6MjAwMDAwMDAwMCwibmJmIjoxMDAwMDAwMDAwLCJvcmciOnsiaWQiOjQyLCJsaXZlIjp0cnVlfSwiaHR0cHM6Ly9leGFtcGxlLmNvbS90ZW5hbnQiOiJ0MSJ9.BP9Oge5Hhizr95DWzQAIxegWS4dPMVxfZ3Udqy3ArtonO-tOJ0hxdaZ0yGnxcbyVW6ctBo19xAN-6eWTxCPvFa97OsY9ecu5w7iPf-QGsDaxFWle49CyXXx5tVzpcdp25V_HAvxZ1gVZAhi2cvhRppC_uinps9Ti9qq0UvGe4eioLl0VqdcVG54xWv7AOmEhjYRwc7Y4hHhHPNiPGnRW3_MB-UyfHshj80DDiPXZgcNXwwL9yL_ApGHh2db_Nf9fwBAAB4B0K8OtZt7Hk_9_jGvYGv33V-7tSLdy2lpA99y14koh7vlSfWgLsT850jN4IY00FuFxNxZsnpFUqi2cCA",
    ),
    (
        "PS384",
        "eyJhbGciOiJQUzM4NCIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhZGEiLCJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwiYXVkIjpbImFwaSIsIm90aGVyIl0sImV4cCI6MjAwMDAwMDAwMCwibmJmIjoxMDAwMDAwMDAwLCJvcmciOnsiaWQiOjQyLCJsaXZlIjp0cnVlfSwiaHR0cHM6Ly9leGFtcGxlLmNvbS90ZW5hbnQiOiJ0MSJ9.CqltjRF1EaPax8GhPEcBIvdxKp6XBFberCPmsE1BMpUvrYoD6FnqQbl-DLWSknQYjWYUjWSkRgh5IvsOQI-h93Lg_Yxwtpx5g2f-zfEjkBKw6Wh-Xo4KaFdwcS8hi6_jzgGKPXHyw3Tlesq-0iuI71lgwgJ_rS0bl2Y95v7GmDxlTvs_kFPgWQcgdolEE3k-uRnNZJ-1yx9Dp5w0o9EEjwN6dgoCGCXKVKTxJHmZtwNzjYEb_ku5PFEqYPgOFeOtlbmlb0p5Ms5m1py0UzEf8BnETHHFP9ravtJobIPQHjkgW2ldFnBa8U7fmuWd3ClOEFw6VYcSq_tarxHMcXgUBA",
    ),
    (
        "PS512",
        "eyJhbGciOiJQUzUxMiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhZGEiLCJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwiYXVkIjpbImFwaSIsIm90aGVyIl0sImV4cCI6MjAwMDAwMDAwMCwibmJmIjoxMDAwMDAwMDAwLCJvcmciOnsiaWQiOjQyLCJsaXZlIjp0cnVlfSwiaHR0cHM6Ly9leGFtcGxlLmNvbS90ZW5hbnQiOiJ0MSJ9.fEOAzh3TSXSOprtKupOJKQJRWrPdZEYMU9-sgd3d00E9LlKFf8lpKfoKU_Lom0x0Jm3wlkNe8jetNI_KPBOOwOIzYzdUQsJTLFpszCAClzSuFBWYHxfNfewPGNsPIb7RCoCuB4GadjzoBbD2sSkVjSznhghytaRNrFIQlGG7zK2dKnpKMtKRd8GfuA3TPM2XQ4eWMrVOfTY9btr9eeVW0w2L3_jzW1IouDIM-0nTPL4Z9sIh4g8Kfoo_Rtar1gR994ZmOxUUpBWjPKZWnRKnW6OENZoW9jkRQBpqKc46vOmzwupJz_m3bj4PRyL9lqHo441i7-enqDogAFcMF-pg8Q",
    ),
    (
        "ES256",
        "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhZGEiLCJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwiYXVkIjpbImFwaSIsIm90aGVyIl0sImV4cCI6MjAwMDAwMDAwMCwibmJmIjoxMDAwMDAwMDAwLCJvcmciOnsiaWQiOjQyLCJsaXZlIjp0cnVlfSwiaHR0cHM6Ly9leGFtcGxlLmNvbS90ZW5hbnQiOiJ0MSJ9.Ogqk8EYWZS5DfRnvLFTfMVQMw-EHzCTF8PcgYXumQHXoZhLDcX7iRvRsmvJoKK99uvdeSWeYKorwGYMs7xe1KQ",
    ),
    (
        "ES384",
        "eyJhbGciOiJFUzM4NCIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhZGEiLCJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwiYXVkIjpbImFwaSIsIm90aGVyIl0sImV4cCI6MjAwMDAwMDAwMCwibmJmIjoxMDAwMDAwMDAwLCJvcmciOnsiaWQiOjQyLCJsaXZlIjp0cnVlfSwiaHR0cHM6Ly9leGFtcGxlLmNvbS90ZW5hbnQiOiJ0MSJ9.LE9hhDthnt4CVHhxvVn-KXkkIkdD2sX_czoUetMFThage5jFRQK4nY1FQHcqKHpTJDPgOwvdg0TqNlv-ZUYsk_kAoWrdGstwrUkoJZSyTK6oY4dDBhcR4J2ZN6BuBykp",
    ),
    (
        "EdDSA",
        "eyJhbGciOiJFZERTQSIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhZGEiLCJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwiYXVkIjpbImFwaSIsIm90aGVyIl0sImV4cCI6MjAwMDAwMDAwMCwibmJmIjoxMDAwMDAwMDAwLCJvcmciOnsiaWQiOjQyLCJsaXZlIjp0cnVlfSwiaHR0cHM6Ly9leGFtcGxlLmNvbS90ZW5hbnQiOiJ0MSJ9.amj4BldZYmKppd1OdfDskxzlS5QWjF_GcgXgUaRQEdbayJQt85vMGWsA3eB-Do0NJhyHEiFi4eR0zS2kLeaaAg",
    ),
];

/// Tokens that name the key that signed them.
pub(super) const NAMED: [(&str, &str); 5] = [
    (
        "r",
        "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InIifQ.eyJzdWIiOiJhZGEiLCJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwiYXVkIjpbImFwaSIsIm90aGVyIl0sImV4cCI6MjAwMDAwMDAwMCwibmJmIjoxMDAwMDAwMDAwLCJvcmciOnsiaWQiOjQyLCJsaXZlIjp0cnVlfSwiaHR0cHM6Ly9leGFtcGxlLmNvbS90ZW5hbnQiOiJ0MSJ9.Bbz5y8IZ7hqYed7zRO7Y-qVM89RZgQv-207XupHK7weUaLOxd3DZLvw9OyidkpxYowC4drXPw_QJy0B6JyWAlPeLRMk11ePhaqv8F5xCDv3Dt67kxo97jT6LJpA16I8l5hkX9F_KdCvj6_JzGTNcDH0KE3p0E-qiy-DJquYssZv821ReZG6ynfbqY9Y49AaOaQ8qekDtahiKUYJ9IzrglRa0kg6FuVBOIIQTnPAj5Y2_JNsJfWsPaTW7EvauI6-rj1C3T3Ub4mb4AC6RXhrahoNz5ZrzLuj2XTh5xiS_tfm07T3D2k4nxI0rtLcnYIn7ckulBNAbtM4e8ceoBDfNZw",
    ),
    (
        "e2",
        "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6ImUyIn0.eyJzdWIiOiJhZGEiLCJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwiYXVkIjpbImFwaSIsIm90aGVyIl0sImV4cCI6MjAwMDAwMDAwMCwibmJmIjoxMDAwMDAwMDAwLCJvcmciOnsiaWQiOjQyLCJsaXZlIjp0cnVlfSwiaHR0cHM6Ly9leGFtcGxlLmNvbS90ZW5hbnQiOiJ0MSJ9.YmfP2_eRFgrPXRi-tPwbqPANWGq6COpeYfuQ8wkhTo-dmT7KPZ5yqokP5c8wiBBRkWJxaT6WRmdsNygtOzUvKw",
    ),
    (
        "e3",
        "eyJhbGciOiJFUzM4NCIsInR5cCI6IkpXVCIsImtpZCI6ImUzIn0.eyJzdWIiOiJhZGEiLCJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwiYXVkIjpbImFwaSIsIm90aGVyIl0sImV4cCI6MjAwMDAwMDAwMCwibmJmIjoxMDAwMDAwMDAwLCJvcmciOnsiaWQiOjQyLCJsaXZlIjp0cnVlfSwiaHR0cHM6Ly9leGFtcGxlLmNvbS90ZW5hbnQiOiJ0MSJ9.dLaep_gUKu5v_l8oAvj_RkghtE-z66KirsT2hpNh18gMHKx28DkgE94gDmpPmMt1fVud_eEFSExo0H5D5GifGUO1HpwtNX6JjkAx7aZCZH_cscBX64Xilf6Vvv3xh5df",
    ),
    (
        "d",
        "eyJhbGciOiJFZERTQSIsInR5cCI6IkpXVCIsImtpZCI6ImQifQ.eyJzdWIiOiJhZGEiLCJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwiYXVkIjpbImFwaSIsIm90aGVyIl0sImV4cCI6MjAwMDAwMDAwMCwibmJmIjoxMDAwMDAwMDAwLCJvcmciOnsiaWQiOjQyLCJsaXZlIjp0cnVlfSwiaHR0cHM6Ly9leGFtcGxlLmNvbS90ZW5hbnQiOiJ0MSJ9.HVJlJDk22uIrsTiDfFkelpDTKF3tjD7Ib_QLfwPOcftUgCLeBp3PYnfuj7_QG59CC0IVKX4UHRbTOtbtMk_4CA",
    ),
    (
        "s",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InMifQ.eyJzdWIiOiJhZGEiLCJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwiYXVkIjpbImFwaSIsIm90aGVyIl0sImV4cCI6MjAwMDAwMDAwMCwibmJmIjoxMDAwMDAwMDAwLCJvcmciOnsiaWQiOjQyLCJsaXZlIjp0cnVlfSwiaHR0cHM6Ly9leGFtcGxlLmNvbS90ZW5hbnQiOiJ0MSJ9.uZTopTPK1SiB6x9gO3C8d0Zqd4FLe044TY36PvI9bT0",
    ),
];

/// HS256 with the text, with the trimmed text and with the DER of the RSA public key as its secret.
pub(super) const CONFUSED: [&str; 3] = [
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhZGEiLCJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwiYXVkIjpbImFwaSIsIm90aGVyIl0sImV4cCI6MjAwMDAwMDAwMCwibmJmIjoxMDAwMDAwMDAwLCJvcmciOnsiaWQiOjQyLCJsaXZlIjp0cnVlfSwiaHR0cHM6Ly9leGFtcGxlLmNvbS90ZW5hbnQiOiJ0MSJ9.MDRuQZALSu6U2616ia-Jn4-Ose7ZUcyB83Wz_rZmTKA",
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhZGEiLCJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwiYXVkIjpbImFwaSIsIm90aGVyIl0sImV4cCI6MjAwMDAwMDAwMCwibmJmIjoxMDAwMDAwMDAwLCJvcmciOnsiaWQiOjQyLCJsaXZlIjp0cnVlfSwiaHR0cHM6Ly9leGFtcGxlLmNvbS90ZW5hbnQiOiJ0MSJ9.Qv-fRK2Kw26ZaohX0e4zQx2Wexc3neLZoRK69JyrHjo",
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhZGEiLCJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwiYXVkIjpbImFwaSIsIm90aGVyIl0sImV4cCI6MjAwMDAwMDAwMCwibmJmIjoxMDAwMDAwMDAwLCJvcmciOnsiaWQiOjQyLCJsaXZlIjp0cnVlfSwiaHR0cHM6Ly9leGFtcGxlLmNvbS90ZW5hbnQiOiJ0MSJ9.KHrVx2XwRInS7ayfu4HwiVfknlN7_DtnfU8phJUx-k0",
];
