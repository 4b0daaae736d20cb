//! The arguments of commands that ask about a request.

use core::num::NonZeroU64;
use core::time::Duration;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use tidegate_policy::parse_span;

use crate::address::DaemonAddress;

#[derive(Args, Debug)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) question: Question,
    #[command(flatten)]
    pub(crate) daemon: Daemon,
    #[command(flatten)]
    pub(crate) options: CheckOptions,
    /// Print one JSON object, the same for every protocol: "decision", "remaining", "limit",
    /// "reason", ..
    #[arg(long)]
    pub(crate) json: bool,
}

/// The options of a check beside the request itself.
#[derive(Args, Clone, Debug)]
pub(crate) struct CheckOptions {
    /// Only look: the same answer, and nothing is charged
    #[arg(long)]
    pub(crate) peek: bool,
    /// The class of the request [default: as the policy says]; over grpc:// and redis:// it is the
    /// attribute tidegate-class
    #[arg(long, value_enum, value_name = "CLASS")]
    pub(crate) class: Option<Class>,
    /// The feature of the service that the request is for, one of `features` of the policy; over
    /// grpc:// and redis:// it is the attribute feature
    #[arg(long, value_name = "FEATURE")]
    pub(crate) feature: Option<String>,
    /// The resource that serves it: its admission cursor and its bound on requests in flight apply
    #[arg(long, value_name = "RESOURCE")]
    pub(crate) resource: Option<String>,
    /// How long to wait at most for what the request lacks, up to 1m [example: 500ms]; over grpc://
    /// and redis:// it is the attribute tidegate-wait-ms
    #[arg(long, value_name = "SPAN", value_parser = span, conflicts_with = "peek")]
    pub(crate) wait: Option<Duration>,
}

/// The access to a table that a request makes.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct AccessArguments {
    /// The table that the request reads or writes
    #[arg(long, value_name = "TABLE", requires = "key")]
    pub(crate) table: Option<String>,
    /// The key of what it reads or writes, which decides the partition
    #[arg(long, value_name = "KEY", requires = "table")]
    pub(crate) key: Option<String>,
    /// Whether it reads or writes
    #[arg(long, value_enum, value_name = "KIND", default_value = "read", requires = "table")]
    pub(crate) kind: AccessKind,
    /// How many bytes it reads or writes
    #[arg(long, value_name = "BYTES", default_value_t = 1, requires = "table")]
    pub(crate) size: u64,
}

#[derive(Args, Debug)]
pub(crate) struct Explain {
    #[command(flatten)]
    pub(crate) question: Question,
    #[command(flatten)]
    pub(crate) target: LoadTarget,
    /// The feature of the service that the request is for: also say its level, and when it may be
    /// better [default: as the policy says]
    #[arg(long, value_name = "FEATURE", conflicts_with = "config")]
    pub(crate) feature: Option<String>,
    /// The tenant of the request [default: by the attribute that the policy names for the door]
    #[arg(long, value_name = "TENANT", conflicts_with = "config")]
    pub(crate) tenant: Option<String>,
    /// The door at which it comes, whose rules say its tenant [default: `check`, and `proxy` if
    /// that finds no tenant]
    #[arg(long, value_enum, value_name = "DOOR", conflicts_with = "config")]
    pub(crate) door: Option<RequestDoor>,
    /// How long a check like it would wait for a place [default: `queue.wait` of the resource, as a
    /// request of the proxy; with `--door check` it does not wait]
    #[arg(long, value_name = "SPAN", value_parser = span)]
    pub(crate) wait: Option<Duration>,
    /// The deferral ticket that it shows: also say what the ticket is worth, count nothing for it
    #[arg(long, value_name = "TICKET", conflicts_with = "config")]
    pub(crate) ticket: Option<String>,
    /// Read this configuration instead of asking a daemon; `-` is standard input
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["class", "resource", "at", "token_file", "ca", "cert", "cert_key", "table"])]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) daemon: Daemon,
    /// Print the answer as one JSON object, as `POST /v1/explain` gives it
    #[arg(long)]
    pub(crate) json: bool,
}

/// A door at which requests come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RequestDoor {
    /// A protocol by which callers describe the request, such as `/v1/check`
    Check,
    /// A route of the proxy to the resource
    Proxy,
}

