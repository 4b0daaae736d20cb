//! The state of a connection, and one turn of it, which answers every complete command in order.

use core::net::IpAddr;
use core::time::Duration;
use std::borrow::Cow;
use std::sync::Arc;

use tidegate_core::{CarriedLimit, Timestamp};
use tidegate_net::connections::{AnswerDelivery, ConnectionActivity};
use tidegate_policy::policy::authorization::Verb;
use tidegate_wire::operation::WAIT_MS;
use tidegate_wire::resp::{Arguments, Protocol, Read, Replies, read_command};
use tidegate_wire::{Fault, FaultCode};

use super::authorization::{LoginError, LoginState, permitted};
use super::command::Command;
use super::command_error::{CommandError, EscapedBytes, unknown, unknown_subcommand, wrong_number};
use super::counts::{CommandTally, RespMetrics};
use super::server::RespServer;
use super::throttle::{LastBucket, RUN_MAX, ThrottleRequest, ThrottleRun, any_bucket};
use super::transaction::{TRANSACTION_BYTES_MAX, Transaction, TransactionFull};
use super::unanswered::UnansweredCommands;
use crate::context::{DaemonContext, RequestScope};
use crate::protocol::{Protocol as Spoken, RESP_NAMESPACE as NAMESPACE};
use crate::records::audit::Operation;

/// The bytes of replies after which a turn ends, so that other connections get theirs. The commands
/// behind them are read in the next turn.
pub(super) const TURN_REPLY_BYTES: usize = 64 << 10;

/// How much of a name given to a connection is kept, in bytes. A longer one is an error.
const NAME_BYTES_MAX: usize = 256;

/// How many logins of a connection may fail in a row. With the last of them the connection ends.
const FAILED_LOGINS_MAX: u32 = 3;

/// How long the reply to a failed login takes, which bounds the guesses of a connection to five a
/// second. Only that connection waits, so that callers with a valid token do not.
const FAILED_LOGIN_DELAY: Duration = Duration::from_millis(200);

/// A connection as its commands have made it.
#[derive(Debug)]
pub(super) struct Session {
    /// From 1; no two connections of a daemon have the same.
    pub(super) id: u64,
    pub(super) protocol: Protocol,
    pub(super) name: Vec<u8>,
    /// The address that it comes from.
    peer: Option<IpAddr>,
    identity: LoginState,
    /// Logins that have failed since the last that did not.
    failed_logins: u32,
    /// The length of the output up to which every reply is whole.
    whole_replies: usize,
    /// Whether it ends when its replies are written.
    pub(super) ending: Option<CloseReason>,
    last: LastBucket,
    /// The commands since `MULTI`, where one has come.
    transaction: Option<Transaction>,
    /// The connection, on which a check may wait; `None` while `EXEC` carries out commands, which
    /// wait for nothing, as in Redis.
    line: Option<Arc<ConnectionActivity>>,
    /// The deliveries of the replies of this turn, each with the length of the output at its end.
    pub(super) deliveries: Vec<(usize, AnswerDelivery)>,
}

/// The answers of one turn.
struct Answers<'t> {
    metrics: &'t RespMetrics,
    scope: RequestScope<'t>,
    now: Timestamp,
    replies: Replies<'t>,
    tally: CommandTally,
}

impl Answers<'_> {
    /// Decides the `CL.THROTTLE` commands that were collected, if any.
    async fn decide(&mut self, run: &mut ThrottleRun<'_>) {
        if run.is_empty() {
            return;
        }
        let decided = self.scope.throttle(&self.metrics.throttled, run, self.now, &mut self.replies).await;
        for asking in run.iter() {
            self.tally.count(Some(asking.command), decided.is_err());
        }
        if decided != Ok(false) {
            // The store was asked, and meanwhile time has passed.
            self.now = self.scope.daemon.clock.now();
        }
        run.clear();
    }

    /// Answers a command by an error.
    fn refuse(&mut self, command: Option<Command>, refused: &CommandError) {
        refused.write(self.scope.daemon, &mut self.replies);
        self.tally.count(command, true);
    }
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CloseReason {
    /// Its client wants it to.
    Quit,
    /// Its bytes are not RESP, so the beginning of the next command is unknown.
    Malformed,
    /// [`FAILED_LOGINS_MAX`] of its logins have failed.
    FailedLogins,
    /// A turn panicked, and nobody knows which of its commands were carried out.
    Panicked,
}

