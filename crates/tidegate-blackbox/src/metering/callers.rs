//! Callers over HTTP, RESP and the proxy, which cut some of their connections.

use std::io::{Error, Result};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_test_support::SplitMix64;
use tokio::runtime::Runtime;

use super::ledger::{Ledger, LedgerEntry, outcome_of_reason};
use super::traffic::{MeteredRequest, Protocol};
use crate::http1::{Answer, post, runtime};
use crate::raw::{RawConnection, encoded};
use crate::resp::{Value, command, text};

/// Of a hundred requests, how many are cut.
pub(super) const CUT_PERCENT: u64 = 12;
/// How long a caller pauses between two requests at most, in milliseconds.
pub(super) const PAUSE_MS_MAX: u64 = 12;
/// How long a caller that cuts its connection waits at most, in milliseconds: as long as requests
/// wait.
pub(super) const PATIENCE_MS_MAX: u64 = 150;
/// How much of an answer is read that is cut, in bytes, at most.
pub(super) const ANSWER_PART_MAX: u64 = 60;
/// How long a permit is kept at most, in milliseconds.
const WORK_MS_MAX: u64 = 80;

/// The outcome of a request, as far as its answer says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AnswerVerdict {
    /// This outcome.
    Outcome(&'static str),
    /// Its namespace is not there: it was not offered.
    NotOffered,
    /// Either it was admitted and its response broke off, or its namespace is not there.
    Unknown,
    /// Something that is no answer to such a request.
    Strange(String),
}

/// Notes what was answered.
pub(super) fn settle_account(
    ledger: &Ledger,
    protocol: Protocol,
    entries: &[LedgerEntry],
    verdict: &AnswerVerdict,
) {
    let ending = match verdict {
        AnswerVerdict::Outcome(outcome) => {
            ledger.answered(entries, outcome);
            outcome
        }
        AnswerVerdict::NotOffered => "no namespace",
        AnswerVerdict::Unknown => {
            ledger.cut(entries);
            "unknown"
        }
        AnswerVerdict::Strange(answer) => {
            ledger.cut(entries);
            ledger.problem(format!("{} answered {answer}", protocol.name()));
            "strange"
        }
    };
    ledger.note(protocol.name(), ending, entries.len());
}

/// Notes that a request was cut.
pub(super) fn note_cut(ledger: &Ledger, protocol: Protocol, entries: &[LedgerEntry], is_whole: bool) {
    if is_whole {
        ledger.cut(entries);
    }
    ledger.note(protocol.name(), if is_whole { "cut" } else { "cut before its end" }, entries.len());
}

/// The settings that all callers share.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallerScope<'a> {
    pub(super) protocol: Protocol,
    pub(super) address: SocketAddr,
    pub(super) ledger: &'a Ledger,
    pub(super) is_over: &'a AtomicBool,
}

impl CallerScope<'_> {
    pub(super) fn is_over(&self) -> bool {
        // Relaxed: the caller only has to see it some time, and joining orders the rest.
        self.is_over.load(Ordering::Relaxed)
    }
}

/// A permit that is to be settled.
#[derive(Debug)]
struct HeldPermit {
    due: Instant,
    permit: String,
    entries: Vec<LedgerEntry>,
}

/// A caller over HTTP, RESP or the proxy.
struct Caller<'a> {
    scope: CallerScope<'a>,
    random: SplitMix64,
    runtime: Runtime,
    connection: Option<RawConnection>,
    permits: Vec<HeldPermit>,
    /// The status of the last answer on the connection.
    last_status: Option<u16>,
}

/// Sends requests until the run is over.
pub(super) fn call(scope: CallerScope<'_>, seed: u64) -> Result<()> {
    let random = SplitMix64::new(seed);
    let mut caller = Caller {
        scope,
        random,
        runtime: runtime()?,
        connection: None,
        permits: Vec::new(),
        last_status: None,
    };
    while !scope.is_over() {
        thread::sleep(Duration::from_millis(caller.random.below(PAUSE_MS_MAX)));
        caller.settle_due()?;
        caller.request()?;
    }
    Ok(())
}

