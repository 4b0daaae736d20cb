//! The client of a running daemon.
//!
//! Every protocol uses a connection from [`connection`], so that Unix sockets, TLS and the deadline
//! are the same for all of them.

mod answer;
mod connection;
mod error;
mod grpc;
mod http;
mod resp;
mod tls;
mod token;

use std::pin::Pin;

use serde::Serialize;

use self::connection::within_deadline;
use self::token::token;
use crate::address::Protocol;
use crate::arguments::request::{CheckOptions, Daemon, Question};
use crate::exit::{self, Exit};

pub(crate) use answer::{CheckAnswer, LimitLeft, ViolatedLimit};
pub(crate) use error::ClientError;
pub(crate) use http::{
    acknowledge, encoded, explain, get, leases, limit_attributes, object, operate, target,
};
pub(crate) use token::has_token;

/// Asks whether a request may go ahead.
pub(crate) async fn check(
    daemon: &Daemon,
    question: &Question,
    options: CheckOptions,
) -> Result<CheckAnswer, ClientError> {
    within_deadline(&daemon.at, async {
        let token = token(daemon)?;
        let token = token.as_deref();
        match daemon.at.protocol {
            Protocol::Http => http::check(daemon, question, options, token).await,
            Protocol::Resp => resp::check(daemon, question, options, token).await,
            Protocol::Grpc => grpc::check(daemon, question, options, token).await,
        }
    })
    .await
}

/// Runs a request to its end.
pub(crate) fn wait_for<T>(request: impl Future<Output = Result<T, ClientError>>) -> Result<T, ClientError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| ClientError::Silent(format!("cannot begin: {error}")))?;
    let mut answer = None;
    // In a box, so that the runtime is compiled for one kind of request and not for each.
    let waiting: Pin<Box<dyn Future<Output = ()> + '_>> = Box::pin(async { answer = Some(request.await) });
    runtime.block_on(waiting);
    answer.expect("the request ran to its end")
}

/// Prints an answer, as JSON or in words, and returns the exit code.
pub(crate) fn print<T: Serialize>(
    json: bool,
    answer: Result<T, ClientError>,
    words: impl FnOnce(&T) -> String,
) -> Exit {
    let answer = match answer {
        Ok(answer) => answer,
        Err(unanswered) => return unanswered.complain(),
    };
    let text = if json {
        serde_json::to_string_pretty(&answer).expect("text and numbers always serialise") + "\n"
    } else {
        words(&answer)
    };
    exit::answer(&text, Exit::Done)
}
