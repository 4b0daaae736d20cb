//! The bounds of the head of a request.

use http::request::Parts;
use tidegate_wire::{Fault, FaultCode};

use crate::bounds::Bounds;
use crate::browser_guard::check_host;

/// Whether a head is within its bounds, and names its host as it should.
pub(crate) fn check_head(head: &Parts, bounds: &Bounds) -> Result<(), Fault> {
    let target = head.uri.path_and_query().map_or(0, |target| target.as_str().len());
    if target > bounds.uri_bytes {
        let detail = format_args!("the request target has {target} bytes; it takes {}", bounds.uri_bytes);
        return Err(Fault::new(FaultCode::UriTooLong, detail).fix("send attributes as headers"));
    }
    if head.headers.len() > bounds.headers {
        let detail = format_args!("{} headers; a request takes {}", head.headers.len(), bounds.headers);
        return Err(Fault::new(FaultCode::HeadersTooLarge, detail).fix("send fewer headers"));
    }
    check_host(head)
}
