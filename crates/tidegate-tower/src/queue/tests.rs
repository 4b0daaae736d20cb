use std::borrow::Cow;

use super::*;
use tidegate::{Retry, Timestamp, Violated};

fn refusal(limit: &'static str, user: &'static str) -> Refusal<'static> {
    let violated = Violated {
        name: limit.into(),
        reason: Reason::RateExceeded,
        retry: Retry::At(Timestamp::MAX),
        limit: 1,
        remaining: 0,
        window: None,
    };
    let scope = [(Cow::Borrowed("user"), Cow::Borrowed(user))].into_iter().collect();
    Refusal::new("api", scope, violated)
}

fn counter(user: &'static str) -> Counter {
    Counter::of(&"api".into(), &refusal("per-user", user))
}

fn join(queue: &Arc<Queue>, user: &'static str, class: Class) -> Place {
    queue.join(counter(user), false, class, 100).unwrap()
}

#[test]
fn the_higher_class_is_first_and_within_a_class_the_earlier_one() {
    let queue = Arc::new(Queue::default());
    let first = join(&queue, "ada", Class::Sheddable);
    let second = join(&queue, "ada", Class::Sheddable);
    let critical = join(&queue, "ada", Class::Critical);
    assert!(critical.is_head() && !first.is_head() && !second.is_head());
    drop(critical);
    assert!(first.is_head());
    drop(first);
    assert!(second.is_head());
}

#[test]
fn who_waits_for_another_counter_stands_in_nobodys_way() {
    let queue = Arc::new(Queue::default());
    let ada = join(&queue, "ada", Class::Critical);
    let bob = join(&queue, "bob", Class::Sheddable);
    assert!(ada.is_head() && bob.is_head());
    let ahead = |user, class| queue.ahead_of("api", (&[("user", user)]).into(), class, |_| true).is_some();
    assert!(ahead("ada", Class::Critical) && ahead("ada", Class::Sheddable));
    assert!(!ahead("ada", Class::CriticalPlus), "a higher class goes first");
    assert!(!ahead("eve", Class::Sheddable));
    assert!(queue.ahead_of("api", (&[("user", "ada")]).into(), Class::Sheddable, |_| false).is_none());
    assert!(queue.ahead_of("other", (&[("user", "ada")]).into(), Class::Sheddable, |_| true).is_none());
    assert!(queue.ahead_of("api", (&[("app", "ada")]).into(), Class::Sheddable, |_| true).is_none());
}

#[test]
fn leaving_leaves_no_trace() {
    let queue = Arc::new(Queue::default());
    let mut moved = join(&queue, "ada", Class::Critical);
    let other = join(&queue, "ada", Class::Critical);
    moved.move_to(Counter::of(&"api".into(), &refusal("per-app", "ada")), true);
    assert!(moved.is_head() && other.is_head());
    drop((moved, other));
    let lines = queue.lines();
    assert!(lines.by_counter.is_empty() && lines.shapes.is_empty());
    drop(lines);
    assert_eq!(queue.waiting(), 0);
}

#[test]
fn no_more_wait_than_may() {
    let queue = Arc::new(Queue::default());
    let one = queue.join(counter("ada"), false, Class::Critical, 1);
    assert!(one.is_some());
    assert!(queue.join(counter("bob"), false, Class::Critical, 1).is_none());
    drop(one);
    assert!(queue.join(counter("bob"), false, Class::Critical, 1).is_some());
}
