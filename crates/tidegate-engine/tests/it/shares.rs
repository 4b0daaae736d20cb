//! No namespace can take from another what the tables of the engine guarantee it.
//!
//! Hostile namespaces do at random whatever fills a table: keys that drain slowly, expensive
//! requests of a rolling limit, permits with a long hold, permits kept for later, refund keys,
//! blocks, limits that arrive with requests. At random instants the honest namespace uses each
//! table as far as its share goes, and nothing of that may be refused.
//!
//! A share is a number of words, not 24 particular ones. A new key whose 24 words are all in use is
//! refused although its namespace has words left: one key in 5000 in a table that is two thirds
//! full (`docs/internals/guarantees.md`). Such a key is replaced by another one here, and few may
//! need that.

use core::time::Duration;
use std::borrow::Cow;
use std::collections::BTreeSet;

use proptest::prelude::*;
use tidegate_core::algorithm::{Concurrency, Rolling};
use tidegate_core::{Algorithm, CarriedLimit, Charging, Cost, Limit, Timestamp};
use tidegate_engine::{
    BlockCause, Decision, Engine, NamespaceConfig, Outcome, Permit, PermitId, Request, Step,
};

use crate::world::{NOW, bucket, done, permits_config};

const DAY: Duration = Duration::from_hours(24);
const HOSTILE: [&str; 3] = ["one", "two", "three"];
/// Every namespace and those that only requests name.
const OWNERS: u64 = 5;
const PERMITS_MAX: usize = 500;

fn limits() -> Vec<Limit> {
    let of_kind =
        |kind: &str, limit: Limit| limit.key(["user"]).when("kind", tidegate_core::Matcher::exact(kind));
    vec![
        of_kind("quota", Limit::new("quota", bucket(1_000_000, DAY))),
        of_kind(
            "rolling",
            Limit::new(
                "rolling",
                Algorithm::Rolling(Rolling::new(100_000, Duration::from_hours(1)).unwrap()),
            ),
        ),
        of_kind(
            "parallel",
            Limit::new("parallel", Algorithm::Concurrency(Concurrency::new(50, DAY).unwrap())),
        ),
    ]
}

fn engine() -> Engine {
    let namespaces = HOSTILE.iter().copied().chain(["honest"]);
    let namespaces = namespaces.map(|name| NamespaceConfig::new(name, limits()));
    let engine = Engine::builder(permits_config(PERMITS_MAX)).namespaces(namespaces).build().unwrap();
    // From here on there is an owner for namespaces that no policy has.
    carry(&engine, "unknown", "first", NOW);
    engine
}

fn carry(engine: &Engine, namespace: &str, key: &str, now: Timestamp) -> bool {
    let year = bucket(1, 365 * DAY);
    let parts: [&[u8]; 1] = [key.as_bytes()];
    let limit = CarriedLimit { key: Cow::Borrowed(&parts), algorithm: Cow::Borrowed(&year), cost: 1 };
    done(engine.carry(&Request::new(namespace, ()), &[limit], Charging::AllOrNone, now)).is_admitted
}

/// One request; its permit lends what it lends until it is given back here, unless `keep` keeps it
/// under a name.
fn check(
    engine: &Engine,
    namespace: &str,
    kind: &str,
    user: &str,
    units: u64,
    keep: bool,
    now: Timestamp,
) -> Result<Option<PermitId>, String> {
    let attributes = [("kind", kind), ("user", user)];
    let request = Request::new(namespace, &attributes).cost(Cost::new(units).unwrap());
    match engine.admit(&request, now).unwrap() {
        Step::Decided(Decision::Admit(permit)) if keep => {
            let kept = engine.keep(permit, now.saturating_add(DAY), now).map_err(|error| error.to_string());
            kept.map(|kept| Some(done(Ok(kept))))
        }
        Step::Decided(Decision::Admit(permit)) => {
            let _ = engine.settle(permit, Outcome::Succeeded, now);
            Ok(None)
        }
        Step::Decided(Decision::Refuse(refusal)) => Err(refusal.reason().to_string()),
        other => panic!("{other:?}"),
    }
}

