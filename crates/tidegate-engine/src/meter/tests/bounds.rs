//! Bounds: a namespace takes no row of another one's share, and a row takes at most 1 KiB.

use core::time::Duration;

use tidegate_core::{Class, RequestOutcome};

use super::super::{MeterConfig, MeteredRows, Offer, Usage};
use super::{START, meter, of_tenant, total, total_of_tenants};

#[test]
fn a_million_names_of_one_namespace_leave_the_tracked_tenants_of_another_and_stay_in_bounds() {
    let tenants = MeterConfig::default().tenants;
    let meter = meter(tenants);
    let (small, large) = (meter.namespace("small", START), meter.namespace("large", START));
    let names: Vec<String> = (0..2_500).map(|number| format!("tenant-{number}")).collect();
    for name in &names {
        drop(meter.decide(&of_tenant(small, name), Offer::default(), RequestOutcome::Admitted, 2, START));
    }
    let before = meter.tenants_usage("small").unwrap();
    for number in 0..1_000_000_u64 {
        let now = START.saturating_add(Duration::from_micros(number * 100));
        let name = format!("flood-{number}");
        drop(meter.decide(&of_tenant(large, &name), Offer::default(), RequestOutcome::Shed, 1, now));
    }
    let by_name = |usage: &(_, Vec<super::super::TenantUsage>)| {
        let mut rows = usage.1.clone();
        rows.sort_by(|one, other| one.name.cmp(&other.name));
        rows
    };
    assert_eq!(by_name(&before), by_name(&meter.tenants_usage("small").unwrap()));
    let flood = meter.namespace_usage("large").unwrap();
    assert_eq!((flood.tenants, total(&flood).outcome(RequestOutcome::Shed)), (7_500, 1_000_000));
    assert_eq!(total_of_tenants(&meter, "large"), total(&flood));
    assert!(meter.bytes() <= 1_024 * tenants as usize, "{} bytes", meter.bytes());
}

#[test]
fn a_tracked_tenant_takes_at_most_1_kib_with_the_longest_name_and_all_classes() {
    const TENANTS: u32 = 2_000;
    let names: Vec<String> = (0..TENANTS).map(|number| format!("{number:0>300}")).collect();
    let names: Vec<String> = names.iter().map(|name| name.chars().rev().collect()).collect();
    let meter = meter(TENANTS);
    let namespace = meter.namespace("api", START);
    let count = |name: &str| {
        for class in Class::ALL {
            let subject = MeteredRows { class, ..of_tenant(namespace, name) };
            drop(meter.decide(&subject, Offer::default(), RequestOutcome::Admitted, 1, START));
        }
    };
    count("first");
    let (_, empty) = (meter.usage(), meter.bytes());
    let info = allocation_counter::measure(|| {
        for name in &names {
            count(name);
        }
        drop(meter.usage());
    });
    // The cache of the thread is full after as before, but for the places that were free.
    let (measured, computed) = (info.bytes_current.cast_unsigned(), (meter.bytes() - empty) as u64);
    println!(
        "bytes a tenant: {} measured, {} computed",
        measured / u64::from(TENANTS),
        computed / u64::from(TENANTS)
    );
    assert!(measured <= 1_024 * u64::from(TENANTS), "{measured} bytes");
    assert!(computed <= 1_024 * u64::from(TENANTS), "{computed} bytes");
    assert!(computed >= measured * 9 / 10, "{computed} bytes are computed, {measured} are taken");
}

#[test]
fn a_repeated_request_allocates_nothing() {
    let meter = meter(10);
    let subject = of_tenant(meter.namespace("api", START), "ada");
    let ask = || drop(meter.decide(&subject, Offer::default(), RequestOutcome::Admitted, 1, START));
    ask();
    let info = allocation_counter::measure(|| (0..100).for_each(|_| ask()));
    assert_eq!(info.count_total, 0);
}

#[test]
fn more_tenants_than_allowed_are_taken_for_the_most() {
    let meter = meter(u32::MAX);
    let namespace = meter.namespace("api", START);
    drop(meter.decide(&of_tenant(namespace, "ada"), Offer::default(), RequestOutcome::Denied, 0, START));
    assert_eq!(Usage::sum(&meter.tenant_usage("api", "ada").unwrap().classes).offered(), 1);
}
