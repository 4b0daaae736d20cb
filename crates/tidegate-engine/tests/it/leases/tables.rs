//! Tables with global admission whose tokens are leased, on engines that share a store.

use std::borrow::Cow;

use tidegate_capacity::{
    Access, Capacity, CapacityBuilder, IndexWrite, TableConfig, TableMode, TokenTerms, Units,
};
use tidegate_core::{CarriedLimit, Charging, Plane, RefusalDetails};
use tidegate_overload::Overload;

use super::*;

/// Units of writing a second of the table.
const RATE: u64 = 2000;

const KEY: &[u8] = b"order-7";

fn table(name: &str, rate: u64) -> TableConfig {
    TableConfig::new("api", name, rate, rate).nodes(["node"]).mode(TableMode::Global)
}

fn index(rate: u64) -> TableConfig {
    table("by-user", rate).index_of("orders")
}

fn tables(tables: &[TableConfig]) -> CapacityBuilder {
    tables.iter().fold(Capacity::builder().node("node", 100_000), |builder, one| builder.table(one.clone()))
}

fn fleet_of(count: u64, of: &[TableConfig]) -> Fleet {
    fleet_with(count, of, |_| {})
}

fn fleet_with(count: u64, of: &[TableConfig], change: impl Fn(&mut LeaseConfig)) -> Fleet {
    Fleet::built(count, &[], change, |builder| builder.capacity(tables(of).build().unwrap()))
}

fn write(kib: u64) -> Access<'static> {
    Access::write("orders", KEY, kib << 10)
}

impl Fleet {
    fn access(&mut self, member: usize, access: Access<'_>) -> Result<Permit, Refusal> {
        match self.decide(member, &Request::new("api", ()).access(access)) {
            Decision::Admit(permit) => Ok(permit),
            Decision::Refuse(refusal) => Err(refusal.into_refusal()),
        }
    }

    /// The units that writes of one unit get at this member until one is refused, at most `max`.
    fn drain(&mut self, member: usize, max: u64) -> u64 {
        (0..max).take_while(|_| self.access(member, write(1)).is_ok()).count() as u64
    }

    fn looked_at(&self, member: usize, access: Access<'_>) -> (Option<Refusal>, f64) {
        let request = Request::new("api", ()).access(access);
        let explained = self.carry(member, self.members[member].explain(&request, self.now()).unwrap());
        let peeked = self.carry(member, self.members[member].peek(&request, self.now()).unwrap());
        assert_eq!(explained.planes.first(), peeked.refusal.as_ref(), "peek and explain agree");
        let tokens = explained.access[0].tokens.expect("a table with global admission");
        assert!(tokens.is_leased);
        (peeked.refusal, tokens.left.as_f64())
    }
}

#[test]
fn members_admit_a_table_together_and_not_each_of_them_all_of_it() {
    let mut fleet = fleet_of(4, &[table("orders", RATE)]);
    let seconds = 30;
    let mut admitted = [0_u64; 4];
    for tenth in 0..10 * seconds {
        for (member, admitted) in admitted.iter_mut().enumerate() {
            // Three times the table, one part and three parts to each pair of members.
            let asked = if member % 2 == 0 { 75 } else { 225 };
            *admitted += (0..asked).filter(|_| fleet.access(member, write(1)).is_ok()).count() as u64;
        }
        if tenth == 0 {
            assert!(admitted.iter().all(|units| *units > 0), "new members are served at once");
        }
        fleet.pass(Duration::from_millis(100));
    }
    let total: u64 = admitted.iter().sum();
    let bound = RATE * seconds + RATE + RATE / 10;
    assert!(total <= bound, "{total} of {bound} units");
    assert!(total >= RATE * seconds * 98 / 100, "{total} units of {}", RATE * seconds);
    // The same probability for a request wherever it arrives.
    let (few, many) = (admitted[0] + admitted[2], admitted[1] + admitted[3]);
    assert!((27 * few..33 * few).contains(&(10 * many)), "{admitted:?}");
}

#[test]
fn a_member_within_the_limit_is_never_refused_whichever_member_it_is_and_however_slow_the_table() {
    for rate in [1, 5, 50, RATE] {
        for moves in [false, true] {
            let mut fleet = fleet_of(3, &[table("orders", rate)]);
            let (mut asked, mut refused) = (0, 0);
            for tenth in 0..240 {
                let due = rate * (tenth + 1) / 10;
                while asked < due {
                    // All of it at one member after the other for 4 s each, or at all of them.
                    let member = if moves { tenth / 40 % 3 } else { asked % 3 };
                    refused += u64::from(fleet.access(member as usize, write(1)).is_err());
                    asked += 1;
                }
                fleet.pass(Duration::from_millis(100));
            }
            // Of five moves of a load that fills the table, each may cost half a second.
            let most = if moves && rate == RATE { 5 * RATE / 2 } else { 0 };
            assert!(refused <= most, "{refused} of {asked} at {rate} a second, moves: {moves}");
        }
    }
}

