//! The smallest world: two parties that exchange messages over a network that loses, repeats and
//! delays them. It uses every part of the kit and nothing else.
//!
//! One party sends numbered deposits and repeats a deposit until the other has acknowledged it; the
//! other adds up deposits and ignores repetitions. The checker knows what was deposited and what
//! was acknowledged, and nothing of how.

use std::collections::BTreeSet;

use super::*;

const SENDER: PartyId = 0;
const BANK: PartyId = 1;
const DEPOSITS: u64 = 300;
const DEADLINE: u64 = 20 * MS;
/// Deposits that wait for an acknowledgement at once; further ones wait in the room.
const UNDER_WAY: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Deposit {
    number: u64,
    amount: u64,
}

impl CallOrigin for Deposit {
    type Message = Self;

    fn message(&self) -> &Self {
        self
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Made(Deposit),
    Arrives(CallName),
    Acknowledged(CallName),
    Begins(PartyId),
    Ends(PartyId),
    Calm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Broken {
    /// The balance is more than was deposited.
    TooMuch,
    /// An acknowledged deposit is not in the balance.
    Forgotten,
    /// A deposit was not acknowledged by the end.
    Unanswered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    RepetitionsCount,
    AcknowledgedBeforeAdded,
}

struct Bank {
    queue: EventQueue<Event>,
    calls: Calls<Deposit>,
    network: Network,
    clock: Clock,
    room: Room<Deposit>,
    under_way: usize,
    mistake: Option<Mistake>,
    /// The state of the bank.
    balance: u64,
    seen: BTreeSet<u64>,
    /// The view of the checker.
    deposited: u64,
    acknowledged: BTreeSet<u64>,
    findings: Findings<Broken, (Broken, u64)>,
    delays: Delays,
    sent: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq)]
struct Account {
    balance: u64,
    broken: Vec<(Broken, u64)>,
    median_us: u64,
    bank_time_ms: u64,
}

impl Bank {
    fn new(seed: u64, mistake: Option<Mistake>) -> Self {
        let mut queue = EventQueue::new(MS);
        let mut deposits = Chance::new(seed, 1);
        let law = Zipf::new(100, 1.0);
        let mut at = 0;
        for number in 0..DEPOSITS {
            at += deposits.gap(5e6);
            queue.plan(at, Event::Made(Deposit { number, amount: 1 + u64::from(law.draw(&mut deposits)) }));
        }
        let mut troubles = Chance::new(seed, 2);
        let mut cuts = |party| {
            disturbance::sequence(&mut troubles, 30 * SECOND, |chance| (party, chance.between(10, 500) * MS))
        };
        for one in disturbance::side_by_side([cuts(SENDER), cuts(BANK)]) {
            queue.plan(one.from, Event::Begins(one.trouble));
            queue.plan(one.until, Event::Ends(one.trouble));
        }
        queue.plan(31 * SECOND, Event::Calm);
        let mut link = Chance::new(seed, 3);
        let quality = LinkQuality::drawn(&mut link, 2 * DEADLINE);
        let mut network = Network::new(link, 2, quality);
        network.slow_down(BANK, DEADLINE);
        Self {
            queue,
            calls: Calls::new(DEADLINE),
            network,
            clock: Clock::drawn(&mut Chance::new(seed, 4)),
            room: Room::default(),
            under_way: 0,
            mistake,
            balance: 0,
            seen: BTreeSet::new(),
            deposited: 0,
            acknowledged: BTreeSet::new(),
            findings: Findings::default(),
            delays: Delays::new(),
            sent: vec![0; DEPOSITS as usize],
        }
    }

    fn run(mut self) -> Account {
        let mut now = 0;
        loop {
            let event_at = self.queue.next_at();
            let deadline_at = self.calls.next_deadline();
            let Some(at) = event_at.into_iter().chain(deadline_at).min() else { break };
            assert!(at >= now, "time stands or goes on");
            now = at;
            if event_at == Some(at) {
                let (_, event) = self.queue.pop().expect("it has just been seen");
                self.happen(event, now);
            } else if let Some(name) = self.calls.pop_deadline()
                && let Some(call) = self.calls.end(name)
            {
                assert_eq!((call.party, call.run), (SENDER, 1));
                self.call(call.origin, now);
            }
        }
        for number in (0..DEPOSITS).filter(|number| !self.acknowledged.contains(number)) {
            self.findings.add(Broken::Unanswered, || (Broken::Unanswered, number));
        }
        Account {
            balance: self.balance,
            broken: self.findings.into_kept(),
            median_us: self.delays.quantile(500) / 1000,
            bank_time_ms: (self.clock.at(now).as_nanos() - WORLD_BEGIN) / MS,
        }
    }