#[derive(Clone, Debug)]
enum Attack {
    Quotas,
    Rolling(u64),
    Held,
    Kept,
    Refunds,
    Blocks,
    Carried(bool),
}

fn attack() -> impl Strategy<Value = (usize, Attack)> {
    let attack = prop_oneof![
        Just(Attack::Quotas),
        (1_u64..100_000).prop_map(Attack::Rolling),
        Just(Attack::Held),
        Just(Attack::Kept),
        Just(Attack::Refunds),
        Just(Attack::Blocks),
        any::<bool>().prop_map(Attack::Carried),
    ];
    (0..HOSTILE.len(), attack)
}

/// Runs an attack; what it holds goes to `held`.
fn run(
    engine: &Engine,
    hostile: &str,
    attack: &Attack,
    round: usize,
    now: Timestamp,
    held: &mut Vec<Permit>,
) {
    for index in 0..6000_usize {
        let user = format!("{round}-{index}");
        let is_refused = match attack {
            Attack::Quotas => check(engine, hostile, "quota", &user, 500_000, false, now).is_err(),
            Attack::Rolling(units) => check(engine, hostile, "rolling", &user, *units, false, now).is_err(),
            // One user after the other takes as many permits as it may, and nobody settles them.
            Attack::Held => {
                let user = format!("{round}-{}", index / 50);
                let attributes = [("kind", "parallel"), ("user", user.as_str())];
                match engine.admit(&Request::new(hostile, &attributes), now).unwrap() {
                    Step::Decided(Decision::Admit(permit)) => {
                        held.push(permit);
                        false
                    }
                    _ => true,
                }
            }
            Attack::Kept => check(engine, hostile, "none", &user, 1, true, now).is_err(),
            Attack::Refunds => {
                let attributes = [("kind", "none"), ("user", user.as_str())];
                let refund = engine.refund(&Request::new(hostile, &attributes), &user, now);
                refund.is_err()
            }
            Attack::Blocks => {
                let attributes = [("kind", "quota"), ("user", user.as_str())];
                let until = now.saturating_add(DAY);
                engine.block(&Request::new(hostile, &attributes), "quota", until, now).is_err()
            }
            Attack::Carried(is_known) => {
                let namespace = if *is_known { hostile } else { "unknown" };
                !carry(engine, namespace, &user, now)
            }
        };
        if is_refused && index % 64 == 63 {
            break;
        }
    }
}

/// Keys tried for each key that the honest namespace needs.
const KEYS_TRIED: usize = 3;
/// The most keys of the honest namespace, of about 110 in a round, that find all their words in
/// use.
const CROWDED_MAX: usize = 3;

/// The keys of the honest namespace in one round.
#[derive(Default)]
struct HonestKeys {
    /// Those that found all their words in use.
    crowded: BTreeSet<String>,
}

impl HonestKeys {
    /// Makes `attempt` with `key`, and with another key if all words of that key are in use.
    fn place<T>(
        &mut self,
        key: &str,
        mut attempt: impl FnMut(&str) -> Result<T, String>,
    ) -> Result<T, String> {
        let mut placed = attempt(key);
        for other in 1..KEYS_TRIED {
            let replaced = format!("{key}, replaced {other}");
            let is_one_more = !self.crowded.contains(&replaced);
            if placed.is_ok() || is_one_more && self.crowded.len() == CROWDED_MAX {
                break;
            }
            placed = attempt(&replaced);
            self.crowded.insert(replaced);
        }
        placed
    }
}

