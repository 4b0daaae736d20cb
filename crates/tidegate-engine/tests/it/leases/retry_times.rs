//! The time to come back that a refusal by a leased limit names.

use super::*;

/// How many of a hundred requests of a caller that is alone are refused although it comes back when
/// it is told to.
fn refused_again(rate: u64, burst: u64, cost: u64) -> usize {
    let algorithm = Algorithm::Bucket(Bucket::new(Rate::per_second(rate).unwrap(), burst).unwrap());
    let mut fleet = Fleet::new(1, &[leased("limit", algorithm)]);
    let mut refused = 0;
    for _ in 0..100 {
        let Err(refusal) = fleet.ask(0, cost) else { continue };
        let Retry::At(until) = refusal.retry() else { panic!("{refusal:?}") };
        let wait = until.saturating_since(fleet.now());
        let whole = Duration::from_millis(1000 * burst / rate);
        assert!(wait <= whole + Duration::from_millis(200), "{wait:?} for {cost} of {rate} a second");
        fleet.pass(wait);
        refused += usize::from(fleet.ask(0, cost).is_err());
    }
    refused
}

#[test]
fn a_caller_that_is_alone_and_comes_back_when_it_is_told_to_is_admitted() {
    for (rate, burst) in [(200, 1600), (200, 200), (20, 100), (5000, 5000), (1, 50)] {
        for cost in [1, 2, rate / 20] {
            let refused = refused_again(rate, burst, cost.max(1));
            assert_eq!(refused, 0, "requests of {cost} units of {rate} a second, burst {burst}");
        }
    }
    // A lease keeps a tenth of a second of its refill. The rest is credited with the next ask, and
    // not if the lease ends before: so large costs may come too early.
    assert!(refused_again(200, 1600, 160) <= 40);
}
