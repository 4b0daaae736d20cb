//! The part of the capacity that each class is promised, and within a class each namespace.
//!
//! The three keys of a queue say how a capacity is divided among classes that ask for more than
//! there is: `min_share` of a background class, `priority_share` of the highest class and the
//! weights. The rest of a class that asks for less
//! goes to the others by weight (max-min fairness). The fair
//! queue serves by the same keys; the admission cursor sheds only what is beyond these parts.

use tidegate_core::Class;

use crate::queue::fair_queue::QueueConfig;

/// The number of classes.
const CLASSES: usize = Class::ALL.len();

/// Divides a capacity among demands by weight: no demand gets more than it asks for, and what one
/// does not ask for goes to the others. The parts in the order of the demands.
///
/// Negative numbers count as 0. Takes O(n²) for n demands, of which there are at most 65.
pub(crate) fn divide_by_weight(demands: &[f64], weights: &[f64], capacity: f64) -> Vec<f64> {
    let mut parts = vec![0.0; demands.len()];
    let mut open: Vec<usize> = (0..demands.len()).filter(|index| demands[*index] > 0.0).collect();
    let mut left = capacity.max(0.0);
    while !open.is_empty() {
        let weight: f64 = open.iter().map(|index| weights[*index]).sum();
        let fair = |index: usize| left * weights[index] / weight;
        let satisfied: Vec<usize> =
            open.iter().copied().filter(|index| demands[*index] <= fair(*index)).collect();
        if satisfied.is_empty() {
            for index in open {
                parts[index] = fair(index);
            }
            break;
        }
        for index in &satisfied {
            parts[*index] = demands[*index];
        }
        left = (left - satisfied.iter().map(|index| demands[*index]).sum::<f64>()).max(0.0);
        open.retain(|index| !satisfied.contains(index));
    }
    parts
}

