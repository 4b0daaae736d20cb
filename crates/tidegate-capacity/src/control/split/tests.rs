use tidegate_core::Timestamp;
use tidegate_test_support::SplitMix64;

use super::*;
use crate::control::sketch::Sketch;
use crate::layout::position::PartitionBy;

const CEILING: Units = Units::whole(1000);

fn range() -> KeyRange {
    KeyRange { by: PartitionBy::Slot, first: Position::FIRST, end: None }
}

fn sorted(slots: &[u16]) -> PositionList {
    let mut list = PositionList::with_capacity(PartitionBy::Slot, slots.len());
    for slot in slots {
        list.push(Position::from_slot(*slot));
    }
    list.sort();
    list
}

/// The verdict after these windows of 10 s, whose keys `key` draws at `units` a second.
fn verdict(windows: u64, units: u64, key: impl FnMut(&mut SplitMix64, u64) -> u64) -> SplitVerdict {
    verdict_at(CEILING, windows, units, key)
}

fn verdict_at(
    ceiling: Units,
    windows: u64,
    units: u64,
    mut key: impl FnMut(&mut SplitMix64, u64) -> u64,
) -> SplitVerdict {
    let mut random = SplitMix64::new(5);
    let start = 1_795_210_800_000;
    let mut sketch = Sketch::new(PartitionBy::Slot, 1, Timestamp::from_millis(start));
    let mut samples = Vec::new();
    for window in 0..windows {
        for access in 0..units * 10 {
            let now = Timestamp::from_millis(start + window * 10_000 + access * 1000 / units);
            let position = key(&mut random, window * units * 10 + access);
            sketch.record(Position::from_slot(position as u16), 1000, now);
        }
        samples.extend(sketch.take_sample(Timestamp::from_millis(start + (window + 1) * 10_000)));
    }
    assert_eq!(samples.len(), windows as usize);
    split_verdict(&SplitLoad::new(range(), ceiling, &samples))
}

#[test]
fn a_uniform_load_above_the_ceiling_is_halved_and_below_it_nothing_happens() {
    let uniform = |random: &mut SplitMix64, _| random.next_u64() % 16_384;
    let SplitVerdict::Split(cut) = verdict(3, 1900, uniform) else { panic!() };
    assert!((7_300..9_000).contains(&cut.at.first_word()), "{cut:?}");
    assert!(cut.benefit > Units::whole(700), "{cut:?}");
    assert_eq!(verdict(3, 1000, uniform), SplitVerdict::Wait);
    assert_eq!(verdict(2, 1900, uniform), SplitVerdict::Wait, "not for long enough");
}

#[test]
fn a_load_of_many_ceilings_is_halved_as_long_as_the_cut_brings_most_of_a_ceiling() {
    let uniform = |random: &mut SplitMix64, _| random.next_u64() % 16_384;
    for ceilings in [5, 6, 10, 30] {
        let verdict = verdict_at(Units::whole(100), 3, ceilings * 100, uniform);
        let SplitVerdict::Split(cut) = verdict else { panic!("{ceilings}: {verdict:?}") };
        assert!((7_300..9_000).contains(&cut.at.first_word()), "{ceilings}: {cut:?}");
        assert_eq!(cut.benefit, Units::whole(100));
    }
    // Of a load at ten ceilings that one cut does not help, none is made.
    let hot = |_: &mut SplitMix64, _: u64| 8000;
    let hot = verdict_at(Units::whole(100), 3, 1000, hot);
    assert!(matches!(&hot, SplitVerdict::HotKey { cuts, .. } if cuts.is_empty()), "{hot:?}");
    let tail = |_: &mut SplitMix64, access: u64| access * 100 / 1000;
    assert_eq!(verdict_at(Units::whole(100), 5, 1000, tail), SplitVerdict::Sequential);
    let moving = |_: &mut SplitMix64, access: u64| {
        [2000, 9000, 5000, 14_000, 1000][(access / 10_000) as usize % 5] + access % 700
    };
    assert_eq!(verdict_at(Units::whole(100), 5, 1000, moving), SplitVerdict::Moving);
}

