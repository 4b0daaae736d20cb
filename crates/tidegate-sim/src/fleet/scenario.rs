//! The scenario of a simulation: a fleet, its limit, its load, and whether anything goes wrong.

use core::time::Duration;

use serde::Serialize;
use tidegate_core::algorithm::{AlgorithmError, Bucket, Fixed, WindowStart};
use tidegate_core::lease::{Terms, remote_obstacle};
use tidegate_core::limit::Consistency;
use tidegate_core::{Algorithm, Rate};

use crate::kit::{Chance, SECOND};

/// A fleet and what happens to it. The same scenario gives the same report, byte for byte.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scenario {
    /// The seed of all chance.
    pub seed: u64,
    /// How many members the fleet has, from 1 to [`Scenario::MEMBERS_MAX`].
    pub members: u32,
    /// How many keys the limit has, from 1 to [`Scenario::KEYS_MAX`]. Each has a counter of its
    /// own.
    pub keys: u32,
    /// For how long, in true seconds, from 1 to [`Scenario::SECONDS_MAX`].
    pub seconds: u32,
    /// The limit of each key.
    pub limit: Numbers,
    /// Where it is decided.
    pub consistency: DecisionSite,
    /// The subject of the limit; default [`Subject::Limit`].
    #[serde(skip_serializing_if = "is_limit")]
    pub subject: Subject,
    /// The members that are asked, and the times and keys of the requests.
    pub load: Load,
    /// First attempts a second, over all members and keys; from 1 to [`Scenario::REQUESTS_MAX`].
    pub requests_per_second: u32,
    /// Requests cost from 1 to this, evenly; at least 1.
    pub cost_max: u32,
    /// How often clients of every second member retry a refused request; clients of the other
    /// members never do. At most
    /// 10. A caller that has kept to its limit retries every 100 ms whatever this says.
    pub retries: u32,
    /// The troubles.
    pub chaos: Chaos,
    /// How long a member waits for the store, in milliseconds; from 1 to 10 000.
    pub deadline_ms: u32,
    /// The most keys of which one member holds a lease at once.
    pub holders_max: u32,
    /// How many Envoys with the rate limit quota filter ask, up to [`Scenario::ENVOYS_MAX`]; 0,
    /// the default, for none. They are spread over the members evenly, and all requests are theirs:
    /// they decide by what the members assign to them. Only with a leased bucket that Envoys can
    /// hold, requests of one unit that are not retried, and without chaos.
    #[serde(skip_serializing_if = "is_none")]
    pub envoys: u32,
    /// How long a lease lasts, in seconds; from 4 to 60, default 5.
    #[serde(skip_serializing_if = "is_usual_period")]
    pub lease_seconds: u32,
    /// A mistake that is built in.
    #[cfg(tidegate_planted_faults)]
    #[serde(skip)]
    pub fault: Option<tidegate_core::lease::Fault>,
}

/// Whether there are no Envoys, which reports do not mention.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the serializer passes a reference")]
fn is_none(envoys: &u32) -> bool {
    *envoys == 0
}

/// The lease period that limits have by default, in seconds.
const LEASE_SECONDS: u32 = Terms::PERIOD.as_secs() as u32;

/// Whether a lease lasts as long as by default, which reports do not mention.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the serializer passes a reference")]
fn is_usual_period(seconds: &u32) -> bool {
    *seconds == LEASE_SECONDS
}

/// The numbers of the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Numbers {
    /// A bucket that refills evenly, by `units` every `seconds`.
    Bucket {
        /// Units that refill in `seconds`, from 1 to [`Scenario::RATE_MAX`].
        units: u32,
        /// The span that `units` refill in, from 1 to [`Scenario::SECONDS_MAX`].
        seconds: u32,
        /// The most units at once, from 1 to [`Scenario::BURST_MAX`] divided by `seconds`.
        burst: u32,
    },
    /// A fixed window of so many units, aligned to the store's clock.
    Window {
        /// Units in a window, from 1 to [`Scenario::BURST_MAX`].
        units: u32,
        /// Seconds in a window, at least 1.
        seconds: u32,
    },
}