#[test]
fn the_true_weight_of_an_access_is_felt_by_all_members() {
    let admitted_after = |true_units: Option<Units>| {
        let mut fleet = fleet_of(2, &[table("orders", 100)]);
        let permit = fleet.access(0, write(1)).unwrap();
        let mut completion = Completion::default();
        completion.true_units = true_units;
        fleet.settle(0, permit, completion);
        let mut admitted = 0;
        for _ in 0..100 {
            admitted += fleet.drain(1, 1000) + fleet.drain(0, 1000);
            fleet.pass(Duration::from_millis(100));
        }
        i64::try_from(admitted).unwrap()
    };
    let as_charged = admitted_after(None);
    let heavier = admitted_after(Some(Units::whole(401)));
    assert!((380..=420).contains(&(as_charged - heavier)), "{as_charged} and {heavier}");
    let nothing = admitted_after(Some(Units::ZERO));
    assert!((-20..=20).contains(&(nothing - as_charged)), "{as_charged} and {nothing}");
}

#[test]
fn a_cancelled_access_leaves_the_table_as_it_was() {
    let mut fleet = fleet_of(2, &[table("orders", 100)]);
    for _ in 0..50 {
        let permit = fleet.access(0, write(400)).unwrap();
        fleet.settle(0, permit, tidegate_engine::Outcome::Cancelled);
        fleet.pass(Duration::from_millis(1));
    }
    fleet.pass_in_steps(6 * SECOND);
    let drained = fleet.drain(1, 2000);
    assert!((760..=802).contains(&drained), "{drained} of 800 units");
}

#[test]
fn a_write_takes_the_tokens_of_its_table_and_of_its_indexes_or_none() {
    let mut fleet = fleet_of(1, &[table("orders", 1000), index(10)]);
    // The index has 800 units, which eight writes use up, the table 1000.
    let entry = [IndexWrite { index: "by-user", key: b"ada", size: 100 << 10 }];
    let access = write(10).index_writes(&entry);
    let mut writes = 0;
    let refusal = loop {
        match fleet.access(0, access) {
            Ok(_) => writes += 1,
            Err(refusal) => break refusal,
        }
    };
    assert!((7..=8).contains(&writes), "{writes}");
    assert_eq!((refusal.name(), refusal.reason()), ("orders/by-user", Reason::TableThroughputExceeded));
    let Some(RefusalDetails::Capacity(details)) = refusal.details.as_deref() else { panic!("{refusal:?}") };
    assert_eq!(details.index.as_deref(), Some("by-user"));
    for _ in 0..100 {
        assert!(fleet.access(0, access).is_err());
    }
    // A hundred refused writes of ten units have taken nothing of the table.
    let (refusal, left) = fleet.looked_at(0, write(400));
    assert_eq!(refusal.map(|refusal| refusal.name().to_string()), Some("orders/by-user".into()));
    let expected = 1000.0 - 10.0 * f64::from(writes);
    assert!((expected - 5.0..=expected).contains(&left), "{left} of {expected}");
}

#[test]
fn looking_at_a_table_agrees_with_the_decision_and_changes_nothing() {
    let mut fleet = fleet_of(2, &[table("orders", RATE)]);
    let (refusal, left) = fleet.looked_at(0, write(1));
    assert_eq!((refusal, left), (None, Units::whole(RATE).as_f64()), "no lease yet");
    let drained = fleet.drain(0, 3 * RATE);
    for _ in 0..10 {
        let (refusal, left) = fleet.looked_at(0, write(400));
        let refusal = refusal.expect("the table is used up");
        assert_eq!(refusal.reason(), Reason::TableThroughputExceeded);
        assert!(left < 400.0);
        let decided = fleet.access(0, write(400)).unwrap_err();
        assert_eq!(decided.reason(), refusal.reason());
        let (Retry::At(looked), Retry::At(decided)) = (refusal.retry(), decided.retry()) else { panic!() };
        let apart = looked.saturating_since(decided).max(decided.saturating_since(looked));
        assert!(apart <= Duration::from_millis(1), "{apart:?}");
    }
    assert!(drained >= RATE - 100, "{drained}");
    let views = fleet.members[0].leases(10, fleet.now()).leases;
    let [view] = &views[..] else { panic!("{views:?}") };
    assert!(view.is_table);
    assert_eq!((&*view.namespace, &*view.name), ("api", "orders"));
    assert_eq!(view.scope, [("operation".to_owned(), "write".to_owned())]);
}

