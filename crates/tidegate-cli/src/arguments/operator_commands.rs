//! The arguments of commands that look at a running daemon, or change what it counts.

use core::time::Duration;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use tidegate_wire::usage::UsageColumn;

use super::request::{Attribute, Daemon, LoadTarget, MemberDaemons, Watch, attribute, span};

#[derive(Args, Debug)]
pub(crate) struct Top {
    /// Only keys of this namespace, or of this domain of envoyproxy/ratelimit files
    pub(crate) namespace: Option<String>,
    /// Only keys with these attributes, and what each limit would answer them now [example:
    /// user=ada]
    #[arg(value_name = "NAME=VALUE", value_parser = attribute)]
    pub(crate) attributes: Vec<Attribute>,
    /// Only keys of this limit
    #[arg(long, value_name = "LIMIT")]
    pub(crate) limit: Option<String>,
    /// Only keys that were refused for this reason [example: blocked]
    #[arg(long, value_name = "REASON")]
    pub(crate) reason: Option<String>,
    /// List each tenant once, with the limits and the mechanisms that refused it
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) by: Option<KeyGroups>,
    #[command(flatten)]
    pub(crate) target: LoadTarget,
    /// How far back to count, from 1s to 1h
    #[arg(long, value_name = "SPAN", default_value = "1m")]
    pub(crate) window: String,
    /// How many keys to list, from 1 to 1000
    #[arg(short, value_name = "COUNT", default_value_t = 20)]
    pub(crate) n: u32,
    #[command(flatten)]
    pub(crate) daemon: Daemon,
    /// Print one JSON object, as `GET /v1/keys/top` gives it, with "explanation" where attributes
    /// are given
    #[arg(long)]
    pub(crate) json: bool,
}

/// The keys that are listed as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyGroups {
    /// All keys of a tenant
    Tenant,
}

#[derive(Args, Debug)]
pub(crate) struct Usage {
    /// The namespace, or domain of envoyproxy/ratelimit files; without it all namespaces, features
    /// and resources
    pub(crate) namespace: Option<String>,
    /// One tenant of the namespace; `''` is the tenant whose name is empty
    #[arg(requires = "namespace")]
    pub(crate) tenant: Option<String>,
    /// The column to sort by: offered, units, `place_time`, `reported_denied`, or an outcome such
    /// as shed
    #[arg(long, value_name = "COLUMN", value_parser = usage_column, default_value = "offered")]
    pub(crate) by: UsageColumn,
    /// How many rows of each list to show, from 1 to 1000
    #[arg(short, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) n: u32,
    #[command(flatten)]
    pub(crate) daemons: MemberDaemons,
    /// Print one JSON object, as `GET /v1/usage` gives it; of several members {"members", "sum"}
    #[arg(long)]
    pub(crate) json: bool,
}

fn usage_column(text: &str) -> Result<UsageColumn, String> {
    UsageColumn::from_name(text).ok_or_else(|| format!("not a column; use one of {}", UsageColumn::names()))
}

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Features {
    #[command(subcommand)]
    pub(crate) action: Option<FeaturesAction>,
    /// The feature to show; without it, all that have levels
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) watch: Watch,
    #[command(flatten)]
    pub(crate) daemons: MemberDaemons,
    /// Print the answer as one JSON object, as the HTTP API gives it; of several members
    /// {"members"}
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FeaturesAction {
    /// Pin a feature at a level for a while, whatever the load is, at all members
    ///
    /// The level changes at once at the member that is asked, and at the others within seconds. A
    /// pin that is there already is replaced. The command needs the verb `feature` in all
    /// namespaces.
    Pin(PinFeature),
    /// End the pin of a feature, so that its level follows the load again
    Unpin(UnpinFeature),
}

#[derive(Args, Debug)]
pub(crate) struct PinFeature {
    /// The feature
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The name of the level, one of those of the feature [example: off]
    #[arg(value_name = "LEVEL")]
    pub(crate) level: String,
    /// How long, at most 30d [example: 10m]
    #[arg(long = "for", value_name = "SPAN", value_parser = span)]
    pub(crate) span: Duration,
    #[command(flatten)]
    pub(crate) author: PinAuthor,
}

#[derive(Args, Debug)]
pub(crate) struct UnpinFeature {
    /// The feature
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) author: PinAuthor,
}

/// The author of a change of a pin, and the daemon that is asked.
#[derive(Args, Debug)]
pub(crate) struct PinAuthor {
    /// The person or tool, for the audit log
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
    /// Why, for the audit log
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) daemon: Daemon,
    /// Print the feature as one JSON object, as the HTTP API gives it
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Override {
    #[command(subcommand)]
    pub(crate) action: OverrideAction,
    /// Print the answer as one JSON object, as the HTTP API gives it
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OverrideAction {
    /// Set other numbers for some keys of a limit, at once
    ///
    /// The used units of a key are kept. The command needs the verb `change` in the namespace.
    Set(SetOverride),
    /// Remove an override that was set with `set`, so that the numbers of the limit count again
    Remove(RemoveOverride),
    /// List the overrides that were set while running
    List(NamespaceFilter),
}

#[derive(Args, Debug)]
pub(crate) struct SetOverride {
    /// The numbers, in the words of the policy; what is left out is as in the limit, but a burst
    /// follows the rate [example: rate=200/s,burst=400]
    #[arg(long, value_name = "NAME=NUMBER", value_parser = attribute, value_delimiter = ',', required = true)]
    pub(crate) numbers: Vec<Attribute>,
    /// How long it applies; without it, until it is removed [example: 24h]
    #[arg(long = "for", value_name = "SPAN", value_parser = span)]
    pub(crate) span: Option<Duration>,
    /// Why, for the audit log
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// The person or tool that sets it, for the audit log
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) by: String,
    #[command(flatten)]
    pub(crate) keys: LimitKeys,
}

