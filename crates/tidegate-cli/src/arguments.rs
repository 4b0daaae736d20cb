//! The command line.

pub(crate) mod capacity_simulation;
pub(crate) mod operator_commands;
pub(crate) mod overload_simulation;
pub(crate) mod request;
pub(crate) mod simulation;

#[cfg(test)]
mod documented_commands;

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::{exit, reference};

/// May this request go ahead, and if not, why, and when should it come back?
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, after_help = exit::HELP, max_term_width = 100)]
pub(crate) struct Arguments {
    /// With --version: also list commit, target, profile, features, and the formats of stores that
    /// this build reads
    // `lib.rs` looks for it on the command line: clap answers --version without reading further.
    #[arg(long, requires = "version")]
    verbose: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the daemon
    ///
    /// Without a configuration it runs a small built-in example on loopback and prints three lines
    /// to paste: a request that is admitted, one that is refused and explains itself, and the
    /// metrics.
    ///
    /// SIGTERM and SIGINT end the daemon: it answers every request that it has read, then exits. A
    /// second signal ends it at once.
    ///
    /// It follows its configuration: a changed file is in force within a second, all of it or
    /// nothing, and used units stay used. On SIGHUP the daemon looks at once, and opens the
    /// decision log anew.
    ///
    /// The environment variable `TIDEGATE_LOG` overrides log.level, as in
    /// `TIDEGATE_LOG=info,tidegate::refusal=off`.
    #[command(after_help = exit::HELP)]
    Serve(Serve),
    /// Ask a running daemon whether a request may go ahead, over any of its protocols
    ///
    /// The address says which protocol: `http://host:8080`, `https://`, `unix:/path` (the HTTP API),
    /// `redis://host:6380`, `rediss://` (TG.CHECK), `grpc://host:8081`, `grpcs://` (Envoy's rate
    /// limit service; the domain is the namespace).
    ///
    /// It charges the limits, unless --peek only looks. It gives up after 5 s. A token comes from
    /// --token-file or the environment variable `TIDEGATE_TOKEN`, never from the command line.
    #[command(after_help = exit::ASKING)]
    Check(request::Check),
    /// Show which limits apply to a request and why the others do not, what is left of each, and
    /// what each would answer
    ///
    /// Nothing is charged. With --config it reads a file, as if nothing had been charged yet;
    /// otherwise it asks a running daemon, through the listener for operators (listen.admin, or the
    /// http listener on loopback).
    #[command(after_help = exit::ASKING)]
    Explain(request::Explain),
    /// List the keys that were refused most within a window, or the refusals of one caller
    ///
    /// Counts are of the daemon that is asked, through its listener for operators. They come from
    /// sketches of constant size: a range such as `80 to 157` holds the true count.
    ///
    /// With NAMESPACE and NAME=VALUE it also says what each limit would answer that caller now, as
    /// `tidegate explain` does, so that a caller that is refused is found however many others are
    /// refused as well. Where the overload plane refused that caller, it also says the level of the
    /// request and the admission cursor, in the class and at the resource that refused most;
    /// --class and --resource choose others.
    #[command(after_help = exit::OPERATING)]
    Top(operator_commands::Top),
    /// Show what was offered, and how it ended: by namespace, tenant, feature and resource
    ///
    /// Counts are of the daemon that is asked, since its row began, through its listener for
    /// operators. With several --at, the rows of all members are added up. A namespace needs the
    /// verb `inspect` there, all of them need it everywhere.
    #[command(after_help = exit::OPERATING)]
    Usage(operator_commands::Usage),
    /// List the limits in force, and which policy they are of
    ///
    /// With --markdown it prints the limits as a page for the callers who are held to them.
    #[command(after_help = exit::OPERATING)]
    Limits(operator_commands::Limits),
    /// Set, remove or list other numbers for some keys
    #[command(after_help = exit::OPERATING)]
    Override(operator_commands::Override),
    /// Block a key, lift a block, or list the blocks in force
    #[command(after_help = exit::OPERATING)]
    Block(operator_commands::Block),
    /// Forget what a request's counters have used, and lift their blocks
    ///
    /// It asks the listener for callers, and needs the verb `reset` in the namespace.
    #[command(after_help = exit::OPERATING)]
    Reset(operator_commands::Reset),
    /// List the permits that wait to be settled or released
    #[command(after_help = exit::OPERATING)]
    Permits(operator_commands::Permits),
    /// Show the members that share a store, and what each has been lent
    ///
    /// Any member is asked, through its listener for operators. Members send a heartbeat every five
    /// seconds, with what they hold; a member without a heartbeat for 12 s is gone.
    #[command(after_help = exit::LEASES)]
    Leases(request::Leases),
    /// Show the resources: load level, requests in flight, queue, admission cursor and signals
    ///
    /// The daemon is asked through its listener for operators, and shows its own numbers.
    #[command(after_help = exit::OPERATING)]
    Resources(request::Resources),
    /// Show the levels of the features and the reason of each, or pin a feature at a level
    ///
    /// Each member has levels of its own, by the load that it feels: the daemon is asked through
    /// its listener for operators, and several --at show several members. A pin is for all members
    /// that share a store.
    ///
    /// With --watch it goes on after a round without an answer, and its exit code is 0.
    #[command(after_help = exit::OPERATING)]
    Features(operator_commands::Features),
    /// Check a configuration and list every problem at once, with its place and what to do about it
    ///
    /// Several files are checked one after the other; `-` is standard input.
    /// Warnings are listed too; they do not make a configuration invalid, unless --deny-warnings is
    /// given. Warnings look across sections: limits that no route feeds, routes that are never
    /// reached or always refused, costs above a burst, slow limits without their store.
    ///
    /// With --against it also lists the fate of each limit's counters when this configuration
    /// replaces the other (kept, under other numbers, renamed, started fresh, or forgotten), and
    /// the settings that need a restart of the daemon. Forgotten counters are listed and allowed:
    /// the exit code is 0. Problems in either file are listed, and the exit code is 1.
    ///
    /// Files of envoyproxy/ratelimit are checked as well: one that begins with `domain`, or a
    /// directory of them, as `envoy_ratelimit.path` of a configuration names. It also lists the
    /// differences from that service.
    #[command(after_help = exit::HELP)]
    Validate(Validate),
    /// Simulate a fleet: the deciding code of the daemon in a world whose time, load and faults
    /// come from a seed
    Simulate(simulation::Simulate),
    /// Print a new token, its hash, and how to use each
    Token(request::Token),
    /// Print the JSON schema of the configuration
    Schema,
    /// Print the reference of the configuration, as Markdown
    ///
    /// The reference opens with an annotated policy, and has every key with its values and its
    /// default. With SECTION it prints the page of one section.
    Reference {
        /// The section, one of the keys at the top of a policy, or `limits`, `tables` or `request`
        /// of a namespace [example: limits]
        #[arg(value_name = "SECTION", value_parser = reference::sections())]
        section: Option<String>,
    },
    /// Print the completion script of a shell
    Completions {
        /// The shell
        #[arg(value_name = "SHELL")]
        shell: clap_complete::Shell,
    },
    /// Write a man page for this command and for each of its subcommands
    Man {
        /// The directory to write them into; it must exist
        #[arg(value_name = "DIRECTORY")]
        directory: PathBuf,
    },
}