#[test]
fn a_caller_that_comes_back_when_it_is_told_to_is_admitted_then_or_within_the_spacing_of_asks() {
    let mut fleet = fleet_of(1, &[table("orders", 100)]);
    fleet.drain(0, 2000);
    for _ in 0..20 {
        let refusal = fleet.access(0, write(50)).unwrap_err();
        let Retry::At(until) = refusal.retry() else { panic!("{refusal:?}") };
        let wait = until.saturating_since(fleet.now());
        assert!(wait <= Duration::from_millis(600), "{wait:?} for 50 units of 100 a second");
        fleet.pass(wait);
        if let Err(refusal) = fleet.access(0, write(50)) {
            let Retry::At(until) = refusal.retry() else { panic!("{refusal:?}") };
            let wait = until.saturating_since(fleet.now());
            assert!(wait <= Duration::from_millis(120), "{wait:?} more");
            fleet.pass(wait);
            drop(fleet.access(0, write(50)).expect("it came back twice"));
        }
    }
}

#[test]
fn members_that_cannot_reach_the_store_admit_their_shares_and_serve_large_writes_too() {
    let rate = 100;
    let mut fleet = fleet_of(4, &[table("orders", rate)]);
    for member in 0..4 {
        let _ = fleet.members[member].with_members(4).unwrap();
    }
    fleet.is_down = true;
    let seconds = 60;
    let mut admitted = 0;
    for _ in 0..10 * seconds {
        for member in 0..4 {
            admitted += (0..10).filter(|_| fleet.access(member, write(1)).is_ok()).count() as u64;
        }
        fleet.pass(Duration::from_millis(100));
    }
    let bound = rate * seconds + 800 + 10;
    assert!(admitted <= bound, "{admitted} of {bound}");
    assert!(admitted >= rate * seconds * 95 / 100, "{admitted}");
    let refusal = loop {
        if let Err(refusal) = fleet.access(0, write(1)) {
            break refusal;
        }
    };
    assert_eq!(refusal.reason(), Reason::StoreUnavailable);
    assert_eq!(refusal.plane(), Plane::Capacity);
    assert!(refusal.detail.as_deref().is_some_and(|detail| detail.starts_with("away:")));
    let (looked, left) = fleet.looked_at(0, write(1));
    assert_eq!(looked.map(|refusal| refusal.reason()), Some(Reason::StoreUnavailable));
    assert!(left < 1.0, "{left}");
    // A write of 400 units has to wait until its share is full, and is not refused forever.
    fleet.pass_in_steps(20 * SECOND);
    drop(fleet.access(0, write(400)).expect("a large write within the share"));
    fleet.is_down = false;
    fleet.pass_in_steps(10 * SECOND);
    assert!(fleet.access(1, write(1)).is_ok());
    assert!(!fleet.members[1].leases(1, fleet.now()).leases[0].is_unanswered);
}

#[test]
fn a_member_without_a_place_for_the_lease_admits_its_share() {
    let names = ["orders", "a", "b", "c"];
    let mut fleet = fleet_with(1, &names.map(|name| table(name, RATE)), |leases| leases.holders_max = 1);
    drop(fleet.access(0, Access::write("a", KEY, 1)).unwrap());
    for _ in 0..RATE / 2 {
        drop(fleet.access(0, write(1)).expect("the leases are full, the table is not"));
    }
}

#[test]
fn the_lease_of_a_member_that_is_gone_is_free_again_after_its_period() {
    let mut fleet = fleet_of(2, &[table("orders", RATE)]);
    for _ in 0..50 {
        fleet.drain(0, RATE);
        fleet.pass(Duration::from_millis(100));
    }
    // The first is killed. The other has all of the table a period later.
    let gone = fleet.members.remove(0);
    let mut admitted = Vec::new();
    for second in 0..10 {
        let mut units = 0;
        for _ in 0..10 {
            units += fleet.drain(0, RATE);
            fleet.pass(Duration::from_millis(100));
        }
        admitted.push((second, units));
    }
    drop(gone);
    let last = admitted[7..].iter().map(|(_, units)| units).sum::<u64>();
    assert!(last >= 3 * RATE * 95 / 100, "{admitted:?}");
    assert!(last <= 3 * RATE + RATE, "{admitted:?}");
}

#[test]
fn requests_of_a_batch_wait_once_for_the_leases_of_their_tables() {
    let mut fleet = fleet_of(1, &[table("orders", RATE), table("users", RATE)]);
    let requests =
        ["orders", "users"].map(|name| Request::new("api", ()).access(Access::write(name, KEY, 1)));
    let step = fleet.members[0].admit_all(&requests, fleet.now()).unwrap();
    let Step::Ask(pending) = step else { panic!("{step:?}") };
    assert_eq!(fleet.drive(0), 2);
    let step = fleet.members[0].resume(pending, Answered::Lease, fleet.now());
    let Step::Decided(Decision::Admit(permit)) = step else { panic!("{step:?}") };
    assert_eq!(permit.requests(), 2);
}

