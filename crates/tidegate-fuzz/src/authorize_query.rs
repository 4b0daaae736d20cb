//! The query of `/v1/authorize`: the first line is the query, the second one the value of a header.

use core::fmt::Write;

use http::{HeaderMap, HeaderValue};
use tidegate_core::Attributes;
use tidegate_server::{AuthorizeHeaders, AuthorizeQuery, read_authorize_query};
use tidegate_wire::fault::DETAIL_BYTES_MAX;
use tidegate_wire::{Fault, FaultCode};

use crate::Taken;

/// The header that names the user, and the attribute that it becomes.
const USER: (&str, &str) = ("x-user", "user");

/// Reads a query with and without a header.
///
/// A query with every byte escaped is read the same, and a header wins over the query; an error is
/// a bounded sentence.
pub fn authorize_query(bytes: &[u8]) -> Taken {
    let mut lines = bytes.splitn(2, |byte| *byte == b'\n');
    let Ok(query) = core::str::from_utf8(lines.next().unwrap_or_default()) else { return Taken::Refused };
    let names = AuthorizeHeaders::new([USER]).expect("the name of a header");
    let mut headers = HeaderMap::new();
    if let Some(Ok(value)) = lines.next().map(HeaderValue::from_bytes) {
        headers.append(USER.0, value);
    }
    let read = match read_authorize_query(query, &headers, &names) {
        Ok(read) => read,
        Err(fault) => {
            assert_fault(&fault);
            return Taken::Refused;
        }
    };
    assert!(read.attributes.len() <= Attributes::MAX, "{} attributes", read.attributes.len());
    let user = read.attributes.iter().find(|(name, _)| name == USER.1).map(|(_, value)| value.as_bytes());
    if let Some(value) = headers.get(USER.0) {
        assert_eq!(user, Some(value.as_bytes()), "a header does not win over the query");
    }
    if read.attributes.iter().all(|(name, _)| !is_reserved(name)) {
        let again = read_authorize_query(&written(&read), &HeaderMap::new(), &names);
        assert_eq!(again, Ok(read), "read from {query:?}");
    }
    Taken::Accepted
}

/// Whether a parameter of this name is no attribute.
fn is_reserved(name: &str) -> bool {
    ["namespace", "cost", "class", "deny_status"].contains(&name)
}

/// The query with every byte escaped.
fn written(read: &AuthorizeQuery) -> String {
    let escaped = |text: &str| {
        text.bytes().fold(String::new(), |mut out, byte| {
            let _ = write!(out, "%{byte:02x}");
            out
        })
    };
    let mut query = format!("namespace={}", escaped(&read.namespace));
    if let Some(cost) = read.cost {
        let _ = write!(query, "&cost={}", cost.units());
    }
    if let Some(class) = read.class {
        let _ = write!(query, "&class={class}");
    }
    if let Some(status) = read.deny_status {
        let _ = write!(query, "&deny_status={status}");
    }
    for (name, value) in &read.attributes {
        let _ = write!(query, "&{}={}", escaped(name), escaped(value));
    }
    query
}

fn assert_fault(fault: &Fault) {
    assert_eq!(fault.code, FaultCode::MalformedQuery);
    assert!(
        (1..=DETAIL_BYTES_MAX + '\u{2026}'.len_utf8()).contains(&fault.detail.len()),
        "{:?}",
        fault.detail
    );
    let mut out = Vec::new();
    fault.write_body(&mut out);
    let written: serde_json::Value = serde_json::from_slice(&out).expect("a fault is written as JSON");
    assert_eq!(written["detail"], fault.detail.as_str());
}