/// Uses each table up to what the honest namespace is entitled to, and gives back what can be given
/// back.
fn use_share(engine: &Engine, round: usize, now: Timestamp) -> Result<(), String> {
    let failed = |what: &str, error: String| format!("{what} in round {round}: {error}");
    let mut keys = HonestKeys::default();
    let mut check = |kind: &str, user: &str, units, keep| {
        keys.place(user, |user| check(engine, "honest", kind, user, units, keep, now))
            .map_err(|error| failed(kind, error))
    };
    for user in 0..60 {
        check("quota", &format!("{round}-{user}"), 1, false)?;
    }
    // Its rolling keys are the same in every round, since they stay for an hour.
    for user in 0..40 {
        check("rolling", &format!("{user}"), 8, false)?;
    }
    let mut kept = Vec::new();
    for user in 0..PERMITS_MAX as u64 / 2 / OWNERS {
        // A few users with several permits each.
        kept.extend(check("parallel", &format!("{}", user / 10), 1, true)?);
    }
    for permit in kept {
        let settled = engine.settle_kept(permit, Outcome::Succeeded, now);
        let _ = settled.map_err(|error| failed("settle", error.to_string()))?;
    }
    let refund_and_block = |user: &str| {
        let attributes = [("kind", "quota"), ("user", user)];
        let request = Request::new("honest", &attributes);
        let refunded =
            engine.refund(&request, user, now).map_err(|error| failed("refund", error.to_string()))?;
        done(Ok(refunded));
        let until = now.saturating_add(Duration::from_secs(30));
        let blocked = engine.block(&request, "quota", until, now);
        done(Ok(blocked.map_err(|error| failed("block", error.to_string()))?));
        Ok(())
    };
    keys.place(&format!("{round}"), refund_and_block)?;
    let is_listed =
        |one: &tidegate_engine::BlockReport| one.namespace == "honest" && one.cause == BlockCause::Operation;
    if !engine.blocks(now).iter().any(is_listed) {
        return Err(failed("block", "not listed".into()));
    }
    keys.place(&format!("{round}"), |key| {
        if carry(engine, "honest", key, now) { Ok(()) } else { Err(failed("carry", "no room".into())) }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_namespace_within_its_shares_is_never_refused_because_of_others(
        rounds in prop::collection::vec((prop::collection::vec(attack(), 1..6), 0_u64..5000), 1..8)
    ) {
        let engine = engine();
        let (mut now, mut held) = (NOW, Vec::new());
        for (round, (attacks, seconds)) in rounds.iter().enumerate() {
            for (at, (hostile, attack)) in attacks.iter().enumerate() {
                run(&engine, HOSTILE[*hostile], attack, round * 10 + at, now, &mut held);
            }
            let used = use_share(&engine, round, now);
            prop_assert!(used.is_ok(), "{}", used.unwrap_err());
            now = now.saturating_add(Duration::from_secs(*seconds));
            let _ = engine.tick(now);
        }
    }
}

#[test]
fn settled_permits_leave_their_places_at_once() {
    let engine = engine();
    // Twenty times as many as may be kept at once, each with a hold of a day.
    for user in 0..20 * PERMITS_MAX {
        let kept = check(&engine, "honest", "parallel", &format!("{}", user % 7), 1, true, NOW);
        let kept = kept.unwrap().unwrap();
        assert!(engine.settle_kept(kept, Outcome::Succeeded, NOW).is_ok());
    }
    assert_eq!(engine.stats(NOW).permits_kept, 0);
}

#[test]
fn a_flood_of_keys_of_a_rolling_limit_does_not_keep_rings_that_have_drained() {
    let engine = engine();
    let hour = Duration::from_hours(1);
    let mut now = NOW;
    let mut admitted = 0;
    for round in 0..20 {
        for user in 0..200 {
            let user = format!("{round}-{user}");
            admitted += usize::from(check(&engine, "honest", "rolling", &user, 8, false, now).is_ok());
        }
        now = now.saturating_add(hour).saturating_add(Duration::from_secs(1));
    }
    assert_eq!(admitted, 20 * 200);
}
