//! One key that Envoys spend, from a seed: the ledger, daemons with remote buckets, an ordinary
//! member, and Envoys as facts say they behave.
//!
//! [`EnvoyBucket`] has the rules of an Envoy's bucket. An Envoy looks for a daemon only at its own
//! tick, and a message that it does not take in time ends its stream.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::super::*;
use super::envoy_bucket::{EnvoyBucket, EnvoyCounts, EnvoyFill, EnvoyOrder, REPORT_EVERY};
use super::world::{Chance, MS, SECOND, START};
use crate::algorithm::Algorithm;
use crate::cost::Cost;
use crate::time::Timestamp;

const STEP: u64 = 10 * MS;
pub(super) const TTL: Duration = Duration::from_secs(10);
const KEY: u64 = 1;

/// The troubles, each in thousandths a second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Troubles {
    /// Envoys stop for up to ten seconds, and go on where they were.
    pub(super) pauses: u64,
    /// Envoys are killed and started anew with the same name.
    pub(super) restarts: u64,
    /// Streams break, and half of the Envoys find no daemon for up to half a minute.
    pub(super) cuts: u64,
    /// Daemons are killed; another run is up after up to three or thirty seconds.
    pub(super) crashes: u64,
    /// The store is away for up to twenty seconds.
    pub(super) silences: u64,
    /// An operator blocks or unblocks the key, or resets it.
    pub(super) acts: u64,
    /// The most that a message takes, in milliseconds.
    pub(super) delay_ms: u64,
    /// How often a message to or from the ledger is lost, in thousandths of messages.
    pub(super) lost: u64,
    /// How far clocks run apart, in thousandths.
    pub(super) drift: u64,
}

#[derive(Debug)]
pub(super) struct Envoy {
    pub(super) name: u64,
    /// Requests in a thousand seconds.
    pub(super) demand: u64,
    due: u64,
    bucket: EnvoyBucket,
    taken_at: u64,
    tick: u64,
    stream: Option<u64>,
    paused_until: u64,
    /// How much longer than others' its messages take, in milliseconds.
    pub(super) slower_ms: u64,
    /// Until when it reaches no daemon.
    isolated_until: u64,
    /// Whether its assignment is what a daemon decided alone.
    is_alone: bool,
    drift: i64,
    pub(super) admitted: u64,
    pub(super) refused: u64,
    /// The time of the last admission, or of the first refusal after one.
    pub(super) refused_since: Option<u64>,
    pub(super) longest_refusal: u64,
}

#[derive(Debug)]
struct Link {
    id: u64,
    envoy: usize,
    daemon: usize,
    run: u64,
    /// Reports on their way to the daemon, and assignments on their way to the Envoy.
    up: VecDeque<(u64, EnvoyCounts)>,
    down: VecDeque<(u64, u64, Assignment, bool)>,
    /// When the daemon learns that the Envoy has taken all that was sent.
    proofs: VecDeque<u64>,
    is_open: bool,
}

pub(super) struct Daemon {
    pub(super) run: u64,
    up_at: u64,
    /// The bucket of each Envoy that has been here.
    pub(super) buckets: Vec<Option<RemoteBucket>>,
    /// An ask in flight of each: its number and when it is given up.
    asks: Vec<Option<(u32, u64)>>,
    drift: i64,
}

#[derive(Clone, Copy, Debug)]
enum Message {
    Ask(Ask),
    Grant(Option<Grant>),
}

#[derive(Clone, Copy, Debug)]
struct Letter {
    at: u64,
    daemon: usize,
    run: u64,
    envoy: usize,
    seq: u32,
    message: Message,
}

pub(super) struct RemoteWorld {
    pub(super) now: u64,
    terms: Arc<Terms>,
    algorithm: Algorithm,
    epoch: Epoch,
    ledger: Ledger,
    pub(super) daemons: Vec<Daemon>,
    pub(super) envoys: Vec<Envoy>,
    links: Vec<Link>,
    letters: Vec<Letter>,
    member: Holder,
    /// Requests in a thousand seconds at the ordinary member.
    pub(super) member_demand: u64,
    member_due: u64,
    pub(super) member_admitted: u64,
    chance: Chance,
    pub(super) troubles: Troubles,
    pub(super) silent_until: u64,
    pub(super) is_blocked: bool,
    level: u128,
    level_at: u64,
    pub(super) highest: u128,
    pub(super) admitted: u64,
    pub(super) calls: u64,
    numbers: u64,
    /// By assignments of daemons that decided alone, which count apart.
    pub(super) admitted_alone: u64,
}