/// Whether an attribute of the requests is limited, or a table that they access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// A limit of the policy.
    Limit,
    /// The throughput of a table with global admission, another one for each key. A unit of the
    /// limit is half a capacity unit, the weight of the smallest read. The limit is then a bucket
    /// over a second of an even number of units, whose burst is a second of them, or 1600 if that
    /// is more, and it is leased.
    Table,
}

/// Whether it is a limit, which reports do not mention.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the serializer passes a reference")]
fn is_limit(subject: &Subject) -> bool {
    *subject == Subject::Limit
}

/// Where the limit is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionSite {
    /// At each member alone, by an equal part of the numbers.
    Local,
    /// In the store, one call for each request.
    Exact,
    /// At the members, from what the store has lent them.
    Leased,
}

/// Which members, or which Envoys where there are any, are asked when, and for which keys. Arrivals
/// are a Poisson process, except at [`Load::Callers`]: no client waits for an answer before it
/// asks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// All members and keys alike, all the time.
    Steady,
    /// Every half second another quarter of the members is asked for all of it.
    Bursty,
    /// One member is asked for four fifths of it.
    Skewed,
    /// As [`Load::Skewed`], and every ten seconds it is another member.
    Moving,
    /// Each member of the first half is asked for ten times as much as each of the others.
    Uneven,
    /// As [`Load::Uneven`], and after half of the time the halves change places.
    Moved,
    /// As [`Load::Steady`], but the last member is asked in the first ten seconds only.
    OneIdle,
    /// All members alike; keys by Zipf's law with exponent 0.99.
    Zipf,
    /// Each key is a caller with a habit of its own: of ten keys, seven ask steadily for four
    /// fifths of their limit, two spend the whole burst at once and then idle until it has
    /// refilled, and one asks for three times its limit. Half of the callers stay with one member,
    /// the others draw a member for each request; a caller whose member is down goes to the next
    /// one. [`Scenario::requests_per_second`] follows from the limit and is ignored.
    Callers,
}

/// The troubles of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Chaos {
    /// Nothing. Messages take between 0.2 and 1 ms.
    None,
    /// Clocks are set up to half a second and run up to a hundredth apart. Messages are lost,
    /// repeated, late and overtaken. And until [`Scenario::CALM_SECONDS`] before the end, one after
    /// the other as the seed has it: members are cut off, crash or stop and start again; the store
    /// is away, pauses, answers late, fails over with what it wrote last lost, or loses all it has
    /// (only under [`DecisionSite::Leased`]).
    Some,
}