impl Caller<'_> {
    fn connection(&mut self) -> Result<&mut RawConnection> {
        if self.connection.is_none() {
            self.connection = Some(RawConnection::open(self.scope.address)?);
            self.last_status = None;
        }
        self.connection.as_mut().ok_or_else(|| Error::other("no connection"))
    }

    fn request(&mut self) -> Result<()> {
        let CallerScope { protocol, ledger, .. } = self.scope;
        let request = MeteredRequest::drawn(protocol, &mut self.random);
        let is_http = protocol == Protocol::Http;
        if is_http && self.random.below(30) == 0 {
            // Work that is reported afterwards is no request.
            let bytes = encoded(&request.http("/v1/report"));
            self.connection()?.send(&bytes)?;
            self.connection()?.answer()?;
            return Ok(());
        }
        let is_reserved = is_http && self.random.below(6) == 0;
        let route = if is_reserved { "/v1/reserve" } else { "/v1/check" };
        let bytes = match protocol {
            Protocol::Proxy => encoded(&request.proxied()),
            Protocol::Resp => request.resp(),
            Protocol::Http | Protocol::Rls => encoded(&request.http(route)),
        };
        let entries = vec![request.entry(protocol)];
        self.connection()?;
        ledger.begin(&entries);
        if self.random.below(100) < CUT_PERCENT {
            let is_whole = self.cut(&bytes, request.body_bytes())?;
            note_cut(ledger, protocol, &entries, is_whole);
            return Ok(());
        }
        let asked_at = Instant::now();
        let (verdict, permit) = match self.exchange(&request, &bytes) {
            Ok(answered) => answered,
            Err(error) => {
                self.connection = None;
                let (took, last) = (asked_at.elapsed(), self.last_status);
                let what =
                    format!("nothing after {took:?}: {error}; the status before was {last:?}; {request:?}");
                // At its deadline a response breaks off, and may do so before its head.
                let is_late = request.proxied_deadline(protocol).is_some_and(|deadline| took >= deadline);
                (if is_late { AnswerVerdict::Unknown } else { AnswerVerdict::Strange(what) }, None)
            }
        };
        settle_account(ledger, protocol, &entries, &verdict);
        // A permit that is left expires.
        if let Some(permit) = permit.filter(|_| self.random.below(8) > 0) {
            let due = Instant::now() + Duration::from_millis(self.random.below(WORK_MS_MAX));
            self.permits.push(HeldPermit { due, permit, entries });
        }
        Ok(())
    }

    /// Sends a request and reads its answer: the verdict, and a permit if there is one.
    fn exchange(
        &mut self,
        request: &MeteredRequest,
        bytes: &[u8],
    ) -> Result<(AnswerVerdict, Option<String>)> {
        let protocol = self.scope.protocol;
        let connection = self.connection()?;
        connection.send(bytes)?;
        if protocol == Protocol::Resp {
            return Ok(resp_verdict(request, &connection.resp_value()?));
        }
        let answer = connection.answer()?;
        if answer.header("connection") == Some("close") {
            self.connection = None;
        }
        self.last_status = Some(answer.status);
        if protocol == Protocol::Proxy {
            return Ok((proxy_verdict(&answer), None));
        }
        let permit = answer.member("permit");
        Ok((http_verdict(request, &answer), Some(permit).filter(|permit| !permit.is_empty())))
    }

    /// Sends a request, or a part of it, and leaves; whether it may have been decided.
    fn cut(&mut self, bytes: &[u8], body: usize) -> Result<bool> {
        let Some(mut connection) = self.connection.take() else { return Ok(false) };
        let how = self.random.below(4);
        let length =
            if how == 0 { 1 + self.random.below(bytes.len() as u64 - 1) as usize } else { bytes.len() };
        connection.send(&bytes[..length])?;
        if how == 1 {
            connection.set_read_timeout(Duration::from_millis(2 * PATIENCE_MS_MAX))?;
            let mut part = vec![0; 1 + self.random.below(ANSWER_PART_MAX) as usize];
            // Without an answer by then, it leaves all the same.
            let _ = connection.read(&mut part);
        } else if how == 2 {
            thread::sleep(Duration::from_millis(self.random.below(PATIENCE_MS_MAX)));
        }
        leave(connection.into_stream(), &self.runtime, &mut self.random)?;
        Ok(length == bytes.len() || length >= bytes.len() - body)
    }

    /// Settles permits whose time has come.
    fn settle_due(&mut self) -> Result<()> {
        let now = Instant::now();
        let (due, later) = std::mem::take(&mut self.permits).into_iter().partition(|held| held.due <= now);
        self.permits = later;
        for HeldPermit { permit, entries, .. } in Vec::from_iter::<Vec<HeldPermit>>(due) {
            if self.scope.protocol == Protocol::Resp {
                let release = command(&["TG.RELEASE", &permit]);
                let connection = self.connection()?;
                connection.send(&release)?;
                connection.resp_value()?;
                continue;
            }
            let outcome = ["succeeded", "failed", "abandoned", "cancelled"][self.random.below(4) as usize];
            let is_undone = outcome == "cancelled";
            let body = format!(r#"{{"permit":"{permit}","outcome":"{outcome}"}}"#);
            if is_undone {
                self.scope.ledger.reopen(&entries);
            }
            let connection = self.connection()?;
            connection.send(&encoded(&post("/v1/settle", body)))?;
            let status = connection.answer()?.status;
            if is_undone {
                // Settled already, by its expiry or a reset: the admission stays.
                let outcome = if status == 200 { "cancelled" } else { "admitted" };
                self.scope.ledger.answered(&entries, outcome);
                self.scope.ledger.note("settlements", if status == 200 { "undone" } else { "too late" }, 1);
            }
        }
        Ok(())
    }
}