/// A request that is explained, beside what its attributes say.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExplainedRequest<'a> {
    pub(crate) feature: Option<&'a str>,
    pub(crate) tenant: Option<&'a str>,
    pub(crate) door: Option<RequestDoor>,
    pub(crate) wait: Option<Duration>,
    pub(crate) ticket: Option<&'a str>,
}

/// The class and the resource of a request, by which the overload plane decides.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct LoadTarget {
    /// The class of the request [default: as the policy says]
    #[arg(long, value_enum, value_name = "CLASS")]
    pub(crate) class: Option<Class>,
    /// The resource that serves it: also say its level and the admission cursor there
    #[arg(long, value_name = "RESOURCE")]
    pub(crate) resource: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Leases {
    #[command(subcommand)]
    pub(crate) action: Option<LeasesAction>,
    #[command(flatten)]
    pub(crate) daemon: Daemon,
    /// Print the answer as one JSON object, as the HTTP API gives it
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Resources {
    /// The resource to show; without it, all of them
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Draw its pressure over the last hours as stacked areas, with its thresholds and the refused
    /// units, in local time (TZ)
    #[arg(long, conflicts_with = "interval")]
    pub(crate) plot: bool,
    /// Draw the same into an SVG file
    #[arg(long, value_name = "FILE", conflicts_with = "interval")]
    pub(crate) svg: Option<PathBuf>,
    /// The work that areas stand for
    #[arg(long, value_enum, value_name = "WHOSE", default_value_t)]
    pub(crate) by: HistoryOwner,
    /// How many hours are drawn, 1 to 24
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u8).range(1..=24))]
    pub(crate) hours: u8,
    /// Draw an answer that was saved with `--plot --json` instead of asking a daemon
    #[arg(long, value_name = "FILE", conflicts_with_all = ["name", "interval"])]
    pub(crate) saved: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) watch: Watch,
    #[command(flatten)]
    pub(crate) daemon: Daemon,
    /// Print the answer as one JSON object, as the HTTP API gives it
    #[arg(long)]
    pub(crate) json: bool,
}

/// Whose work areas of a picture stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum HistoryOwner {
    #[default]
    Feature,
    Class,
    Namespace,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LeasesAction {
    /// Acknowledge that the store has lost its data, so that quotas count again
    ///
    /// Before that, quotas follow their `on_store_failure` until their windows end. One
    /// acknowledgement at any member counts for all of them. It needs the verb `change` in all
    /// namespaces.
    Acknowledge(Daemon),
}

#[derive(Args, Debug)]
pub(crate) struct Token {
    /// Print one JSON object: {"token", "hash"}
    #[arg(long)]
    pub(crate) json: bool,
}

/// A request.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Question {
    /// The namespace whose limits apply
    pub(crate) namespace: String,
    /// The attributes that limits match on and count by [example: user=ada]
    #[arg(value_name = "NAME=VALUE", value_parser = attribute)]
    pub(crate) attributes: Vec<Attribute>,
    /// The cost of the request, in units [default: by the cost table of the namespace, otherwise 1]
    #[arg(long, value_name = "N")]
    pub(crate) cost: Option<NonZeroU64>,
    #[command(flatten)]
    pub(crate) access: AccessArguments,
}

/// An attribute of a request: its name and its value.
pub(crate) type Attribute = (String, String);

impl Question {
    /// The duplicate attribute, if there is one: a choice between its values would be a guess.
    pub(crate) fn duplicate(&self) -> Option<&str> {
        let names = self.attributes.iter().map(|(name, _)| name.as_str()).enumerate();
        let earlier = |at: usize, name: &str| self.attributes[..at].iter().any(|(known, _)| known == name);
        names.into_iter().find(|(at, name)| earlier(*at, name)).map(|(_, name)| name)
    }

    pub(crate) fn borrowed(&self) -> Vec<(&str, &str)> {
        self.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }
}

/// A running daemon, and who asks it.
#[derive(Args, Debug)]
pub(crate) struct Daemon {
    /// Where the daemon is, and over which protocol it is asked
    #[arg(long, value_name = "URL", default_value = DEFAULT_ADDRESS)]
    pub(crate) at: DaemonAddress,
    #[command(flatten)]
    pub(crate) credentials: CallerCredentials,
}