impl RemoteWorld {
    pub(super) fn new(algorithm: Algorithm, envoys: usize, daemons: usize, seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        for _ in 0..16 {
            chance.below(2);
        }
        let start = Timestamp::from_nanos(START);
        let terms = Arc::new(Terms::from_algorithm(&algorithm, start).unwrap());
        let epoch = Epoch { number: 1, began: start, is_after_loss: false };
        let envoys = (0..envoys).map(|index| Envoy {
            name: 1 << 63 | index as u64,
            demand: 0,
            due: 0,
            bucket: EnvoyBucket::new(0),
            taken_at: 0,
            tick: START + chance.below(REPORT_EVERY),
            stream: None,
            paused_until: 0,
            slower_ms: 0,
            isolated_until: 0,
            is_alone: false,
            drift: 0,
            admitted: 0,
            refused: 0,
            refused_since: None,
            longest_refusal: 0,
        });
        let envoys: Vec<_> = envoys.collect();
        let daemons = (0..daemons).map(|index| Daemon {
            run: index as u64 + 1,
            up_at: 0,
            buckets: envoys.iter().map(|_| None).collect(),
            asks: envoys.iter().map(|_| None).collect(),
            drift: 0,
        });
        Self {
            now: START,
            ledger: Ledger::begin(&terms, &epoch),
            terms,
            algorithm,
            epoch,
            daemons: daemons.collect(),
            envoys,
            links: Vec::new(),
            letters: Vec::new(),
            member: Holder::new(1),
            member_demand: 0,
            member_due: START,
            member_admitted: 0,
            chance,
            troubles: Troubles::default(),
            silent_until: 0,
            is_blocked: false,
            level: 0,
            level_at: START,
            highest: 0,
            admitted: 0,
            calls: 0,
            numbers: 100,
            admitted_alone: 0,
        }
    }

    pub(super) fn with(mut self, troubles: Troubles) -> Self {
        self.troubles = troubles;
        let most = i64::try_from(troubles.drift * 1000).unwrap();
        for at in 0..self.envoys.len() {
            let drift = self.chance.below(2 * most.unsigned_abs() + 1).cast_signed() - most;
            (self.envoys[at].drift, self.envoys[at].bucket) = (drift, EnvoyBucket::new(drift));
        }
        for at in 0..self.daemons.len() {
            self.daemons[at].drift = self.chance.below(2 * most.unsigned_abs() + 1).cast_signed() - most;
        }
        self
    }

    /// The same with a mistake built in.
    #[cfg(tidegate_planted_faults)]
    pub(super) fn with_fault(mut self, fault: Fault) -> Self {
        self.terms = Arc::new(Terms::clone(&self.terms).with_fault(fault));
        self
    }

    fn local(&self, drift: i64) -> Timestamp {
        let passed = i128::from(self.now - START);
        let local = i128::from(START) + passed + passed * i128::from(drift) / 1_000_000;
        Timestamp::from_nanos(u64::try_from(local).unwrap())
    }

    /// Units a second.
    pub(super) fn rate(&self) -> u64 {
        self.numbers().0 as u64
    }

    /// Units a second, and the burst.
    fn numbers(&self) -> (u128, u128) {
        match &self.algorithm {
            Algorithm::Bucket(bucket) => (
                u128::from(bucket.rate().units()) * u128::from(SECOND)
                    / u128::from(bucket.rate().per_ns().max(1)),
                bucket.burst().into(),
            ),
            _ => unreachable!("only buckets are held by Envoys"),
        }
    }

    /// Counts an admitted request in a bucket of the limit's rate; how full that bucket ever was.
    fn admit(&mut self) {
        let Algorithm::Bucket(bucket) = &self.algorithm else { unreachable!() };
        let (units, per) = (u128::from(bucket.rate().units()), u128::from(bucket.rate().per_ns()));
        let drained = u128::from(self.now - self.level_at) * units;
        self.level = self.level.saturating_sub(drained) + per;
        self.level_at = self.now;
        self.highest = self.highest.max(self.level.div_ceil(per));
        self.admitted += 1;
    }

