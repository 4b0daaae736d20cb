//! The actions that a tick leaves to the driver.

use tidegate_core::Limit;
use tidegate_driver::Clock;
use tidegate_engine::RuntimeOverride;

use crate::world::{MANY, SECOND, World, bucket, request};

#[tokio::test]
async fn the_tick_of_a_request_takes_out_an_override_that_has_expired() {
    let world = World::new([Limit::new("rate", bucket(1)).key(["user"])], MANY);
    let now = world.clock.now();
    let when = vec![("user".to_owned(), "ada".to_owned())];
    let mut raised = RuntimeOverride::new("default", "rate", when, bucket(5), now);
    raised.until = Some(now.saturating_add(SECOND));
    let (engine, _) = world.driver.engine().with_override(raised, now).unwrap();
    world.driver.handle().replace(engine);
    let kept = || world.driver.engine().overrides(world.clock.now()).count();
    drop(world.admission.admit(&request()).await.unwrap());
    assert_eq!((kept(), world.left()), (1, vec![4]));
    world.clock.advance(2 * SECOND);
    drop(world.admission.admit(&request()).await.unwrap());
    assert_eq!((kept(), world.left()), (0, vec![0]), "the engine in force no longer has it");
    world.reload([Limit::new("rate", bucket(3)).key(["user"])]);
    assert_eq!(kept(), 0, "nor has an engine that is made of it");
}
