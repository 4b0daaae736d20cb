//! Leases of one table under random load: a ledger and eight holders of `tidegate-core`, whose
//! messages are late or lost. Each grant and each spent token is judged (I9).

use core::time::Duration;

use tidegate_capacity::Units;
use tidegate_core::{Algorithm, Cost, Rate, Timestamp};
use tidegate_sim::invariants::{LeaseChecker, LeaseGrant, LeaseTerms, Violations};

use super::random_store::SeededDraws;
use tidegate_core::lease::{Ask, Epoch, Grant, Holder, HolderName, Ledger, LedgerLevel, Take, Terms};

const HOLDERS: usize = 8;
/// Units a second, and the units that the ledger holds.
const RATE: u64 = 1000;
/// The time after which no answer is expected any more.
const PATIENCE: Duration = Duration::from_millis(400);

/// A message under way.
enum Message {
    Ask(Ask),
    Grant(Grant),
}

/// A table and its holders.
struct LeasedTable {
    terms: Terms,
    epoch: Epoch,
    ledger: Ledger,
    holders: Vec<(Holder, Option<Timestamp>)>,
    /// With the instant at which each arrives, and the position of the holder.
    messages: Vec<(Timestamp, usize, Message)>,
    /// The thousandths a second that the ledger has granted each holder last, and until when.
    trickles: [(i64, Timestamp); HOLDERS],
    checker: LeaseChecker,
    draws: SeededDraws,
    now: Timestamp,
    spent: u64,
}

/// The violations of twenty seconds, and the units that were spent.
pub(crate) fn leased_run(seed: u64) -> (Violations, u64) {
    let mut table = LeasedTable::new(seed);
    for _ in 0..10_000 {
        table.now = table.now.saturating_add(Duration::from_millis(2));
        table.step();
    }
    (table.checker.violations().clone(), table.spent)
}

impl LeasedTable {
    fn new(seed: u64) -> Self {
        let now = Timestamp::from_secs(1_795_210_800);
        let algorithm = Algorithm::bucket(Rate::per_second(RATE).expect("not zero")).expect("in range");
        let terms = Terms::from_algorithm(&algorithm, now).expect("buckets can be lent");
        let epoch = Epoch { number: 1, began: now, is_after_loss: false };
        let units = Units::whole(RATE);
        let ttl_ns_max = terms.period().as_nanos() as u64;
        let of_table = LeaseTerms { rate: units, depth: units, ttl_ns_max, drift_ns: 0 };
        Self {
            ledger: Ledger::begin(&terms, &epoch),
            terms,
            epoch,
            holders: (0..HOLDERS).map(|_| (Holder::new(1), None)).collect(),
            messages: Vec::new(),
            trickles: [(0, now); HOLDERS],
            checker: LeaseChecker::new(of_table),
            draws: SeededDraws(seed),
            now,
            spent: 0,
        }
    }

    fn step(&mut self) {
        while let Some(due) = self.messages.iter().position(|(at, ..)| *at <= self.now) {
            let (_, index, message) = self.messages.swap_remove(due);
            match message {
                Message::Ask(ask) => self.answer(index, &ask),
                Message::Grant(grant) => {
                    let (holder, asked) = &mut self.holders[index];
                    *asked = None;
                    let units = holder.granted(&self.terms, &grant, LedgerLevel::default(), self.now);
                    self.spend(index, units);
                }
            }
        }
        for index in 0..HOLDERS {
            let (holder, asked) = &mut self.holders[index];
            if asked.is_some_and(|asked| asked.saturating_add(PATIENCE) <= self.now) {
                *asked = None;
                holder.lost(self.now);
            }
            if holder.wake_at().is_some_and(|at| at <= self.now) && holder.poll_due(&self.terms, self.now) {
                self.ask(index, 0);
            }
        }
        // Load comes and goes at each holder, beyond the rate of all of them together.
        let second = self.now.as_nanos() / 3_000_000_000;
        let index = self.draws.below(HOLDERS as u64) as usize;
        if !(second + index as u64).is_multiple_of(3) {
            let units = 1 + self.draws.below(32);
            self.take(index, units);
        }
    }

    fn take(&mut self, index: usize, units: u64) {
        let cost = Cost::new(units).expect("not zero");
        match self.holders[index].0.take(&self.terms, cost, 0, self.now) {
            Take::Taken { renew } => {
                self.spend(index, units);
                if renew {
                    self.ask(index, 0);
                }
            }
            Take::Ask => self.ask(index, units),
            Take::Wait { renew: true, .. } => self.ask(index, 0),
            _ => {}
        }
    }

    fn spend(&mut self, index: usize, units: u64) {
        if units > 0 {
            self.spent += units;
            self.checker.spend(index as u64, Units::whole(units), self.now);
        }
    }

    fn ask(&mut self, index: usize, need: u64) {
        let (holder, asked) = &mut self.holders[index];
        if let Some(ask) = holder.ask(&self.terms, index as u64, need, self.now) {
            *asked = Some(self.now);
            self.send(index, Message::Ask(ask));
        }
    }

    /// One of fifty messages is lost; the others take up to a tenth of a second.
    fn send(&mut self, index: usize, message: Message) {
        let delay = Duration::from_millis(self.draws.below(100));
        if self.draws.below(50) > 0 {
            self.messages.push((self.now.saturating_add(delay), index, message));
        }
    }

    fn answer(&mut self, index: usize, ask: &Ask) {
        assert_eq!(ask.holder, HolderName { member: index as u64, incarnation: 1 });
        let outcome = self.ledger.ask(self.now, &self.terms, &self.epoch, ask);
        let Some(grant) = outcome.grant else { return };
        if !grant.ttl.is_zero() {
            let each_second = i64::from(grant.rate) * 1000 / self.terms.period().as_secs().cast_signed();
            let until = self.now.saturating_add(grant.ttl);
            // The holder goes on as before until the answer arrives, which may be never.
            let (former, ends) = core::mem::replace(&mut self.trickles[index], (each_second, until));
            let under_way = ends.saturating_since(self.now).as_millis() as i64 * former / 1000;
            self.checker.grant(&LeaseGrant {
                holder: index as u64,
                epoch: grant.epoch,
                held: Units::whole(grant.held.into()),
                granted: Units::whole(grant.lump.into()) + Units::from_thousandths(under_way),
                trickle: Units::from_thousandths(each_second),
                at: self.now,
                until,
            });
        }
        self.send(index, Message::Grant(grant));
    }
}

#[test]
fn leases_of_a_table_are_within_its_rate_and_depth_under_random_load() {
    for seed in 0..20 {
        let (violations, spent) = leased_run(seed);
        assert_eq!(violations.kept(), [], "seed {seed}");
        // Twenty seconds of the rate; less while tokens wait where nothing is asked for.
        assert!(spent > 10_000, "{spent}");
    }
}