    /// The burst and what a tenth of a second brings, with a unit for rounding.
    pub(super) fn bound(&self) -> u128 {
        let (rate, burst) = self.numbers();
        burst + rate.div_ceil(10) + 1
    }

    pub(super) fn run_for(&mut self, span: u64) {
        let end = self.now + span;
        while self.now < end {
            self.now += STEP;
            self.trouble();
            self.carry();
            for envoy in 0..self.envoys.len() {
                self.run_envoy(envoy);
            }
            for daemon in 0..self.daemons.len() {
                self.run_daemon(daemon);
            }
            self.run_member();
        }
    }

    fn happens(&mut self, thousandths_a_second: u64) -> bool {
        thousandths_a_second > 0 && self.chance.below(1000 * SECOND / STEP) < thousandths_a_second
    }

    fn trouble(&mut self) {
        let troubles = self.troubles;
        for envoy in 0..self.envoys.len() {
            if self.happens(troubles.pauses) {
                self.envoys[envoy].paused_until = self.now + self.chance.below(10 * SECOND);
            }
            if self.happens(troubles.restarts) {
                self.restart_envoy(envoy);
            }
        }
        if self.happens(troubles.cuts) {
            let envoy = self.chance.below(self.envoys.len() as u64) as usize;
            let span = [0, 30][self.chance.below(2) as usize];
            let span = self.chance.below(span * SECOND);
            self.isolate(envoy, span);
        }
        for daemon in 0..self.daemons.len() {
            if self.happens(troubles.crashes) {
                let down = [3, 30][self.chance.below(2) as usize];
                let down = self.chance.below(down * SECOND);
                self.crash(daemon, down);
            }
        }
        if self.happens(troubles.silences) {
            self.silent_until = self.now + self.chance.below(20 * SECOND);
        }
        if self.happens(troubles.acts) {
            match self.chance.below(4) {
                0 => self.set_blocked(true),
                1 | 2 => self.set_blocked(false),
                _ => self.reset(),
            }
        }
    }

    pub(super) fn set_blocked(&mut self, is_blocked: bool) {
        self.is_blocked = is_blocked;
        for daemon in 0..self.daemons.len() {
            let now = self.local(self.daemons[daemon].drift);
            for bucket in self.daemons[daemon].buckets.iter_mut().flatten() {
                bucket.set_blocked(is_blocked, now);
            }
        }
    }

    pub(super) fn reset(&mut self) {
        let now = Timestamp::from_nanos(self.now);
        let freed = self.ledger.reset(now, &self.terms, &self.epoch);
        let Algorithm::Bucket(bucket) = &self.algorithm else { unreachable!() };
        let per = u128::from(bucket.rate().per_ns());
        self.level = self.level.saturating_sub(u128::from(freed) * per);
        for daemon in 0..self.daemons.len() {
            let now = self.local(self.daemons[daemon].drift);
            self.daemons[daemon].buckets.iter_mut().flatten().for_each(|bucket| bucket.reset(now));
        }
    }

    /// The store comes back without its data.
    pub(super) fn lose_store(&mut self) {
        let began = Timestamp::from_nanos(self.now);
        self.epoch = Epoch { number: self.epoch.number + 1, began, is_after_loss: true };
        self.ledger = Ledger::begin(&self.terms, &self.epoch);
    }

    /// Whether an Envoy has taken an assignment in this step.
    pub(super) fn has_just_taken(&self, envoy: usize) -> bool {
        self.envoys[envoy].taken_at == self.now
    }

    /// Cuts an Envoy off from all daemons.
    pub(super) fn isolate(&mut self, envoy: usize, span: u64) {
        if let Some(at) = self.links.iter().position(|link| link.envoy == envoy && link.is_open) {
            self.cut(at);
        }
        self.envoys[envoy].isolated_until = self.now + span;
    }

    pub(super) fn restart_envoy(&mut self, envoy: usize) {
        if let Some(at) = self.links.iter().position(|link| link.envoy == envoy && link.is_open) {
            self.cut(at);
        }
        let tick = self.now + self.chance.below(REPORT_EVERY);
        let one = &mut self.envoys[envoy];
        (one.bucket, one.stream) = (EnvoyBucket::new(one.drift), None);
        (one.paused_until, one.tick) = (0, tick);
    }

