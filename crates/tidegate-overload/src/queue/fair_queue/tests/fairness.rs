//! The parts of the service that classes and tenants get.

use super::*;

#[test]
fn weights_divide_the_service_within_two_percent() {
    let config = QueueConfig::default()
        .weight(Class::Sheddable, 1)
        .weight(Class::SheddablePlus, 2)
        .weight(Class::Critical, 4);
    let mut line = Line::without_delay_control(config);
    let classes = [Class::Sheddable, Class::SheddablePlus, Class::Critical].map(|class| entrant(class, 1));
    let served = shares(&line.served_costs(&classes, 7_000));
    for (share, expected) in served.iter().zip([1.0 / 7.0, 2.0 / 7.0, 4.0 / 7.0]) {
        assert!((share / expected - 1.0).abs() < 0.02, "{served:?}");
    }
}

#[test]
fn tenants_get_equal_costs_whatever_one_request_costs() {
    let mut line = Line::without_delay_control(QueueConfig::default());
    let tenants: Vec<_> = [1, 50, 7, 1].into_iter().zip(1..).collect();
    let tenants: Vec<_> =
        tenants.iter().map(|(units, tenant)| entrant(Class::Critical, *tenant).cost(cost(*units))).collect();
    let served = line.served_costs(&tenants, 20_000);
    let jain = served.iter().sum::<f64>().powi(2)
        / (served.len() as f64 * served.iter().map(|one| one * one).sum::<f64>());
    assert!(jain > 0.9999, "{served:?}");
}

#[test]
fn the_later_calls_of_a_task_are_not_behind_the_first_calls_of_all_others() {
    let mut line = Line::without_delay_control(QueueConfig::default());
    for tenant in 0..30 {
        line.push(entrant(Class::Critical, tenant), START);
    }
    let task = entrant(Class::Critical, 7);
    let (mut calls, mut since) = (0, 0);
    // With each request that is served a new tenant comes.
    for fresh in 1_000..1_500 {
        let (_, served) = line.serve(START).unwrap();
        line.push(entrant(Class::Critical, fresh), START);
        since += 1;
        if served == task {
            line.push(task, START);
            calls += 1;
            since = 0;
        }
        assert!(since < 100, "{since} requests were served after call {calls}");
    }
    assert!(calls > 5, "{calls} calls");
}

#[test]
fn classes_of_different_costs_get_their_weights() {
    let config = QueueConfig::default().weight(Class::Sheddable, 1).weight(Class::Critical, 3);
    let mut line = Line::without_delay_control(config);
    let backlogged = [entrant(Class::Sheddable, 1).cost(cost(1)), entrant(Class::Critical, 1).cost(cost(50))];
    let served = shares(&line.served_costs(&backlogged, 20_000));
    assert!((served[1] - 0.75).abs() < 0.01, "{served:?}");
}

#[test]
pub(super) fn a_tenant_that_comes_back_has_hoarded_no_credit() {
    let mut line = Line::without_delay_control(QueueConfig::default());
    let (busy, back) = (entrant(Class::Critical, 1), entrant(Class::Critical, 2));
    // It is known, and then away while the other one is served.
    line.served_costs(&[busy, back], 10);
    let away = line.entrants.iter().find(|(_, one)| **one == back).map(|(position, _)| *position);
    line.queue.cancel(away.unwrap());
    line.entrants.remove(&away.unwrap());
    for _ in 0..6_000 {
        // Never empty, or a busy period would end and with it what both owe.
        line.push(busy, after(60_000));
        line.serve(after(60_000)).unwrap();
    }
    let served = line.served_costs(&[back, busy], 100);
    assert!((served[0] - 50.0).abs() <= 1.0, "{served:?}: from its return on, each gets the same");
}

#[test]
fn a_class_that_comes_back_has_hoarded_no_credit() {
    let config = QueueConfig::default().weight(Class::Sheddable, 1).weight(Class::Critical, 1);
    let mut line = Line::without_delay_control(config);
    line.served_costs(&[entrant(Class::Sheddable, 1)], 5_000);
    let served = line.served_costs(&[entrant(Class::Critical, 1), entrant(Class::Sheddable, 1)], 100);
    assert!((served[0] - 50.0).abs() <= 1.0, "{served:?}");
}

