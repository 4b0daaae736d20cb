//! Tokens and key sets: the last line is a token (RFC 7519), the lines before it are a JSON Web Key
//! Set.

use tidegate_core::Timestamp;
use tidegate_proxy::jwt::{Expiry, KeySet, TOKEN_BYTES_MAX, TokenReader, Trust};
use tidegate_proxy::rejection::Rejection;

use crate::Taken;

/// When tokens are verified.
const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

/// Reads a key set, if there is one, and a token by it.
///
/// A verified token is also read where signatures are not verified, with the same claims, and
/// its signature verifies no other header or payload. An input with a key set is accepted
/// if a key verifies its token, one without if the token is well-formed and in date.
pub fn tokens(bytes: &[u8]) -> Taken {
    let end = bytes.iter().rposition(|byte| *byte == b'\n');
    let (set, token) = end.map_or((None, bytes), |end| (Some(&bytes[..end]), &bytes[end + 1..]));
    let unverified = TokenReader::new(Trust::Unverified).verify(token, NOW);
    match &unverified {
        Ok(_) => {
            assert!(token.len() <= TOKEN_BYTES_MAX, "a token of {} bytes", token.len());
            let lenient = TokenReader::new(Trust::Unverified).expiry(Expiry::Optional);
            assert_eq!(lenient.verify(token, NOW), unverified, "an optional expiry rejects more");
        }
        Err(rejection) => assert_rejection(rejection),
    }
    let Some(set) = set else { return taken(unverified.is_ok()) };
    let keys = match KeySet::from_jwks(set) {
        Ok(keys) => keys,
        Err(error) => {
            let line = error.to_string();
            assert!(!line.is_empty() && line.len() < 1024, "{} bytes of an error", line.len());
            return Taken::Refused;
        }
    };
    assert!(format!("{keys:?}").len() < 16, "a key set shows more than its length: {keys:?}");
    let reader = TokenReader::new(Trust::Keys(keys));
    match reader.verify(token, NOW) {
        Ok(claims) => {
            assert_eq!(unverified.as_ref(), Ok(&claims), "claims depend on the signature");
            assert_signed(&reader, token);
            Taken::Accepted
        }
        Err(rejection) => {
            assert_rejection(&rejection);
            Taken::Refused
        }
    }
}

fn taken(is_accepted: bool) -> Taken {
    if is_accepted { Taken::Accepted } else { Taken::Refused }
}

/// No other text in the place of the header or the payload is verified by the same signature.
fn assert_signed(reader: &TokenReader, token: &[u8]) {
    let signature = token.iter().rposition(|byte| *byte == b'.').expect("a token has three parts");
    for at in (0..signature).step_by(1 + signature / 16) {
        let mut forged = token.to_vec();
        forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
        assert!(reader.verify(&forged, NOW).is_err(), "verified with byte {at} changed");
    }
    assert!(reader.verify(&token[..=signature], NOW).is_err(), "verified without a signature");
    assert!(reader.verify(&token[..token.len() - 1], NOW).is_err(), "verified when cut off");
}

fn assert_rejection(rejection: &Rejection) {
    assert_eq!(rejection.status, 401, "{rejection:?}");
    let mut out = Vec::new();
    rejection.write_body(&mut out);
    let written: serde_json::Value = serde_json::from_slice(&out).expect("a rejection is JSON");
    assert_eq!(written["detail"], rejection.detail.as_str());
    // The sentences are fixed: nothing of a token is shown.
    assert!(rejection.detail.len() < 128 && rejection.detail.is_ascii(), "{rejection:?}");
}
