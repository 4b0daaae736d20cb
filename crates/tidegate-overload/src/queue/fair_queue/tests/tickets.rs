//! Requests with tickets: a part of the service of their own, and the head of their class.

use super::*;

fn config(share: u8) -> QueueConfig {
    QueueConfig::default().ticket_share(Share::percent(share))
}

fn ticketed(class: Class, tenant: u64) -> Entrant {
    entrant(class, tenant).has_ticket(true)
}

#[test]
fn tickets_get_their_share_beside_each_class_within_two_percent() {
    for others in Class::ALL {
        for share in [5, 20, 50] {
            let mut line = Line::without_delay_control(config(share));
            let backlogged = [ticketed(Class::Sheddable, 1), entrant(others, 1)];
            let expected = match others {
                // The first of their class, and so all of it.
                Class::Sheddable => 1.0,
                // By the reserve and then by weight, 1 to 16.
                Class::CriticalPlus => {
                    f64::from(share) / 100.0 + 0.5 * (1.0 - f64::from(share) / 100.0) / 17.0
                }
                other => {
                    let weight = f64::from(QueueConfig::default().weights[other as usize]);
                    let share = f64::from(share) / 100.0;
                    share.max(1.0 / (1.0 + weight))
                }
            };
            let served = shares(&line.served_costs(&backlogged, 10_000));
            println!("{others}, share {share} %: {served:?}, {expected}");
            assert!((served[0] - expected).abs() < 0.05, "{others}, share {share} %: {served:?}");
        }
    }
}

#[test]
fn a_class_without_tickets_keeps_its_part_of_the_rest() {
    let mut line = Line::without_delay_control(config(20));
    let backlogged =
        [ticketed(Class::Sheddable, 1), entrant(Class::Critical, 1), entrant(Class::SheddablePlus, 1)];
    let served = shares(&line.served_costs(&backlogged, 10_000));
    assert!((served[1] / served[2] - 2.0).abs() < 0.1, "8 to 4 by weight: {served:?}");
}

#[test]
fn a_background_class_with_tickets_has_its_share_and_starves_without_them() {
    let config = config(20).min_share(Class::Sheddable, Share::NONE);
    let mut line = Line::without_delay_control(config);
    let served = shares(&line.served_costs(
        &[ticketed(Class::Sheddable, 1), entrant(Class::Sheddable, 2), entrant(Class::Critical, 1)],
        10_000,
    ));
    assert!((served[0] - 0.2).abs() < 0.01 && served[1] == 0.0, "{served:?}");
}

#[test]
fn a_ticket_is_honoured_late_where_others_are_shed_by_delay() {
    let mut line = Line::new(config(20));
    let late = after(10_000);
    let (with, without) = (ticketed(Class::Sheddable, 1), entrant(Class::Sheddable, 2));
    let position = line.push(with, START);
    for _ in 0..100 {
        line.push(without, START);
    }
    assert_eq!(line.queue.sheds_on_arrival(&with, late), None);
    assert_eq!(line.queue.turn(position, late), TurnVerdict::Go);
    // It ends with the time for which its caller waits.
    let position = line.push(with.until(after(500)), START);
    assert_eq!(line.queue.turn(position, late), TurnVerdict::Shed(QueueShed::Expired));
}

#[test]
fn a_ticket_displaces_one_without_of_its_class_and_is_displaced_by_none() {
    let mut line = Line::new(config(20));
    let first = line.push(entrant(Class::Sheddable, 1), START);
    assert_eq!(line.queue.victim(&entrant(Class::Sheddable, 2)), None);
    assert_eq!(line.queue.victim(&ticketed(Class::Sheddable, 2)), Some(first));
    line.queue.cancel(first);
    line.push(ticketed(Class::Sheddable, 1), START);
    for class in Class::ALL {
        assert_eq!(line.queue.victim(&ticketed(class, 2)), None);
    }
}

#[test]
fn a_ticket_that_is_set_aside_comes_back_as_one() {
    let mut line = Line::new(config(20));
    let with = ticketed(Class::Sheddable, 1);
    let position = line.push(with, START);
    let other = line.push(entrant(Class::Sheddable, 1), START);
    let terms = line.queue.set_aside(position).unwrap();
    assert!(terms.has_ticket);
    assert_eq!(line.queue.next(), Some(other));
    line.queue.refund(&with);
    line.queue.push(position, &with, START);
    assert_eq!(line.queue.next(), Some(position));
}
