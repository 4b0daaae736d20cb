//! The faults for senders whose requests the engine could not decide or carry out.

use tidegate_capacity::CapacityError;
use tidegate_core::{GateError, Timestamp, error_chain};
use tidegate_engine::{AdminError, BuildError, RequestError};
use tidegate_policy::nearest;
use tidegate_wire::text::shortened;
use tidegate_wire::{Fault, FaultCode, retry_after};

use crate::context::RequestScope;
use crate::envoy::envoy_files::EnvoyFiles;

/// How much of a name that is not known is quoted, in bytes.
pub(crate) const SHOWN_BYTES: usize = 128;

impl RequestScope<'_> {
    /// The fault of a request that was not decided. For a namespace that does not exist it names
    /// the one that was probably meant, unless the policy has `authorization`: not every caller may
    /// know the names of others then.
    pub(crate) fn request_fault(&self, error: &RequestError, now: Timestamp) -> Fault {
        let fault = engine_fault(error, now);
        match error {
            RequestError::UnknownNamespace(namespace) => self.with_nearest_namespace(fault, namespace),
            _ => fault,
        }
    }

    /// The fault of a change to the running engine that was not made.
    pub(crate) fn admin_fault(&self, error: &AdminError, now: Timestamp) -> Fault {
        let (code, fix) = match error {
            AdminError::Request(error) => return self.request_fault(error, now),
            AdminError::Build(error) => return build_fault(error),
            AdminError::TooManyOverrides | AdminError::TooManyOverridesHere { .. } => {
                (FaultCode::TooManyKept, "delete overrides that are not needed")
            }
            AdminError::UnknownOverride { .. } => (FaultCode::UnknownLimit, "see GET /v1/overrides"),
            AdminError::Override { .. } => {
                (FaultCode::MalformedBody, "see GET /v1/limits for what the limit counts by")
            }
            _ => (FaultCode::Internal, "see the log of the daemon"),
        };
        Fault::new(code, error_chain(error)).fix(fix)
    }

    /// The fault of a namespace in a list, or of a domain in files, that does not exist.
    pub(crate) fn unknown_namespace(&self, name: &str) -> Fault {
        let shown = shortened(name, SHOWN_BYTES);
        let detail = format_args!("namespace \"{shown}\" does not exist");
        let fault = Fault::new(FaultCode::UnknownNamespace, detail);
        self.with_nearest_namespace(fault.fix("see GET /v1/limits for the namespaces there are"), name)
    }

    fn with_nearest_namespace(&self, fault: Fault, name: &str) -> Fault {
        if self.in_force.config.authorization.is_some() {
            return fault;
        }
        let files = self.in_force.config.envoy_ratelimit.as_ref().map(EnvoyFiles::get);
        let domains = files.iter().flat_map(|files| files.domains());
        match nearest(name, self.in_force.engine.namespaces().chain(domains)) {
            Some(near) => fault.fix(format!("did you mean \"{near}\"? see GET /v1/limits")),
            None => fault,
        }
    }
}

/// The fault of a request that was not decided.
pub(crate) fn engine_fault(error: &RequestError, now: Timestamp) -> Fault {
    let (code, fix) = match error {
        RequestError::UnknownNamespace(_) => {
            (FaultCode::UnknownNamespace, "see GET /v1/limits for the namespaces there are")
        }
        RequestError::UnknownLimit { .. } => {
            (FaultCode::UnknownLimit, "see GET /v1/limits for the limits there are and what they count by")
        }
        RequestError::KeyIncomplete { .. } => {
            (FaultCode::MalformedBody, "name each attribute of its key, as lists show them")
        }
        RequestError::UnknownPermit(_) => (FaultCode::UnknownPermit, "settle or release each permit once"),
        RequestError::TooManyPermits(_) => {
            (FaultCode::TooManyKept, "settle or release permits when work is done")
        }
        RequestError::RefundKeysFull { .. } => {
            (FaultCode::TooManyKept, "repeat it then, with the same refund_key")
        }
        RequestError::UnknownTable { .. } => (FaultCode::UnknownTable, "leave `access` out"),
        RequestError::Access(CapacityError::UnknownTable { .. }) => {
            (FaultCode::UnknownTable, "see GET /v1/tables for the tables there are")
        }
        RequestError::Access(error) => return access_fault(error),
        RequestError::TableFull(_) => (FaultCode::TooManyKept, "repeat it then"),
        RequestError::Store(_) => (FaultCode::StoreUnavailable, "repeat it when the store answers"),
        _ => (FaultCode::Internal, "see the log of the daemon"),
    };
    let detail = match error {
        // The causes of a store's failure are the operator's, and in the log.
        RequestError::Store(store) => format!("{error}: {store}"),
        _ => error_chain(error),
    };
    let fault = Fault::new(code, detail).fix(fix);
    match error {
        // The next permit that is settled frees a place, at any time.
        RequestError::TooManyPermits(_) | RequestError::Store(_) => fault.retry_after(1),
        RequestError::RefundKeysFull { until } => fault.retry_after(wait_seconds(*until, now)),
        RequestError::TableFull(full) => fault.retry_after(wait_seconds(full.until, now)),
        _ => fault,
    }
}

/// The fault of an access that the capacity plane could not weigh. Its messages end with the fix.
fn access_fault(error: &CapacityError) -> Fault {
    let field = match error {
        CapacityError::TooLarge { .. } | CapacityError::TooHeavy { .. } => Some("size"),
        CapacityError::KeyTooLong { .. } => Some("key"),
        _ => None,
    };
    let text = error.to_string();
    let (detail, fix) = text.rsplit_once("; ").unwrap_or((&text, "correct `access`"));
    let fault = Fault::new(FaultCode::MalformedBody, detail).fix(fix.to_owned());
    match field {
        Some(field) => fault.field(field),
        None => fault,
    }
}

/// The fault of limits that make no engine.
pub(crate) fn build_fault(error: &BuildError) -> Fault {
    let told = error_chain(error);
    match error {
        // Numbers that are no longer used become free within seconds.
        BuildError::Limits { source: GateError::TooManySpecs { .. }, .. } => {
            Fault::new(FaultCode::TooManyKept, told).fix("repeat it in a few seconds").retry_after(1)
        }
        BuildError::Limits { .. } => {
            Fault::new(FaultCode::MalformedBody, told).fix("see GET /v1/limits for what the limit counts by")
        }
        _ => Fault::new(FaultCode::Internal, told).fix("see the log of the daemon"),
    }
}

fn wait_seconds(until: Timestamp, now: Timestamp) -> u64 {
    retry_after::seconds_up(until.saturating_since(now)).max(1)
}
