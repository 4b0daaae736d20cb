//! That what is written is read back as it was, and that nothing else is read.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::record::DecisionTime;
use crate::{Key, Kind, OnLedger, Operation};
use tidegate_core::Cost;
use tidegate_core::lease::{Ask, HolderName};

const START: Timestamp = Timestamp::from_secs(1_800_000_000);

fn numbers() -> Numbers {
    Numbers::new([1, 2, 3, 4])
}

fn algorithms() -> Vec<Algorithm> {
    let minute = Duration::from_mins(1);
    let bucket = Bucket::new(Rate::new(7, minute).unwrap(), 20).unwrap();
    let mut all = vec![
        Algorithm::Bucket(bucket.clone()),
        Algorithm::Bucket(bucket.with_debt(5).unwrap()),
        Algorithm::bucket(Rate::per_second(1_000_000_000).unwrap()).unwrap(),
        Algorithm::Fixed(Fixed::new(9, minute, WindowStart::Epoch).unwrap()),
        Algorithm::Fixed(Fixed::new(0, Duration::from_hours(24), WindowStart::FirstHit).unwrap()),
        Algorithm::SlidingCounter(SlidingCounter::new(12, minute).unwrap()),
        Algorithm::Rolling(Rolling::new(30, minute).unwrap()),
        Algorithm::Rolling(Rolling::new(Rolling::LIMIT_MAX, Duration::from_hours(24)).unwrap()),
        Algorithm::Concurrency(Concurrency::new(6, minute).unwrap()),
    ];
    let units = [
        CivilUnit::Minute,
        CivilUnit::Hour,
        CivilUnit::Day,
        CivilUnit::Week,
        CivilUnit::Month,
        CivilUnit::Year,
    ];
    for (unit, day) in units.into_iter().zip(WEEK.into_iter().rev()) {
        let calendar = Calendar::new(100, unit, "America/Argentina/ComodRivadavia").unwrap();
        all.push(Algorithm::Calendar(calendar.with_week_start(day)));
    }
    all
}

/// A record after these operations, each a number that stands for a kind, a cost and a step of
/// time.
fn worked_on(algorithm: &Algorithm, origin: u128, steps: &[(u8, u64, u64)]) -> Record {
    let mut record = Record::new(algorithm.clone(), RequestId(origin));
    let mut now = START;
    for (at, (kind, cost, step)) in steps.iter().enumerate() {
        now = now.saturating_add(Duration::from_nanos(*step));
        let permits = matches!(algorithm, Algorithm::Concurrency(_));
        let (cost, holder) = (Cost::new(*cost).unwrap(), HolderId(u128::MAX / u128::from(*cost)));
        let kind = match (kind % 6, permits) {
            (0, _) => Kind::Block { until: now.saturating_add(Duration::from_nanos(step * 7)) },
            (1, true) => Kind::Release { holder },
            (_, true) => Kind::Acquire { holder },
            (1, false) => Kind::Refund { cost },
            (2, false) => Kind::Report { cost },
            (_, false) => Kind::Check { cost },
        };
        let key = Key::new("api", b"limit", b"ada").unwrap();
        record.apply(&Operation::new(key, algorithm.clone(), kind), RequestId(at as u128), &[], now);
    }
    record
}

/// A ledger after these asks and reports, each a number that stands for a holder, a need and a step
/// of time.
fn lent(algorithm: &Algorithm, steps: &[(u8, u64, u64)]) -> Option<Record> {
    let (mut record, mut now) = (None, START);
    for (at, (member, need, step)) in steps.iter().enumerate() {
        now = now.saturating_add(Duration::from_nanos(*step));
        let what = match member % 5 {
            0 => OnLedger::Report { cost: Cost::new(*need).unwrap() },
            _ => OnLedger::Ask(ask(u64::from(*member) << 40, at as u32 + 1, *need)),
        };
        let operation = on_ledger(algorithm, what);
        Record::lend(&mut record, &operation, what, RequestId(at as u128), moment(now));
    }
    record
}

fn on_ledger(algorithm: &Algorithm, what: OnLedger) -> Operation {
    let key = Key::new("api", b"limit", b"ada").unwrap();
    Operation::new(key, algorithm.clone(), Kind::Ledger(what))
}

fn ask(member: u64, seq: u32, need: u64) -> Ask {
    let first = Ask::first(HolderName { member, incarnation: 1 }, need);
    Ask { seq, epoch: 1, left: 1, returned: 1, unused: 1, demand: 40, ..first }
}

fn moment(now: Timestamp) -> DecisionTime {
    DecisionTime { now, epoch: crate::Keeper::FIRST_EPOCH }
}

/// Those of the algorithms that can be leased.
fn lendable() -> Vec<Algorithm> {
    algorithms().into_iter().filter(|algorithm| Terms::from_algorithm(algorithm, START).is_ok()).collect()
}

