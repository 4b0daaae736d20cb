//! The answers of a limit do not depend on where it is decided: here, in the store, or from a
//! lease.

use core::time::Duration;

use tidegate_core::algorithm::Concurrency;
use tidegate_core::gate::Standing;
use tidegate_core::limit::{Consistency, Missing};
use tidegate_core::{Algorithm, Limit, Reason, Retry};
use tidegate_engine::{Decision, Request};

use crate::leases::{ADA, Fleet};
use crate::reload::MINUTE;
use crate::world::bucket;

const EVERYWHERE: [Consistency; 3] = [Consistency::Local, Consistency::Exact, Consistency::Leased];

fn limit(consistency: Consistency) -> Limit {
    Limit::new("rate", bucket(5, MINUTE)).key(["user"]).missing(Missing::Refuse).consistency(consistency)
}

#[test]
fn a_blocked_key_has_nothing_left_wherever_its_limit_is_decided() {
    for consistency in EVERYWHERE {
        let mut fleet = Fleet::new(1, &[limit(consistency)]);
        for _ in 0..2 {
            drop(fleet.ask(0, 1).unwrap());
        }
        let request = Request::new("api", &ADA);
        let until = fleet.now().saturating_add(2 * MINUTE);
        fleet.carry(0, fleet.members[0].block(&request, "rate", until, fleet.now()).unwrap());
        let refusal = fleet.ask(0, 1).unwrap_err();
        assert_eq!(
            (refusal.reason(), refusal.retry()),
            (Reason::Blocked, Retry::At(until)),
            "{consistency:?}"
        );
        assert_eq!(refusal.remaining(), 0, "{consistency:?}");
        let peek = fleet.carry(0, fleet.members[0].peek(&request, fleet.now()).unwrap());
        assert_eq!(peek.refusal.map(|refusal| refusal.remaining()), Some(0), "{consistency:?}");
        assert_eq!((peek.limits[0].remaining, peek.limits[0].reset_at), (0, until), "{consistency:?}");
        let explained = fleet.carry(0, fleet.members[0].explain(&request, fleet.now()).unwrap());
        let Standing::Counts(counting) = &explained.limits[0].standing else { panic!("{explained:?}") };
        let level = counting.level.as_ref().unwrap();
        assert_eq!((level.used, level.remaining), (2, 0), "{consistency:?}");
        fleet.pass(2 * MINUTE);
        assert!(fleet.ask(0, 1).is_ok(), "{consistency:?}: the block has ended");
    }
}

#[test]
fn a_request_that_lacks_a_required_attribute_is_refused_as_such_wherever_its_limit_is_decided() {
    for consistency in EVERYWHERE {
        let mut fleet = Fleet::new(1, &[limit(consistency)]);
        let Decision::Refuse(refused) = fleet.decide(0, &Request::new("api", ())) else { panic!() };
        let refusal = refused.into_refusal();
        assert_eq!((refusal.reason(), refusal.retry()), (Reason::AttributeMissing, Retry::Never));
        assert_eq!((refusal.name(), refusal.remaining()), ("rate", 0), "{consistency:?}");
        assert_eq!(
            refusal.detail.as_deref(),
            Some("the request lacks the attribute \"user\", which limit \"rate\" requires")
        );
    }
}

#[test]
fn a_caller_without_a_permit_backs_off_wherever_its_limit_is_decided() {
    let parallel = Algorithm::Concurrency(Concurrency::new(4, Duration::from_secs(30)).unwrap());
    for consistency in [Consistency::Local, Consistency::Exact] {
        let limit = Limit::new("parallel", parallel.clone()).key(["user"]).consistency(consistency);
        let mut fleet = Fleet::new(1, &[limit]);
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(fleet.ask(0, 1).unwrap());
            fleet.pass(Duration::from_millis(75));
        }
        let refusal = fleet.ask(0, 1).unwrap_err();
        assert_eq!((refusal.reason(), refusal.retry()), (Reason::ConcurrencyExceeded, Retry::Backoff));
        let hint = refusal.retry_hint.unwrap();
        assert!((50..=100).contains(&hint.as_millis()), "{consistency:?}: {hint:?}");
        let peek = fleet.members[0].peek(&Request::new("api", &ADA), fleet.now()).unwrap();
        let peek = fleet.carry(0, peek).refusal.unwrap();
        assert_eq!((peek.retry(), peek.retry_hint), (Retry::Backoff, Some(hint)), "{consistency:?}");
    }
}
