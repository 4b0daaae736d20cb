//! The faults of calls as their senders see them, and the room of streams that stay open.

use std::sync::Arc;

use tidegate_net::connections::{Buffered, ConnectionActivity, NoRoom, STREAM_BYTES};
use tidegate_wire::{Fault, FaultCode};
use tonic::{Code, Status};

use crate::context::DaemonContext;

/// Room for a stream that may stay open: a watch of health, or reflection.
pub(super) fn hold_stream(line: &Arc<ConnectionActivity>) -> Result<Buffered, Fault> {
    let mut held = Buffered::new(Arc::clone(line));
    held.resize(STREAM_BYTES).map_err(|NoRoom| no_room())?;
    Ok(held)
}

pub(super) fn no_room() -> Fault {
    let detail = "the daemon's memory for open streams is full";
    Fault::new(FaultCode::BodyMemoryFull, detail).fix("close streams that are not used")
}

/// The status for the sender of a call that cannot be answered.
pub(super) fn status_of(daemon: &DaemonContext, fault: &Fault) -> Status {
    daemon.metrics.fault(fault.code);
    let code = match fault.code {
        FaultCode::UnknownRoute | FaultCode::NotAvailable | FaultCode::MethodNotAllowed => {
            Code::Unimplemented
        }
        FaultCode::UnknownNamespace
        | FaultCode::UnknownLimit
        | FaultCode::UnknownSignal
        | FaultCode::UnknownPermit
        | FaultCode::UnknownTenant => Code::NotFound,
        FaultCode::Unauthenticated => Code::Unauthenticated,
        FaultCode::Forbidden => Code::PermissionDenied,
        FaultCode::BodyTimeout => Code::DeadlineExceeded,
        FaultCode::StoreUnavailable => Code::Unavailable,
        FaultCode::TooManyKept | FaultCode::BodyMemoryFull | FaultCode::HeadersTooLarge => {
            Code::ResourceExhausted
        }
        FaultCode::Internal => Code::Internal,
        _ => Code::InvalidArgument,
    };
    let message = match &fault.fix {
        Some(fix) => format!("{}; {fix}", fault.detail),
        None => fault.detail.clone(),
    };
    Status::new(code, message)
}