#[test]
fn a_heavy_median_is_cut_on_the_side_that_helps() {
    // One key of six tenths below the ceiling, and the rest all to its right.
    let skewed = |random: &mut SplitMix64, _| {
        if random.fraction() < 0.6 { 4000 } else { 4001 + random.next_u64() % 12_000 }
    };
    let SplitVerdict::Split(cut) = verdict(3, 1500, skewed) else { panic!() };
    assert_eq!(cut.at, Position::from_slot(4001), "behind the key: before it nothing is parted");
    assert!(cut.benefit > Units::whole(400), "{cut:?}");
    // And all to its left.
    let mirrored = |random: &mut SplitMix64, _| {
        if random.fraction() < 0.6 { 12_000 } else { random.next_u64() % 12_000 }
    };
    let SplitVerdict::Split(cut) = verdict(3, 1500, mirrored) else { panic!() };
    assert!(cut.at <= Position::from_slot(12_000), "{cut:?}");
    assert!(cut.benefit > Units::whole(400), "{cut:?}");
}

#[test]
fn one_key_above_the_ceiling_is_parted_from_its_neighbours_by_two_cuts_at_most() {
    let hot = |share: f64| {
        move |random: &mut SplitMix64, _: u64| {
            if random.fraction() < share { 8000 } else { random.next_u64() % 16_384 }
        }
    };
    let SplitVerdict::HotKey { position, cuts } = verdict(3, 3000, hot(0.5)) else { panic!() };
    assert_eq!(position, Position::from_slot(8000));
    let at: Vec<u64> = cuts.iter().map(|cut| cut.at.first_word()).collect();
    assert_eq!(at, [8000, 8001]);
    // Neighbours that are not worth a cut.
    let SplitVerdict::HotKey { cuts, .. } = verdict(3, 3000, hot(0.99)) else { panic!() };
    assert_eq!(cuts, []);
    // Worth it are those with a sixtieth of the ceiling: here 3 of 100 on each side.
    let low = Units::whole(100);
    let SplitVerdict::HotKey { cuts, .. } = verdict_at(low, 3, 200, hot(0.97)) else { panic!() };
    assert_eq!(cuts.len(), 2);
    let SplitVerdict::HotKey { cuts, .. } = verdict_at(low, 3, 200, hot(0.99)) else { panic!() };
    assert_eq!(cuts, []);
    // Beside 8 of 100, the 1.2 on the other side are worth one too, and 0.5 are not.
    let lopsided = |right: f64| {
        move |random: &mut SplitMix64, _: u64| match random.fraction() {
            part if part < 0.04 => random.next_u64() % 8000,
            part if part < 0.04 + right => 8001 + random.next_u64() % 8000,
            _ => 8000,
        }
    };
    let SplitVerdict::HotKey { cuts, .. } = verdict_at(low, 3, 200, lopsided(0.006)) else { panic!() };
    assert_eq!(cuts.len(), 2);
    let SplitVerdict::HotKey { cuts, .. } = verdict_at(low, 3, 200, lopsided(0.0025)) else { panic!() };
    assert_eq!(cuts.len(), 1);
}

#[test]
fn a_load_that_moves_is_not_cut_and_the_same_keys_in_another_order_are() {
    // Four tenths at a tail that moves by 30 slots a second, the rest anywhere below it.
    let sequential = |random: &mut SplitMix64, access: u64| {
        let tail = 4000 + access * 30 / 3000;
        if random.fraction() < 0.4 { tail } else { random.next_u64() % tail }
    };
    let moving = |_: &mut SplitMix64, access: u64| {
        [2000, 9000, 5000, 14_000, 1000][(access / 30_000) as usize % 5] + access % 700
    };
    // The tail must pass the keys of a window to be seen; it moves 300 slots in each.
    let fast = |random: &mut SplitMix64, access: u64| {
        let tail = 1000 + access * 300 / 3000;
        if random.fraction() < 0.8 { tail } else { random.next_u64() % 16_000 }
    };
    assert_eq!(verdict(5, 3000, fast), SplitVerdict::Sequential);
    assert_eq!(verdict(5, 3000, moving), SplitVerdict::Moving);
    assert!(matches!(verdict(5, 3000, sequential), SplitVerdict::Sequential), "four tenths");
    // The keys of the moving tail, each as often, in an order that does not move.
    let permuted = |random: &mut SplitMix64, _: u64| {
        let tail = 1000 + random.next_u64() % 15_000;
        if random.fraction() < 0.8 { tail } else { random.next_u64() % 16_000 }
    };
    assert!(matches!(verdict(5, 1900, permuted), SplitVerdict::Split(_)));
}

