//! A plane of tests: it refuses each request of an even cost. So one more plane is one module and
//! one line of the walk, and each way to a decision meets it.

use tidegate_core::refusal::ScopeValues;
use tidegate_core::{Reason, Refusal, Retry, Text, Timestamp, Violated};

use super::answer::{Answer, Mode, Stop};
use super::located::Located;
use crate::engine::Engine;
use crate::permit::Holds;

const NAME: &str = "even-cost";

pub(crate) fn step(
    _engine: &Engine,
    located: &Located<'_, '_>,
    _mode: Mode,
    _holds: &mut Option<Holds>,
    _now: Timestamp,
) -> Answer {
    let units = located.request.cost.units();
    if units % 2 == 1 {
        return Ok(());
    }
    let violated = Violated {
        name: Text::from_static(NAME),
        reason: Reason::RateExceeded,
        retry: Retry::Never,
        limit: units - 1,
        remaining: 0,
        window: None,
    };
    let refusal = Refusal::new(located.request.namespace, ScopeValues::new(), violated);
    Err(Stop::Refuse(Some(refusal)))
}

mod tests {
    use core::time::Duration;
    use std::borrow::Cow;

    use tidegate_core::{Algorithm, CarriedLimit, Charging, Cost, Limit, NamespaceConfig, Rate};
    use tidegate_overload::{Overload, QueueConfig, ResourceConfig};

    use super::*;
    use crate::engine::EngineConfig;
    use crate::{Decision, Permit, Request, Step};

    const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

    /// One place, for which requests may wait.
    fn engine() -> Engine {
        let limit = Limit::rate("rate", "1000/s").unwrap();
        let app = ResourceConfig::new(1).queue(QueueConfig::default());
        let overload = Overload::new(app, 5).unwrap();
        let api = NamespaceConfig::new("api", [limit]);
        let engine = Engine::builder(EngineConfig::seeded([1, 2, 3, 4])).namespace(api).overload(overload);
        engine.build().unwrap()
    }

    fn request(units: u64) -> Request<'static> {
        Request::new("api", ()).cost(Cost::new(units).unwrap())
    }

    fn refused(step: Step<'_>) -> Vec<Option<String>> {
        match step {
            Step::Decided(Decision::Refuse(refused)) => {
                refused.into_each(2).into_iter().map(|one| Some(one?.name().to_owned())).collect()
            }
            other => panic!("should be refused: {other:?}"),
        }
    }

    fn admitted(step: Step<'_>) -> Permit {
        match step {
            Step::Decided(Decision::Admit(permit)) => permit,
            other => panic!("should be admitted: {other:?}"),
        }
    }

    #[test]
    fn each_way_to_a_decision_meets_every_plane() {
        let (engine, by_plane) = (engine(), Some(NAME.to_owned()));
        // An attempt, and several together.
        assert_eq!(refused(engine.admit(&request(2), NOW).unwrap())[0], by_plane);
        let both = engine.admit_all(&[request(1), request(2)], NOW).unwrap();
        assert_eq!(refused(both), [None, by_plane.clone()]);
        // A look, and an explanation.
        let peek = |units| engine.peek(&request(units), NOW).unwrap().done().unwrap().refusal;
        assert_eq!((peek(1), peek(2).map(|one| one.name().to_owned())), (None, by_plane.clone()));
        let explain = |units| engine.explain(&request(units), NOW).unwrap().done().unwrap().planes;
        assert_eq!((explain(1), explain(2)[0].name()), (Vec::new(), NAME));
        // Limits that arrive with the request.
        let algorithm = Algorithm::bucket(Rate::per_second(100).unwrap()).unwrap();
        let carry = |cost| {
            let key: &[&[u8]] = &[b"ada"];
            let limit = CarriedLimit { key: Cow::Borrowed(key), algorithm: Cow::Borrowed(&algorithm), cost };
            let carried = engine.carry(&request(1), &[limit], Charging::AllOrNone, NOW);
            carried.unwrap().done().unwrap().refusal.map(|one| one.name().to_owned())
        };
        assert_eq!((carry(1), carry(2)), (None, by_plane.clone()));
        // With the place taken: at once, behind others that wait, and at its turn.
        let permit = admitted(engine.admit(&request(1), NOW).unwrap());
        let until = NOW.saturating_add(Duration::from_secs(1));
        let waits = |units| engine.admit(&request(units).may_wait_until(until), NOW).unwrap();
        assert_eq!(refused(engine.admit(&request(2), NOW).unwrap())[0], by_plane);
        let Step::Ask(waiting) = waits(1) else { panic!("it waits") };
        assert_eq!(refused(waits(2))[0], by_plane);
        drop(permit);
        let _permit = admitted(engine.resume(waiting, crate::Answered::Turn, NOW));
    }
}