fn written(record: &Record) -> Vec<u8> {
    let mut bytes = Vec::new();
    record.write(&mut bytes);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read_back_bit_for_bit(
        origin in any::<u128>(),
        steps in vec((any::<u8>(), 1_u64..9, 0_u64..20_000_000_000), 0..60),
    ) {
        let mut numbers = numbers();
        for algorithm in algorithms() {
            let record = worked_on(&algorithm, origin, &steps);
            let bytes = written(&record);
            prop_assert_eq!(Record::read(&bytes, &mut numbers), Ok(record));
        }
    }

    #[test]
    fn bytes_that_no_record_wrote_are_an_error_or_a_record_that_can_be_used(
        which in 0_usize..15,
        steps in vec((any::<u8>(), 1_u64..9, 0_u64..20_000_000_000), 0..20),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let algorithm = &algorithms()[which];
        let mut bytes = written(&worked_on(algorithm, 1, &steps));
        for (index, byte) in damage {
            *index.get_mut(&mut bytes) = byte;
        }
        let cut = cut.index(bytes.len());
        for bytes in [&bytes[..], &bytes[..cut]] {
            let Ok(mut record) = Record::read(bytes, &mut numbers()) else { continue };
            record.bring_back(&record.algorithm.clone(), START);
            let key = Key::new("api", b"limit", b"ada").unwrap();
            let admit = Operation::admit(key, Algorithm::clone(&record.algorithm), Cost::ONE, HolderId(3));
            record.apply(&admit, RequestId(2), &[], START);
            record.status(&admit.algorithm, START);
            record.is_drained(START);
            let again = written(&record);
            prop_assert_eq!(Record::read(&again, &mut numbers()), Ok(record));
        }
    }

    #[test]
    fn a_ledger_is_read_back_as_it_was_and_a_damaged_one_is_an_error_or_can_be_used(
        which in any::<prop::sample::Index>(),
        steps in vec((any::<u8>(), 1_u64..9, 0_u64..2_000_000_000), 1..20),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let all = lendable();
        let record = lent(which.get(&all), &steps).unwrap();
        let mut bytes = written(&record);
        prop_assert_eq!(bytes[0], LEDGER_LAYOUT);
        prop_assert_eq!(Record::read(&bytes, &mut numbers()), Ok(record));
        for (index, byte) in damage {
            *index.get_mut(&mut bytes) = byte;
        }
        let cut = cut.index(bytes.len());
        for bytes in [&bytes[..], &bytes[..cut]] {
            let Ok(record) = Record::read(bytes, &mut numbers()) else { continue };
            if !matches!(record.usage, Usage::Ledger(_)) {
                continue;
            }
            let algorithm = Algorithm::clone(&record.algorithm);
            record.is_drained(START);
            record.drained_at(START);
            let mut record = Some(record);
            for now in [Timestamp::MIN, START, START.saturating_add(Duration::from_hours(1))] {
                for what in [
                    OnLedger::Ask(ask(1, 1, 1)),
                    OnLedger::Report { cost: Cost::ONE },
                    OnLedger::Ask(ask(1, 2, 1)),
                    OnLedger::Refund { cost: Cost::ONE },
                    OnLedger::Reset,
                ] {
                    let operation = on_ledger(&algorithm, what);
                    Record::lend(&mut record, &operation, what, RequestId(2), moment(now));
                    Record::ledger_status(record.as_ref(), &operation, moment(now));
                }
            }
        }
    }

    #[test]
    fn any_bytes_at_all_are_no_reason_to_panic(bytes in vec(any::<u8>(), 0..200)) {
        let _ = Record::read(&bytes, &mut numbers());
        // Behind a beginning that is right.
        for algorithm in algorithms() {
            let whole = written(&Record::new(algorithm, RequestId(0)));
            let begins = 2 + usize::from(whole[1]);
            let _ = Record::read(&[&whole[..begins], &bytes].concat(), &mut numbers());
        }
    }
}

#[test]
fn every_end_that_is_missing_and_every_byte_too_many_is_an_error() {
    let mut numbers = numbers();
    for algorithm in algorithms() {
        let bytes = written(&worked_on(&algorithm, 7, &[(3, 2, 1), (3, 3, 1), (0, 1, 5)]));
        for end in 0..bytes.len() {
            assert!(Record::read(&bytes[..end], &mut numbers).is_err(), "{algorithm:?} {end}");
        }
        assert!(Record::read(&[&bytes[..], &[0]].concat(), &mut numbers).is_err(), "{algorithm:?}");
    }
}

#[test]
fn a_claim_of_more_than_there_is_takes_no_memory() {
    let record = Record::new(algorithms()[6].clone(), RequestId(0));
    let mut bytes = written(&record);
    let entries = 2 + usize::from(bytes[1]) + 1;
    bytes.splice(entries..=entries, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]);
    assert!(Record::read(&bytes, &mut numbers()).is_err());
}