/// The address of the daemon where `--at` is not given.
const DEFAULT_ADDRESS: &str = "http://127.0.0.1:8080";

/// One or several running daemons, all asked by the same caller.
#[derive(Args, Debug)]
pub(crate) struct MemberDaemons {
    /// Where the daemon is; give it again for each further member, to add up what all have counted
    #[arg(long, value_name = "URL", default_value = DEFAULT_ADDRESS)]
    pub(crate) at: Vec<DaemonAddress>,
    #[command(flatten)]
    credentials: CallerCredentials,
}

impl MemberDaemons {
    /// Each of them.
    pub(crate) fn each(&self) -> impl Iterator<Item = Daemon> {
        let daemon = |at: &DaemonAddress| Daemon { at: at.clone(), credentials: self.credentials.clone() };
        self.at.iter().map(daemon)
    }
}

/// The caller of a daemon, and the certificate that the daemon must have.
#[derive(Args, Clone, Debug)]
pub(crate) struct CallerCredentials {
    /// The token to ask with is the first line of this file that is no comment; otherwise it is
    /// `TIDEGATE_TOKEN`, if set
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// The certificates, in PEM, that the daemon's must come from, instead of those that this
    /// machine trusts
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// The certificate, in PEM, to show the daemon
    #[arg(long, value_name = "FILE", requires = "cert_key")]
    pub(crate) cert: Option<PathBuf>,
    /// The private key of --cert, in PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) cert_key: Option<PathBuf>,
}

/// The way in which a table is accessed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum AccessKind {
    /// It reads a recent value
    #[default]
    Read,
    /// It reads the last value
    ReadStrong,
    /// It reads the last value in a transaction
    ReadTransactional,
    /// It reads a range of keys from KEY on
    Scan,
    /// It writes
    Write,
    /// It writes in a transaction
    WriteTransactional,
}

impl AccessArguments {
    /// The access as attributes, for protocols that have no members for it; none without a table.
    pub(crate) fn words(&self) -> Vec<Attribute> {
        let Some((table, key)) = self.table.as_ref().zip(self.key.as_ref()) else { return Vec::new() };
        let words = [
            ("table", table.clone()),
            ("key", key.clone()),
            ("kind", word(self.kind)),
            ("size", self.size.to_string()),
        ];
        words.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// The interval of a command that shows its answer again and again.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Watch {
    /// Show it again every second, or as often as SPAN says, until Ctrl-C [example: --watch=5s]
    #[arg(long = "watch", value_name = "SPAN", value_parser = interval, num_args = 0..=1, require_equals = true, default_missing_value = "1s")]
    pub(crate) interval: Option<Duration>,
}

/// The shortest interval of [`Watch`]: an answer costs the daemon more than a decision.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

fn interval(text: &str) -> Result<Duration, String> {
    let interval = span(text)?;
    if interval < INTERVAL_MIN {
        return Err("too often; write 100ms or more".to_owned());
    }
    Ok(interval)
}

/// How much a request matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Class {
    /// The last to be shed
    CriticalPlus,
    /// Shed after those below
    Critical,
    /// The default of the daemon
    SheddablePlus,
    /// The first to be shed
    Sheddable,
}

/// The name of a value on the command line, which is that on the wire.
pub(crate) fn word(value: impl ValueEnum + Copy) -> String {
    value.to_possible_value().expect("no value is hidden").get_name().to_owned()
}

/// A span as a daemon takes it; one that is too long is for the daemon to refuse.
pub(crate) fn whole_millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn span(text: &str) -> Result<Duration, String> {
    parse_span(text).ok_or_else(|| {
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return format!("it has no unit; write {text}ms, {text}s or {text}m");
        }
        "not a span of time; write 500ms, 30s, 10m, 24h or 7d".to_owned()
    })
}

pub(super) fn attribute(text: &str) -> Result<Attribute, String> {
    match text.split_once('=') {
        Some(("", _)) => Err("an attribute has an empty name; write it as user=ada".to_owned()),
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err("an attribute has a name and a value; write it as user=ada".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_reads_each_kind_of_access_by_its_name() {
        for kind in AccessKind::value_variants() {
            let read: tidegate_wire::operation::AccessKind =
                serde_json::from_value(word(*kind).into()).unwrap();
            assert_eq!(format!("{read:?}"), format!("{kind:?}"));
        }
    }
}
