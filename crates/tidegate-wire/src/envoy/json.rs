//! The messages as JSON, by the mapping that Protocol Buffers has for it: for callers that speak no
//! gRPC.
//!
//! A request may use `hitsAddend` or `hits_addend`, whole numbers with or without quotes, the name
//! of a unit or its number, and null for what it does not have. An unknown field is an error: a
//! misspelt weight never becomes a weight of 1. An answer has names like `overallCode`, the names
//! of codes and units, spans as `"3s"` and bytes as base 64; defaults are left out.

mod answer;
mod request;

pub use answer::{EnvoyAnswer, EnvoyHeader, EnvoyLimit, EnvoyStatus};
pub use request::{EnvoyDescriptor, EnvoyEntry, EnvoyOwnLimit, EnvoyRequest};

use super::{RateLimitRequest, RateLimitResponse};
use crate::fault::Fault;
use crate::operation;

/// Reads a request. Whether it can be decided is seen afterwards, as for one that came over gRPC.
///
/// The error names the field and where it stands; bytes that are no JSON object are one as well.
pub fn read(body: &[u8]) -> Result<RateLimitRequest, Fault> {
    let request: EnvoyRequest = operation::read(body)?;
    Ok(request.into())
}

/// Appends an answer.
pub fn write(answer: &RateLimitResponse, out: &mut Vec<u8>) {
    crate::answer::write(&EnvoyAnswer::from_answer(answer), out);
}

#[cfg(test)]
mod tests;
