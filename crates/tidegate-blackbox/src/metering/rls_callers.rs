//! Callers of Envoy's rate limit service, which cut some of their connections.

use std::io::{Read, Result};
use std::thread;
use std::time::Duration;

use tidegate_test_support::SplitMix64;
use tidegate_wire::envoy::{Code, RateLimitRequest, RateLimitResponse};
use tokio::runtime::Runtime;

use super::callers::{
    ANSWER_PART_MAX, AnswerVerdict, CUT_PERCENT, CallerScope, PATIENCE_MS_MAX, PAUSE_MS_MAX, leave, note_cut,
    refused, settle_account,
};
use super::ledger::LedgerEntry;
use super::traffic::{MeteredRequest, Protocol};
use crate::grpc::{GrpcClient, PATH, framed};
use crate::http1::runtime;
use crate::http2_frames::{Http2Connection, post_fields, reset_of};

/// Sends calls until the run is over.
pub(super) fn call(scope: CallerScope<'_>, seed: u64) -> Result<()> {
    let mut random = SplitMix64::new(seed);
    let (runtime, mut client) = (runtime()?, None);
    while !scope.is_over() {
        thread::sleep(Duration::from_millis(random.below(PAUSE_MS_MAX)));
        let batch = batch(&mut random);
        let entries: Vec<LedgerEntry> = batch.iter().map(|request| request.entry(Protocol::Rls)).collect();
        let message = MeteredRequest::rls(&batch);
        if random.below(100) < CUT_PERCENT {
            scope.ledger.begin(&entries);
            let is_whole = cut(scope, &message, &runtime, &mut random)?;
            note_cut(scope.ledger, Protocol::Rls, &entries, is_whole);
            continue;
        }
        let open = match client.take() {
            Some(open) => open,
            None => GrpcClient::open(scope.address)?,
        };
        scope.ledger.begin(&entries);
        let noted = |verdict: AnswerVerdict| settle_account(scope.ledger, Protocol::Rls, &entries, &verdict);
        if random.below(20) == 0 {
            // It gives up after a while, and its connection with it.
            let patience = Duration::from_millis(random.below(PATIENCE_MS_MAX));
            match open.ask_for(message, patience) {
                Some(answer) => noted(verdict(&batch[0], &answer)),
                None => note_cut(scope.ledger, Protocol::Rls, &entries, true),
            }
            continue;
        }
        match open.ask(message, &[]) {
            Ok(answer) => noted(verdict(&batch[0], &answer)),
            Err(error) => noted(AnswerVerdict::Strange(format!("nothing: {error}"))),
        }
        client = Some(open);
    }
    Ok(())
}

/// One request, or two that are admitted together or not at all.
fn batch(random: &mut SplitMix64) -> Vec<MeteredRequest> {
    let first = MeteredRequest::drawn(Protocol::Rls, random);
    let second = MeteredRequest::drawn(Protocol::Rls, random);
    if first.may_be_batched() && second.may_be_batched() {
        let second = second.batched_with(&first);
        return vec![first, second];
    }
    vec![first]
}

/// Sends a call, or a part of it, on a connection of its own and leaves; whether it may have been
/// decided.
fn cut(
    scope: CallerScope<'_>,
    message: &RateLimitRequest,
    runtime: &Runtime,
    random: &mut SplitMix64,
) -> Result<bool> {
    let mut connection = Http2Connection::open(scope.address)?;
    let (fields, message) = (post_fields(PATH, "application/grpc"), framed(message));
    let how = random.below(4);
    if how == 0 {
        let length = random.below(message.len() as u64) as usize;
        connection.send_unfinished(&fields, &message[..length], length)?;
        leave(connection.into_stream(), runtime, random)?;
        return Ok(false);
    }
    let number = connection.send_whole(&fields, &message)?;
    let mut patience = Duration::from_millis(random.below(PATIENCE_MS_MAX));
    if how == 1 {
        connection.send(&reset_of(number))?;
        patience /= 10;
    }
    let mut stream = connection.into_stream();
    if how == 2 {
        stream.set_read_timeout(Some(patience.max(Duration::from_millis(1))))?;
        let mut part = vec![0; 1 + random.below(ANSWER_PART_MAX) as usize];
        // Without an answer by then, it leaves all the same.
        let _ = stream.read(&mut part);
    } else {
        thread::sleep(patience);
    }
    leave(stream, runtime, random)?;
    Ok(true)
}

fn verdict(
    request: &MeteredRequest,
    answer: &std::result::Result<RateLimitResponse, tonic::Status>,
) -> AnswerVerdict {
    let answer = match answer {
        Ok(answer) => answer,
        Err(status) => return AnswerVerdict::Strange(status.to_string()),
    };
    if answer.overall_code != i32::from(Code::Ok) {
        let mut headers = answer.response_headers_to_add.iter();
        let reason = headers.find(|header| header.key == "x-tidegate-reason");
        return refused(reason.map_or("", |header| &header.value));
    }
    // Each request of a namespace has a limit that admits it, so an answer without one is that of a
    // domain that no policy has; or that of a request that has waited while the policy changed.
    let has_limits = answer.statuses.iter().all(|status| status.current_limit.is_some());
    match (request.may_be_unknown() && !has_limits, request.may_wait_over_rls()) {
        (false, _) => AnswerVerdict::Outcome("admitted"),
        (true, false) => AnswerVerdict::NotOffered,
        (true, true) => AnswerVerdict::Unknown,
    }
}