/// Divides a capacity among the classes by the keys of the queue.
///
/// ```text
/// min_share       a background class: its share of the capacity while another class asks, and
///                 beyond it only what no other class asks for
/// priority_share  critical_plus: at least its share, or its part by weight if that is more
/// weights         all else
/// ```
pub(crate) fn divide_capacity(
    demands: [f64; CLASSES],
    capacity: f64,
    config: &QueueConfig,
) -> [f64; CLASSES] {
    let weights = config.weights.map(|weight| f64::from(weight.max(1)));
    let is_background = config.min_shares.map(|share| share.is_some());
    let asks_beside = |class: usize| {
        (0..CLASSES).any(|other| !is_background[other] && other != class && demands[other] > 0.0)
    };
    let mut parts = [0.0; CLASSES];
    let mut left = capacity.max(0.0);
    for class in 0..CLASSES {
        if let Some(share) = config.min_shares[class]
            && asks_beside(class)
        {
            parts[class] = demands[class].min(share.as_ratio() * capacity).min(left).max(0.0);
            left -= parts[class];
        }
    }
    let plus = Class::CriticalPlus as usize;
    let foreground = |index: usize| if is_background[index] { 0.0 } else { demands[index] };
    let mut asked: [f64; CLASSES] = core::array::from_fn(foreground);
    let mut by_weight = divide_by_weight(&asked, &weights, left);
    let reserved = asked[plus].min(config.reserve_share.as_ratio() * capacity).min(left);
    if by_weight[plus] < reserved {
        asked[plus] = 0.0;
        by_weight = divide_by_weight(&asked, &weights, left - reserved);
        by_weight[plus] = reserved;
    }
    for class in (0..CLASSES).filter(|class| !is_background[*class]) {
        parts[class] = by_weight[class];
    }
    left -= by_weight.iter().sum::<f64>();
    let rest: [f64; CLASSES] =
        core::array::from_fn(|class| if is_background[class] { demands[class] - parts[class] } else { 0.0 });
    for (part, more) in parts.iter_mut().zip(divide_by_weight(&rest, &weights, left)) {
        *part += more;
    }
    parts
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::queue::fair_queue::Share;

    fn assert_near(parts: [f64; CLASSES], expected: [f64; CLASSES]) {
        for (part, expected) in parts.iter().zip(expected) {
            assert!((part - expected).abs() < 1e-9, "{parts:?} where {expected:?} is right");
        }
    }

    /// A service of 200 a second; a flood of 300 a second of one class, and another class.
    #[test]
    fn a_flood_of_one_class_leaves_the_others_what_the_keys_promise() {
        let config = QueueConfig::default();
        let background = config.min_share(Class::Sheddable, Share::from_ratio(0.05).unwrap());
        assert_near(divide_capacity([40.0, 0.0, 300.0, 0.0], 200.0, &background), [10.0, 0.0, 190.0, 0.0]);
        let priority = config.reserve_share(Share::from_ratio(0.1).unwrap()).weight(Class::CriticalPlus, 1);
        assert_near(divide_capacity([300.0, 0.0, 0.0, 30.0], 200.0, &priority), [170.0, 0.0, 0.0, 30.0]);
        let equal = config.weight(Class::Sheddable, 8);
        assert_near(divide_capacity([40.0, 0.0, 300.0, 0.0], 200.0, &equal), [40.0, 0.0, 160.0, 0.0]);
        // By default 1 to 4 to 8.
        assert_near(divide_capacity([100.0, 100.0, 300.0, 0.0], 130.0, &config), [10.0, 40.0, 80.0, 0.0]);
        let starves = config.min_share(Class::Sheddable, Share::NONE);
        assert_near(divide_capacity([100.0, 0.0, 300.0, 0.0], 200.0, &starves), [0.0, 0.0, 200.0, 0.0]);
        assert_near(divide_capacity([100.0, 0.0, 50.0, 0.0], 120.0, &starves), [70.0, 0.0, 50.0, 0.0]);
        assert_near(divide_capacity([300.0, 0.0, 0.0, 0.0], 200.0, &starves), [200.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn the_highest_class_has_its_share_or_its_weight_whichever_is_more() {
        let config = QueueConfig::default();
        assert_near(divide_capacity([0.0, 0.0, 900.0, 900.0], 90.0, &config), [0.0, 0.0, 30.0, 60.0]);
        let light = config.weight(Class::CriticalPlus, 1);
        assert_near(divide_capacity([0.0, 0.0, 900.0, 900.0], 90.0, &light), [0.0, 0.0, 45.0, 45.0]);
        assert_near(divide_capacity([0.0, 0.0, 900.0, 10.0], 90.0, &light), [0.0, 0.0, 80.0, 10.0]);
    }

    proptest! {
        #[test]
        fn no_part_is_more_than_is_asked_for_and_together_they_are_the_capacity_or_all_that_is_asked_for(
            demands in prop::array::uniform4(0.0_f64..1_000.0),
            weights in prop::array::uniform4(1_u32..20),
            shares in prop::array::uniform3(prop::option::of(0_u16..=500)),
            reserve in 0_u16..=10_000,
            capacity in 0.0_f64..2_000.0,
        ) {
            let mut config = QueueConfig::default().reserve_share(Share::ten_thousandths(reserve));
            config.weights = weights;
            for (class, share) in Class::ALL.into_iter().zip(shares) {
                config.min_shares[class as usize] = share.map(Share::ten_thousandths);
            }
            let parts = divide_capacity(demands, capacity, &config);
            for (part, demand) in parts.iter().zip(demands) {
                prop_assert!(*part >= -1e-9 && *part <= demand + 1e-9, "{:?} of {:?}", parts, demands);
            }
            let (sum, all): (f64, f64) = (parts.iter().sum(), demands.iter().sum());
            prop_assert!((sum - all.min(capacity)).abs() < 1e-6, "{:?} of {} for {:?}", parts, capacity, demands);
        }
    }
}
