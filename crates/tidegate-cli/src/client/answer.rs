//! The answer of a daemon to a check, the same for every protocol.

use std::collections::BTreeMap;

use http::StatusCode;
use serde::{Deserialize, Serialize};
use tidegate_wire::FaultCode;
use tidegate_wire::answer::AccessUnits;

use super::error::ClientError;
use crate::address::TOKEN_VARIABLE;

/// The fields of an answer, of a refusal, or of a fault, in the order in which they are printed.
/// The decision is printed before them.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct CheckAnswer {
    #[serde(skip_serializing)]
    pub(crate) decision: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) scope: Option<BTreeMap<String, String>>,
    /// The remaining units of `limit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remaining: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry_after_ms: Option<u64>,
    /// The detail of a refusal or of a fault, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) detail: Option<String>,
    /// Every limit that refused, the one that binds longest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) violated: Vec<ViolatedLimit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) permit: Option<String>,
    /// The capacity units of its access to a table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) access: Option<AccessUnits>,
    /// Its feature, if that has levels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) feature: Option<String>,
    /// The level of its feature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) feature_level: Option<String>,
    /// Whether its feature is in shadow mode, so that the level is only shown.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub(crate) feature_shadow: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) limits: Vec<LimitLeft>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) shadow: Vec<String>,
    #[serde(skip_serializing)]
    pub(crate) error: Option<String>,
    #[serde(skip_serializing)]
    pub(crate) fix: Option<String>,
}

/// The remaining units of a limit.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct LimitLeft {
    pub(crate) name: String,
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reset_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) window_end: Option<String>,
}

/// A limit that refused.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct ViolatedLimit {
    pub(crate) name: String,
    pub(crate) reason: String,
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry_after_ms: Option<u64>,
}

impl CheckAnswer {
    /// Reads a body that decides the request; the body of a fault is an error.
    pub(super) fn read(status: StatusCode, body: &[u8]) -> Result<Self, ClientError> {
        let said: Self = serde_json::from_slice(body).map_err(|_| no_daemon(status))?;
        match said.decision.as_str() {
            "admit" | "refuse" => Ok(said),
            _ => Err(said.fault(status)),
        }
    }

    pub(super) fn fault(self, status: StatusCode) -> ClientError {
        let (Some(detail), Some(error)) = (self.detail, self.error) else { return no_daemon(status) };
        let why = match self.fix {
            _ if status == StatusCode::UNAUTHORIZED => {
                format!("{detail}; name a token with --token-file FILE or {TOKEN_VARIABLE}")
            }
            Some(fix) => format!("{detail}; {fix}"),
            None => detail,
        };
        match status {
            _ if status.is_server_error() => ClientError::Silent(why),
            _ if error == FaultCode::UnknownTenant.as_str() => ClientError::Untracked(why),
            _ => ClientError::Untaken(why),
        }
    }
}

pub(super) fn no_daemon(status: StatusCode) -> ClientError {
    ClientError::OtherProtocol(format!("what answers there, with status {}, is no Tidegate", status.as_u16()))
}
