//! Own ledgers with holders outside of this process.

use core::time::Duration;

use tidegate_core::lease::Take;
use tidegate_core::lease::{Holder, HolderName, Terms};
use tidegate_core::{Algorithm, Limit, Rate};

use super::*;
use crate::leases::flight::Flight;
use crate::leases::lease_batch::DueAsk;
use crate::leases::{LeaseSubject, TermsId};
use crate::{Decision, Engine, EngineConfig, NamespaceConfig, Request, Step};

const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);
const ADA: [(&str, &str); 1] = [("user", "ada")];

fn engine(units: u64) -> Engine {
    let algorithm = Algorithm::bucket(Rate::per_second(units).unwrap()).unwrap();
    let limit = Limit::new("rate", algorithm).key(["user"]).lendable();
    let mut config = EngineConfig::seeded([1, 2, 3, 4]);
    config.table.bytes = 1 << 20;
    Engine::builder(config).namespace(NamespaceConfig::new("api", [limit])).build().unwrap()
}

fn lent(engine: &Engine) -> Engine {
    engine.with_lent("api").unwrap().expect("it was not lent before")
}

fn admits(engine: &Engine, now: Timestamp) -> bool {
    let step = engine.admit(&Request::new("api", &ADA), now).unwrap();
    matches!(step, Step::Decided(Decision::Admit(_)))
}

/// The key of the user, as a holder asks about it.
fn key(engine: &Engine) -> LeasedKey {
    let gate = engine.gate("api").unwrap();
    let located = gate.locate_store_limits(&ADA, NOW);
    let limits = gate.leased_limits(&located, NOW);
    let limit = limits.first().expect("it is lent");
    let subject = LeaseSubject {
        key: limit.key(),
        name: limit.name,
        algorithm: limit.algorithm,
        terms: TermsId { algorithm: limit.numbers().into(), period: limit.lease_period },
        is_table: false,
    };
    let name = gate.store_name(limit, &located);
    let key = Key::new("api", name.identity, &name.key).unwrap();
    LeasedKey::new(&subject, key, &core::iter::once(("api", limit.name)))
}

/// A holder outside of this process, whose asks are answered without delay.
struct Outside {
    about: LeasedKey,
    terms: Terms,
    holder: Holder,
}

impl Outside {
    fn new(engine: &Engine) -> Self {
        let about = key(engine);
        let terms = Terms::from_algorithm(&about.algorithm, NOW).unwrap();
        Self { about, terms, holder: Holder::new(1) }
    }

    fn ask(&mut self, engine: &Engine, need: u64, now: Timestamp) -> u64 {
        let Some(ask) = self.holder.ask(&self.terms, 0xe0e0, need, now) else { return 0 };
        let ledgers = engine.own_ledgers().expect("they are here");
        let (grant, level) = ledgers.ask(&self.about, ask, now).expect("there is room");
        self.holder.granted(&self.terms, &grant, level, now)
    }

    fn admits(&mut self, engine: &Engine, now: Timestamp) -> bool {
        if self.holder.poll_due(&self.terms, now) {
            self.ask(engine, 0, now);
        }
        for attempt in 0..3 {
            match self.holder.take(&self.terms, Cost::ONE, attempt, now) {
                Take::Taken { .. } => return true,
                Take::Ask if self.ask(engine, 1, now) >= 1 => return true,
                Take::Ask => {}
                _ => return false,
            }
        }
        false
    }
}

#[test]
fn callers_of_this_process_and_a_holder_outside_share_a_limit_by_demand() {
    // How much is offered here and there, in units a millisecond each 1000.
    for (here, there) in [(100, 100), (1000, 100), (100, 1000), (0, 300), (300, 0), (1000, 5)] {
        let before = engine(100);
        let (mut engine, mut outside) = (None, None::<Outside>);
        let (mut admitted, mut counts) = (Vec::new(), [0_u64; 2]);
        for ms in 0..25_000_u64 {
            let now = NOW.saturating_add(Duration::from_millis(ms));
            if ms == 2000 {
                let after = lent(&before);
                (outside, engine) = (Some(Outside::new(&after)), Some(after));
            }
            let member = engine.as_ref().unwrap_or(&before);
            let _ = member.tick(now);
            let is_offered = |rate: u64| ms * rate / 1000 != (ms + 1) * rate / 1000;
            let is_counted = ms >= 15_000;
            if is_offered(here) && admits(member, now) {
                admitted.push(ms);
                counts[0] += u64::from(is_counted);
            }
            if let Some(outside) = outside.as_mut().filter(|_| is_offered(there))
                && outside.admits(member, now)
            {
                admitted.push(ms);
                counts[1] += u64::from(is_counted);
            }
        }
        for (first, from) in admitted.iter().enumerate() {
            for (last, until) in admitted.iter().enumerate().skip(first) {
                let most = (until - from + 100) / 10 + 100;
                let count = last - first + 1;
                assert!(count as u64 <= most, "{here}:{there}, {count} from {from} to {until} ms");
            }
        }
        // Of ten seconds of the limit, each has its part by demand, and nobody is left out.
        let all = here + there;
        let due = |offered: u64| if all <= 100 { offered * 10 } else { offered * 1000 / all };
        for (count, offered) in counts.iter().zip([here, there]) {
            assert!(count * 10 >= due(offered) * 8, "{here}:{there} offered, {counts:?} of 1000");
        }
        assert!(counts[0] + counts[1] >= all.min(100) * 10 * 9 / 10, "{here}:{there} offered, {counts:?}");
    }
}

#[test]
fn a_holder_that_asks_first_is_granted_nothing_that_the_table_of_keys_has_counted() {
    let before = engine(20);
    for _ in 0..15 {
        assert!(admits(&before, NOW));
    }
    let engine = lent(&before);
    let mut outside = Outside::new(&engine);
    assert_eq!((0..100).take_while(|_| outside.admits(&engine, NOW)).count(), 5);
    assert!(!admits(&engine, NOW));
}

#[test]
fn asks_that_come_by_the_outbox_are_answered_here_and_undos_are_for_the_store() {
    let before = engine(20);
    for _ in 0..15 {
        assert!(admits(&before, NOW));
    }
    let engine = lent(&before);
    let about = Arc::new(key(&engine));
    let flight = Arc::new(Flight::new(Arc::clone(&about)));
    let ask = Ask::first(HolderName { member: 0xe0e0, incarnation: 1 }, 5);
    engine.shared.outbox.post_ask(DueAsk {
        about: Arc::clone(&about),
        ask,
        flight: Arc::clone(&flight),
        remote: None,
    });
    let undo = Batch::each(RequestId(1), []);
    engine.post_undo(undo.clone());
    let left = engine.take_lease_asks().into_iter().filter_map(|asked| engine.answer_here(asked, NOW));
    let left: Vec<Batch> = left.map(|asked| asked.batch().clone()).collect();
    assert!(flight.has_landed());
    let look = engine
        .own_ledgers()
        .unwrap()
        .run_batch(&Batch::each(RequestId(2), [about.operation(OnLedger::Look)]), NOW);
    assert_eq!(look.unwrap().outcomes[0].used, 20, "15 of the table, and 5 that were granted");
    assert_eq!(left, [undo]);
}