/// The result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TurnProgress {
    /// Bytes that were read.
    pub(super) taken: usize,
    /// Whether there may be another whole command.
    pub(super) is_cut_short: bool,
    /// The number of bytes that are missing for it.
    pub(super) bytes_missing: usize,
}

impl Session {
    pub(super) fn new(
        id: u64,
        peer: Option<IpAddr>,
        identity: LoginState,
        line: Arc<ConnectionActivity>,
    ) -> Self {
        Self {
            id,
            protocol: Protocol::Two,
            name: Vec::new(),
            peer,
            identity,
            failed_logins: 0,
            whole_replies: 0,
            ending: None,
            last: LastBucket::default(),
            transaction: None,
            line: Some(line),
            deliveries: Vec::new(),
        }
    }

    /// Appends the replies to the complete commands of `input` to `out`.
    pub(super) async fn turn(
        &mut self,
        server: &RespServer,
        input: &[u8],
        out: &mut Vec<u8>,
        answering: &mut UnansweredCommands,
    ) -> TurnProgress {
        let daemon = &*server.daemon;
        let in_force = daemon.in_force.load_full();
        let scope = RequestScope { daemon, in_force: &in_force };
        self.identity.renew(&in_force.config);
        let until = out.len() + TURN_REPLY_BYTES;
        self.whole_replies = out.len();
        let mut answers = Answers {
            metrics: &server.metrics,
            scope,
            // One instant for all that came together.
            now: daemon.clock.now(),
            replies: Replies::new(out, self.protocol),
            tally: CommandTally::new(),
        };
        let mut turn = TurnProgress { taken: 0, is_cut_short: false, bytes_missing: 1 };
        let mut arguments = Arguments::new();
        let mut run = ThrottleRun::new();
        loop {
            if run.is_empty() {
                self.whole_replies = answers.replies.bytes();
            }
            if answers.replies.bytes() >= until || self.ending.is_some() {
                turn.is_cut_short = self.ending.is_none();
                break;
            }
            let rest = &input[turn.taken..];
            let bytes = match read_command(rest, &mut arguments) {
                Ok(Read::Command { bytes }) => bytes,
                Ok(Read::Unfinished { bytes_missing }) => {
                    turn.bytes_missing = bytes_missing;
                    break;
                }
                Err(error) => {
                    answers.decide(&mut run).await;
                    daemon.metrics.fault_of_protocol("malformed_resp");
                    answers.replies.error("ERR", format_args!("Protocol error: {error}"));
                    self.ending = Some(CloseReason::Malformed);
                    continue;
                }
            };
            let command = arguments.first().and_then(|name| Command::find(name));
            // The replies before it are written first, since it may take a minute.
            if turn.taken > 0 && command == Some(Command::Check) && may_wait(&arguments) {
                turn.is_cut_short = true;
                break;
            }
            turn.taken += bytes;
            if arguments.is_empty() {
                continue;
            }
            answering.begin();
            if self.transaction.is_some() && command.is_none_or(|command| !command.is_never_queued()) {
                match self.queue(command, &arguments, &rest[..bytes]) {
                    Ok(()) => answers.replies.simple("QUEUED"),
                    Err(refused) => answers.refuse(command, &refused),
                }
            } else if let Some(Command::Exec) = command {
                answers.decide(&mut run).await;
                self.execute(&mut answers, arguments.len()).await;
            } else {
                self.carry_out(&mut answers, &mut run, command, &mut arguments).await;
            }
        }
        answers.decide(&mut run).await;
        answers.tally.add_to(&server.metrics);
        turn
    }

