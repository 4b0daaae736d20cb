//! The figure of the pattern (E4): B is off at T1 and on again at T2, and A and C go on as normal.

use core::time::Duration;

use tidegate_core::Class;

use super::world::{RequestStream, TUNED, UNTUNED, World, feature, thresholds};
use crate::{FeatureEvent, ResourceConfig};

const PLACES: u64 = 200;
const SERVICE: Duration = Duration::from_millis(100);
/// The requests a second that the places can serve.
const CAPACITY: f64 = 2_000.0;
/// The part of the capacity that B takes.
pub(crate) const B: f64 = 0.25;

/// The part of the capacity that A and C ask for: 40 to 80 to 40 % in 150 s.
pub(crate) fn ramp(seconds: f64) -> f64 {
    let up = ((seconds - 10.0) / 60.0).clamp(0.0, 1.0);
    let down = ((seconds - 80.0) / 60.0).clamp(0.0, 1.0);
    0.40 + 0.40 * (up - down)
}

pub(super) fn world(seed: u64) -> World {
    let half = |seconds: f64| ramp(seconds) * CAPACITY / 2.0;
    let streams = vec![
        RequestStream::new(None, Class::Critical, SERVICE, half),
        RequestStream::new(Some("b"), Class::Sheddable, SERVICE, |_| B * CAPACITY),
        RequestStream::new(None, Class::CriticalPlus, SERVICE, half),
    ];
    let config = ResourceConfig::new(PLACES).levels(thresholds(0.90));
    let b = feature("b", Class::Sheddable, &[("on", 1.0), ("off", 0.0)]);
    World::new(&config, Vec::new(), vec![b], streams, seed)
}

/// The seconds at which B went off and on.
pub(super) fn t1_and_t2(world: &World) -> (f64, f64) {
    let changes = world.changes();
    assert_eq!(changes.len(), 2, "{changes:?}");
    assert_eq!((&*changes[0].2, &*changes[1].2), ("off", "on"));
    (changes[0].0, changes[1].0)
}

#[test]
fn b_is_off_at_t1_and_on_again_at_t2_and_a_and_c_go_on_as_normal() {
    for seed in TUNED.into_iter().chain(UNTUNED) {
        let mut world = world(seed);
        world.run_until(150.0);
        let (t1, t2) = t1_and_t2(&world);
        let at_threshold = world.ticks.iter().find(|tick| tick.pressure >= 0.90).unwrap().seconds;
        assert!(t1 - at_threshold <= 0.5, "seed {seed}: U was 0.90 at {at_threshold}, B off at {t1}");
        // The first instant from which A + C + B is at most 0.80, as the same smoothed signal
        // shows it.
        let mut between = world.ticks.iter().filter(|tick| tick.seconds > t1 + 3.0 && tick.seconds <= t2);
        let above = between.rfind(|tick| tick.pressure + B > 0.80).unwrap().seconds;
        let fits = above + 0.1;
        assert!(t2 >= fits, "seed {seed}: {t2} is before {fits}");
        assert!(t2 - fits <= 6.0, "seed {seed}: fits from {fits}, B on at {t2}");
        let empty = world.ticks.iter().find(|tick| tick.seconds >= t1 && tick.in_flight[0] == 0).unwrap();
        assert!(empty.seconds - t1 <= 2.0, "seed {seed}: in flight until {}", empty.seconds);
        let released = world.events.iter().find_map(|event| match event {
            FeatureEvent::Released { after, .. } => Some(*after),
            _ => None,
        });
        assert!(released.unwrap() <= Duration::from_secs(2), "seed {seed}: {released:?}");
        assert!(world.ticks.iter().all(|tick| tick.pressure <= 1.0), "seed {seed}");
        assert_eq!(world.counts.iter().map(|stream| stream.refused).sum::<u64>(), 0, "seed {seed}");
        println!(
            "seed {seed}: U 0.90 at {at_threshold:.1} s, off {t1:.1}, empty after {released:?}, fits {fits:.1}, on {t2:.1}"
        );
    }
}
