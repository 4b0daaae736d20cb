//! Bounds: a namespace takes no row of another one's share, and a row takes at most 1 100 bytes.

use core::time::Duration;

use tidegate_core::{Class, RequestOutcome};

use super::super::{MeterConfig, MeteredRows, Offer, PermitAccount, Usage, UsageMeter};
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

/// Counts requests of a tenant of every class in every column. Requests of another are under way
/// meanwhile, so that all that has been counted is in the rows at the end.
fn count_in_every_column(meter: &UsageMeter, of: &MeteredRows<'_>) {
    let (repeated, second) = (Offer { is_repeated: true }, Duration::from_secs(1));
    let mut under_way = Vec::new();
    for class in Class::ALL {
        let subject = MeteredRows { class, ..*of };
        for outcome in RequestOutcome::ALL {
            drop(meter.decide(&subject, repeated, outcome, 4, START));
        }
        for true_units in [3, 5] {
            let account = meter.decide(&subject, repeated, RequestOutcome::Admitted, 4, START).into();
            meter.settle_units(&account, Some(true_units), 4);
            if let PermitAccount::Account(account) = account {
                account.served(second);
            }
        }
        meter.undo(&meter.decide(&subject, repeated, RequestOutcome::Admitted, 4, START).into(), 4);
        meter.report(&subject, 1, START);
        meter.refund(&subject, 1, START);
        meter.report_decided(&subject, (1, 1), START);
        under_way.push(meter.offered(&subject, repeated, START));
    }
    drop(meter.tenant_usage("api", of.tenant.unwrap()));
    for mut account in under_way {
        drop(account.decide(RequestOutcome::Shed, 1, second));
    }
}

/// Every row is as large as a row can be: the longest name, all classes, and all columns. The
/// combinations that the first thread keeps are counted with the rows; those of each further thread
/// are bounded for themselves.
#[test]
fn a_tracked_tenant_with_every_column_of_every_class_takes_at_most_1100_bytes_and_a_thread_192_kib() {
    const TENANTS: u32 = 10_000;
    const THREADS: i64 = 4;
    assert_eq!(MeterConfig::default().tenants, TENANTS);
    let meter = meter(TENANTS);
    let namespace = meter.namespace("api", START);
    let resource = meter.resource(Some("db"), START);
    let features = ["search", "export"].map(|name| meter.feature(name, START));
    let names: Vec<String> =
        (0..TENANTS).map(|number| format!("{number:0>300}").chars().rev().collect()).collect();
    let of = |name| MeteredRows { resource, feature: features[0], ..of_tenant(namespace, name) };
    let empty = meter.bytes();
    let rows = allocation_counter::measure(|| {
        for name in &names {
            count_in_every_column(&meter, &of(name));
        }
        drop(meter.usage());
    });
    let filled = meter.bytes();
    let row = meter.tenant_usage("api", &names[7]).unwrap();
    for usage in &row.classes {
        let counts = [&usage.outcomes[..], &[usage.repeated]].concat();
        assert!(counts.iter().all(|count| *count > 0), "{usage:?}");
        let amounts = [usage.units, usage.refused_units, usage.true_units, usage.reported, usage.refunded];
        assert!(amounts.iter().all(|amount| *amount > 0), "{usage:?}");
        assert!(usage.settled_more > 0 && usage.settled_less > 0, "{usage:?}");
        assert!(usage.reported_admitted > 0 && usage.reported_denied > 0, "{usage:?}");
        assert!(!usage.place_time.is_zero() && !usage.waited.is_zero(), "{usage:?}");
    }
    // The other threads use all tenants with all features, so that their caches are full.
    let thread = || {
        let cached = allocation_counter::measure(|| {
            for (number, name) in names.iter().enumerate() {
                let subject = MeteredRows { feature: features[number % 2], ..of(name) };
                for class in Class::ALL {
                    let subject = MeteredRows { class, ..subject };
                    drop(meter.decide(&subject, Offer::default(), RequestOutcome::Admitted, 1, START));
                    let base = MeteredRows { tenant: None, ..subject };
                    drop(meter.decide(&base, Offer::default(), RequestOutcome::Admitted, 1, START));
                }
            }
        });
        cached.bytes_current
    };
    let cached: i64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(thread)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let of_threads = meter.bytes() - filled;
    let (measured, computed) = (rows.bytes_current.cast_unsigned(), (filled - empty) as u64);
    let (each, most) = (|bytes: u64| bytes / u64::from(TENANTS), 1_100 * u64::from(TENANTS));
    println!(
        "bytes a tenant: {} measured, {} computed; bytes a thread: {} measured, {} computed",
        each(measured),
        each(computed),
        cached / THREADS,
        i64::try_from(of_threads).unwrap() / THREADS
    );
    assert!(measured <= most && computed <= most, "{} measured, {} computed", each(measured), each(computed));
    assert!(computed >= measured * 9 / 10, "{computed} bytes are computed, {measured} are taken");
    assert!(cached <= THREADS * (192 << 10), "{} bytes a thread", cached / THREADS);
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