    fn happen(&mut self, event: Event, now: u64) {
        match event {
            Event::Made(deposit) => {
                self.deposited += deposit.amount;
                self.sent[deposit.number as usize] = now;
                self.room.enter(deposit);
                self.let_in(now);
            }
            Event::Arrives(name) => {
                let Some((_, deposit)) = self.calls.message(name) else { return };
                self.take(*deposit);
                for at in self.network.send(BANK, SENDER, now).into_iter().flatten() {
                    self.queue.plan(at, Event::Acknowledged(name));
                }
                self.calls.landed(name);
            }
            Event::Acknowledged(name) => {
                let Some(call) = self.calls.end(name) else { return };
                let number = call.origin.number;
                self.acknowledged.insert(number);
                self.delays.add(now - self.sent[number as usize]);
                if !self.seen.contains(&number) {
                    self.findings.add(Broken::Forgotten, || (Broken::Forgotten, number));
                }
                self.under_way -= 1;
                self.let_in(now);
            }
            Event::Begins(party) => self.network.cut(party, true),
            Event::Ends(party) => self.network.cut(party, false),
            Event::Calm => self.network.calm_down(),
        }
    }

    /// Sends deposits that wait, as long as there is room on the way.
    fn let_in(&mut self, now: u64) {
        if self.under_way == UNDER_WAY {
            return;
        }
        for deposit in self.room.begin_round(Vec::new()) {
            if self.under_way < UNDER_WAY {
                self.under_way += 1;
                self.call(deposit, now);
            } else {
                self.room.enter(deposit);
            }
        }
    }

    fn call(&mut self, deposit: Deposit, now: u64) {
        let copies = self.network.send(SENDER, BANK, now);
        let count = copies.iter().flatten().count() as u32;
        let name = self.calls.begin(SENDER, 1, deposit, count, now);
        copies.into_iter().flatten().for_each(|at| self.queue.plan(at, Event::Arrives(name)));
    }

    /// The bank receives a deposit.
    fn take(&mut self, deposit: Deposit) {
        let is_first = match self.mistake {
            Some(Mistake::AcknowledgedBeforeAdded) if deposit.number.is_multiple_of(7) => false,
            _ => self.seen.insert(deposit.number),
        };
        if is_first || self.mistake == Some(Mistake::RepetitionsCount) {
            self.balance += deposit.amount;
        }
        if self.balance > self.deposited {
            self.findings.add(Broken::TooMuch, || (Broken::TooMuch, deposit.number));
        }
    }
}

fn failed(mistake: Option<Mistake>) -> FailedSeeds<Account> {
    Seeds::new(0, 20).run(5, |seed| {
        let account = Bank::new(seed, mistake).run();
        (!account.broken.is_empty()).then_some(account)
    })
}

#[test]
fn a_world_of_two_parties_is_made_of_the_kit_alone_and_nothing_is_lost_in_it() {
    let failed = failed(None);
    assert_eq!(failed.total(), 0, "{:?}", failed.into_kept());
    let account = Bank::new(3, None).run();
    assert!(account.balance > DEPOSITS && account.median_us > 10_000, "{account:?}");
    assert!(account.bank_time_ms > 30_000, "{account:?}");
}

#[test]
fn the_same_seed_gives_the_same_world_and_another_seed_another() {
    assert_eq!(Bank::new(3, None).run(), Bank::new(3, None).run());
    assert_ne!(Bank::new(3, None).run(), Bank::new(4, None).run());
}

#[test]
fn mistakes_of_the_bank_are_found_by_the_rule_that_they_break() {
    for (mistake, rule) in
        [(Mistake::RepetitionsCount, Broken::TooMuch), (Mistake::AcknowledgedBeforeAdded, Broken::Forgotten)]
    {
        let failed = failed(Some(mistake));
        let broken: Vec<_> = failed.kept().flat_map(|account| &account.broken).collect();
        assert!(!broken.is_empty() && broken.iter().all(|(broken, _)| *broken == rule), "{broken:?}");
    }
}

#[test]
fn a_chart_has_its_title_its_lines_and_its_shade() {
    let line = ChartLine { name: "balance", shade: Shade::Measured, points: vec![(0.0, 0.0), (9.0, 7.0)] };
    let chart = Chart { title: "A bank".to_owned(), end: 9.0, lines: vec![line], shaded: vec![(1.0, 2.0)] };
    let svg = chart.draw().unwrap();
    assert!(svg.contains("A bank") && svg.contains("balance") && svg.contains("#F0E442"), "{svg}");
}
