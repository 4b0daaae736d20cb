//! Every interleaving of two or three threads at one bucket.
//!
//! Run with `RUSTFLAGS="--cfg tidegate_loom" cargo test -p tidegate-capacity --release --lib loom`.

use std::sync::Arc;

use ::loom::model::Builder;
use ::loom::thread;

use super::*;

/// A whole second, so that no charge begins between two thousandths.
const NOW: Timestamp = Timestamp::from_secs(1_795_210_800);

/// Ten thousandths a second, a depth of ten, and five of debt.
fn spec() -> BucketSpec {
    BucketSpec::new(10, 10, 5)
}

/// Explores every interleaving with at most `preemptions` switches where none was needed.
fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

fn spawn<R: 'static>(
    bucket: &Arc<Bucket>,
    act: impl FnOnce(&Bucket) -> R + 'static,
) -> thread::JoinHandle<R> {
    let bucket = Arc::clone(bucket);
    thread::spawn(move || act(&bucket))
}

fn left(bucket: &Bucket) -> i64 {
    bucket.level(spec(), NOW).as_thousandths()
}

#[test]
fn three_takes_of_two_that_fit_admit_exactly_two() {
    explore(3, || {
        let bucket = Arc::new(Bucket::default());
        let take = |bucket: &Bucket| bucket.take(spec(), 5, NOW).is_ok();
        let others = [(); 2].map(|()| spawn(&bucket, take));
        let mine = take(&bucket);
        let admitted = others.into_iter().map(|other| other.join().unwrap()).filter(|admitted| *admitted);
        assert_eq!(admitted.count() + usize::from(mine), 2);
        assert_eq!(left(&bucket), 0);
    });
}

#[test]
fn no_unit_is_lost_or_made_between_a_take_and_two_returns() {
    explore(3, || {
        let bucket = Arc::new(Bucket::default());
        let whole = bucket.take(spec(), 4, NOW).unwrap();
        let half = bucket.take(spec(), 4, NOW).unwrap();
        let other = spawn(&bucket, move |bucket| bucket.give_back(spec(), whole, 4, NOW));
        let third = spawn(&bucket, |bucket| bucket.take(spec(), 3, NOW).is_ok());
        bucket.give_back(spec(), half, 2, NOW);
        other.join().unwrap();
        assert!(third.join().unwrap(), "two were left before any came back");
        assert_eq!(left(&bucket), 10 - 4 - 4 - 3 + 4 + 2);
    });
}

#[test]
fn charges_of_two_threads_stop_at_the_deepest_debt_and_book_only_what_they_charged() {
    explore(3, || {
        let bucket = Arc::new(Bucket::default());
        let other = spawn(&bucket, |bucket| bucket.charge(spec(), 9, NOW));
        let mine = bucket.charge(spec(), 9, NOW);
        let other = other.join().unwrap();
        assert_eq!(left(&bucket), -5);
        assert_eq!(mine.cost + other.cost, 15);
        bucket.give_back(spec(), other, 9, NOW);
        bucket.give_back(spec(), mine, 9, NOW);
        assert_eq!(left(&bucket), 10);
    });
}