    pub(super) fn crash(&mut self, daemon: usize, down: u64) {
        for at in 0..self.links.len() {
            if self.links[at].daemon == daemon {
                self.cut(at);
            }
        }
        self.numbers += 1;
        let (run, count) = (self.numbers, self.envoys.len());
        let one = &mut self.daemons[daemon];
        (one.run, one.up_at) = (run, self.now + down);
        one.buckets = (0..count).map(|_| None).collect();
        one.asks = vec![None; count];
    }

    /// Ends a stream; what is on its way is lost.
    fn cut(&mut self, at: usize) {
        let link = &mut self.links[at];
        if !link.is_open {
            return;
        }
        link.is_open = false;
        link.up.clear();
        link.down.clear();
        let (envoy, daemon, run, id) = (link.envoy, link.daemon, link.run, link.id);
        if self.envoys[envoy].stream == Some(id) {
            self.envoys[envoy].stream = None;
        }
        if self.daemons[daemon].run == run
            && let Some(bucket) = &mut self.daemons[daemon].buckets[envoy]
        {
            bucket.closed();
        }
    }

    /// Carries what has arrived.
    fn carry(&mut self) {
        let now = self.now;
        let mut late = Vec::new();
        for at in 0..self.links.len() {
            let link = &self.links[at];
            let oldest = link.down.front().map(|(sent, ..)| *sent);
            let waits = TAKEN_WITHIN.as_nanos() as u64;
            if link.is_open && oldest.is_some_and(|sent| now > sent + waits - waits / 16) {
                late.push(at);
                continue;
            }
            if now < self.envoys[link.envoy].paused_until {
                continue;
            }
            let envoy = link.envoy;
            while let Some((_, arrives, assignment, is_alone)) = self.links[at].down.front().copied() {
                if arrives > now {
                    break;
                }
                self.links[at].down.pop_front();
                self.take(envoy, assignment);
                self.envoys[envoy].is_alone = is_alone;
                if self.links[at].down.is_empty() && !self.chance.in_a_thousand(self.troubles.lost) {
                    let proof = now + 100 * MS + self.chance.below(self.troubles.delay_ms * MS + 1);
                    self.links[at].proofs.push_back(proof);
                }
            }
            while self.links[at].proofs.front().is_some_and(|proof| *proof <= now) {
                self.links[at].proofs.pop_front();
                self.prove(at);
            }
        }
        for at in late {
            self.cut(at);
        }
        self.links.retain(|link| link.is_open);
        for at in 0..self.links.len() {
            while let Some((arrives, report)) = self.links[at].up.front().copied() {
                if arrives > now {
                    break;
                }
                self.links[at].up.pop_front();
                self.hear(at, report);
            }
        }
        let (due, later): (Vec<_>, Vec<_>) =
            core::mem::take(&mut self.letters).into_iter().partition(|letter| letter.at <= now);
        self.letters = later;
        for letter in due {
            self.deliver(letter);
        }
    }

    /// A daemon learns that an Envoy has taken what was sent; not if more has been sent since.
    fn prove(&mut self, link: usize) {
        let Link { envoy, daemon, run, ref down, .. } = self.links[link];
        let now = self.local(self.daemons[daemon].drift);
        if down.is_empty()
            && self.daemons[daemon].run == run
            && let Some(bucket) = &mut self.daemons[daemon].buckets[envoy]
        {
            bucket.taken(now);
        }
    }

    fn deliver(&mut self, letter: Letter) {
        let Letter { daemon, run, envoy, seq, message, .. } = letter;
        match message {
            Message::Ask(ask) => {
                if self.now < self.silent_until {
                    return;
                }
                self.calls += 1;
                let now = Timestamp::from_nanos(self.now);
                let outcome = self.ledger.ask(now, &self.terms, &self.epoch, &ask);
                self.post(daemon, run, envoy, seq, Message::Grant(outcome.grant));
            }
            Message::Grant(grant) => {
                if self.daemons[daemon].run != run
                    || self.daemons[daemon].asks[envoy].is_none_or(|(asked, _)| asked != seq)
                {
                    return;
                }
                self.daemons[daemon].asks[envoy] = None;
                let now = self.local(self.daemons[daemon].drift);
                let Some(bucket) = &mut self.daemons[daemon].buckets[envoy] else { return };
                match grant {
                    Some(grant) => bucket.granted(KEY, &grant, LedgerLevel::default(), now),
                    None => bucket.lost(KEY, now),
                }
            }
        }
    }