#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// The configuration; without it the built-in example
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The same as --config FILE
    #[arg(value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,
    /// The address for callers, instead of listen.http of the configuration [example: 127.0.0.1:0]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<tidegate_server::Address>,
    /// The URL of a service behind the reverse proxy, which passes on admitted requests
    ///
    /// Without --config the limits are those of a built-in example: fifty requests a second for
    /// each address, two hundred at a time in all. With --config they are those of its only
    /// namespace, which may count by `ip`, `method`, `path` and `host`; a `proxy:` section says
    /// more.
    #[arg(long, value_name = "URL")]
    pub(crate) upstream: Option<String>,
    /// The address for requests that are passed on to --upstream
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8000", requires = "upstream")]
    pub(crate) proxy: tidegate_server::Address,
    /// The format of log lines, instead of log.format of the configuration
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
}

impl Serve {
    /// The file of the configuration; `None` for the built-in example.
    pub(crate) fn configuration(&self) -> Option<&Path> {
        self.config.as_deref().or(self.file.as_deref())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

/// As `envoy_ratelimit.semantics` of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EnvoySemantics {
    /// As envoyproxy/ratelimit counts
    Strict,
    /// A request is charged to all of its limits or to none
    Tidegate,
}

#[derive(Args, Debug)]
pub(crate) struct Validate {
    /// Configurations, or files or directories of envoyproxy/ratelimit; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The configuration that is in force, to compare one FILE with
    #[arg(long, value_name = "OLD")]
    pub(crate) against: Option<PathBuf>,
    /// Exit with 1 if there are warnings
    #[arg(long)]
    pub(crate) deny_warnings: bool,
    /// Let several files of envoyproxy/ratelimit have the same domain, as
    /// `envoy_ratelimit.merge_domains` does
    #[arg(long)]
    pub(crate) merge_domains: bool,
    /// The semantics for files of envoyproxy/ratelimit, instead of those of the configuration
    /// (strict, for files alone); the listed differences depend on them
    #[arg(long, value_enum, value_name = "SEMANTICS")]
    pub(crate) semantics: Option<EnvoySemantics>,
    /// Print one JSON object: {"file", "valid", "problems", "truncated", "warnings"}, with
    /// --against "comparison", and for files of envoyproxy/ratelimit "differences"; for several
    /// FILEs a list of such objects
    #[arg(long)]
    pub(crate) json: bool,
}
