//! Envoy's rate limit service: messages by hand, and a client over HTTP/2.

use std::net::SocketAddr;

use crate::attack::Failure;
use crate::http2;

/// The path of the service's only call.
pub const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// `OK` of `RateLimitResponse.Code`.
pub const OK: u64 = 1;
/// `OVER_LIMIT` of `RateLimitResponse.Code`.
pub const OVER_LIMIT: u64 = 2;
/// `YEAR` of `RateLimitUnit`.
pub const YEAR: u64 = 6;

/// A descriptor with one entry.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor<'text> {
    /// The entry's key.
    pub key: &'text str,
    /// The entry's value.
    pub value: &'text str,
    /// Requests a unit, and the unit, that the descriptor brings along.
    pub limit: Option<(u64, u64)>,
}

impl Descriptor<'_> {
    fn encoded(&self) -> Vec<u8> {
        let mut entry = Vec::new();
        put_bytes(&mut entry, 1, self.key.as_bytes());
        put_bytes(&mut entry, 2, self.value.as_bytes());
        let mut encoded = Vec::new();
        put_bytes(&mut encoded, 1, &entry);
        if let Some((requests, unit)) = self.limit {
            let mut limit = Vec::new();
            put_number(&mut limit, 1, requests);
            put_number(&mut limit, 2, unit);
            put_bytes(&mut encoded, 2, &limit);
        }
        encoded
    }
}

/// The bytes of a call's request: the frame of gRPC around `RateLimitRequest`.
pub fn request(domain: &str, descriptor: Descriptor<'_>) -> Vec<u8> {
    request_of_many(domain, &[descriptor])
}

/// The same with several descriptors.
pub fn request_of_many(domain: &str, descriptors: &[Descriptor<'_>]) -> Vec<u8> {
    let encoded: Vec<_> = descriptors.iter().map(Descriptor::encoded).collect();
    frame(domain, encoded.iter().map(Vec::as_slice))
}

fn frame<'bytes>(domain: &str, descriptors: impl Iterator<Item = &'bytes [u8]>) -> Vec<u8> {
    let mut message = Vec::new();
    put_bytes(&mut message, 1, domain.as_bytes());
    descriptors.for_each(|descriptor| put_bytes(&mut message, 2, descriptor));
    let length = u32::try_from(message.len()).expect("a message is far below 4 GiB");
    let mut framed = vec![0];
    framed.extend_from_slice(&length.to_be_bytes());
    framed.extend_from_slice(&message);
    framed
}

/// A call that waits for `wait_ms` with these entries, and four descriptors with a value of so many
/// bytes that are only looked at.
pub fn request_that_waits(
    domain: &str,
    entries: &[(&str, &str)],
    wait_ms: u32,
    looked_at_bytes: usize,
) -> Vec<u8> {
    let entry = |key: &str, value: &str| {
        let mut entry = Vec::new();
        put_bytes(&mut entry, 1, key.as_bytes());
        put_bytes(&mut entry, 2, value.as_bytes());
        entry
    };
    let mut asked = Vec::new();
    for (key, value) in entries {
        put_bytes(&mut asked, 1, &entry(key, value));
    }
    put_bytes(&mut asked, 1, &entry("tidegate-wait-ms", &wait_ms.to_string()));
    let mut looked_at = Vec::new();
    put_bytes(&mut looked_at, 1, &entry("large", &"x".repeat(looked_at_bytes)));
    // A cost of its own, 0: the number of a wrapper that is left out.
    put_bytes(&mut looked_at, 3, &[]);
    let descriptors = [&asked, &looked_at, &looked_at, &looked_at, &looked_at];
    frame(domain, descriptors.into_iter().map(Vec::as_slice))
}

/// The overall code of a response; nothing if `body` holds none.
pub fn overall_code(body: &[u8]) -> Option<u64> {
    // Behind the frame's five bytes, field 1 as a number comes first.
    match body.get(5..)? {
        [0x08, code, ..] => Some(u64::from(*code)),
        _ => None,
    }
}

/// Asks once, on a connection of its own, and returns the overall code.
pub fn ask(address: SocketAddr, domain: &str, descriptor: Descriptor<'_>) -> Result<u64, Failure> {
    let headers = [("content-type", "application/grpc"), ("te", "trailers")];
    let answer =
        http2::ask(address, "POST", PATH, "localhost", &headers, Some(&request(domain, descriptor)))?;
    overall_code(&answer.body)
        .ok_or_else(|| Failure::GotThrough(format!("gRPC answered {:?}", answer.headers)))
}

fn put_number(into: &mut Vec<u8>, field: u8, number: u64) {
    into.push(field << 3);
    put_varint(into, number);
}

fn put_bytes(into: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    into.push(field << 3 | 2);
    put_varint(into, bytes.len() as u64);
    into.extend_from_slice(bytes);
}

fn put_varint(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_encoded_as_protocol_buffers_have_it() {
        let descriptor = Descriptor { key: "k", value: "v", limit: Some((300, YEAR)) };
        let entry = [0x0a, 6, 0x0a, 1, b'k', 0x12, 1, b'v'];
        let limit = [0x12, 5, 0x08, 0xac, 0x02, 0x10, 6];
        let mut expected = vec![0, 0, 0, 0, 20, 0x0a, 1, b'd', 0x12, 15];
        expected.extend_from_slice(&entry);
        expected.extend_from_slice(&limit);
        assert_eq!(request("d", descriptor), expected);
    }

    #[test]
    fn the_overall_code_stands_behind_the_frame() {
        assert_eq!(overall_code(&[0, 0, 0, 0, 2, 0x08, 2]), Some(OVER_LIMIT));
        assert_eq!(overall_code(&[]), None);
    }
}
