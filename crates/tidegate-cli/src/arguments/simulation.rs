//! The arguments of `tidegate simulate`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::capacity_simulation::CapacitySimulation;
use super::overload_simulation::OverloadSimulation;
use crate::exit;

#[derive(Args, Debug)]
pub(crate) struct Simulate {
    #[command(subcommand)]
    pub(crate) what: Simulated,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Simulated {
    /// Run a fleet that shares limits, in one thread and from one seed
    ///
    /// Members run the engine of the daemon, and the store is the one in memory; clients, messages,
    /// clocks and faults are simulated. Checkers report a run in which more is admitted than
    /// promised, leases do not add up, a member decides alone although the store answers or beyond
    /// its share, a caller within its limit is refused for longer than a second, a refusal leaves a
    /// charge, or a limit is not used and members are not treated alike after the faults. The same
    /// seed gives the same report, byte for byte.
    ///
    /// With --seeds, settings without a flag are drawn from each seed: small fleets, any limit, any
    /// load, and any fault.
    #[command(after_help = exit::SIMULATING)]
    Fleet(Box<Fleet>),
    /// Run tables of your own: which requests are throttled, when and why
    ///
    /// The file has nodes, tables, and what is asked of each table. Tables have global admission,
    /// and partitions are moved, split and merged, as in the daemon. The code of the daemon
    /// decides; clients and time are simulated. Checkers judge each decision by what clients see.
    /// The gate says of each bound whether it was kept; beside the measured shares stand those of a
    /// fluid model. The same seed gives the same report, byte for byte.
    #[command(after_help = exit::COMPARING)]
    Capacity(Box<CapacitySimulation>),
    /// Run services of your own under more load than they can bear: which requests are refused,
    /// when and why
    ///
    /// The file has services, clients, and what goes wrong. Services are workers with service
    /// times, and rejections take their time as well; clients are an open loop with deadlines,
    /// classes, tenants and retries. The engine of the daemon decides; clients, services and time
    /// are simulated. The same seed gives the same report, byte for byte.
    #[command(after_help = exit::OVERLOADING)]
    Overload(Box<OverloadSimulation>),
}

#[derive(Args, Debug)]
pub(crate) struct Fleet {
    /// How many members the fleet has [default: 10]
    #[arg(long, value_name = "N")]
    pub(crate) members: Option<u32>,
    /// How many keys the limit has [default: 1]
    #[arg(long, value_name = "K")]
    pub(crate) keys: Option<u32>,
    /// The seed of all random numbers
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Simulate so many seeds, from --seed on, and report those in which a checker found something
    #[arg(long, value_name = "COUNT", conflicts_with = "plots")]
    pub(crate) seeds: Option<u64>,
    /// For how many simulated seconds [default: 60, with --seeds 45]
    #[arg(long, value_name = "T")]
    pub(crate) seconds: Option<u32>,
    /// Units of each key that refill every --per seconds [default: 1000]
    #[arg(long, value_name = "UNITS")]
    pub(crate) rate: Option<u32>,
    /// Seconds in which the units of --rate refill
    #[arg(long, value_name = "T", default_value_t = 1, requires = "rate")]
    pub(crate) per: u32,
    /// Units at once of each key [default: as many as --rate]
    #[arg(long, value_name = "UNITS", requires = "rate")]
    pub(crate) burst: Option<u32>,
    /// Units of each key in each window, instead of a rate
    #[arg(long, value_name = "UNITS", conflicts_with_all = ["rate", "burst"])]
    pub(crate) quota: Option<u32>,
    /// Seconds in a window
    #[arg(long, value_name = "T", default_value_t = 60, requires = "quota")]
    pub(crate) window: u32,
    /// The load: the pattern of the requests [default: steady]
    #[arg(long, value_enum, value_name = "LOAD")]
    pub(crate) load: Option<Load>,
    /// First attempts a second, over all members and keys [default: three times the limit of a key]
    #[arg(long, value_name = "N")]
    pub(crate) requests_per_second: Option<u32>,
    /// Requests cost from 1 to this many units [default: 1]
    #[arg(long, value_name = "UNITS")]
    pub(crate) cost_max: Option<u32>,
    /// How often clients of every second member retry a refused request [default: 0]
    #[arg(long, value_name = "N")]
    pub(crate) retries: Option<u32>,
    /// A limit of the policy, or the throughput of a table with global admission. A unit is then
    /// half a capacity unit, and the burst a second of --rate but at least 1600 [default: limit]
    #[arg(long, value_enum, value_name = "SUBJECT", conflicts_with_all = ["burst", "quota"])]
    pub(crate) subject: Option<Subject>,
    /// Where the limit is decided [default: leased]
    #[arg(long, value_enum, value_name = "WHERE")]
    pub(crate) consistency: Option<Consistency>,
    /// The faults to inject [default: none, with --seeds some]
    #[arg(long, value_enum, value_name = "CHAOS")]
    pub(crate) chaos: Option<Chaos>,
    /// How long members wait for the store, in milliseconds [default: 50]
    #[arg(long, value_name = "MS")]
    pub(crate) deadline_ms: Option<u32>,
    /// The most keys of which one member holds a lease at once [default: 65536]
    #[arg(long, value_name = "N")]
    pub(crate) holders_max: Option<u32>,
    /// Let so many Envoys ask, spread over the members, that decide by themselves: by what their
    /// member assigns to them as their rate limit quota service. --load then says which Envoys are
    /// asked. The limit has a rate [default: 0]
    #[arg(long, value_name = "N", conflicts_with_all = ["seeds", "quota", "subject", "consistency"])]
    pub(crate) envoys: Option<u32>,
    /// How long a lease lasts, in seconds, 4 to 60 [default: 5]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) lease_seconds: Option<u32>,
    /// Write pictures to this folder, as SVG: admitted and lent units beside the limit, store calls
    #[arg(long, value_name = "DIR")]
    pub(crate) plots: Option<PathBuf>,
    /// Print one JSON object: the report, or with --seeds {"from", "seeds", "decisions",
    /// "violated": [reports]}
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Load {
    /// All members and keys alike, all the time
    Steady,
    /// Every half second another quarter of the members is asked for all of it
    Bursty,
    /// One member is asked for four fifths of it
    Skewed,
    /// As skewed, and every ten seconds it is another member
    Moving,
    /// Each member of the first half is asked for ten times as much as each of the others
    Uneven,
    /// As uneven, and after half of the time the halves change places
    Moved,
    /// As steady, but the last member is asked in the first ten seconds only
    OneIdle,
    /// All members alike; keys by Zipf's law with exponent 0.99
    Zipf,
    /// Each key is a caller: most keep to four fifths of their limit, some spend bursts, one of ten
    /// asks for too much
    Callers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Subject {
    /// A limit of the policy
    Limit,
    /// A table for each key
    Table,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Consistency {
    /// At each member alone, by an equal part of the numbers
    Local,
    /// In the store, one call for each request
    Exact,
    /// At the members, from units that the store has lent
    Leased,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Chaos {
    /// Nothing
    None,
    /// Clocks, messages, members and the store
    Some,
}
