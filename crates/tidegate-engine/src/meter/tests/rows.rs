//! Single rules of rows: names, classes, evictions, saturation and the clock.

use core::time::Duration;

use tidegate_core::{Class, RequestOutcome};

use super::super::row_columns::RowColumns;
use super::super::{FeatureRow, MeteredRows, Offer, ResourceRow, RowName, Usage, UsageMeter};
use super::{START, meter, of_namespace, of_tenant, total, total_of_tenants};

const ADMITTED: RequestOutcome = RequestOutcome::Admitted;

fn admit(meter: &UsageMeter, subject: &MeteredRows<'_>, units: u64) {
    drop(meter.decide(subject, Offer::default(), ADMITTED, units, START));
}

#[test]
fn what_a_request_leaves_is_two_words_in_size() {
    assert_eq!(size_of::<super::super::MeterAccount>(), 16);
    assert_eq!(size_of::<super::super::OpenMeterAccount>(), 16);
}

#[test]
fn a_request_counts_in_the_row_of_its_class_of_each_of_its_four_dimensions() {
    let meter = meter(10);
    let (namespace, feature) = (meter.namespace("api", START), meter.feature("search", START));
    let resource = meter.resource(Some("db"), START);
    let subject = MeteredRows { feature, resource, ..of_tenant(namespace, "ada") };
    admit(&meter, &subject, 5);
    admit(&meter, &of_namespace(namespace), 7);
    admit(&meter, &MeteredRows { feature: FeatureRow::OTHER, ..of_tenant(namespace, "bob") }, 1);
    let units = |usages: &[Usage; 4]| usages.map(|usage| usage.units);
    let usage = meter.namespace_usage("api").unwrap();
    assert_eq!(units(&usage.classes), [0, 0, 13, 0]);
    assert_eq!((units(&usage.no_tenant), usage.tenants), ([0, 0, 7, 0], 2));
    assert_eq!(units(&meter.tenant_usage("api", "ada").unwrap().classes), [0, 0, 5, 0]);
    let features = meter.features_usage();
    let features = features.iter().map(|row| (row.name.clone(), row.classes[2].units));
    let named = |name: &str| RowName::Named(name.into());
    let expected = [(RowName::None, 7), (RowName::Other, 1), (named("search"), 5)];
    assert_eq!(features.collect::<Vec<_>>(), expected);
    let resources = meter.resources_usage();
    let resources = resources.iter().map(|row| (row.name.clone(), row.classes[2].units));
    let expected = [(RowName::None, 8), (RowName::Other, 0), (named("db"), 5)];
    assert_eq!(resources.collect::<Vec<_>>(), expected);
}

#[test]
fn without_places_for_tenants_all_of_them_count_in_other() {
    let meter = meter(0);
    let namespace = meter.namespace("api", START);
    admit(&meter, &of_tenant(namespace, "ada"), 3);
    let (usage, tenants) = meter.tenants_usage("api").unwrap();
    assert!(tenants.is_empty());
    assert_eq!((Usage::sum(&usage.other).units, total(&usage).units), (3, 3));
}

#[test]
fn names_that_begin_alike_beyond_what_is_shown_have_rows_of_their_own() {
    let meter = meter(10);
    let namespace = meter.namespace("api", START);
    // The 128th byte is in the middle of a letter.
    let begin = "a".to_owned() + &"é".repeat(1_000);
    let names =
        ["", "\u{0}\u{1b}[31m\n", &begin, &(begin.clone() + "1"), &(begin.clone() + "2"), &begin[..127]];
    for (name, units) in names.iter().zip(1..) {
        admit(&meter, &of_tenant(namespace, name), units);
    }
    for (name, units) in names.iter().zip(1..) {
        let usage = meter.tenant_usage("api", name).unwrap();
        assert_eq!((Usage::sum(&usage.classes).units, usage.is_cut), (units, name.len() > 128));
        assert!(usage.name.len() <= 128 && name.starts_with(&*usage.name));
    }
}