#[test]
fn a_background_class_gets_its_share_and_no_more() {
    for (share, low, high) in [(0.0, 0.0, 0.0), (0.05, 0.045, 0.055), (0.01, 0.008, 0.012)] {
        for foreground in [Class::SheddablePlus, Class::Critical, Class::CriticalPlus] {
            let config =
                QueueConfig::default().min_share(Class::Sheddable, Share::from_ratio(share).unwrap());
            let mut line = Line::without_delay_control(config);
            let backlogged = [entrant(Class::Sheddable, 1), entrant(foreground, 1)];
            let served = shares(&line.served_costs(&backlogged, 10_000));
            assert!((low..=high).contains(&served[0]), "{share} beside {foreground}: {served:?}");
        }
    }
}

#[test]
fn a_background_class_is_served_when_nothing_else_waits() {
    let config = QueueConfig::default().min_share(Class::Sheddable, Share::NONE);
    let mut line = Line::without_delay_control(config);
    line.push(entrant(Class::Sheddable, 1), START);
    let foreground = line.push(entrant(Class::SheddablePlus, 1), START);
    assert_eq!(line.serve(START).unwrap().0, foreground);
    assert_eq!(line.serve(START).unwrap().1.class, Class::Sheddable);
}

#[test]
fn the_reserve_goes_first_up_to_its_share_and_then_competes_by_weight() {
    for (reserve, weight, expected) in
        [(0.5, 1, 0.5), (0.3, 1, 0.3), (0.5, 9, 0.75), (0.0, 1, 0.25), (1.0, 1, 1.0)]
    {
        let config = QueueConfig::default()
            .weight(Class::CriticalPlus, weight)
            .weight(Class::Critical, 3)
            .reserve_share(Share::from_ratio(reserve).unwrap());
        let mut line = Line::without_delay_control(config);
        let backlogged = [entrant(Class::CriticalPlus, 1), entrant(Class::Critical, 1)];
        let served = shares(&line.served_costs(&backlogged, 10_000));
        assert!((served[0] - expected).abs() < 0.01, "{reserve}, {weight}: {served:?}");
    }
    // Below its share it is served at once, however many others wait.
    let mut line = Line::without_delay_control(QueueConfig::default());
    line.served_costs(&[entrant(Class::Critical, 1), entrant(Class::Sheddable, 1)], 1_000);
    let urgent = line.push(entrant(Class::CriticalPlus, 1), START);
    assert_eq!(line.queue.next(), Some(urgent));
}

#[test]
fn a_corrected_cost_counts_as_if_it_had_been_known() {
    let (cheap, dear) = (entrant(Class::Critical, 1), entrant(Class::Critical, 2));
    let mut line = Line::without_delay_control(QueueConfig::default());
    let mut served = [0.0; 2];
    for _ in 0..3 {
        line.push(cheap, START);
        line.push(dear, START);
    }
    for _ in 0..10_000 {
        let (_, one) = line.serve(START).unwrap();
        line.push(one, START);
        let is_dear = one == dear;
        let known = if is_dear { 10 } else { 1 };
        served[usize::from(is_dear)] += known as f64;
        line.queue.correct(&one, cost(known));
    }
    assert!((served[0] / served[1] - 1.0).abs() < 0.01, "{served:?}");
    // A cost that was too high is given back, but not for what others were served meanwhile.
    let mut line = Line::without_delay_control(QueueConfig::default());
    let over = dear.cost(cost(1_000));
    let (_, _, _) = (line.push(over, START), line.push(over, START), line.push(cheap, START));
    assert_eq!(line.serve(START).unwrap().1, over);
    for _ in 0..10 {
        assert_eq!(line.serve(START).unwrap().1, cheap);
        line.push(cheap, START);
    }
    line.queue.correct(&over, cost(1));
    assert_eq!(line.serve(START).unwrap().1, over);
}

/// Fluid reference: backlogged tenants of backlogged classes are served at the same time, each at
/// its part of the rate. It shares no formula with the queue, which serves one request at a time.
fn fluid_parts(weights: [u32; 4], backlogged: &[(Class, u64)]) -> Vec<f64> {
    let tenants = |class: Class| backlogged.iter().filter(|(of, _)| *of == class).count() as f64;
    let total: u32 =
        Class::ALL.iter().filter(|class| tenants(**class) > 0.0).map(|class| weights[*class as usize]).sum();
    backlogged
        .iter()
        .map(|(class, _)| f64::from(weights[*class as usize]) / f64::from(total) / tenants(*class))
        .collect()
}

