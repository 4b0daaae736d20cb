//! Requests that are not forwarded, and the answers of the daemon to them.

use http::{HeaderValue, Response};
use tidegate_net::reply::{self, Reply};
use tidegate_wire::Fault;

use crate::body::AnswerBody;
use crate::decision_point::DecisionPoint;
use crate::rejection::Rejection;

/// The error of a request that cannot be decided or forwarded.
pub(super) enum Unforwarded {
    Fault(Fault),
    Rejection(Rejection),
}

impl From<Fault> for Unforwarded {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Rejection> for Unforwarded {
    fn from(rejection: Rejection) -> Self {
        Self::Rejection(rejection)
    }
}

pub(super) fn whole(reply: Reply) -> Response<AnswerBody> {
    reply.map(AnswerBody::whole)
}

pub(super) fn reply_to(decisions: &impl DecisionPoint, unforwarded: Unforwarded) -> Reply {
    match unforwarded {
        Unforwarded::Fault(fault) => {
            decisions.count_fault(fault.code.as_str());
            reply::fault(&fault)
        }
        Unforwarded::Rejection(rejection) => {
            decisions.count_fault(rejection.code.as_str());
            let mut body = Vec::with_capacity(256);
            rejection.write_body(&mut body);
            let problem = HeaderValue::from_static(tidegate_wire::problem::MEDIA_TYPE);
            let mut reply = reply::with_body(reply::status(rejection.status), problem, body);
            if let Some(challenge) = rejection.challenge() {
                let challenge = HeaderValue::from_static(challenge);
                reply.headers_mut().insert(http::header::WWW_AUTHENTICATE, challenge);
            }
            reply
        }
    }
}
