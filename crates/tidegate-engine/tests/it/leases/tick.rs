//! The tick asks its caller to renew leases exactly where there is something to send.

use core::sync::atomic::Ordering;
use core::time::Duration;

use tidegate_engine::TickAction;

use super::{Fleet, leased, per_second};

#[test]
fn a_tick_asks_for_a_renewal_exactly_where_leases_have_something_to_send() {
    let mut fleet = Fleet::new(1, &[leased("rate", per_second(1000))]);
    let mut renewals = 0;
    for _ in 0..200 {
        for _ in 0..30 {
            assert!(fleet.admit(0, 1).is_some());
        }
        fleet.drive(0);
        let later = fleet.now().saturating_add(Duration::from_millis(100));
        fleet.clock.store(later.as_nanos(), Ordering::Relaxed);
        let wants =
            |fleet: &Fleet| fleet.members[0].tick(fleet.now()).actions.contains(&TickAction::RenewLeases);
        let is_wanted = wants(&fleet);
        let asks = fleet.drive(0);
        assert_eq!(is_wanted, asks > 0);
        renewals += usize::from(is_wanted);
        assert!(!wants(&fleet), "all of it is sent");
    }
    assert!((1..100).contains(&renewals), "{renewals} ticks of 200 asked for a renewal");
}