proptest::proptest! {
    /// At any time, no backlogged tenant is behind the fluid by more than the requests in hand.
    #[test]
    fn the_order_follows_the_fluid(
        weights in proptest::array::uniform4(1_u32..20),
        costs in proptest::collection::vec((0_usize..3, 1_u64..50), 1..12),
    ) {
        let mut config = QueueConfig::default().reserve_share(Share::NONE);
        config.weights = weights;
        let mut line = Line::without_delay_control(config);
        let backlogged: Vec<_> = costs.iter().enumerate().map(|(index, (class, units))| {
            entrant(Class::ALL[*class], index as u64).cost(cost(*units))
        }).collect();
        let names: Vec<_> = backlogged.iter().map(|one| (one.class, one.tenant.unwrap())).collect();
        let parts = fluid_parts(weights, &names);
        let served = line.served_costs(&backlogged, 4_000);
        let total: f64 = served.iter().sum();
        // One request of each tenant and class may be in hand.
        let slack = 2.0 * 50.0 * backlogged.len() as f64;
        for (served, part) in served.iter().zip(&parts) {
            proptest::prop_assert!((served - part * total).abs() <= slack, "{served} of {} ({})", part * total, slack);
        }
    }
}

/// The requests of a tenant in another namespace, in the class of `entrant`.
fn of_namespace(namespace: u32, class: Class, tenant: u64) -> Entrant {
    let mut entrant = entrant(class, tenant);
    entrant.group.namespace = namespace;
    entrant
}

#[test]
fn a_namespace_with_a_new_tenant_in_each_request_gets_no_more_than_another_one() {
    let mut line = Line::without_delay_control(QueueConfig::default());
    let honest = of_namespace(2, Class::Critical, 1);
    let mut served = [0_u32; 2];
    for tenant in 0..2_000 {
        line.push(of_namespace(1, Class::Critical, tenant), START);
        line.push(of_namespace(1, Class::Critical, 1_000_000 + tenant), START);
        line.push(honest, START);
        let (_, one) = line.serve(START).unwrap();
        served[usize::from(one == honest)] += 1;
    }
    assert!((999..=1_001).contains(&served[1]), "{served:?}");
}

#[test]
fn namespaces_are_served_by_their_shares_and_the_class_stands_above_them() {
    let config = QueueConfig::default().weight(Class::Critical, 3).weight(Class::Sheddable, 1);
    let mut line = Line::without_delay_control(config);
    line.queue.set_shares(NamespaceShares::new([(1, 3), (2, 1)]));
    let all: Vec<_> = [Class::Critical, Class::Sheddable]
        .into_iter()
        .flat_map(|class| [1, 2].map(|namespace| of_namespace(namespace, class, 1)))
        .collect();
    let served = shares(&line.served_costs(&all, 16_000));
    let expected = [9.0 / 16.0, 3.0 / 16.0, 3.0 / 16.0, 1.0 / 16.0];
    for (served, expected) in served.iter().zip(expected) {
        assert!((served - expected).abs() < 0.002, "{served} where {expected} is right");
    }
}

#[test]
fn namespaces_beyond_the_bound_have_one_part_together() {
    let mut line = Line::without_delay_control(QueueConfig::default());
    let all: Vec<_> = (0..80).map(|namespace| of_namespace(namespace, Class::Critical, 1)).collect();
    let served = line.served_costs(&all, 6_500);
    assert!(served[..64].iter().all(|served| (99.0..=101.0).contains(served)), "{served:?}");
    assert!((99.0..=101.0).contains(&served[64..].iter().sum::<f64>()), "{served:?}");
}

#[test]
fn a_namespace_that_settles_at_more_is_charged_and_no_other_of_its_class() {
    let mut line = Line::without_delay_control(QueueConfig::default());
    let (costly, plain) = (of_namespace(1, Class::Critical, 1), of_namespace(2, Class::Critical, 1));
    let mut served = [0.0_f64; 2];
    for one in [costly, plain] {
        line.push(one, START);
    }
    for _ in 0..6_000 {
        let (_, one) = line.serve(START).unwrap();
        let true_cost = if one == costly { 5 } else { 1 };
        served[usize::from(one == plain)] += true_cost as f64;
        line.push(one, START);
        line.queue.correct(&one, cost(true_cost));
    }
    let parts = shares(&served);
    assert!((parts[0] - 0.5).abs() < 0.01, "{parts:?}");
}
