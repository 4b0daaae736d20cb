//! The policy: from the bytes of a file to decisions.

use std::collections::BTreeSet;

use tidegate_core::limit::OnExceed;
use tidegate_core::{Cost, Timestamp};
use tidegate_engine::{Completion, Decision, Engine, EngineConfig, Outcome, Permit, Request, Step};
use tidegate_policy::policy::NamespacePolicy;
use tidegate_policy::{Fate, Policy, compare, parse_bytes};

use crate::Taken;
use crate::draws::Draws;
use crate::file_problems::{assert_refused, assert_told};

/// The size of the table, whatever the policy says: tables are made and read whole for each input.
const TABLE_BYTES: usize = 64 << 10;

/// How many namespaces of a policy are asked; an input for a fuzzer has few.
const NAMESPACES_MAX: usize = 4;

/// How many attributes a request has.
const ATTRIBUTES_MAX: usize = 64;

/// When requests come: at once, later, after the clock went back, and at both ends of time.
const INSTANTS: [Timestamp; 12] = [
    Timestamp::from_secs(1_800_000_000),
    Timestamp::from_secs(1_800_000_000),
    Timestamp::from_secs(1_800_000_000),
    Timestamp::from_millis(1_800_000_000_001),
    Timestamp::from_secs(1_800_000_001),
    Timestamp::from_secs(1_800_003_600),
    Timestamp::from_secs(1_799_990_000),
    Timestamp::from_secs(1_831_536_000),
    Timestamp::MIN,
    Timestamp::MAX,
    Timestamp::MAX,
    Timestamp::from_secs(1_831_536_001),
];

/// The value of attributes that no override names.
const VALUES: [&str; 12] = [
    "",
    "ada",
    "GET",
    "/v1/orders/7",
    "10.1.2.3",
    "::ffff:10.1.2.3",
    "2001:db8::1",
    "a",
    "1234",
    "-1",
    "\u{e4}\u{1f600}",
    "a b\"\\\n",
];

/// Reads bytes as a policy, and decides requests by what it says.
///
/// A policy that is refused says why and where; one that is accepted makes an engine, is the same
/// as itself, and decides without writing anything for what it refuses, as looking and explaining
/// have said before.
pub fn policy(bytes: &[u8]) -> Taken {
    let environment = |name: &str| match name.len() {
        1 => Some("5".to_owned()),
        2 => Some("${A}: [\n".to_owned()),
        _ => None,
    };
    let checked = match parse_bytes("t.yaml", bytes, &environment) {
        Ok(checked) => checked,
        Err(problems) => {
            assert_refused(&problems, bytes);
            return Taken::Refused;
        }
    };
    assert_told(&checked.warnings, bytes);
    assert_same(&checked.policy);
    let engine = engine(&checked.policy);
    let mut draws = Draws::new(bytes);
    for namespace in checked.policy.namespaces.iter().take(NAMESPACES_MAX) {
        decide(&engine, namespace, &mut draws);
    }
    Taken::Accepted
}

/// A policy in the place of itself changes nothing.
fn assert_same(policy: &Policy) {
    let comparison = compare(policy, policy);
    assert!(comparison.settings.is_empty(), "{:?}", comparison.settings);
    let limits: usize = policy.namespaces.iter().map(|namespace| namespace.limits.len()).sum();
    assert_eq!(comparison.limits.len(), limits);
    let mut all = policy.namespaces.iter().flat_map(|namespace| &namespace.limits);
    if all.all(|limit| limit.was.is_none()) {
        assert!(comparison.limits.iter().all(|limit| limit.fate == Fate::Kept), "{:?}", comparison.limits);
    }
}

/// The engine of a policy, as the daemon makes it, but for the size of its table.
fn engine(policy: &Policy) -> Engine {
    let mut config = EngineConfig::seeded([1, 2, 3, 4]);
    config.table.bytes = TABLE_BYTES;
    config.table.when_full = policy.memory.when_full;
    let built = Engine::builder(config).namespaces(policy.namespace_configs()).build();
    built.unwrap_or_else(|error| panic!("accepted, and makes no engine: {error}"))
}