    fn post(&mut self, daemon: usize, run: u64, envoy: usize, seq: u32, message: Message) {
        if self.chance.in_a_thousand(self.troubles.lost) {
            return;
        }
        let at = self.now + self.chance.below(self.troubles.delay_ms.min(400) * MS + 1);
        self.letters.push(Letter { at, daemon, run, envoy, seq, message });
    }

    /// An Envoy takes an assignment.
    fn take(&mut self, envoy: usize, assignment: Assignment) {
        let one = &mut self.envoys[envoy];
        one.taken_at = self.now;
        let order = match assignment {
            Assignment::Bucket(TokenBucket { max_tokens, tokens_per_fill, interval_s }, ttl) => {
                EnvoyOrder::Fill(EnvoyFill { max_tokens, tokens_per_fill, interval_s }, ttl)
            }
            Assignment::Deny(ttl) => EnvoyOrder::Deny(ttl),
            Assignment::Abandon => EnvoyOrder::Abandon,
        };
        one.bucket.obey(order, self.now);
    }

    fn run_envoy(&mut self, envoy: usize) {
        let now = self.now;
        if now < self.envoys[envoy].paused_until {
            return;
        }
        let demand = self.envoys[envoy].demand;
        let demand = if demand == 0 { 0 } else { demand.max(1) };
        while demand > 0 && self.envoys[envoy].due <= now {
            let one = &mut self.envoys[envoy];
            one.due = one.due.max(now.saturating_sub(STEP)) + 1000 * SECOND / demand;
            if one.bucket.admits(now) {
                one.admitted += 1;
                one.refused_since = None;
                if one.is_alone {
                    self.admitted_alone += 1;
                } else {
                    self.admit();
                }
            } else {
                one.refused += 1;
                let since = *one.refused_since.get_or_insert(now);
                one.longest_refusal = one.longest_refusal.max(now - since);
            }
        }
        let is_tick = now >= self.envoys[envoy].tick;
        if is_tick {
            self.envoys[envoy].tick = now + REPORT_EVERY;
        }
        let bucket = &self.envoys[envoy].bucket;
        if !bucket.is_known() || !(is_tick || bucket.is_new()) {
            return;
        }
        if self.envoys[envoy].stream.is_none() && !self.connect(envoy) {
            self.envoys[envoy].bucket.lose_report(now);
            return;
        }
        let id = self.envoys[envoy].stream;
        let delay = self.chance.below(self.troubles.delay_ms * MS + 1);
        let report = self.envoys[envoy].bucket.report(now);
        if let Some(link) = self.links.iter_mut().find(|link| Some(link.id) == id) {
            let after = link.up.back().map_or(0, |(arrives, _)| *arrives);
            link.up.push_back(((now + delay).max(after), report));
        }
    }

    /// Opens a stream to a daemon that is up; whether there is one.
    fn connect(&mut self, envoy: usize) -> bool {
        let up: Vec<_> = (0..self.daemons.len()).filter(|at| self.daemons[*at].up_at <= self.now).collect();
        if up.is_empty() || self.envoys[envoy].isolated_until > self.now {
            return false;
        }
        let daemon = up[self.chance.below(up.len() as u64) as usize];
        self.numbers += 1;
        let (id, run) = (self.numbers, self.daemons[daemon].run);
        let now = self.local(self.daemons[daemon].drift);
        match &mut self.daemons[daemon].buckets[envoy] {
            Some(bucket) => bucket.opened(now),
            None => self.add_bucket(envoy, daemon),
        }
        self.envoys[envoy].stream = Some(id);
        let (up, down, proofs) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        self.links.push(Link { id, envoy, daemon, run, up, down, proofs, is_open: true });
        true
    }

    /// A daemon has nothing of an Envoy, or nothing any more.
    fn add_bucket(&mut self, envoy: usize, daemon: usize) {
        self.numbers += 1;
        let name =
            HolderName { member: self.envoys[envoy].name, incarnation: u32::try_from(self.numbers).unwrap() };
        let now = self.local(self.daemons[daemon].drift);
        let mut bucket = RemoteBucket::new(name, TTL, now);
        bucket.set_limits(&[(KEY, Arc::clone(&self.terms))], now);
        bucket.set_blocked(self.is_blocked, now);
        self.daemons[daemon].buckets[envoy] = Some(bucket);
    }