#[test]
fn a_request_waits_once_for_the_leases_of_its_limits_and_of_its_table() {
    let limits = [leased("rate", per_second(1000))];
    let build = |builder: EngineBuilder| builder.capacity(tables(&[table("orders", RATE)]).build().unwrap());
    let mut fleet = Fleet::built(1, &limits, |_| {}, build);
    let request = Request::new("api", &ADA).access(write(1));
    let step = fleet.members[0].admit(&request, fleet.now()).unwrap();
    let Step::Ask(pending) = step else { panic!("{step:?}") };
    assert_eq!(fleet.drive(0), 2, "one ask for the limit and one for the table");
    let step = fleet.members[0].resume(pending, Answered::Lease, fleet.now());
    assert!(matches!(step, Step::Decided(Decision::Admit(_))), "{step:?}");
}

#[test]
fn a_request_with_limits_of_its_own_takes_the_tokens_too_and_never_waits() {
    let mut fleet = fleet_of(1, &[table("orders", RATE)]);
    let (key, algorithm) = ([&b"ada"[..]], per_second(1_000_000));
    let limits = [CarriedLimit { key: Cow::Borrowed(&key), algorithm: Cow::Borrowed(&algorithm), cost: 1 }];
    let mut admitted = 0;
    for _ in 0..3 * RATE {
        let request = Request::new("api", ()).access(write(1));
        let progress = fleet.members[0].carry(&request, &limits, Charging::AllOrNone, fleet.now()).unwrap();
        fleet.drive(0);
        admitted += u64::from(fleet.carry(0, progress).is_admitted);
    }
    // Until the first answer it is admitted by the share of a member that is alone.
    assert!((RATE * 95 / 100..=2 * RATE).contains(&admitted), "{admitted}");
}

#[test]
fn a_reload_changes_the_rate_that_members_share() {
    let mut fleet = fleet_of(2, &[table("orders", RATE)]);
    for _ in 0..20 {
        fleet.drain(0, RATE);
        fleet.pass(Duration::from_millis(100));
    }
    for member in 0..2 {
        let builder = tables(&[table("orders", RATE / 4)]);
        let engine = fleet.members[member].with_planes(builder, Overload::builder(1), fleet.now());
        fleet.members[member] = engine.unwrap();
    }
    // Tokens that were lent at the former rate end with their lease.
    fleet.pass_in_steps(6 * SECOND);
    fleet.drain(0, 4 * RATE);
    fleet.drain(1, 4 * RATE);
    let mut admitted = 0;
    for _ in 0..100 {
        fleet.pass(Duration::from_millis(100));
        admitted += fleet.drain(0, RATE) + fleet.drain(1, RATE);
    }
    let expected = 10 * RATE / 4;
    assert!((expected * 97 / 100..=expected * 103 / 100).contains(&admitted), "{admitted} of {expected}");
}

#[test]
fn only_tables_with_global_admission_and_fixed_throughput_are_leased() {
    let adaptive = table("orders", RATE).mode(TableMode::Adaptive);
    let mut fleet = fleet_of(2, &[adaptive]);
    drop(fleet.access(0, write(1)).unwrap());
    assert!(fleet.members[0].leases(1, fleet.now()).leases.is_empty());
    let depth = TokenTerms::from_rate(Units::whole(5)).share(4, 4);
    assert_eq!((depth.rate, depth.depth), (Units::from_thousandths(1250), Units::whole(200)));
}

#[test]
fn routers_of_a_saturated_table_refuse_the_same_part_of_their_requests() {
    let mut fleet = fleet_of(3, &[table("orders", RATE)]);
    // Twice the table, one part, three parts and ten parts at the members.
    let asked_each = [29, 86, 285];
    let (mut asked, mut refused) = ([0_u64; 3], [0_u64; 3]);
    for tenth in 0..600 {
        for (member, count) in asked_each.into_iter().enumerate() {
            for _ in 0..count {
                let is_refused = fleet.access(member, write(1)).is_err();
                // The burst is used up, and leases have followed the demand.
                if tenth >= 100 {
                    asked[member] += 1;
                    refused[member] += u64::from(is_refused);
                }
            }
        }
        fleet.pass(Duration::from_millis(100));
    }
    // Parts of ten thousand.
    let shares: Vec<u64> =
        asked.iter().zip(refused).map(|(asked, refused)| 10_000 * refused / asked).collect();
    let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
    assert!(most - least <= 200, "{shares:?}");
    assert!(*least > 4_600 && *most < 5_400, "{shares:?}");
}
