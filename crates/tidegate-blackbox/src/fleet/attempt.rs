//! One request of a caller, and what it was answered.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::{self, Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde::{Deserialize, Serialize};

use super::bound::Admission;
use crate::load::measurement::Percentiles;

/// The answer to a request for admission. A refusal has the name of its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CheckOutcome {
    Admitted,
    RateExceeded,
    StoreUnavailable,
    QuotaExceeded,
    /// The request may have been admitted.
    NoAnswer,
    /// Another refusal.
    #[serde(other)]
    Other,
}

impl CheckOutcome {
    pub(crate) const ALL: [Self; 6] = [
        Self::Admitted,
        Self::RateExceeded,
        Self::StoreUnavailable,
        Self::QuotaExceeded,
        Self::NoAnswer,
        Self::Other,
    ];
}

/// The part of a refusal that is read.
#[derive(Deserialize)]
struct RefusalBody {
    reason: CheckOutcome,
}

/// A request that was sent. Times are in seconds from the start of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CheckAttempt {
    /// The index of its caller.
    pub(crate) caller: usize,
    /// The index of the member that answered it last.
    pub(crate) member: usize,
    /// How many attempts were refused before.
    pub(crate) number: u32,
    /// How much later than scheduled it was sent.
    pub(crate) late: f64,
    pub(crate) asked: f64,
    pub(crate) answered: f64,
    pub(crate) outcome: CheckOutcome,
}

impl CheckAttempt {
    pub(crate) fn is_admitted(&self) -> bool {
        self.outcome == CheckOutcome::Admitted
    }
}

/// The admitted ones of `attempts`.
pub(crate) fn admissions(attempts: &[CheckAttempt]) -> Vec<Admission> {
    let admitted = attempts.iter().filter(|one| one.is_admitted());
    admitted.map(|one| Admission { asked: one.asked, answered: one.answered }).collect()
}

/// How many of `attempts` had each outcome.
pub(crate) fn outcomes(attempts: &[CheckAttempt]) -> BTreeMap<CheckOutcome, usize> {
    let count = |outcome| attempts.iter().filter(|one| one.outcome == outcome).count();
    CheckOutcome::ALL.into_iter().map(|outcome| (outcome, count(outcome))).collect()
}

/// Percentiles of seconds.
pub(crate) fn percentiles(seconds: impl Iterator<Item = f64>) -> Percentiles {
    Percentiles::from_durations(seconds.map(|one| Duration::from_secs_f64(one.max(0.0))))
}

/// A client that keeps connections alive. Each carries one request at a time, so a slow answer
/// delays no other.
#[derive(Clone, Debug)]
pub(crate) struct CheckClient(Client<HttpConnector, Full<Bytes>>);

impl CheckClient {
    pub(crate) fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self(Client::builder(TokioExecutor::new()).build(connector))
    }

    /// Asks a member to admit a request, again if `number` is not 0. The error is that of the
    /// connection.
    pub(crate) async fn check(
        &self,
        member: SocketAddr,
        body: Bytes,
        number: u32,
    ) -> Result<CheckOutcome, legacy::Error> {
        let mut request = Request::post(format!("http://{member}/v1/check"));
        if number > 0 {
            request = request.header("tidegate-attempt", number);
        }
        let request = request.body(Full::new(body)).expect("an address makes a valid URI");
        let response = self.0.request(request).await?;
        if response.status() == 200 {
            return Ok(CheckOutcome::Admitted);
        }
        let Ok(body) = response.into_body().collect().await else { return Ok(CheckOutcome::NoAnswer) };
        let refusal = serde_json::from_slice(&body.to_bytes());
        Ok(refusal.map_or(CheckOutcome::Other, |refusal: RefusalBody| refusal.reason))
    }
}

/// The body of a request for the admission of a user.
pub(crate) fn check_body(attributes: &str) -> Bytes {
    format!("{{\"namespace\":\"api\",\"attributes\":{attributes}}}").into()
}
