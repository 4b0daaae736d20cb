//! The answer of a daemon to a check, the same for every protocol.

use std::collections::BTreeMap;

use http::StatusCode;
use serde::Deserialize;
use tidegate_wire::answer::AccessUnits;

use super::error::ClientError;
use crate::address::TOKEN_VARIABLE;

/// The fields of an answer, of a refusal, or of a fault.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CheckAnswer {
    pub(crate) decision: String,
    pub(crate) remaining: Option<u64>,
    pub(crate) limits: Vec<LimitLeft>,
    pub(crate) violated: Vec<ViolatedLimit>,
    pub(crate) access: Option<AccessUnits>,
    pub(crate) permit: Option<String>,
    pub(crate) shadow: Vec<String>,
    pub(crate) reason: Option<String>,
    pub(crate) limit: Option<String>,
    pub(crate) scope: Option<BTreeMap<String, String>>,
    pub(crate) retry: Option<String>,
    pub(crate) retry_after_ms: Option<u64>,
    pub(crate) detail: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) fix: Option<String>,
}

/// The remaining units of a limit.
#[derive(Debug, Deserialize, serde::Serialize)]
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
#[derive(Debug, Deserialize, serde::Serialize)]
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
        let (Some(detail), Some(_)) = (self.detail, self.error) else { return no_daemon(status) };
        let why = match self.fix {
            _ if status == StatusCode::UNAUTHORIZED => {
                format!("{detail}; name a token with --token-file FILE or {TOKEN_VARIABLE}")
            }
            Some(fix) => format!("{detail}; {fix}"),
            None => detail,
        };
        if status.is_server_error() { ClientError::Silent(why) } else { ClientError::Untaken(why) }
    }
}

pub(super) fn no_daemon(status: StatusCode) -> ClientError {
    ClientError::OtherProtocol(format!("what answers there, with status {}, is no Tidegate", status.as_u16()))
}
