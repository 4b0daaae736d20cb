use tidegate_core::Text;

use super::*;

const START: Timestamp = Timestamp::from_secs(1_795_215_600);
const MINUTE: Duration = Duration::from_mins(1);

fn at(seconds: u64) -> Timestamp {
    START.saturating_add(Duration::from_secs(seconds))
}

fn keys() -> RefusedKeys {
    RefusedKeys::new([1, 2, 3, 4], START)
}

fn count_as(keys: &RefusedKeys, namespace: &str, limit: &str, user: &str, reason: Reason, now: Timestamp) {
    let scope = &ScopeView::one("user", user);
    let tenant = KeyTenant::Unknown;
    keys.count(&RefusedCounter { namespace, limit, scope, resource: None, reason, tenant }, now);
}

fn count(keys: &RefusedKeys, user: &str, now: Timestamp) {
    count_as(keys, "api", "per-user", user, Reason::RateExceeded, now);
}

fn all(keys: &RefusedKeys, window: Duration, now: Timestamp) -> TopKeysBody {
    keys.top(&KeySelection::default(), KeyGroups::Keys, window, 1000, now)
}

fn shown(top: &TopKeysBody) -> Vec<(&str, u64, u64)> {
    top.keys.iter().map(|key| (key.key.as_str(), key.refusals, key.error)).collect()
}

#[test]
fn few_keys_are_counted_exactly_with_their_rate_and_when_they_were_last_seen() {
    let keys = keys();
    for (user, times) in [("a", 30), ("b", 10), ("c", 20)] {
        for second in 0..times {
            count(&keys, user, at(second));
        }
    }
    let top = all(&keys, MINUTE, at(40));
    assert_eq!(shown(&top), [("user=a", 30, 0), ("user=c", 20, 0), ("user=b", 10, 0)]);
    assert_eq!((top.refusals, top.uncounted_max, top.more), (60, 0, 0));
    let first = &top.keys[0];
    assert_eq!((first.rate_per_s, first.last_seen_ms), (0.75, 11_000), "the daemon counts for 40 s");
    assert_eq!(first.last_seen, at(29).to_string());
}