#[test]
fn a_settlement_of_2_to_the_63_saturates_its_own_rows_is_marked_and_moves_no_other() {
    let meter = meter(10);
    let namespace = meter.namespace("api", START);
    let accounts: Vec<_> = ["ada", "ada", "bob"]
        .iter()
        .map(|name| meter.decide(&of_tenant(namespace, name), Offer::default(), ADMITTED, 1, START).into())
        .collect();
    let true_units = |name| Usage::sum(&meter.tenant_usage("api", name).unwrap().classes);
    meter.settle_units(&accounts[2], Some(4), 1);
    meter.settle_units(&accounts[0], Some(1 << 63), 1);
    assert_eq!((true_units("ada").true_units, true_units("ada").is_saturated), (1 << 63, false));
    meter.settle_units(&accounts[1], Some(1 << 63), 1);
    assert_eq!((true_units("ada").true_units, true_units("ada").is_saturated), (u64::MAX, true));
    assert_eq!((true_units("bob").true_units, true_units("bob").is_saturated), (4, false));
    let usage = total(&meter.namespace_usage("api").unwrap());
    assert_eq!((usage.true_units, usage.is_saturated, usage.units), (u64::MAX, true, 3));
}

#[test]
fn amounts_that_small_steps_take_to_the_end_saturate() {
    let meter = meter(10);
    let namespace = meter.namespace("api", START);
    let subject = of_tenant(namespace, "ada");
    // Each is added to the sum of the thread, which is flushed before it wraps.
    for _ in 0..(1 << 24) + 100 {
        admit(&meter, &subject, (1 << 40) - 1);
    }
    assert_eq!(total(&meter.namespace_usage("api").unwrap()).units, u64::MAX);
}

#[test]
fn large_amounts_are_exact_whether_they_are_read_in_between_or_not() {
    for read_each in [1, 7, 1_000] {
        let meter = meter(10);
        let namespace = meter.namespace("api", START);
        let units = |number: u64| (1 << 54) + number * 0x1234_5678_9abc % (1 << 53);
        let mut sum = 0;
        for number in 0..700 {
            admit(&meter, &of_tenant(namespace, "ada"), units(number));
            sum += units(number);
            if number.is_multiple_of(read_each) {
                assert_eq!(total(&meter.namespace_usage("api").unwrap()).units, sum);
            }
        }
        assert_eq!(total(&meter.namespace_usage("api").unwrap()).units, sum);
        // The sum of the thread has come to its end; those of the rows stay there.
        (0..700).for_each(|number| admit(&meter, &of_tenant(namespace, "ada"), units(number)));
        assert_eq!(total(&meter.namespace_usage("api").unwrap()).units, u64::MAX);
    }
}

#[test]
fn the_row_that_was_used_longest_ago_makes_room_and_is_not_lost() {
    let meter = meter(2);
    let namespace = meter.namespace("api", START);
    let at = |seconds| START.saturating_add(Duration::from_secs(seconds));
    let ask = |name: &str, second| {
        drop(meter.decide(&of_tenant(namespace, name), Offer::default(), ADMITTED, 1, at(second)));
    };
    let mut account = meter.offered(&of_tenant(namespace, "ada"), Offer::default(), at(0));
    ask("bob", 1);
    ask("eve", 2);
    assert!(meter.tenant_usage("api", "ada").is_none());
    let other = || Usage::sum(&meter.namespace_usage("api").unwrap().other);
    assert_eq!((other().under_way, other().outcome(ADMITTED)), (1, 0));
    ask("ada", 3);
    let back = meter.tenant_usage("api", "ada").unwrap();
    assert_eq!((back.since, Usage::sum(&back.classes).offered()), (at(3), 1));
    // The request from before goes on in `other`.
    let account = account.decide(ADMITTED, 4, Duration::from_millis(1)).unwrap();
    meter.settle_units(&account.into(), Some(6), 4);
    assert_eq!((other().under_way, other().outcome(ADMITTED), other().true_units), (0, 2, 6));
    assert_eq!(total_of_tenants(&meter, "api"), total(&meter.namespace_usage("api").unwrap()));
}

