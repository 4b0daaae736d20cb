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
use tidegate_policy::policy::claims::CLASS;
use tidegate_wire::operation::WAIT_MS;

use self::connection::within_deadline_after;
use self::token::token;
use crate::address::Protocol;
use crate::arguments::request::{CheckOptions, Daemon, Question, whole_millis, word};
use crate::exit::{self, Exit};

pub(crate) use answer::{CheckAnswer, LimitLeft};
pub(crate) use error::ClientError;
pub(crate) use http::{encoded, explain, get, limit_attributes, object, operate, set_member, target};
pub(crate) use token::has_token;

/// Asks whether a request may go ahead.
pub(crate) async fn check(
    daemon: &Daemon,
    question: &Question,
    options: &CheckOptions,
) -> Result<CheckAnswer, ClientError> {
    let wait = options.wait.unwrap_or_default();
    within_deadline_after(wait, &daemon.at, async {
        let token = token(daemon)?;
        let token = token.as_deref();
        if daemon.at.protocol == Protocol::Http {
            return http::check(daemon, question, options, token).await;
        }
        let Some(table) = &question.access.table else {
            return check_in_words(daemon, question, options, token).await;
        };
        // A namespace without tables takes the words of an access as attributes like others, which
        // only the answer tells. So a look comes first, and nothing is charged for a wrong name.
        let look = CheckOptions { peek: true, wait: None, ..options.clone() };
        let looked = Question { cost: None, ..question.clone() };
        let looked = check_in_words(daemon, &looked, &look, token).await?;
        if looked.decision == "admit" && looked.access.is_none() {
            let namespace = &question.namespace;
            return Err(ClientError::Untaken(format!(
                "table \"{table}\" does not exist in namespace \"{namespace}\", or its policy says where an access is found; leave out --table, or ask over http://"
            )));
        }
        if options.peek && question.cost.is_none() {
            return Ok(looked);
        }
        check_in_words(daemon, question, options, token).await
    })
    .await
}

/// Asks over a protocol that has no members for a resource and an access: they are attributes.
async fn check_in_words(
    daemon: &Daemon,
    question: &Question,
    options: &CheckOptions,
    token: Option<&str>,
) -> Result<CheckAnswer, ClientError> {
    let resource = options.resource.iter().map(|name| ("resource".to_owned(), name.clone()));
    let class = options.class.iter().map(|class| (CLASS.to_owned(), word(*class)));
    let feature = options.feature.iter().map(|name| ("feature".to_owned(), name.clone()));
    let wait = options.wait.map(|wait| (WAIT_MS.to_owned(), whole_millis(wait).to_string()));
    let words = question.access.words().into_iter().chain(resource).chain(class).chain(feature).chain(wait);
    let words: Vec<_> = words.collect();
    let question = Question {
        attributes: question.attributes.iter().cloned().chain(words).collect(),
        ..question.clone()
    };
    if let Some(name) = question.duplicate() {
        let flag = match name {
            CLASS => "class",
            WAIT_MS => "wait",
            name => name,
        };
        let why = format!("over {} \"{name}\" is an attribute as well as --{flag}; leave one out", daemon.at);
        return Err(ClientError::Untaken(why));
    }
    match daemon.at.protocol {
        Protocol::Grpc => grpc::check(daemon, &question, options, token).await,
        _ => resp::check(daemon, &question, options, token).await,
    }
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

/// An answer as JSON for people and programs, with the end of its last line.
pub(crate) fn json_text(answer: &impl Serialize) -> String {
    serde_json::to_string_pretty(answer).expect("text and numbers always serialise") + "\n"
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
    let text = if json { json_text(&answer) } else { words(&answer) };
    exit::answer(&text, Exit::Done)
}