/// Ends a connection: by a close, a half-close before it, or a reset.
pub(super) fn leave(stream: TcpStream, runtime: &Runtime, random: &mut SplitMix64) -> Result<()> {
    match random.below(3) {
        0 => drop(stream),
        1 => {
            // A daemon that is done already has nothing to end.
            let _ = stream.shutdown(std::net::Shutdown::Write);
            thread::sleep(Duration::from_millis(random.below(5)));
            drop(stream);
        }
        _ => {
            stream.set_nonblocking(true)?;
            let _within = runtime.enter();
            tokio::net::TcpStream::from_std(stream)?.set_zero_linger()?;
        }
    }
    Ok(())
}

/// The outcome of a refusal for this reason.
pub(super) fn refused(reason: &str) -> AnswerVerdict {
    outcome_of_reason(reason)
        .map_or_else(|| AnswerVerdict::Strange(format!("the reason \"{reason}\"")), AnswerVerdict::Outcome)
}

/// The verdict on an answer that says that there is no such namespace.
pub(super) fn unknown_namespace(request: &MeteredRequest, answer: &str) -> AnswerVerdict {
    if request.may_be_unknown() {
        AnswerVerdict::NotOffered
    } else {
        AnswerVerdict::Strange(answer.to_owned())
    }
}

fn http_verdict(request: &MeteredRequest, answer: &Answer) -> AnswerVerdict {
    let reason = answer.member("reason");
    match answer.status {
        200 => AnswerVerdict::Outcome("admitted"),
        404 if answer.member("error") == "unknown_namespace" => unknown_namespace(request, &answer.text()),
        _ if !reason.is_empty() => refused(&reason),
        status => AnswerVerdict::Strange(format!("{status}: {}", answer.text())),
    }
}

fn proxy_verdict(answer: &Answer) -> AnswerVerdict {
    if let Some(reason) = answer.header("x-tidegate-reason") {
        return refused(reason);
    }
    match (answer.status, &*answer.member("error")) {
        (502, "upstream_unreachable") => AnswerVerdict::Outcome("cancelled"),
        (200 | 500, "") | (502, "upstream_broken") | (504, "upstream_timeout") => {
            AnswerVerdict::Outcome("admitted")
        }
        (status, _) => AnswerVerdict::Strange(format!("{status}: {}", answer.text())),
    }
}

fn resp_verdict(request: &MeteredRequest, reply: &Value) -> (AnswerVerdict, Option<String>) {
    let Value::Array(members) = reply else {
        let reply = format!("{reply:?}");
        let is_namespace = reply.contains("namespace");
        let verdict =
            if is_namespace { unknown_namespace(request, &reply) } else { AnswerVerdict::Strange(reply) };
        return (verdict, None);
    };
    let member = |name: &str| {
        let mut pairs = members.chunks_exact(2);
        pairs.find(|pair| text(&pair[0]) == Some(name)).and_then(|pair| text(&pair[1]))
    };
    match (member("decision"), member("reason")) {
        (Some("admit"), _) => (AnswerVerdict::Outcome("admitted"), member("permit").map(str::to_owned)),
        (Some("refuse"), Some(reason)) => (refused(reason), None),
        _ => (AnswerVerdict::Strange(format!("{reply:?}")), None),
    }
}