fn decide(engine: &Engine, namespace: &NamespacePolicy, draws: &mut Draws) {
    let mut held: Vec<Permit> = Vec::new();
    for (round, now) in INSTANTS.into_iter().enumerate() {
        let attributes = attributes(namespace, round, draws);
        let units = if draws.below(4) == 0 { draws.units() } else { 1 };
        let cost = Cost::new(units).unwrap_or(Cost::ONE);
        let request = Request::new(&namespace.name, &attributes[..]).cost(cost);
        held.extend(admit(engine, namespace, &request, now));
        if draws.below(2) == 0
            && let Some(permit) = held.pop()
        {
            let completions = [
                Outcome::Succeeded.into(),
                Outcome::Failed.into(),
                Outcome::Abandoned.into(),
                Outcome::Cancelled.into(),
                Completion::from_cost(draws.units()).with_status(503),
            ];
            let settled = engine.settle(permit, completions[draws.below(5)], now);
            assert!(settled.batches.is_empty(), "nothing was charged in a store");
        }
        assert!(engine.tick(now).next >= now);
    }
}

/// Decides one request, and holds the decision against what was said before it and against what it
/// left.
fn admit(
    engine: &Engine,
    namespace: &NamespacePolicy,
    request: &Request<'_>,
    now: Timestamp,
) -> Option<Permit> {
    let peeked = engine.peek(request, now).expect("the namespace exists").done().expect("there is no store");
    let explained = engine.explain(request, now).expect("the namespace exists").done();
    let explained = explained.expect("there is no store");
    assert_eq!(explained.limits.len(), namespace.limits.len());
    let (before, full_before) = (engine.fingerprint(), engine.stats(now).table);
    let step = engine.admit(request, now).expect("the namespace exists");
    let full_after = engine.stats(now).table;
    let had_room = (full_before.full_refusals, full_before.full_admissions)
        == (full_after.full_refusals, full_after.full_admissions);
    let (refusal, permit) = match step {
        Step::Decided(Decision::Admit(permit)) => (None, Some(permit)),
        Step::Decided(Decision::Refuse(refused)) => (Some(refused.into_refusal()), None),
        Step::Ask(pending) => panic!("there is no store to be asked {:?}", pending.batch()),
    };
    if had_room {
        // Looking cannot know how much memory a new key will find.
        let looked = (peeked.refusal.is_none(), explained.is_admitted());
        assert_eq!(looked, (permit.is_some(), permit.is_some()), "{refusal:?} at {now}: {explained:?}");
    }
    if let Some(refusal) = &refusal {
        assert!(!refusal.violated.is_empty() && *refusal.namespace == *namespace.name, "{refusal:?}");
        assert!(!refusal.to_string().is_empty());
        let blocks = namespace.limits.iter().any(|limit| limit.on_exceed != OnExceed::Refuse);
        assert!(blocks || engine.fingerprint() == before, "charged although refused: {refusal:?} at {now}");
    }
    if let Some(permit) = &permit {
        for report in engine.statuses(permit) {
            assert!(report.remaining <= report.limit, "more is left than there is: {report:?}");
        }
    }
    permit
}

/// The attributes that the limits of a namespace look at, with values of its overrides or of a
/// list; now and then one is missing.
fn attributes<'a>(
    namespace: &'a NamespacePolicy,
    round: usize,
    draws: &mut Draws,
) -> Vec<(&'a str, &'a str)> {
    let keys = namespace.limits.iter().flat_map(|limit| limit.key.iter().map(|part| &*part.attribute));
    let matched = namespace.limits.iter().flat_map(|limit| limit.matches.iter().map(|one| &*one.attribute));
    let names: BTreeSet<&str> = keys.chain(matched).take(4 * ATTRIBUTES_MAX).collect();
    let overrides = namespace.limits.iter().flat_map(|limit| &limit.overrides);
    let overridden: Vec<(&str, &str)> = overrides
        .flat_map(|one| &one.when)
        .map(|(name, value)| (&**name, &**value))
        .take(ATTRIBUTES_MAX)
        .collect();
    let mut attributes = Vec::new();
    for (at, name) in names.into_iter().enumerate().take(ATTRIBUTES_MAX) {
        let own =
            overridden.iter().find(|(known, _)| *known == name && round % 2 == 1).map(|(_, value)| *value);
        // The same value in most rounds, so that its counter is used up.
        let spread = if draws.below(4) == 0 { draws.below(VALUES.len()) } else { 1 };
        if draws.below(8) > 0 {
            attributes.push((name, own.unwrap_or(VALUES[(at + spread) % VALUES.len()])));
        }
    }
    attributes
}
