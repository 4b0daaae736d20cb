//! Moving the usage of a bucket out of the table of keys.

use super::*;

const ALL: [(&str, &str); 2] = [("bucket", "ada"), ("fixed", "ada")];

/// The rest of each limit.
fn left(gate: &Gate) -> Vec<u64> {
    gate.peek(&ALL, Cost::ONE, NOW).limits.iter().map(|limit| limit.remaining).collect()
}

fn two_limits() -> Gate {
    let window = Algorithm::Fixed(Fixed::new(20, Duration::from_mins(1), WindowStart::Epoch).unwrap());
    let fixed = Limit::new("fixed", window).key(["fixed"]);
    gate([Limit::new("bucket", bucket(20, Duration::from_mins(1))).key(["bucket"]), fixed])
}

/// The keys of the two limits.
fn keys(gate: &Gate) -> [u64; 2] {
    let keys = gate.counter_keys(&ALL, NOW);
    [keys[0].1, keys[1].1]
}

#[test]
fn the_usage_of_a_bucket_is_booked_once_and_gone_and_that_of_other_limits_stays() {
    let gate = two_limits();
    assert!(gate.check(&ALL, cost(7), NOW).is_admit());
    let mut booked = Vec::new();
    for _ in 0..2 {
        for key in keys(&gate) {
            let book = |units: Cost| {
                booked.push(units.units());
                Ok::<_, ()>(())
            };
            gate.table.move_usage(key, NOW, book).unwrap();
        }
    }
    assert_eq!((booked, left(&gate)), (vec![7], vec![20, 13]));
}

#[test]
fn what_has_drained_is_not_booked() {
    let gate = two_limits();
    assert!(gate.check(&ALL, cost(7), NOW).is_admit());
    let [key, _] = keys(&gate);
    for (seconds, used) in [(10, Some(4)), (60, None)] {
        let mut booked = None;
        let book = |units: Cost| {
            booked = Some(units.units());
            Err(())
        };
        let moved = gate.table.move_usage(key, after(Duration::from_secs(seconds)), book);
        assert_eq!((booked, moved.is_err()), (used, used.is_some()), "after {seconds} s");
    }
    assert_eq!(left(&gate), [13, 13], "an error leaves it as it is");
}

#[test]
fn a_charge_that_is_made_while_usage_is_moved_is_booked_as_well() {
    let gate = two_limits();
    assert!(gate.check(&ALL, cost(7), NOW).is_admit());
    let mut booked = Vec::new();
    let book = |units: Cost| {
        booked.push(units.units());
        assert!(booked.len() > 2 || gate.check(&ALL, cost(2), NOW).is_admit());
        Ok::<_, ()>(())
    };
    gate.table.move_usage(keys(&gate)[0], NOW, book).unwrap();
    assert_eq!((booked, left(&gate)[0]), (vec![7, 2, 2], 20));
}