    /// Ends the connection after a turn that panicked, by an error in place of the replies that are
    /// not whole.
    pub(super) fn give_up(
        &mut self,
        daemon: &DaemonContext,
        fault: Fault,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> TurnProgress {
        out.truncate(self.whole_replies);
        self.deliveries.retain(|(end, _)| *end <= out.len());
        CommandError::Fault(fault).write(daemon, &mut Replies::new(out, self.protocol));
        self.ending = Some(CloseReason::Panicked);
        TurnProgress { taken: input.len(), is_cut_short: false, bytes_missing: 1 }
    }

    /// Carries out one command; `CL.THROTTLE` may wait in `run` for those behind it.
    async fn carry_out<'i>(
        &mut self,
        answers: &mut Answers<'_>,
        run: &mut ThrottleRun<'i>,
        command: Option<Command>,
        arguments: &mut Arguments<'i>,
    ) {
        if let Some(command @ (Command::Throttle | Command::ThrottleMillis)) = command
            && command.takes(arguments.len())
        {
            let permitted = self.identity.may_send(command);
            let asking = permitted.and_then(|()| {
                ThrottleRequest::read(command, arguments, &mut self.last).map_err(CommandError::err)
            });
            match asking {
                Ok(asking) => {
                    if run.len() == RUN_MAX || run.first().is_some_and(|first| !first.goes_with(&asking)) {
                        answers.decide(run).await;
                    }
                    if run.len() == 1 {
                        run.reserve(RUN_MAX - 1);
                    }
                    run.push(asking);
                }
                Err(refused) => {
                    answers.decide(run).await;
                    answers.refuse(Some(command), &refused);
                }
            }
            return;
        }
        answers.decide(run).await;
        let Answers { scope, now, replies, .. } = answers;
        match self.answer(scope, command, arguments, now, replies).await {
            Ok(()) => answers.tally.count(command, false),
            Err(refused) => answers.refuse(command, &refused),
        }
    }

