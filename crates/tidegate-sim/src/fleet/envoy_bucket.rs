//! A bucket at an Envoy with the rate limit quota filter, as Envoy 1.40 was seen to behave.
//!
//! The Envoy reports a new bucket at once and all buckets every five seconds. An assignment is in
//! force when it arrives, and its time to live counts from then by the Envoy's own clock. The
//! filling is kept in proportion when the token bucket changes, and begins full after a denial and
//! after an assignment has ended. A change of the interval alone is not noticed. Without an
//! assignment in force everything is denied, as the configurations in the documentation say.
//!
//! The tests of the lease protocol include this file, so that these rules are written once.
//! For their sake it uses nothing of this crate or of any other.

/// Nanoseconds between two reports of an Envoy on all its buckets.
pub(crate) const REPORT_EVERY: u64 = 5 * SECOND;

const SECOND: u64 = 1_000_000_000;

/// The order to an Envoy for a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EnvoyOrder {
    /// Admit by this token bucket for so many seconds.
    Fill(EnvoyFill, u32),
    /// Deny for so many seconds.
    Deny(u32),
    /// Forget the bucket.
    Abandon,
}

/// The numbers of a token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EnvoyFill {
    pub(crate) max_tokens: u32,
    pub(crate) tokens_per_fill: u32,
    pub(crate) interval_s: u32,
}

/// The counts of a bucket since its report before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct EnvoyCounts {
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    /// Whole seconds since the report before; 0 in the first report.
    pub(crate) elapsed_s: u64,
}

/// The bucket. Times are true times in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EnvoyBucket {
    order: InForce,
    ends: u64,
    is_known: bool,
    counts: EnvoyCounts,
    /// When it was reported last; `None` before its first report.
    reported: Option<u64>,
    /// How much the Envoy's clock runs ahead, in millionths.
    drift: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum InForce {
    Nothing,
    Denial,
    /// `level` is in tokens by the nanosecond.
    Filling {
        fill: EnvoyFill,
        level: u128,
        at: u64,
    },
}

impl EnvoyBucket {
    /// A bucket that the Envoy does not know yet.
    pub(crate) fn new(drift: i64) -> Self {
        let counts = EnvoyCounts::default();
        Self { order: InForce::Nothing, ends: 0, is_known: false, counts, reported: None, drift }
    }

    /// Whether the Envoy has the bucket in its reports.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known
    }

    /// Whether it is to be reported at once, as a request has just made it known.
    pub(crate) fn is_new(&self) -> bool {
        self.is_known && self.reported.is_none()
    }

    /// A request at `now`; whether the Envoy admits it.
    pub(crate) fn admits(&mut self, now: u64) -> bool {
        self.refill(now);
        self.is_known = true;
        if let InForce::Filling { level, .. } = &mut self.order
            && *level >= u128::from(SECOND)
        {
            *level -= u128::from(SECOND);
            self.counts.allowed += 1;
            return true;
        }
        self.counts.denied += 1;
        false
    }

    /// The Envoy is told something.
    pub(crate) fn obey(&mut self, order: EnvoyOrder, now: u64) {
        self.refill(now);
        if !self.is_known {
            return;
        }
        let ttl = match order {
            EnvoyOrder::Abandon => return *self = Self::new(self.drift),
            EnvoyOrder::Deny(ttl) => {
                self.order = InForce::Denial;
                ttl
            }
            EnvoyOrder::Fill(fill, ttl) => {
                let most = u128::from(fill.max_tokens);
                self.order = match self.order {
                    InForce::Filling { fill: old, level, at } => {
                        let is_same =
                            old.max_tokens == fill.max_tokens && old.tokens_per_fill == fill.tokens_per_fill;
                        let level = level * most / u128::from(old.max_tokens);
                        InForce::Filling { fill: if is_same { old } else { fill }, level, at }
                    }
                    InForce::Nothing | InForce::Denial => {
                        InForce::Filling { fill, level: most * u128::from(SECOND), at: now }
                    }
                };
                ttl
            }
        };
        let lasts = i128::from(ttl) * i128::from(SECOND);
        let lasts = lasts - lasts * i128::from(self.drift) / 1_000_000;
        self.ends = now + u64::try_from(lasts).expect("a clock runs by far less than twice as fast");
    }

    /// The report that is made now.
    pub(crate) fn report(&mut self, now: u64) -> EnvoyCounts {
        let elapsed_s = self.reported.map_or(0, |reported| (now - reported) / SECOND);
        self.reported = Some(now);
        EnvoyCounts { elapsed_s, ..core::mem::take(&mut self.counts) }
    }

    /// The report that is due now finds no stream: its counts are lost.
    pub(crate) fn lose_report(&mut self, now: u64) {
        self.counts = EnvoyCounts::default();
        self.reported.get_or_insert(now);
    }

    /// Brings the bucket to `now`.
    fn refill(&mut self, now: u64) {
        if now >= self.ends {
            self.order = InForce::Nothing;
        }
        if let InForce::Filling { fill, level, at } = &mut self.order {
            let passed = i128::from(now - *at);
            let passed = passed + passed * i128::from(self.drift) / 1_000_000;
            let passed = u128::try_from(passed).expect("a clock never runs backwards here");
            let more = passed * u128::from(fill.tokens_per_fill) / u128::from(fill.interval_s);
            *level = (*level + more).min(u128::from(fill.max_tokens) * u128::from(SECOND));
            *at = now;
        }
    }
}
