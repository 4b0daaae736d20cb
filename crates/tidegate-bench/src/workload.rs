//! The workload: keys, their popularity, limits and the clock.

use std::time::Duration;

use tidegate_clock::{Clock as _, SystemClock};
use tidegate_core::algorithm::Bucket;
use tidegate_core::{Algorithm, Limit, Rate, TableConfig, Timestamp};
use tidegate_store::conformance::Random;

/// Distinct session keys of the large scenarios.
pub const SESSIONS: usize = 1_000_000;
/// Distinct users; each has four sessions.
pub const USERS: usize = SESSIONS / 4;
/// Distinct API keys.
pub const API_KEYS: usize = 1_000;
/// Requests drawn in advance; a power of two, gone through in a circle.
pub const DRAWS: usize = 1 << 21;
/// The seed of every table and every draw: a run can be repeated.
pub const SEED: [u64; 4] = [0x746f, 0x6265, 0x6d65, 0x6173];

/// The clock of the library's users, moved so that every run begins at one instant.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    clock: &'static SystemClock,
    started: Timestamp,
}

impl Clock {
    /// A clock that stands at the same instant in every run and runs from now.
    pub fn start() -> Self {
        // A clock of a measurement is never freed.
        let clock: &SystemClock = Box::leak(Box::default());
        Self { clock, started: clock.now() }
    }

    /// Reads the clock.
    #[inline]
    pub fn now(&self) -> Timestamp {
        let since = self.clock.now().as_nanos() - self.started.as_nanos();
        Timestamp::from_nanos(START.as_nanos() + since)
    }
}

/// The instant at which every run starts.
pub const START: Timestamp = Timestamp::from_secs(1_800_000_000);

/// A key of 20 characters.
pub fn key(number: usize) -> String {
    format!("session-{number:012}")
}

/// `count` keys of 20 characters, each in memory of its own as a request's would be.
pub fn keys(count: usize) -> Vec<String> {
    (0..count).map(key).collect()
}

/// [`DRAWS`] numbers below `count` after Zipf's law with exponent 1, 0 being the most popular. Keys
/// made in this order lie in memory with the popular ones together: a service has just parsed its
/// key and finds it in a cache, so reading keys should cost little here too.
pub fn zipf(count: usize, seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed);
    // From 0 to below 1.
    let mut unit = || (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    let mut sum = 0.0;
    let cumulative: Vec<f64> = (1..=count)
        .map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        })
        .collect();
    (0..DRAWS)
        .map(|_| {
            let point = unit() * sum;
            cumulative.partition_point(|&up_to| up_to <= point).min(count - 1) as u32
        })
        .collect()
}

/// [`DRAWS`] numbers below `count`, each as likely as any other.
pub fn uniform(count: usize, seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed);
    (0..DRAWS).map(|_| (random.next_u64() % count as u64) as u32).collect()
}

/// A bucket that never runs empty and never drains: a million a second with room for a thousand
/// seconds.
pub fn endless() -> Algorithm {
    bucket(Rate::per_second(1_000_000).expect("a million a second is a rate"), 1_000_000_000)
}

/// A bucket that is empty after ten: ten a minute.
pub fn tight() -> Algorithm {
    bucket(Rate::per_minute(1).expect("one a minute is a rate"), 10)
}

fn bucket(rate: Rate, burst: u64) -> Algorithm {
    Algorithm::Bucket(Bucket::new(rate, burst).expect("fits 366 days"))
}

/// Limits by API key, user and session that never refuse.
pub fn three_limits() -> [Limit; 3] {
    [("per-api-key", "api_key"), ("per-user", "user"), ("per-session", "session")]
        .map(|(name, key)| Limit::new(name, endless()).key([key]))
}

/// The attributes of [`eight_limits`].
pub const EIGHT_NAMES: [&str; 8] =
    ["api_key", "user", "session", "tenant", "address", "route", "method", "device"];

/// Limits by eight attributes that never refuse.
pub fn eight_limits() -> [Limit; 8] {
    EIGHT_NAMES.map(|name| Limit::new(format!("per-{name}"), endless()).key([name]))
}

/// A table of `bytes` in which nothing is set aside for rings.
pub fn table_of_words(bytes: usize) -> TableConfig {
    let mut config = TableConfig::seeded(SEED);
    (config.bytes, config.ring_share_percent) = (bytes, 0);
    config
}

/// Sessions with their users and API keys, and the order in which they come.
#[derive(Debug)]
pub struct Visitors {
    /// API keys by user number.
    pub api_keys: Vec<String>,
    /// Users by session number divided by four.
    pub users: Vec<String>,
    /// Sessions.
    pub sessions: Vec<String>,
    /// Session numbers in the order of requests.
    pub order: Vec<u32>,
}

impl Visitors {
    /// A million sessions of 250 thousand users behind a thousand API keys, by Zipf's law.
    pub fn new() -> Self {
        Self {
            api_keys: (0..API_KEYS).map(|number| format!("api-key-{number:012}")).collect(),
            users: (0..USERS).map(|number| format!("user----{number:012}")).collect(),
            sessions: keys(SESSIONS),
            order: zipf(SESSIONS, SEED[0]),
        }
    }

    /// The API key, user and session of the request with this number.
    #[inline]
    pub fn request(&self, index: usize) -> [&str; 3] {
        self.of_session(self.order[index % DRAWS] as usize)
    }

    /// The same as owned strings, for those who take nothing else.
    #[inline]
    pub fn strings(&self, index: usize) -> [&String; 3] {
        self.strings_of(self.order[index % DRAWS] as usize)
    }

    /// The API key, user and session of a session by its number.
    #[inline]
    pub fn of_session(&self, session: usize) -> [&str; 3] {
        self.strings_of(session).map(String::as_str)
    }

    /// The same as owned strings.
    #[inline]
    pub fn strings_of(&self, session: usize) -> [&String; 3] {
        let user = session / 4;
        [&self.api_keys[user % API_KEYS], &self.users[user], &self.sessions[session]]
    }
}

impl Default for Visitors {
    fn default() -> Self {
        Self::new()
    }
}

/// A second as the span of limits here.
pub const SECOND: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_twenty_characters() {
        assert!(keys(3).iter().all(|key| key.len() == 20));
        assert_eq!(key(999_999_999_999).len(), 20);
    }

    #[test]
    fn the_most_popular_of_a_hundred_is_drawn_about_a_fifth_of_the_time() {
        let mut counts = [0_u32; 100];
        for name in zipf(100, 1) {
            counts[name as usize] += 1;
        }
        counts.sort_unstable();
        // The hundredth harmonic number is 5.187.
        let share = f64::from(counts[99]) / DRAWS as f64;
        assert!((share - 1.0 / 5.187).abs() < 0.002, "{share}");
        assert!(counts[0] > 0);
    }
}