#[derive(Args, Debug)]
pub(crate) struct RemoveOverride {
    /// Why, for the audit log
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) reason: String,
    /// The person or tool that removes it, for the audit log
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) by: String,
    #[command(flatten)]
    pub(crate) keys: LimitKeys,
}

#[derive(Args, Debug)]
pub(crate) struct Block {
    #[command(subcommand)]
    pub(crate) action: BlockAction,
    /// Print the answer as one JSON object, as the HTTP API gives it
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BlockAction {
    /// Refuse a key under one limit for a while
    ///
    /// It asks the listener for callers, and needs the verb `block` in the namespace. A block that
    /// is there already is replaced.
    Set(SetBlock),
    /// Lift the block of a key, as `set` does for no time
    Remove(LimitKeys),
    /// List the blocks in force, as far as the daemon that is asked knows them
    ///
    /// It asks the listener for operators.
    List(ListBlocks),
}

#[derive(Args, Debug)]
pub(crate) struct SetBlock {
    /// How long, at most 366d [example: 10m]
    #[arg(long = "for", value_name = "SPAN", value_parser = span)]
    pub(crate) span: Duration,
    #[command(flatten)]
    pub(crate) keys: LimitKeys,
}

#[derive(Args, Debug)]
pub(crate) struct ListBlocks {
    /// Only those of this namespace
    pub(crate) namespace: Option<String>,
    /// Only those of keys with these attributes [example: user=ada]
    #[arg(value_name = "NAME=VALUE", value_parser = attribute)]
    pub(crate) attributes: Vec<Attribute>,
    /// Only those under this limit
    #[arg(long, value_name = "LIMIT")]
    pub(crate) limit: Option<String>,
    /// How many blocks to list, from 1 to 1000
    #[arg(short, value_name = "COUNT", default_value_t = 100)]
    pub(crate) n: u32,
    #[command(flatten)]
    pub(crate) daemon: Daemon,
}

#[derive(Args, Debug)]
pub(crate) struct Reset {
    /// The namespace
    pub(crate) namespace: String,
    /// The attributes of a request whose counters are reset [example: user=ada]
    #[arg(value_name = "NAME=VALUE", value_parser = attribute)]
    pub(crate) attributes: Vec<Attribute>,
    /// Only the counter of this limit, for which the attributes of its key are enough, instead of
    /// the counters under all limits that apply
    #[arg(long, value_name = "LIMIT")]
    pub(crate) limit: Option<String>,
    /// Also the counters of quotas over a day or longer, without naming their limit
    #[arg(long, conflicts_with = "limit")]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) daemon: Daemon,
    /// Print one JSON object: {"counters"}
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Limits {
    /// Read the limits from this configuration instead of asking a daemon; `-` is standard input
    #[arg(short, long, value_name = "FILE", conflicts_with = "at")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) filter: NamespaceFilter,
    /// Print a page in Markdown for callers: the limits that refuse, what a refusal looks like, and
    /// how to ask for more
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,
    /// Where callers ask for more, on the page [example: support@example.com]
    #[arg(long, value_name = "TEXT", requires = "markdown")]
    pub(crate) contact: Option<String>,
    /// Print one JSON object, as `GET /v1/limits` gives it
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Permits {
    /// How many permits to list, from 1 to 1000
    #[arg(short, value_name = "COUNT", default_value_t = 100)]
    pub(crate) n: u32,
    /// The page after this number, which ends the page before
    #[arg(long, value_name = "NUMBER")]
    pub(crate) after: Option<u64>,
    #[command(flatten)]
    pub(crate) filter: NamespaceFilter,
    /// Print one JSON object, as `GET /v1/permits` gives it
    #[arg(long)]
    pub(crate) json: bool,
}

/// The daemon that lists something, of one namespace or of all.
#[derive(Args, Debug)]
pub(crate) struct NamespaceFilter {
    /// Only those of this namespace
    pub(crate) namespace: Option<String>,
    #[command(flatten)]
    pub(crate) daemon: Daemon,
}

impl NamespaceFilter {
    /// The filter as a pair of a query.
    pub(crate) fn query(&self) -> Option<(&'static str, &str)> {
        self.namespace.as_deref().map(|namespace| ("namespace", namespace))
    }
}

/// Some keys of one limit, at a daemon.
#[derive(Args, Debug)]
pub(crate) struct LimitKeys {
    /// The namespace
    pub(crate) namespace: String,
    /// The limit
    pub(crate) limit: String,
    /// The attributes and values of the keys [example: user=ada]
    #[arg(value_name = "NAME=VALUE", value_parser = attribute)]
    pub(crate) attributes: Vec<Attribute>,
    #[command(flatten)]
    pub(crate) daemon: Daemon,
}