    /// Keeps a command for `EXEC`, if it could be carried out by then.
    fn queue(
        &mut self,
        command: Option<Command>,
        arguments: &[Cow<'_, [u8]>],
        bytes: &[u8],
    ) -> Result<(), CommandError> {
        let checked = self.known(command, arguments).and_then(|command| {
            self.identity.may_send(command)?;
            if !command.takes(arguments.len()) {
                return Err(wrong_number(command));
            }
            let subcommand = arguments.get(1).map(|word| &**word);
            if !command.knows(subcommand) {
                return Err(unknown_subcommand(command, subcommand.unwrap_or_default()));
            }
            Ok(command)
        });
        let Some(transaction) = &mut self.transaction else { return Ok(()) };
        match checked {
            Ok(command) => transaction.queue(command, bytes).map_err(|TransactionFull| {
                CommandError::err(format!(
                    "the transaction holds {TRANSACTION_BYTES_MAX} bytes of commands and replies; send EXEC sooner, or send the \
                     commands without MULTI"
                ))
            }),
            Err(refused) => {
                transaction.abort();
                Err(refused)
            }
        }
    }

    /// Answers `EXEC`: carries out the commands since `MULTI` in order.
    async fn execute(&mut self, answers: &mut Answers<'_>, arguments: usize) {
        let command = Command::Exec;
        let aborted =
            |text: &str| CommandError::Text("EXECABORT", format!("Transaction discarded because of{text}"));
        let finished = match self.identity.may_send(command).map(|()| self.transaction.take()) {
            Err(refused) => Err(refused),
            Ok(Some(_)) if !command.takes(arguments) => {
                Err(aborted(": wrong number of arguments for 'exec' command"))
            }
            Ok(None) if !command.takes(arguments) => Err(wrong_number(command)),
            Ok(None) => Err(CommandError::err("EXEC without MULTI".to_owned())),
            Ok(Some(transaction)) => transaction.finish().ok_or_else(|| aborted(" previous errors.")),
        };
        let (count, bytes) = match finished {
            Ok(finished) => finished,
            Err(refused) => return answers.refuse(Some(command), &refused),
        };
        answers.tally.count(Some(command), false);
        answers.replies.array(count);
        let (mut rest, mut run) = (&bytes[..], ThrottleRun::new());
        let mut arguments = Arguments::new();
        let line = self.line.take();
        while let Ok(Read::Command { bytes }) = read_command(rest, &mut arguments) {
            rest = &rest[bytes..];
            let command = arguments.first().and_then(|name| Command::find(name));
            self.carry_out(answers, &mut run, command, &mut arguments).await;
        }
        answers.decide(&mut run).await;
        self.line = line;
    }

    /// The bytes that the session holds beyond those of its connection.
    pub(super) fn bytes(&self) -> usize {
        self.transaction.as_ref().map_or(0, Transaction::bytes)
    }

    /// The command of these arguments, or the error for an unknown one.
    fn known(
        &mut self,
        command: Option<Command>,
        arguments: &[Cow<'_, [u8]>],
    ) -> Result<Command, CommandError> {
        if let Some(command) = command {
            return Ok(command);
        }
        // Checked before authentication: a browser that sends HTTP here has no credentials either.
        self.end_http(&arguments[0])?;
        self.identity.caller()?;
        Err(unknown(arguments))
    }

    /// Answers one command that is not `CL.THROTTLE`.
    async fn answer(
        &mut self,
        scope: &RequestScope<'_>,
        command: Option<Command>,
        arguments: &[Cow<'_, [u8]>],
        now: &mut Timestamp,
        replies: &mut Replies<'_>,
    ) -> Result<(), CommandError> {
        let command = self.known(command, arguments)?;
        self.identity.may_send(command)?;
        if !command.takes(arguments.len()) {
            if let Some(transaction) = &mut self.transaction {
                transaction.abort();
            }
            return Err(wrong_number(command));
        }
        match command {
            Command::Throttle | Command::ThrottleMillis | Command::Exec => return Err(wrong_number(command)),
            Command::Check => self.check(scope, arguments, now, replies).await?,
            Command::Release => {
                scope.release_over_resp(&arguments[1], *now).await?;
                *now = scope.daemon.clock.now();
                replies.simple("OK");
            }
            Command::Del => {
                let algorithm = any_bucket();
                let mut forgotten = 0;
                for key in &arguments[1..] {
                    let limit = CarriedLimit {
                        key: Cow::Owned(vec![&**key]),
                        algorithm: Cow::Borrowed(&algorithm),
                        cost: 0,
                    };
                    let begun = scope.in_force.engine.reset_carried(NAMESPACE, &limit, *now);
                    forgotten += i64::from(Box::pin(scope.complete(begun)).await?);
                }
                *now = scope.daemon.clock.now();
                let first = String::from_utf8_lossy(&arguments[1]);
                let operation = Operation {
                    verb: Verb::Reset,
                    namespace: NAMESPACE,
                    limit: None,
                    attributes: &[("key", &first), ("keys", &(arguments.len() - 1).to_string())],
                    outcome: "the counters of keys were reset",
                };
                scope.daemon.audit.operation(self.identity.caller()?, &operation, *now);
                replies.integer(forgotten);
            }
            Command::Ping => match arguments {
                [_] => replies.simple("PONG"),
                [_, message] => replies.bulk(message),
                _ => return Err(wrong_number(command)),
            },
            Command::Echo => replies.bulk(&arguments[1]),
            Command::Hello => self.hello(scope, &arguments[1..], replies).await?,
            Command::Auth => {
                let ([password] | [_, password]) = &arguments[1..] else {
                    return Err(wrong_number(command));
                };
                self.log_in(scope, password).await?;
                replies.simple("OK");
            }
            Command::Client => self.client(arguments, replies)?,
            Command::Describe => super::about::commands(&arguments[1..], replies)?,
            Command::Config => super::about::config(&arguments[1..], replies)?,
            Command::Info => super::about::info(&arguments[1..], scope, *now, replies),
            Command::Select => match super::throttle::number("the database", &arguments[1]) {
                Ok(0) => replies.simple("OK"),
                Ok(_) => return Err(CommandError::err("DB index is out of range; use 0".to_owned())),
                Err(text) => return Err(CommandError::err(text)),
            },
            Command::Multi if self.transaction.is_some() => {
                return Err(CommandError::err("MULTI calls can not be nested".to_owned()));
            }
            Command::Multi => {
                self.transaction = Some(Transaction::default());
                replies.simple("OK");
            }
            Command::Discard => {
                if self.transaction.take().is_none() {
                    return Err(CommandError::err("DISCARD without MULTI".to_owned()));
                }
                replies.simple("OK");
            }
            Command::Reset => {
                self.transaction = None;
                self.protocol = Protocol::Two;
                self.name.clear();
                self.identity.log_out(&scope.in_force.config);
                replies.speak(self.protocol);
                replies.simple("RESET");
            }
            Command::Quit => {
                replies.simple("OK");
                self.ending = Some(CloseReason::Quit);
            }
        }
        Ok(())
    }

    /// Answers `TG.CHECK`.
    async fn check(
        &mut self,
        scope: &RequestScope<'_>,
        arguments: &[Cow<'_, [u8]>],
        now: &mut Timestamp,
        replies: &mut Replies<'_>,
    ) -> Result<(), CommandError> {
        let namespace = String::from_utf8_lossy(&arguments[1]);
        let caller = self.identity.caller()?;
        permitted(caller.may(Verb::Check, &namespace))?;
        let line = self.line.as_deref();
        let (was_asked, delivery) = scope.check_over_resp(caller, arguments, line, *now, replies).await?;
        if was_asked {
            *now = scope.daemon.clock.now();
        }
        self.deliveries.extend(delivery.map(|delivery| (replies.bytes(), delivery)));
        Ok(())
    }

    /// Ends the connection of a client that speaks HTTP: a page can make a browser send such a
    /// request, with commands in its body.
    fn end_http(&mut self, name: &[u8]) -> Result<(), CommandError> {
        // The first word of a request with a body, and a header that every request has.
        if name.eq_ignore_ascii_case(b"POST") || name.eq_ignore_ascii_case(b"HOST:") {
            self.ending = Some(CloseReason::Malformed);
            return Err(CommandError::err(
                "this listener speaks RESP, not HTTP; use the address of listen.http".to_owned(),
            ));
        }
        Ok(())
    }

    /// Logs in with a token. The reply to an unknown token is delayed, and the last of several
    /// failures ends the connection.
    async fn log_in(&mut self, scope: &RequestScope<'_>, token: &[u8]) -> Result<(), CommandError> {
        let RequestScope { daemon, in_force } = *scope;
        let logged_in = self.identity.log_in(token, &in_force.config);
        match &logged_in {
            Ok(()) => self.failed_logins = 0,
            Err(LoginError::WrongToken) => {
                daemon.audit.failed_login(Spoken::Resp, self.peer, daemon.clock.now());
                daemon.metrics.fault(FaultCode::Unauthenticated);
                self.failed_logins += 1;
                if self.failed_logins >= FAILED_LOGINS_MAX {
                    self.ending = Some(CloseReason::FailedLogins);
                }
                tokio::time::sleep(FAILED_LOGIN_DELAY).await;
            }
            Err(LoginError::NothingToLogInTo) => {}
        }
        Ok(logged_in?)
    }

    async fn hello(
        &mut self,
        scope: &RequestScope<'_>,
        options: &[Cow<'_, [u8]>],
        replies: &mut Replies<'_>,
    ) -> Result<(), CommandError> {
        let mut protocol = self.protocol;
        let mut rest = options;
        if let [version, behind @ ..] = options {
            protocol = match number_of(version) {
                Some(2) => Protocol::Two,
                Some(3) => Protocol::Three,
                Some(_) => {
                    return Err(CommandError::Text(
                        "NOPROTO",
                        "unsupported protocol version; use 2 or 3".into(),
                    ));
                }
                None => {
                    let text = "Protocol version is not an integer or out of range; use 2 or 3";
                    return Err(CommandError::err(text.to_owned()));
                }
            };
            rest = behind;
        }
        let mut name = None;
        while let [option, behind @ ..] = rest {
            rest = match behind {
                [_, password, behind @ ..] if option.eq_ignore_ascii_case(b"AUTH") => {
                    self.log_in(scope, password).await?;
                    behind
                }
                [given, behind @ ..] if option.eq_ignore_ascii_case(b"SETNAME") => {
                    check_name(given)?;
                    name = Some(given.to_vec());
                    behind
                }
                _ => {
                    return Err(CommandError::err(format!(
                        "Syntax error in HELLO option '{}'",
                        EscapedBytes(option)
                    )));
                }
            };
        }
        self.identity.caller()?;
        if let Some(name) = name {
            self.name = name;
        }
        self.protocol = protocol;
        replies.speak(protocol);
        replies.map(7);
        replies.bulk("server");
        replies.bulk("tidegate");
        replies.bulk("version");
        replies.bulk(env!("CARGO_PKG_VERSION"));
        replies.bulk("proto");
        replies.integer(i64::from(protocol.number()));
        replies.bulk("id");
        replies.integer(i64::try_from(self.id).unwrap_or(i64::MAX));
        replies.bulk("mode");
        replies.bulk("standalone");
        replies.bulk("role");
        replies.bulk("master");
        replies.bulk("modules");
        replies.array(0);
        Ok(())
    }

    fn client(&mut self, arguments: &[Cow<'_, [u8]>], replies: &mut Replies<'_>) -> Result<(), CommandError> {
        let (subcommand, rest) = (&arguments[1], &arguments[2..]);
        let is = |name: &str| subcommand.eq_ignore_ascii_case(name.as_bytes());
        match rest {
            [] if is("ID") => replies.integer(i64::try_from(self.id).unwrap_or(i64::MAX)),
            [] if is("GETNAME") && self.name.is_empty() => replies.null(),
            [] if is("GETNAME") => replies.bulk(&self.name),
            [name] if is("SETNAME") => {
                check_name(name)?;
                self.name = name.to_vec();
                replies.simple("OK");
            }
            [attribute, value] if is("SETINFO") => {
                let is_known =
                    attribute.eq_ignore_ascii_case(b"LIB-NAME") || attribute.eq_ignore_ascii_case(b"LIB-VER");
                if !is_known {
                    return Err(CommandError::err(format!(
                        "Unrecognized option '{}'",
                        EscapedBytes(attribute)
                    )));
                }
                check_name(value)?;
                replies.simple("OK");
            }
            _ if ["ID", "GETNAME", "SETNAME", "SETINFO"].iter().any(|known| is(known)) => {
                let name = format!("client|{}", EscapedBytes(subcommand)).to_lowercase();
                return Err(CommandError::err(format!("wrong number of arguments for '{name}' command")));
            }
            _ => return Err(unknown_subcommand(Command::Client, subcommand)),
        }
        Ok(())
    }
}

/// Whether a check says how long it waits.
fn may_wait(arguments: &[Cow<'_, [u8]>]) -> bool {
    arguments.iter().any(|argument| **argument == *WAIT_MS.as_bytes())
}

fn number_of(text: &[u8]) -> Option<u64> {
    super::throttle::number("", text).ok()
}

fn check_name(name: &[u8]) -> Result<(), CommandError> {
    if name.len() > NAME_BYTES_MAX {
        return Err(CommandError::err(format!(
            "the name has {} bytes; use at most {NAME_BYTES_MAX}",
            name.len()
        )));
    }
    if !name.iter().all(u8::is_ascii_graphic) {
        let text = "Client names cannot contain spaces, newlines or special characters.";
        return Err(CommandError::err(text.to_owned()));
    }
    Ok(())
}