#[test]
fn a_layout_of_the_future_is_an_error_that_says_so() {
    let mut bytes = written(&Record::new(algorithms()[0].clone(), RequestId(0)));
    bytes[0] = BLOCKED_LAYOUT + 1;
    let error = Record::read(&bytes, &mut numbers()).unwrap_err().to_string();
    assert!(error.contains("layout this version does not know"), "{error}");
}

#[test]
fn a_counter_stands_as_it_did_before_there_were_ledgers() {
    let mut record = Record::new(algorithms()[0].clone(), RequestId(5));
    let key = Key::new("api", b"limit", b"ada").unwrap();
    let check = Operation::new(key, algorithms()[0].clone(), Kind::Check { cost: Cost::ONE });
    record.apply(&check, RequestId(1), &[], START);
    let bytes = written(&record);
    // Layout, numbers of so many bytes, what is used, no block, the batch that began it, and when
    // it was charged.
    let mut expected = vec![3, 10, 1, 7, 128, 176, 157, 194, 223, 1, 20, 0];
    expected.extend([237, 169, 117, 65, 226, 137, 235, 99, 0, 5]);
    expected.extend([0; 15]);
    let before = expected.clone();
    expected.extend([128, 128, 208, 157, 233, 206, 184, 253, 24]);
    assert_eq!(bytes, expected);
    assert_eq!(Record::read(&bytes, &mut numbers()), Ok(record.clone()));
    // As it stood before that was kept.
    let before = [&[LAYOUT], &before[1..]].concat();
    let old = Record { charged_at: Timestamp::MIN, ..record };
    assert_eq!(Record::read(&before, &mut numbers()), Ok(old.clone()));
    assert_eq!(written(&old), before);
}

#[test]
fn a_block_stands_with_its_length_and_one_of_before_lasts_as_long_as_any() {
    let (hour, year) = (Duration::from_hours(1), Duration::from_hours(366 * 24));
    for algorithm in [&algorithms()[0], &algorithms()[3]] {
        let mut record = Record::new(algorithm.clone(), RequestId(5));
        let key = Key::new("api", b"limit", b"ada").unwrap();
        let operation = |kind| Operation::new(key.clone(), algorithm.clone(), kind);
        record.apply(&operation(Kind::Check { cost: Cost::ONE }), RequestId(1), &[], START);
        let until = START.saturating_add(hour);
        record.apply(&operation(Kind::Block { until }), RequestId(2), &[], START);
        let bytes = written(&record);
        assert_eq!(bytes[0], BLOCKED_LAYOUT);
        assert_eq!(Record::read(&bytes, &mut numbers()), Ok(record.clone()));
        // As it stood before the length was kept.
        let length = {
            let mut length = Vec::new();
            Writer(&mut length).number(hour.as_nanos() as u64);
            length.len()
        };
        let has_charge = record.charged_at > Timestamp::MIN;
        let before = &bytes[1..bytes.len() - length - usize::from(!has_charge)];
        let before = [&[if has_charge { CHARGED_LAYOUT } else { LAYOUT }], before].concat();
        let mut old = Record::read(&before, &mut numbers()).unwrap();
        assert_eq!(written(&old), before);
        let back = START.saturating_sub(year * 4);
        for (one, lasts) in [(&mut old, year), (&mut record, hour)] {
            assert!(one.lies_ahead(algorithm, back));
            one.bring_back(algorithm, back);
            let blocked = one.status(algorithm, back).blocked_until;
            assert_eq!(blocked, Some(back.saturating_add(lasts)));
            assert!(!one.lies_ahead(algorithm, back));
        }
        // Lifted, it stands as one that was never blocked.
        record.apply(&operation(Kind::Block { until: START }), RequestId(3), &[], START);
        assert_ne!(written(&record)[0], BLOCKED_LAYOUT);
    }
}

#[test]
fn a_ledger_of_a_limit_that_cannot_be_leased_is_an_error() {
    let mut bytes = written(&Record::new(algorithms()[6].clone(), RequestId(0)));
    bytes[0] = LEDGER_LAYOUT;
    let error = Record::read(&bytes, &mut numbers()).unwrap_err().to_string();
    assert!(error.contains("cannot be leased"), "{error}");
}

#[test]
fn counters_of_one_limit_share_their_numbers() {
    let mut numbers = numbers();
    let bytes = written(&Record::new(algorithms()[9].clone(), RequestId(0)));
    let (first, second) = (Record::read(&bytes, &mut numbers), Record::read(&bytes, &mut numbers));
    assert!(Arc::ptr_eq(&first.unwrap().algorithm, &second.unwrap().algorithm));
}
