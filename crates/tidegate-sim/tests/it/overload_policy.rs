//! The policy of `docs/overload.md` at more than the capacity of its service.

use std::collections::BTreeMap;

use tidegate_core::Class;
use tidegate_policy::policy::resources::ResourcePolicy;
use tidegate_policy::{Policy, parse};
use tidegate_sim::overload::{
    ClientSpec, OverloadDesign, OverloadScenario, ServiceSpec, ServiceTime, simulate,
};

const DOCUMENT: &str = include_str!("../../../../docs/overload.md");

/// The policy with which the document opens.
fn documented() -> String {
    let (_, after) = DOCUMENT.split_once("```yaml\n").expect("the document has a policy");
    after.split_once("```").expect("the block is closed").0.to_owned()
}

fn resource(text: &str) -> ResourcePolicy {
    let checked = parse("overload.md", text, &|_| None).unwrap_or_else(|problems| panic!("{problems}"));
    let Policy { mut resources, .. } = checked.policy;
    resources.swap_remove(0)
}

/// The part of the requests of each class that is served in time at 1.5 times the capacity, with
/// the waits of a policy. Each class asks for a quarter and has so many tenants.
fn served(resource: &ResourcePolicy, tenants: u32) -> BTreeMap<Class, f64> {
    assert_eq!(resource.config.adaptive, None);
    let mut service = ServiceSpec::reference(&resource.name);
    service.workers = resource.config.in_flight_max as u32;
    service.service_time = ServiceTime::Exponential { mean_ms: 40.0 };
    let rate = 0.25 * 1.5 * service.capacity();
    let clients = Class::ALL.map(|class| {
        let mut client = ClientSpec::bronze(rate);
        (client.name, client.class, client.tenants) = (class.to_string(), class, tenants);
        client.wait_ms = resource.wait(class).as_millis() as u32;
        client
    });
    let mut scenario = OverloadScenario::new(1, 10, vec![service], clients.to_vec());
    scenario.designs = vec![OverloadDesign::TIDEGATE];
    let run = simulate(&scenario).expect("the scenario is in range");
    let result = run.of(OverloadDesign::TIDEGATE).expect("it was simulated");
    assert_eq!(result.violations, []);
    let of = |class: Class| result.client(class.as_str()).expect("it is a client").success();
    let served = Class::ALL.map(|class| (class, of(class))).into();
    println!("{tenants} tenants of each class: {served:?}");
    served
}

#[test]
fn issue_39_the_documented_policy_serves_critical_plus_at_one_and_a_half_times_the_capacity() {
    let resource = resource(&documented());
    for tenants in [1, 1000] {
        let served = served(&resource, tenants);
        assert!(served[&Class::CriticalPlus] > 0.99, "{tenants}: {served:?}");
        assert!(Class::ALL.is_sorted_by(|lower, higher| served[lower] <= served[higher]), "{served:?}");
    }
}

#[test]
fn a_class_that_does_not_wait_has_most_of_its_part_beside_lower_ones_that_wait() {
    let text = documented().replace("wait: 250ms ", "wait: { critical_plus: off, sheddable: 250ms }");
    let resource = resource(&text);
    for tenants in [1, 1000] {
        let served = served(&resource, tenants);
        // All of it if it waited; some of what does not wait comes a moment too early.
        let plus = served[&Class::CriticalPlus];
        assert!((0.85..0.99).contains(&plus) && plus > served[&Class::Critical], "{tenants}: {served:?}");
    }
}
