//! "Coming from governor" of `docs/rust.md`, tried on both libraries.
//!
//! Each piece of code from the page is compared with the page, so that neither can change alone.

use std::error::Error;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ::governor::clock::{Clock, FakeRelativeClock};
use ::governor::middleware::{NoOpMiddleware, StateInformationMiddleware};
use ::governor::state::{InMemoryState, NotKeyed};
use ::governor::{Quota, RateLimiter};
use nonzero_ext::nonzero;
use tidegate::{Cost, Gate, Limit, Timestamp};

const PAGE: &str = include_str!("../../../../docs/rust.md");

/// The value of the expression, which is on the page in these words.
macro_rules! on_page {
    ($code:expr) => {{
        assert_on_page(stringify!($code));
        $code
    }};
}

/// Runs statements that are on the page in these words.
macro_rules! run_from_page {
    ($($code:tt)*) => {{
        assert_on_page(stringify!($($code)*));
        $($code)*
    }};
}

fn assert_on_page(code: &str) {
    let (_, section) = PAGE.split_once("## Coming from governor").expect("the page has the section");
    let dense = |text: &str| text.split_whitespace().collect::<String>();
    assert!(dense(section).contains(&dense(code)), "the page has no `{code}`");
}

/// A governor whose clock stands until it is moved.
type Governor<M = NoOpMiddleware<<FakeRelativeClock as Clock>::Instant>> =
    RateLimiter<NotKeyed, InMemoryState, FakeRelativeClock, M>;

fn governor(quota: Quota) -> Governor {
    on_page!(RateLimiter::direct_with_clock(quota, FakeRelativeClock::default()))
}

fn gate(limit: Limit) -> Result<Gate, Box<dyn Error>> {
    Ok(Gate::builder("api").limit(limit).build()?)
}

/// Pauses between 300 attempts: first a burst, then pauses up to three times the period of one
/// unit.
fn pauses(period: Duration) -> impl Iterator<Item = Duration> {
    (0..300_u32)
        .map(move |number| if number < 60 { Duration::ZERO } else { period * (number * number % 13) / 4 })
}

/// Both admit the same attempts, and afterwards have the same number left.
fn assert_same(quota: Quota, gate: &Gate, period: Duration) {
    let governor = governor(quota).with_middleware::<StateInformationMiddleware>();
    let mut now = Timestamp::from_secs(1_800_000_000);
    let mut admitted = 0;
    for (number, pause) in pauses(period).enumerate() {
        governor.clock().advance(pause);
        now = now.saturating_add(pause);
        let theirs = governor.check().ok().map(|state| u64::from(state.remaining_burst_capacity()));
        let decision = on_page!(gate.check((), Cost::ONE, now));
        let ours = decision.into_result().ok().map(|permit| on_page!(gate.remaining(&permit)));
        assert_eq!(ours, theirs, "attempt {number} of {quota:?}");
        admitted += usize::from(ours.is_some());
    }
    assert!((100..300).contains(&admitted), "{admitted} of 300 were admitted");
}

#[test]
fn the_limits_of_the_table_admit_what_the_quotas_of_governor_do() -> Result<(), Box<dyn Error>> {
    let quota = on_page!(Quota::per_second(nonzero!(50u32)));
    let as_gate = on_page!(Gate::builder("api").limit(Limit::rate("all", "50/s")?).build()?);
    assert_same(quota, &as_gate, Duration::from_millis(20));

    let quota = on_page!(Quota::per_minute(nonzero!(5u32)).allow_burst(nonzero!(9u32)));
    let limit = on_page!(Limit::rate("all", "5/m")?.burst(9));
    assert_same(quota, &gate(limit)?, Duration::from_secs(12));

    let quota = on_page!(Quota::with_period(Duration::from_secs(90))).expect("a period is above zero");
    let limit = on_page!(Limit::rate("all", "1/90s")?);
    assert_same(quota, &gate(limit)?, Duration::from_secs(90));
    Ok(())
}

#[test]
fn keys_are_counted_apart_by_both() -> Result<(), Box<dyn Error>> {
    let now = Timestamp::from_secs(1_800_000_000);
    let quota = Quota::per_hour(nonzero!(3u32));
    let lim = on_page!(RateLimiter::keyed(quota));
    assert_on_page(".key([\"customer\"])");
    let gate = gate(Limit::rate("all", "3/h")?.key(["customer"]))?;
    for admits in [true, true, true, false, false] {
        assert_eq!(on_page!(lim.check_key(&"cus_1")).is_ok(), admits);
        assert_eq!(on_page!(gate.check(&[("customer", "cus_1")], Cost::ONE, now)).is_admit(), admits);
    }
    assert!(lim.check_key(&"cus_2").is_ok(), "another key has another counter");
    assert!(gate.check(&[("customer", "cus_2")], Cost::ONE, now).is_admit());
    Ok(())
}

#[test]
fn a_check_of_several_units_is_admitted_whole_or_not_at_all_by_both() -> Result<(), Box<dyn Error>> {
    let now = Timestamp::from_secs(1_800_000_000);
    let lim = governor(Quota::per_second(nonzero!(25u32)));
    let gate = gate(Limit::rate("all", "25/s")?)?;
    for admits in [true, true, false, false] {
        assert_eq!(on_page!(lim.check_n(nonzero!(10u32)))?.is_ok(), admits);
        assert_eq!(on_page!(gate.check((), Cost::new(10).unwrap(), now)).is_admit(), admits);
    }
    assert_eq!((0..9).filter(|_| lim.check().is_ok()).count(), 5, "what did not fit took nothing");
    assert_eq!((0..9).filter(|_| gate.check((), Cost::ONE, now).is_admit()).count(), 5);
    Ok(())
}

#[test]
fn the_program_with_threads_holds() -> Result<(), Box<dyn Error>> {
    run_from_page! {
        use std::{sync::Arc, thread, time::SystemTime};
        use tidegate::{Cost, Gate, Limit};

        let bucket = Arc::new(Gate::builder("api").limit(Limit::rate("all", "20/s")?).build()?);
        for _ in 0..20 {
            let bucket = Arc::clone(&bucket);
            thread::spawn(move || assert!(bucket.check((), Cost::ONE, SystemTime::now().into()).is_admit())).join().unwrap();
        }
    }
    Ok(())
}

#[test]
fn of_thirty_threads_both_admit_twenty() -> Result<(), Box<dyn Error>> {
    fn admitted(check: impl Fn() -> bool + Send + Sync + 'static) -> usize {
        let check = Arc::new(check);
        let threads: Vec<_> = (0..30)
            .map(|_| {
                let check = Arc::clone(&check);
                thread::spawn(move || check())
            })
            .collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).filter(|is_admitted| *is_admitted).count()
    }
    let theirs = governor(Quota::per_second(nonzero!(20u32)));
    let ours = gate(Limit::rate("all", "20/s")?)?;
    let now = Timestamp::from_secs(1_800_000_000);
    assert_eq!(admitted(move || theirs.check().is_ok()), 20);
    assert_eq!(admitted(move || ours.check((), Cost::ONE, now).is_admit()), 20);
    Ok(())
}