    /// A daemon hears a report.
    fn hear(&mut self, link: usize, counts: EnvoyCounts) {
        let Link { envoy, daemon, .. } = self.links[link];
        if self.daemons[daemon].buckets[envoy].is_none() {
            self.add_bucket(envoy, daemon);
        }
        let now = self.local(self.daemons[daemon].drift);
        if let Some(bucket) = &mut self.daemons[daemon].buckets[envoy] {
            let EnvoyCounts { allowed, denied, elapsed_s } = counts;
            bucket.report(allowed, denied, Duration::from_secs(elapsed_s), now);
        }
    }

    fn run_daemon(&mut self, daemon: usize) {
        if self.now < self.daemons[daemon].up_at {
            return;
        }
        let now = self.local(self.daemons[daemon].drift);
        let (run, members) = (self.daemons[daemon].run, u32::try_from(self.daemons.len()).unwrap());
        for envoy in 0..self.envoys.len() {
            if self.daemons[daemon].asks[envoy].is_some_and(|(_, until)| until <= self.now) {
                self.daemons[daemon].asks[envoy] = None;
                if let Some(bucket) = &mut self.daemons[daemon].buckets[envoy] {
                    bucket.lost(KEY, now);
                }
            }
            let Some(bucket) = &mut self.daemons[daemon].buckets[envoy] else { continue };
            if bucket.is_over(now) {
                self.daemons[daemon].buckets[envoy] = None;
                continue;
            }
            let step = bucket.step(members, now);
            let is_alone = bucket.is_alone();
            for (_, ask) in step.asks {
                if !ask.is_leaving {
                    self.daemons[daemon].asks[envoy] = Some((ask.seq, self.now + SECOND));
                }
                self.post(daemon, run, envoy, ask.seq, Message::Ask(ask));
            }
            let sent = self.now;
            for assignment in step.tell {
                let delay = self.chance.below(self.troubles.delay_ms * MS + 1);
                let delay = delay + self.envoys[envoy].slower_ms * MS;
                let link = self.links.iter_mut().find(|link| {
                    link.envoy == envoy && link.daemon == daemon && link.run == run && link.is_open
                });
                let Some(link) = link else { continue };
                let after = link.down.back().map_or(0, |(_, arrives, ..)| *arrives);
                link.down.push_back((sent, (sent + delay).max(after), assignment, is_alone));
            }
        }
    }

    /// The ordinary member takes its requests from its lease, with a store that answers at once.
    fn run_member(&mut self) {
        let now = Timestamp::from_nanos(self.now);
        while self.member_demand > 0 && self.member_due <= self.now {
            self.member_due += 1000 * SECOND / self.member_demand;
            for attempt in 0..4 {
                match self.member.take(&self.terms, Cost::ONE, attempt, now) {
                    Take::Taken { renew } => {
                        self.member_admitted += 1;
                        self.admit();
                        if renew {
                            self.ask_member(0);
                        }
                        break;
                    }
                    Take::Ask => {
                        if self.ask_member(1) > 0 {
                            self.member.charge(&self.terms, Cost::ONE, now);
                            self.member_admitted += 1;
                            self.admit();
                            break;
                        }
                    }
                    _ => break,
                }
            }
        }
        if self.member.wake_at().is_some_and(|at| at <= now) && self.member.poll_due(&self.terms, now) {
            self.ask_member(0);
        }
    }

    fn ask_member(&mut self, need: u64) -> u64 {
        let now = Timestamp::from_nanos(self.now);
        let Some(ask) = self.member.ask(&self.terms, 7, need, now) else { return 0 };
        if self.now < self.silent_until {
            self.member.lost(now);
            return 0;
        }
        let grant = self.ledger.ask(now, &self.terms, &self.epoch, &ask).grant.unwrap();
        let used = self.ledger.used(now, &self.terms);
        let level = LedgerLevel { used, reset_in: Duration::from_secs(1) };
        self.member.granted(&self.terms, &grant, level, now)
    }
}