#[test]
fn a_link_leads_every_thread_to_the_row_of_the_request_and_to_other_once_that_is_evicted() {
    let meter = meter(2);
    let namespace = meter.namespace("api", START);
    let feature = meter.feature("search", START);
    let at = |seconds| START.saturating_add(Duration::from_secs(seconds));
    let ask = |name: &str, second| {
        let subject = MeteredRows { feature, ..of_tenant(namespace, name) };
        meter.decide_by_limits(&subject, Offer::default(), ADMITTED, 4, at(second))
    };
    let in_another_thread = |act: &(dyn Fn() + Sync)| std::thread::scope(|scope| _ = scope.spawn(act));
    let row = |name| meter.tenant_usage("api", name).map(|row| Usage::sum(&row.classes));
    let other = || Usage::sum(&meter.namespace_usage("api").unwrap().other);
    let [first, second, third, fourth] = [0, 0, 0, 0].map(|second| ask("ada", second));
    meter.settle_units(&first, Some(6), 4);
    assert_eq!(row("ada").unwrap().true_units, 6);
    in_another_thread(&|| {
        meter.settle_units(&second, Some(3), 4);
        meter.undo(&second, 4);
    });
    let ada = row("ada").unwrap();
    assert_eq!((ada.true_units, ada.settled_less, ada.units), (9, 1, 12));
    assert_eq!((ada.outcome(ADMITTED), ada.outcome(RequestOutcome::Cancelled)), (3, 1));
    // Two newcomers evict the row; then the tenant comes back, in the same combination of rows.
    drop((ask("bob", 1), ask("eve", 2), ask("ada", 3)));
    meter.settle_units(&third, Some(10), 4);
    in_another_thread(&|| meter.settle_units(&fourth, Some(20), 4));
    assert_eq!((row("ada").unwrap().true_units, row("bob")), (0, None));
    assert_eq!(other().true_units, 9 + 30);
    // A request without a tenant needs no more than the key of its rows.
    let subject = MeteredRows { feature, ..of_namespace(namespace) };
    let account = meter.decide_by_limits(&subject, Offer::default(), ADMITTED, 4, at(3));
    in_another_thread(&|| meter.settle_units(&account, Some(5), 4));
    let usage = meter.namespace_usage("api").unwrap();
    assert_eq!(Usage::sum(&usage.no_tenant).true_units, 5);
    assert_eq!(total_of_tenants(&meter, "api"), total(&usage));
    let features = meter.features_usage();
    let search = features.iter().find(|row| row.name == RowName::Named("search".into())).unwrap();
    assert_eq!(Usage::sum(&search.classes), total(&usage));
}

#[test]
fn a_clock_that_steps_by_an_hour_either_way_changes_nothing_in_the_order_of_use() {
    for step in [-3_600_i64, 3_600] {
        let meter = meter(2);
        let namespace = meter.namespace("api", START);
        let at = |seconds: i64| START.saturating_add(Duration::from_secs((7_200 + seconds).cast_unsigned()));
        let ask = |name: &str, second| {
            drop(meter.decide(&of_tenant(namespace, name), Offer::default(), ADMITTED, 1, at(second)));
        };
        ask("ada", 0);
        ask("bob", 0);
        ask("ada", step);
        ask("eve", step);
        assert!(meter.tenant_usage("api", "ada").is_some(), "{step}");
        assert!(meter.tenant_usage("api", "bob").is_none(), "{step}");
    }
}

#[test]
fn an_admission_that_is_undone_is_cancelled_and_used_nothing() {
    let meter = meter(10);
    let namespace = meter.namespace("api", START);
    let account = meter.decide(&of_tenant(namespace, "ada"), Offer { is_repeated: true }, ADMITTED, 9, START);
    meter.undo(&account.into(), 9);
    let usage = total(&meter.namespace_usage("api").unwrap());
    assert_eq!((usage.outcome(ADMITTED), usage.outcome(RequestOutcome::Cancelled)), (0, 1));
    assert_eq!((usage.units, usage.repeated, usage.offered()), (0, 1, 1));
}