/// Why a scenario cannot be simulated. The text names the value and the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// A number is out of its range.
    #[error("{what} {value} is not between {min} and {max}; use one that is")]
    Range {
        /// Which.
        what: &'static str,
        /// The value.
        value: u64,
        /// The least it may be.
        min: u64,
        /// The most it may be.
        max: u64,
    },
    /// The numbers make no limit.
    #[error(transparent)]
    Algorithm(#[from] AlgorithmError),
    /// The numbers are none that a table has.
    #[error("a table has {0}; use that, or a limit of the policy")]
    Table(&'static str),
    /// Envoys cannot do what the scenario wants.
    #[error("Envoys need {0}; use that, or no Envoys")]
    Envoys(&'static str),
    /// The engine takes the limit not.
    #[error("the engine does not take this limit: {0}")]
    Engine(String),
}

impl Default for Scenario {
    fn default() -> Self {
        Self::new(1)
    }
}

impl Scenario {
    /// The most members: 65 536.
    pub const MEMBERS_MAX: u32 = 1 << 16;
    /// The most keys: 16 777 216.
    pub const KEYS_MAX: u32 = 1 << 24;
    /// The longest time: a day.
    pub const SECONDS_MAX: u32 = 24 * 3600;
    /// The most requests a second: ten million.
    pub const REQUESTS_MAX: u32 = 10_000_000;
    /// The most Envoys: 65 536.
    pub const ENVOYS_MAX: u32 = 1 << 16;
    /// The highest rate: ten million units a second.
    pub const RATE_MAX: u32 = 10_000_000;
    /// The largest burst or quota: a hundred million units.
    pub const BURST_MAX: u32 = 100_000_000;
    /// The least burst of a table: 800 capacity units.
    pub const TABLE_BURST_MIN: u32 = 1600;
    /// The most tables.
    pub const TABLES_MAX: u32 = 1000;
    /// The most units of a request for a table.
    pub const TABLE_COST_MAX: u32 = 256;
    /// For how long nothing goes wrong at the end, so that all can be well again and be seen to be:
    /// 24 s. Scenarios that are not a quarter longer than that have no disturbances.
    pub const CALM_SECONDS: u32 = 24;

    /// Ten members, one key of 1 000 units a second, leased, three times as much asked for, one
    /// minute, nothing goes wrong.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            members: 10,
            keys: 1,
            seconds: 60,
            limit: Numbers::per_second(1000, 1000),
            consistency: DecisionSite::Leased,
            subject: Subject::Limit,
            load: Load::Steady,
            requests_per_second: 3000,
            cost_max: 1,
            retries: 0,
            chaos: Chaos::None,
            deadline_ms: 50,
            holders_max: 1 << 16,
            envoys: 0,
            lease_seconds: LEASE_SECONDS,
            #[cfg(tidegate_planted_faults)]
            fault: None,
        }
    }

    /// A small fleet of which everything is drawn from the seed, leased: three to six members and
    /// any limit. Of two seeds one has [`Load::Callers`]; the other has one to three keys and any
    /// other load. All that can go wrong does, except that with one in four of the former seeds
    /// nothing does.
    pub fn drawn(seed: u64) -> Self {
        let mut chance = Chance::new(seed, 1);
        let members = chance.between(3, 6) as u32;
        let deadline_ms = chance.one_of(&[50, 50, 200, 1000]);
        let drawn = Self { members, deadline_ms, chaos: Chaos::Some, ..Self::new(seed) };
        if chance.below(2) == 0 { drawn.with_callers(&mut chance) } else { drawn.with_few_keys(&mut chance) }
    }

    /// As [`Scenario::drawn`], with tables.
    pub fn drawn_with_tables(seed: u64) -> Self {
        let drawn = Self::drawn(seed);
        let mut chance = Chance::new(seed, 8);
        let units = chance.one_of(&[2, 20, 200, 1000, 4000]);
        let limit = Numbers::per_second(units, units.max(Self::TABLE_BURST_MIN));
        let requests = (units * drawn.keys * chance.one_of(&[7, 15, 25]) / 10).max(1);
        Self { subject: Subject::Table, limit, requests_per_second: requests, seconds: 60, ..drawn }
    }

    fn with_few_keys(self, chance: &mut Chance) -> Self {
        let keys = chance.between(1, 3) as u32;
        let (limit, per_second) = if chance.below(4) == 0 {
            let (units, seconds) = (chance.one_of(&[200, 1000, 3000]), chance.one_of(&[5, 10, 20]));
            (Numbers::Window { units, seconds }, units / seconds)
        } else {
            let per_second = chance.one_of(&[20, 100, 300, 1000]);
            let burst = chance.one_of(&[per_second / 5, per_second, 2 * per_second]);
            (Numbers::per_second(per_second, burst.max(self.members)), per_second)
        };
        let tenths = chance.one_of(&[7, 15, 15, 25]);
        Self {
            keys,
            seconds: 45,
            limit,
            load: chance.one_of(&[Load::Steady, Load::Bursty, Load::Skewed, Load::Moving, Load::Zipf]),
            requests_per_second: (per_second * keys * tenths / 10).max(1),
            cost_max: chance.one_of(&[1, 1, 1, 4]),
            retries: chance.one_of(&[0, 0, 3]),
            ..self
        }
    }

    fn with_callers(self, chance: &mut Chance) -> Self {
        let limit = chance.one_of(&[
            Numbers::Bucket { units: 5, seconds: 60, burst: 5 },
            Numbers::Bucket { units: 5, seconds: 60, burst: 5 },
            Numbers::per_second(10, 10),
            Numbers::per_second(10, 10),
            Numbers::per_second(100, 100),
            Numbers::per_second(100, 20),
            Numbers::Bucket { units: 3, seconds: 3600, burst: 3 },
            Numbers::Window { units: 20, seconds: 1 },
            Numbers::Window { units: 60, seconds: 10 },
            Numbers::Window { units: 10, seconds: 60 },
            Numbers::Window { units: 500, seconds: 60 },
            Numbers::Window { units: 100, seconds: 3600 },
        ]);
        let keys = ((500.0 / limit.rate()) as u32).clamp(10, 40);
        // A slow limit takes longer to show anything, and costs little.
        let is_slow = limit.rate() < 1.0;
        Self {
            keys,
            seconds: if is_slow { 150 } else { 45 },
            limit,
            load: Load::Callers,
            requests_per_second: 500,
            chaos: if chance.below(4) == 0 { Chaos::None } else { Chaos::Some },
            ..self
        }
    }

    /// Whether it can be simulated.
    pub fn check(&self) -> Result<(), ScenarioError> {
        let range = |what, value: u32, min: u32, max: u32| {
            if (min..=max).contains(&value) {
                return Ok(());
            }
            Err(ScenarioError::Range { what, value: value.into(), min: min.into(), max: max.into() })
        };
        range("number of members", self.members, 1, Self::MEMBERS_MAX)?;
        range("number of keys", self.keys, 1, Self::KEYS_MAX)?;
        range("number of seconds", self.seconds, 1, Self::SECONDS_MAX)?;
        range("number of requests a second", self.requests_per_second, 1, Self::REQUESTS_MAX)?;
        range("largest cost", self.cost_max, 1, 1 << 20)?;
        range("number of retries", self.retries, 0, 10)?;
        range("deadline in milliseconds", self.deadline_ms, 1, 10_000)?;
        range("number of leases at a member", self.holders_max, 1, 1 << 24)?;
        range("number of Envoys", self.envoys, 0, Self::ENVOYS_MAX)?;
        let (min, max) = (Terms::PERIOD_MIN.as_secs() as u32, Terms::PERIOD_MAX.as_secs() as u32);
        range("lease period in seconds", self.lease_seconds, min, max)?;
        self.check_table()?;
        match self.limit {
            Numbers::Bucket { units, seconds, burst } => {
                range("rate", units, 1, Self::RATE_MAX)?;
                range("seconds of the rate", seconds, 1, Self::SECONDS_MAX)?;
                range("burst", burst, 1, Self::BURST_MAX / seconds)?;
            }
            Numbers::Window { units, seconds } => {
                range("units in a window", units, 1, Self::BURST_MAX)?;
                range("window in seconds", seconds, 1, Self::SECONDS_MAX)?;
            }
        }
        self.check_envoys()
    }

    /// Whether its Envoys can be simulated, if it has any.
    fn check_envoys(&self) -> Result<(), ScenarioError> {
        if self.envoys == 0 {
            return Ok(());
        }
        let needs = |is_so: bool, what| if is_so { Ok(()) } else { Err(ScenarioError::Envoys(what)) };
        let is_leased = self.subject == Subject::Limit && self.consistency == DecisionSite::Leased;
        needs(is_leased, "a leased limit of the policy")?;
        let can_hold = remote_obstacle(&self.algorithm()?, Consistency::Leased).is_none();
        needs(can_hold, "a rate of at least 1 a minute with a burst of at least 16")?;
        needs(self.load != Load::Callers, "a load of other than `callers`")?;
        needs(self.cost_max == 1 && self.retries == 0, "requests of one unit that are not retried")?;
        needs(self.chaos == Chaos::None, "a run without chaos")
    }

    /// Whether the limit is one that a table can have, if its subject is a table.
    fn check_table(&self) -> Result<(), ScenarioError> {
        let Numbers::Bucket { units, seconds: 1, burst } = self.limit else {
            return match self.subject {
                Subject::Table => Err(ScenarioError::Table("a bucket over one second")),
                Subject::Limit => Ok(()),
            };
        };
        match self.subject {
            Subject::Table if !units.is_multiple_of(2) => Err(ScenarioError::Table("an even rate")),
            Subject::Table if burst != units.max(Self::TABLE_BURST_MIN) => {
                Err(ScenarioError::Table("a burst of a second of the rate, at least 1600"))
            }
            Subject::Table if self.keys > Self::TABLES_MAX => Err(ScenarioError::Table("at most 1000 keys")),
            Subject::Table if self.cost_max > Self::TABLE_COST_MAX => {
                Err(ScenarioError::Table("requests of at most 256 units"))
            }
            Subject::Table if self.consistency != DecisionSite::Leased => {
                Err(ScenarioError::Table("leases where it has several members"))
            }
            _ => Ok(()),
        }
    }

    /// The limit as each member has it.
    pub(crate) fn algorithm(&self) -> Result<Algorithm, ScenarioError> {
        Ok(match self.at_a_member() {
            Numbers::Bucket { units, seconds, burst } => {
                let span = Duration::from_secs(seconds.into());
                let rate = Rate::new(units.into(), span).expect("checked to be in range");
                Algorithm::Bucket(Bucket::new(rate, burst.into())?)
            }
            Numbers::Window { units, seconds } => {
                let window = Duration::from_secs(seconds.into());
                Algorithm::Fixed(Fixed::new(units.into(), window, WindowStart::Epoch)?)
            }
        })
    }

    /// How many there are of those that requests arrive at: Envoys, or members.
    pub(crate) const fn clients(&self) -> u32 {
        if self.envoys > 0 { self.envoys } else { self.members }
    }

    /// When the halves of [`Load::Moved`] change places, in nanoseconds.
    pub(crate) const fn moves_at(&self) -> u64 {
        self.seconds as u64 * SECOND / 2
    }

    /// How long a lease lasts.
    pub(crate) const fn lease_period(&self) -> Duration {
        Duration::from_secs(self.lease_seconds as u64)
    }

    /// The numbers as each member has them: decided alone, an equal part of them, rounded down but
    /// at least 1.
    pub(crate) fn at_a_member(&self) -> Numbers {
        if self.consistency != DecisionSite::Local {
            return self.limit;
        }
        let part = |whole: u32| (whole / self.members).max(1);
        match self.limit {
            Numbers::Bucket { units, seconds, burst } => {
                Numbers::Bucket { units: part(units), seconds, burst: part(burst) }
            }
            Numbers::Window { units, seconds } => Numbers::Window { units: part(units), seconds },
        }
    }

    /// The end of the last disturbance, in seconds; `None` without disturbances.
    pub(crate) fn calm_from(&self) -> Option<u32> {
        let is_long_enough = self.seconds >= Self::CALM_SECONDS + Self::CALM_SECONDS / 4;
        (self.chaos == Chaos::Some && is_long_enough).then(|| self.seconds - Self::CALM_SECONDS)
    }

    /// From when on the limit has to be used in full, in seconds: two lease periods after the
    /// beginning, or after the last disturbance, and a little more.
    pub(crate) fn measured_from(&self) -> u32 {
        let well_again = 12;
        self.calm_from().map_or(well_again, |calm| calm + well_again).min(self.seconds)
    }
}

impl Numbers {
    /// A bucket of so many units a second.
    pub const fn per_second(units: u32, burst: u32) -> Self {
        Self::Bucket { units, seconds: 1, burst }
    }

    /// Units a second in the long run.
    pub fn rate(self) -> f64 {
        let (Self::Bucket { units, seconds, .. } | Self::Window { units, seconds }) = self;
        f64::from(units) / f64::from(seconds)
    }

    /// The most units that can be spent at once.
    pub const fn burst(self) -> u32 {
        match self {
            Self::Bucket { burst, .. } => burst,
            Self::Window { units, .. } => units,
        }
    }

    /// Whether it counts over an hour or more. A quota refuses while the store is silent; any other
    /// limit is then decided by each member alone.
    pub const fn is_quota(self) -> bool {
        let (Self::Bucket { seconds, .. } | Self::Window { seconds, .. }) = self;
        seconds >= 3600
    }
}
