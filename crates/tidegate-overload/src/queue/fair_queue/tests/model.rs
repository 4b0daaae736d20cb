//! Any sequence of calls: nothing is lost, and the next request is one that waits.

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

#[derive(Clone, Debug)]
enum Call {
    Push { class: usize, tenant: u64, units: u64, patience_ms: u64 },
    Serve,
    Turn(Index),
    Cancel(Index),
    Move(Index),
    SetAside(Index),
    Return,
    Displace { class: usize, tenant: u64 },
    Correct { class: usize, tenant: u64, charged: u64, units: u64 },
    Pass(u64),
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let tenant = 0_u64..12;
    let call = prop_oneof![
        6 => (0_usize..4, tenant.clone(), 1_u64..50, 1_u64..400)
            .prop_map(|(class, tenant, units, patience_ms)| Call::Push { class, tenant, units, patience_ms }),
        3 => Just(Call::Serve),
        1 => any::<Index>().prop_map(Call::Turn),
        1 => any::<Index>().prop_map(Call::Cancel),
        1 => any::<Index>().prop_map(Call::Move),
        1 => any::<Index>().prop_map(Call::SetAside),
        1 => Just(Call::Return),
        1 => (0_usize..4, tenant.clone()).prop_map(|(class, tenant)| Call::Displace { class, tenant }),
        1 => (0_usize..4, tenant, 1_u64..50, 1_u64..50)
            .prop_map(|(class, tenant, charged, units)| Call::Correct { class, tenant, charged, units }),
        1 => (0_u64..80).prop_map(Call::Pass),
    ];
    prop::collection::vec(call, 0..250)
}

proptest! {
    #[test]
    fn no_request_is_lost_and_each_leaves_in_one_way(
        calls in calls(),
        (flows_max, lifo, background) in (0_usize..6, any::<bool>(), any::<bool>()),
    ) {
        let mut config = QueueConfig::default().flows_max(flows_max);
        if lifo {
            config = config.lifo(Class::Critical);
        }
        if background {
            config = config.min_share(Class::Sheddable, Share::from_ratio(0.05).unwrap());
        }
        let (mut line, mut now) = (Line::new(config), START);
        let mut away = Vec::new();
        let pick = |line: &Line, index: &Index| {
            (!line.entrants.is_empty()).then(|| *line.entrants.keys().nth(index.index(line.entrants.len())).unwrap())
        };
        for call in calls {
            match call {
                Call::Push { class, tenant, units, patience_ms } => {
                    let until = now.saturating_add(Duration::from_millis(patience_ms));
                    line.push(entrant(Class::ALL[class], tenant).cost(cost(units)).until(until), now);
                }
                Call::Serve => {
                    if let Some((_, served)) = line.serve(now) {
                        prop_assert!(now < served.until);
                    }
                }
                Call::Turn(index) => {
                    if let Some(position) = pick(&line, &index) {
                        let is_next = line.queue.next() == Some(position);
                        let verdict = line.queue.turn(position, now);
                        prop_assert!(verdict != TurnVerdict::Go || is_next);
                        prop_assert!(verdict != TurnVerdict::Wait || !is_next);
                        if matches!(verdict, TurnVerdict::Shed(_)) {
                            line.queue.cancel(position);
                            line.entrants.remove(&position);
                        }
                    }
                }
                Call::Cancel(index) => {
                    if let Some(position) = pick(&line, &index) {
                        line.queue.cancel(position);
                        line.queue.cancel(position);
                        line.entrants.remove(&position);
                    }
                }
                Call::Move(index) => {
                    if let Some(position) = pick(&line, &index) {
                        prop_assert!(line.queue.take(position, Some(Departure::Moved)).is_some());
                        away.push((position, line.entrants.remove(&position).unwrap(), false));
                    }
                }
                Call::SetAside(index) => {
                    if let Some(position) = pick(&line, &index) {
                        let aside = line.queue.set_aside(position).unwrap();
                        let one = line.entrants.remove(&position).unwrap();
                        prop_assert_eq!((aside.tenant, aside.cost, aside.until), (one.tenant, one.cost, one.until));
                        away.push((position, one, true));
                    }
                }
                Call::Return => {
                    if let Some((position, one, is_charged)) = away.pop() {
                        if is_charged {
                            line.queue.refund(&one);
                        }
                        line.queue.push(position, &one, now);
                        line.entrants.insert(position, one);
                    }
                }
                Call::Displace { class, tenant } => {
                    let newcomer = entrant(Class::ALL[class], tenant);
                    if let Some(victim) = line.queue.victim(&newcomer) {
                        let class = line.entrants[&victim].class;
                        prop_assert!(class <= newcomer.class);
                        prop_assert!(line.entrants.values().all(|one| one.class >= class) || class == newcomer.class);
                        line.queue.take(victim, Some(Departure::Displaced));
                        line.entrants.remove(&victim);
                    } else {
                        prop_assert!(line.entrants.values().all(|one| one.class >= newcomer.class));
                    }
                }
                Call::Correct { class, tenant, charged, units } => {
                    line.queue.correct(&entrant(Class::ALL[class], tenant).cost(cost(charged)), cost(units));
                }
                Call::Pass(millis) => {
                    now = now.saturating_add(Duration::from_millis(millis));
                    let tick = line.queue.tick(now);
                    prop_assert!(tick.delay_ratio.is_finite() && tick.delay_ratio >= 0.0);
                }
            }
            prop_assert_eq!(line.queue.count(), line.entrants.len());
            match line.queue.next() {
                Some(next) => prop_assert!(line.entrants.contains_key(&next)),
                None => prop_assert!(line.entrants.is_empty()),
            }
            let mut waiting = 0;
            for class in Class::ALL {
                let counts = line.queue.counts(class);
                let left = counts.served + counts.shed_by_delay + counts.expired + counts.too_late;
                let left = left + counts.cancelled + counts.displaced + counts.moved;
                prop_assert_eq!(counts.entered, left + counts.waiting);
                waiting += counts.waiting;
                let number = class as usize;
                let of_class = line.entrants.values().filter(|one| one.class == class);
                let backlog: u64 = of_class.map(|one| one.cost.units()).sum();
                prop_assert_eq!(line.queue.classes[number].backlog(), backlog);
            }
            prop_assert_eq!(waiting, line.entrants.len() as u64);
            prop_assert!(line.queue.classes.iter().all(|class| class.exact_flows() <= flows_max));
        }
    }

    /// A plain round robin in the order in which the tenants began to wait serves requests of
    /// equal cost in the same order.
    #[test]
    fn equal_costs_are_served_in_turn(tenants in prop::collection::vec(0_u64..6, 1..60)) {
        let mut line = Line::without_delay_control(QueueConfig::default());
        let mut waiting: Vec<Vec<Position>> = vec![Vec::new(); 6];
        let mut turn = Vec::new();
        for tenant in tenants {
            let position = line.push(entrant(Class::Critical, tenant), START);
            if waiting[tenant as usize].is_empty() {
                turn.push(tenant as usize);
            }
            waiting[tenant as usize].push(position);
        }
        // Round robin in order of the first arrival.
        while !turn.is_empty() {
            let tenant = turn.remove(0);
            let position = waiting[tenant].remove(0);
            prop_assert_eq!(line.serve(START).map(|(position, _)| position), Some(position));
            if !waiting[tenant].is_empty() {
                turn.push(tenant);
            }
        }
        prop_assert_eq!(line.serve(START), None);
    }
}