#[test]
fn a_window_slides_and_what_is_older_than_it_is_not_counted() {
    let keys = keys();
    count(&keys, "early", at(0));
    count(&keys, "late", at(50));
    let users = |window, now| {
        let top = all(&keys, window, now);
        top.keys.iter().map(|key| key.key.trim_start_matches("user=").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(users(MINUTE, at(60)), ["early", "late"], "a window reaches back at least as far as asked");
    assert_eq!(users(MINUTE, at(65)), ["late"], "and at most one slot further");
    assert_eq!(users(MINUTE, at(115)), [""; 0]);
    assert_eq!(users(Duration::from_secs(10), at(58)), ["late"]);
    assert_eq!(users(Duration::from_mins(10), at(600)), ["early", "late"]);
    assert_eq!(users(WINDOW_MAX, at(3600)), ["early", "late"]);
    assert_eq!(users(WINDOW_MAX, at(2 * 3600)), [""; 0]);
    // A slot that comes round again has forgotten what it counted.
    count(&keys, "new", at(65));
    assert_eq!(users(MINUTE, at(66)), ["late", "new"]);
}

#[test]
fn time_that_steps_back_forgets_nothing() {
    let keys = keys();
    count(&keys, "ada", at(3600));
    count(&keys, "ada", at(3600 - 65));
    assert_eq!(shown(&all(&keys, MINUTE, at(3600))), [("user=ada", 2, 0)]);
}

#[test]
fn a_hot_key_is_found_in_a_flood_of_a_hundred_thousand_others_and_its_bounds_hold() {
    let keys = keys();
    let mut heavy = 0;
    for index in 0_u64..100_000 {
        let now = at(index / 2500);
        count(&keys, &format!("stranger-{index}"), now);
        if index % 20 == 0 {
            count(&keys, "heavy", now);
            heavy += 1;
        }
    }
    let top = all(&keys, MINUTE, at(40));
    assert_eq!((top.refusals, top.keys[0].key.as_str()), (105_000, "user=heavy"));
    for key in &top.keys {
        let truth = if key.key == "user=heavy" { heavy } else { 1 };
        assert!(key.refusals >= truth && key.refusals - key.error <= truth, "{key:?}");
        // The bound that the documentation states, with a tenth for the spread of keys over shards.
        assert!(key.error <= 105_000 / KEYS_MAX as u64 * 11 / 10, "{key:?}");
    }
    assert!(top.uncounted_max <= 105_000 / KEYS_MAX as u64 * 11 / 10, "{}", top.uncounted_max);
    assert!(top.keys.len() <= KEYS_MAX * 9, "nine slots");
}

#[test]
fn a_flood_in_one_namespace_takes_no_place_from_another() {
    let keys = keys();
    count_as(&keys, "shop", "per-user", "quiet", Reason::RateExceeded, at(0));
    for index in 0_u64..20_000 {
        count(&keys, &format!("stranger-{index}"), at(1));
    }
    let selection = KeySelection { namespace: Some("shop"), ..KeySelection::default() };
    let top = keys.top(&selection, KeyGroups::Keys, MINUTE, 10, at(2));
    assert_eq!((shown(&top), top.refusals, top.uncounted_max), (vec![("user=quiet", 1, 0)], 1, 0));
}

#[test]
fn namespaces_beyond_the_bound_share_one_sketch_and_are_still_told_apart() {
    let keys = keys();
    for index in 0..NAMESPACES_MAX + 2 {
        count_as(&keys, &format!("n{index}"), "per-user", "ada", Reason::RateExceeded, at(0));
    }
    assert_eq!(keys.sketches.own().count(), NAMESPACES_MAX);
    let last = format!("n{}", NAMESPACES_MAX + 1);
    let selection = KeySelection { namespace: Some(&last), ..KeySelection::default() };
    let top = keys.top(&selection, KeyGroups::Keys, MINUTE, 10, at(1));
    assert_eq!((top.keys.len(), top.keys[0].namespace.as_str()), (1, last.as_str()));
    assert_eq!(all(&keys, MINUTE, at(1)).keys.len(), NAMESPACES_MAX + 2);
}

#[test]
fn keys_are_selected_by_limit_reason_and_attributes_and_reasons_are_counted_apart() {
    let keys = keys();
    for _ in 0..3 {
        count(&keys, "ada", at(0));
    }
    count_as(&keys, "api", "per-user", "ada", Reason::Blocked, at(1));
    count_as(&keys, "api", "daily", "ada", Reason::QuotaExceeded, at(1));
    count(&keys, "bob", at(1));
    let top = |selection: KeySelection<'_>| {
        let top = keys.top(&selection, KeyGroups::Keys, MINUTE, 1000, at(2));
        top.keys.iter().map(|key| format!("{} {} {}", key.limit, key.key, key.refusals)).collect::<Vec<_>>()
    };
    let none = KeySelection::default;
    assert_eq!(top(none()), ["per-user user=ada 4", "daily user=ada 1", "per-user user=bob 1"]);
    assert_eq!(top(KeySelection { limit: Some("daily"), ..none() }), ["daily user=ada 1"]);
    assert_eq!(top(KeySelection { reason: Some(Reason::Blocked), ..none() }), ["per-user user=ada 1"]);
    let bob = vec![("user".into(), "bob".into())];
    assert_eq!(top(KeySelection { key: bob, ..none() }), ["per-user user=bob 1"]);
    let first = &all(&keys, MINUTE, at(2)).keys[0];
    let reasons: Vec<_> = first.reasons.iter().map(|one| (one.reason.as_str(), one.refusals)).collect();
    assert_eq!(reasons, [("rate_exceeded", 3), ("blocked", 1)]);
    let one = keys.top(&none(), KeyGroups::Keys, MINUTE, 1, at(2));
    assert_eq!((one.keys.len(), one.more), (1, 2));
}

#[test]
fn a_long_key_is_cut_and_can_still_be_asked_for() {
    let keys = keys();
    let long = "x".repeat(4096);
    count(&keys, &long, at(0));
    let key = vec![("user".into(), long.as_str().into())];
    let top = keys.top(&KeySelection { key, ..KeySelection::default() }, KeyGroups::Keys, MINUTE, 10, at(1));
    assert!(top.keys[0].key.len() <= KEY_BYTES_MAX + '…'.len_utf8());
}

fn count_shed(keys: &RefusedKeys, mechanism: &'static str, tenant: Option<&str>, now: Timestamp) {
    let class = (Text::from_static("class"), Text::from_static("sheddable"));
    let tenant = tenant.map(|tenant| (Text::from_static("tenant"), Text::from(tenant)));
    let scope: Vec<(Text, Text)> = [class].into_iter().chain(tenant).collect();
    let (namespace, limit, reason) = ("api", mechanism, Reason::OverloadShed);
    let tenant = tenant_in(namespace, &ScopeView::Texts(&scope), reason, &ClaimSettings::default());
    let refused = RefusedCounter {
        namespace,
        limit,
        scope: &ScopeView::Texts(&scope),
        resource: Some("app"),
        reason,
        tenant,
    };
    keys.count(&refused, now);
}

fn tenants(keys: &RefusedKeys, selection: &KeySelection<'_>, now: Timestamp) -> TopKeysBody {
    keys.top(selection, KeyGroups::Tenants, MINUTE, 1000, now)
}

#[test]
fn issue_39_a_tenant_is_counted_whole_though_strangers_push_one_of_its_keys_out() {
    let keys = keys();
    for _ in 0..100 {
        count_shed(&keys, "admission_cursor", Some("t40"), at(1));
    }
    for _ in 0..30 {
        count_shed(&keys, "in_flight", Some("t40"), at(1));
    }
    // Keys of no tenant, in the slot of the refusals above.
    for user in 0..KEYS_MAX * 4 {
        (0..60).for_each(|_| count(&keys, &format!("u{user}"), at(2)));
    }
    let all = tenants(&keys, &KeySelection::default(), at(3));
    let row = &all.keys[0];
    assert_eq!((row.key.as_str(), row.refusals, row.error), ("tenant=t40", 130, 0), "{row:?}");
    for (limit, truth) in [("admission_cursor", 100), ("in_flight", 30)] {
        let selection = KeySelection { limit: Some(limit), ..KeySelection::default() };
        let top = tenants(&keys, &selection, at(3));
        let most = top.keys.first().map_or(top.uncounted_max, |row| row.refusals);
        let least = top.keys.first().map_or(0, |row| row.refusals - row.error);
        assert!(least <= truth && truth <= most, "{limit}: {top:?}");
    }
}

#[test]
fn issue_39_the_bounds_of_every_tenant_hold_in_a_flood_of_tenants() {
    let keys = keys();
    let mut truth = HashMap::<String, u64>::new();
    let mut draw = 1_u64;
    for step in 0_u64..60_000 {
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (number, mechanism) =
            ((draw >> 33) % 900, ["in_flight", "queue_delay", "queue"][step as usize % 3]);
        let tenant = format!("t{}", number * number / 900);
        count_shed(&keys, mechanism, Some(&tenant), at(step / 3000));
        *truth.entry(tenant).or_default() += 1;
    }
    let top = tenants(&keys, &KeySelection::default(), at(20));
    assert!(top.keys.iter().any(|row| row.error > 0), "the sketch is full");
    for (tenant, truth) in truth {
        let row = top.keys.iter().find(|row| row.tenant.as_deref() == Some(&tenant));
        let (least, most) =
            row.map_or((0, top.uncounted_max), |row| (row.refusals - row.error, row.refusals));
        assert!((least..=most).contains(&truth), "{tenant}: {truth} is not in {least} to {most}");
        let limits = row.into_iter().flat_map(|row| &row.limits);
        limits.for_each(|one| assert!(one.refusals <= most && one.refusals - one.error <= truth, "{one:?}"));
    }
}

#[test]
fn issue_39_a_tenant_with_an_empty_name_is_told_from_requests_without_a_tenant() {
    let keys = keys();
    count_shed(&keys, "in_flight", Some(""), at(0));
    (0..2).for_each(|_| count_shed(&keys, "in_flight", None, at(0)));
    let top = tenants(&keys, &KeySelection::default(), at(1));
    let rows: Vec<_> = top.keys.iter().map(|row| (row.tenant.as_deref(), &*row.key, row.refusals)).collect();
    assert_eq!(rows, [(None, "", 2), (Some(""), "tenant=", 1)]);
}

#[test]
fn issue_39_only_the_attribute_that_names_tenants_makes_the_key_of_a_limit_one_of_a_tenant() {
    let policy = "namespaces: { api: { limits: [], request: { tenant: entry.customer } } }";
    let policy = tidegate_policy::parse_bytes("policy.yaml", policy.as_bytes(), &|_| None).unwrap().policy;
    let claims = ClaimSettings::from_policy(&policy);
    let keys = keys();
    for attribute in ["tenant", "customer"] {
        let scope = [(Text::from(attribute), Text::from_static("t40"))];
        let (namespace, reason) = ("api", Reason::RateExceeded);
        let tenant = tenant_in(namespace, &ScopeView::Texts(&scope), reason, &claims);
        let refused = RefusedCounter {
            namespace,
            limit: attribute,
            scope: &ScopeView::Texts(&scope),
            resource: None,
            reason,
            tenant,
        };
        keys.count(&refused, at(0));
    }
    let selection = KeySelection { tenants: Some(&claims), ..KeySelection::default() };
    let top = tenants(&keys, &selection, at(1));
    assert_eq!((top.keys.len(), top.keys[0].limits[0].limit.as_str()), (1, "customer"), "{top:?}");
    let key = vec![("customer".into(), "t40".into())];
    let top = keys.top(&KeySelection { key, ..selection }, KeyGroups::Keys, MINUTE, 10, at(1));
    assert_eq!(shown(&top), [("customer=t40", 1, 0)]);
}