#[test]
fn a_load_that_is_above_its_ceiling_by_chance_is_not_cut() {
    let uniform = |random: &mut SplitMix64, _| random.next_u64() % 16_384;
    // Of 30 000 requests, 174 more or fewer come by chance.
    assert_eq!(verdict(3, 1020, uniform), SplitVerdict::Wait);
    assert!(matches!(verdict(5, 1020, uniform), SplitVerdict::Split(_)), "for longer than chance lasts");
    assert!(matches!(verdict(3, 1030, uniform), SplitVerdict::Split(_)));
}

#[test]
fn of_cuts_that_help_alike_the_one_into_equal_parts_is_made() {
    // Three times the ceiling: each cut that leaves both parts above it helps alike.
    let skewed = |random: &mut SplitMix64, _| match random.next_u64() % 100 {
        0..36 => random.next_u64() % 5000,
        36..46 => 5000,
        _ => 5001 + random.next_u64() % 11_000,
    };
    let SplitVerdict::Split(cut) = verdict(3, 3000, skewed) else { panic!() };
    assert!((5001..6500).contains(&cut.at.first_word()), "{cut:?}");
}

#[test]
fn samples_of_few_requests_are_apart_by_chance() {
    let mut random = SplitMix64::new(3);
    let mut sample = |count: usize, first: u64| {
        let slots: Vec<u16> = (0..count).map(|_| (first + random.next_u64() % 8000) as u16).collect();
        sorted(&slots)
    };
    for _ in 0..20 {
        assert!(!has_moved(&sample(60, 0), &sample(60, 0)));
    }
    assert!(has_moved(&sample(60, 0), &sample(60, 4000)));
    assert!(has_moved(&sample(1024, 0), &sample(1024, 2000)));
}

#[test]
fn scans_are_not_cut() {
    assert_eq!(split_verdict(&SplitLoad::new(range(), CEILING, &[])), SplitVerdict::Wait);
    let mut sketch = Sketch::new(PartitionBy::Slot, 1, Timestamp::from_secs(100));
    let mut windows = Vec::new();
    for window in 0..3_u64 {
        for access in 0..20_000_u64 {
            let now = Timestamp::from_millis(100_000 + window * 10_000 + access / 2);
            sketch.record(Position::from_slot((access * 7919 % 16_384) as u16), 1000, now);
        }
        windows.extend(sketch.take_sample(Timestamp::from_millis(100_000 + (window + 1) * 10_000)));
    }
    let mut verdict = |spanning| {
        windows[2].spanning = spanning;
        split_verdict(&SplitLoad::new(range(), CEILING, &windows))
    };
    assert_eq!(verdict(10_000), SplitVerdict::Scan);
    assert!(matches!(verdict(9_999), SplitVerdict::Split(_)));
}

#[test]
fn the_distance_of_two_samples_is_the_largest_gap_between_their_distributions() {
    assert_eq!(distance(&sorted(&[1, 2, 3, 4]), &sorted(&[1, 2, 3, 4])), 0);
    assert_eq!(distance(&sorted(&[1, 2]), &sorted(&[3, 4])), 1000);
    assert_eq!(distance(&sorted(&[1, 1, 5, 5]), &sorted(&[1, 5, 5, 5])), 250);
}
