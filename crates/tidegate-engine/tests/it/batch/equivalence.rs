//! Deciding requests together beside deciding the same ones one after the other.

use proptest::prelude::*;
use tidegate_engine::{Completion, Decision, Outcome};

use super::*;

fn world() -> World {
    let parallel = |limit| Algorithm::Concurrency(Concurrency::new(limit, HOUR).unwrap());
    let rolling = |limit| Algorithm::Rolling(Rolling::new(limit, HOUR).unwrap());
    World::with_limits([
        Limit::new("rate", bucket(9, HOUR)).key(["user"]),
        Limit::new("rolling here", rolling(12)).key(["user"]),
        Limit::new("parallel here", parallel(5)).key(["user"]),
        exact("quota", bucket(8, HOUR)),
        exact("rolling", rolling(10)),
        exact("parallel", parallel(4)),
        exact("shadow", bucket(3, HOUR)).shadow(),
        Limit::new("all", bucket(14, HOUR)).consistency(Consistency::Exact),
    ])
}

/// A request by who asks (the last of the names is nobody) and what it weighs.
fn asked<'a>(pairs: &'a [Vec<(&'a str, &'a str)>], weights: &[(usize, u64)]) -> Vec<Request<'a>> {
    pairs
        .iter()
        .zip(weights)
        .map(|(pairs, (_, units))| Request::new("api", pairs.as_slice()).cost(cost(*units)))
        .collect()
}

fn everything(world: &World) -> Vec<Vec<u64>> {
    NAMES[..4].iter().map(|user| left(world, user)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn together_is_one_after_the_other_if_all_are_admitted_and_nothing_if_one_is_refused(
        groups in prop::collection::vec(
            (prop::collection::vec((0..4_usize, 1..4_u64), 0..7), 0..30_u64, 0..3_u8),
            1..12,
        ),
    ) {
        let (together, alone) = (world(), world());
        for (weights, minutes, end) in groups {
            for world in [&together, &alone] {
                world.advance(Duration::from_mins(minutes));
            }
            let user = |(user, _): &(usize, u64)| if *user == 3 { vec![] } else { vec![("user", NAMES[*user])] };
            let pairs: Vec<_> = weights.iter().map(user).collect();
            let asked = asked(&pairs, &weights);
            let (before, left_before) = (together.state(), everything(&together));
            let (decision, sent) = decide(&together, &asked);

            let (mut held, mut refused_at) = (Vec::new(), None);
            for (at, request) in asked.iter().enumerate() {
                match alone.decide(request) {
                    Decision::Admit(permit) => held.push(permit),
                    Decision::Refuse(_) => {
                        refused_at = Some(at);
                        break;
                    }
                }
            }
            match (decision, refused_at) {
                (Decision::Admit(permits), None) => {
                    prop_assert!(sent.len() <= 1);
                    let reports = |one| alone.engine.statuses(one);
                    let apart: Vec<_> = held.iter().map(reports).collect();
                    let joint: Vec<_> = (0..permits.requests()).map(|at| together.engine.statuses_of(&permits, at)).collect();
                    prop_assert_eq!(joint, apart);
                    let outcome = match end {
                        0 => Outcome::Succeeded.into(),
                        1 => Completion::from_cost(2),
                        _ => Outcome::Cancelled.into(),
                    };
                    finish(&together, together.engine.settle(permits, outcome, together.now()));
                    if outcome == Completion::from(Outcome::Cancelled) {
                        held.reverse();
                    }
                    for permit in held {
                        alone.finish(alone.engine.settle(permit, outcome, alone.now()));
                    }
                    if outcome == Completion::from(Outcome::Cancelled) {
                        // Counters that had drained before may be forgotten by now, which is the
                        // same.
                        prop_assert_eq!(together.engine.fingerprint(), before.0);
                        prop_assert_eq!(everything(&together), left_before);
                    }
                }
                (Decision::Refuse(refusals), Some(at)) => {
                    let refusals = refusals.into_each(asked.len());
                    let first = refusals.iter().position(Option::is_some);
                    if sent.is_empty() {
                        // The store comes after everybody's local limits: one of those may refuse a
                        // later request first.
                        prop_assert!(first >= Some(at) && refusals.iter().flatten().count() == 1, "{refusals:?}");
                    } else {
                        prop_assert_eq!(first, Some(at), "{:?}", refusals);
                    }
                    prop_assert_eq!(together.state(), before);
                    for permit in held.into_iter().rev() {
                        alone.finish(alone.engine.settle(permit, Outcome::Cancelled, alone.now()));
                    }
                }
                (decision, at) => prop_assert!(false, "{decision:?}, and alone {at:?}"),
            }
            prop_assert_eq!(everything(&together), everything(&alone));
        }
    }
}