#[test]
fn an_admission_of_which_only_the_undoing_is_read_yet_shows_as_none() {
    let mut columns = RowColumns::default();
    columns.counts[ADMITTED.index()] = 1_u64.wrapping_neg();
    columns.counts[RequestOutcome::Cancelled.index()] = 1;
    let usage = Usage::from(columns);
    assert_eq!((usage.outcome(ADMITTED), usage.offered()), (0, 1));
}

#[test]
fn an_open_account_that_is_dropped_is_cancelled_once_and_one_that_is_decided_is_not() {
    let meter = meter(10);
    let subject = of_namespace(meter.namespace("api", START));
    drop(meter.offered(&subject, Offer::default(), START));
    let mut decided = meter.offered(&subject, Offer::default(), START);
    drop(decided.decide(RequestOutcome::Shed, 5, Duration::from_secs(2)));
    let usage = total(&meter.namespace_usage("api").unwrap());
    assert_eq!((usage.outcome(RequestOutcome::Cancelled), usage.outcome(RequestOutcome::Shed)), (1, 1));
    assert_eq!((usage.under_way, usage.units, usage.waited), (0, 0, Duration::from_secs(2)));
}

#[test]
fn a_namespace_that_comes_back_goes_on_in_its_row_and_unknown_ones_have_one() {
    let meter = meter(10);
    let later = START.saturating_add(Duration::from_secs(9));
    let namespace = meter.namespace("api", START);
    admit(&meter, &of_namespace(namespace), 1);
    assert_eq!(meter.namespace("api", later), namespace);
    admit(&meter, &of_tenant(meter.known_namespace("nowhere"), "ada"), 2);
    let rows = meter.usage();
    let rows: Vec<_> = rows.iter().map(|row| (&row.name, row.since, total(row).units, row.tenants)).collect();
    let api = RowName::Named("api".into());
    assert_eq!(rows, [(&RowName::None, START, 2, 1), (&api, START, 1, 0)]);
    assert_eq!(meter.since(), START);
}

#[test]
fn meters_of_one_thread_do_not_count_in_each_other() {
    let meters = [meter(10), meter(10)];
    let rows = [meters[0].namespace("api", START), meters[1].namespace("api", START)];
    for _ in 0..3 {
        admit(&meters[0], &of_tenant(rows[0], "ada"), 1);
        admit(&meters[1], &of_tenant(rows[1], "ada"), 10);
        admit(&meters[0], &of_namespace(rows[0]), 1);
        admit(&meters[1], &of_namespace(rows[1]), 10);
    }
    let units = meters.each_ref().map(|meter| total(&meter.namespace_usage("api").unwrap()).units);
    assert_eq!(units, [6, 60]);
}

#[test]
fn an_account_outlives_its_meter() {
    let meter = meter(10);
    let subject = MeteredRows { class: Class::Sheddable, ..of_tenant(meter.namespace("api", START), "ada") };
    let mut account =
        meter.offered(&MeteredRows { resource: ResourceRow::NONE, ..subject }, Offer::default(), START);
    drop(meter);
    let account = account.decide(ADMITTED, 1, Duration::ZERO).unwrap();
    account.served(Duration::ZERO);
}

#[test]
fn a_namespace_beyond_the_last_number_counts_in_the_row_of_others() {
    let meter = meter(10);
    let last = (0..=u32::from(u16::MAX)).map(|number| meter.namespace(&format!("n{number}"), START)).last();
    let last = last.unwrap();
    assert_eq!(meter.namespace("another", START), last);
    admit(&meter, &of_tenant(last, "ada"), 3);
    let rows = meter.usage();
    let row = rows.iter().find(|row| row.name == RowName::Other).unwrap();
    assert_eq!((total(row).units, row.tenants, rows.len()), (3, 1, 1 + usize::from(u16::MAX)));
}
