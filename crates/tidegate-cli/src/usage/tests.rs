use super::*;

/// A row with these requests by outcome, each of two units.
fn row(kind: &str, name: Option<&str>, admitted: u64, shed: u64) -> serde_json::Value {
    let usage = serde_json::json!({
        "offered": admitted + shed, "outcomes": {"admitted": admitted, "shed": shed}, "units": 2 * admitted,
        "refused_units": 2 * shed,
        "place_time_seconds": 1.5, "wait_seconds": 0.04,
    });
    let classes = serde_json::json!([{"class": "sheddable_plus", "usage": usage}]);
    serde_json::json!({"row": kind, "name": name, "since": "2026-11-20T23:00:00Z", "total": usage, "classes": classes})
}

fn namespace(member: &str, tenants: &[(&str, u64, u64)]) -> NamespaceUsageBody {
    let sum = |of: fn(&(&str, u64, u64)) -> u64| tenants.iter().map(of).sum::<u64>();
    let all = row("named", Some("api"), sum(|one| one.1), sum(|one| one.2));
    let tenants: Vec<_> =
        tenants.iter().map(|(name, admitted, shed)| row("named", Some(name), *admitted, *shed)).collect();
    serde_json::from_value(serde_json::json!({
        "member": member, "by": "offered", "namespace": all, "no_tenant": row("none", None, 0, 0),
        "other": row("other", None, 0, 0), "tracked": tenants.len(), "more": 0, "tenants": tenants,
    }))
    .unwrap()
}

fn by(name: &str) -> UsageColumn {
    UsageColumn::from_name(name).unwrap()
}

#[test]
fn a_namespace_has_a_table_of_its_tenants_its_classes_and_its_units() {
    let body = namespace("127.0.0.1:8080", &[("ada", 9, 3), ("\u{1b}[2J", 1, 0), ("", 1, 0)]);
    let expected = "\
Namespace api: 3 tenants are tracked.

TENANT           OFFERED  ADMITTED  REFUSED  REPEATED  UNDER WAY  UNITS  PLACE S  WAIT S
(all)                 14        11        3         0          0     22      1.5     0.0
(no tenant)            0         0        0         0          0      0      1.5     0.0
(other tenants)        0         0        0         0          0      0      1.5     0.0
ada                   12         9        3         0          0     18      1.5     0.0
\\u{1b}[2J              1         1        0         0          0      2      1.5     0.0
\"\"                     1         1        0         0          0      2      1.5     0.0

CLASS           OFFERED  ADMITTED  REFUSED  REPEATED  UNDER WAY  UNITS  PLACE S  WAIT S
sheddable_plus       14        11        3         0          0     22      1.5     0.0
(all)                14        11        3         0          0     22      1.5     0.0

Outcomes: admitted 11, shed 3.
Units: 22 at admission, 6 refused, 0 true, 0 reported, 0 refunded; settlements added 0 and gave back 0.
";
    assert_eq!(words_of_namespace(&body, by("offered")), expected);
}

#[test]
fn the_outcome_that_rows_are_sorted_by_has_a_column() {
    let body = namespace("a", &[("ada", 9, 3)]);
    let text = words_of_namespace(&body, by("shed"));
    assert!(text.contains("REFUSED  SHED  UNDER WAY"), "{text}");
    assert!(
        text.lines().any(|line| line.starts_with("ada                   12         9        3     3 ")),
        "{text}"
    );
    let admitted = words_of_namespace(&body, by("admitted"));
    assert_eq!(admitted.matches("ADMITTED").count(), 2, "{admitted}");
}

#[test]
fn names_are_cut_and_one_that_the_daemon_has_cut_says_so() {
    let body = namespace("a", &[(&"x".repeat(60), 1, 0)]);
    let text = words_of_namespace(&body, by("offered"));
    assert!(text.contains(&format!("\n{}…  ", "x".repeat(40))), "{text}");
    let mut cut = body.tenants[0].clone();
    (cut.name, cut.is_cut) = (Some("short".to_owned()), true);
    assert_eq!(name(&cut, "tenant"), "short…");
}

#[test]
fn rows_of_the_same_tenant_add_up_and_the_largest_of_the_sum_are_kept() {
    let mut sum = namespace("a", &[("ada", 5, 0), ("bob", 4, 0), ("carl", 3, 0)]);
    sum.add(&namespace("b", &[("carl", 6, 0), ("dora", 1, 0), ("ada", 1, 0)]));
    assert_eq!((sum.namespace.total.offered, sum.tracked), (20, 4));
    sum.keep_largest(2, by("offered"));
    let rows: Vec<_> =
        sum.tenants.iter().map(|row| (row.name.as_deref().unwrap(), row.total.offered)).collect();
    assert_eq!((rows, sum.more), (vec![("carl", 9), ("ada", 6)], 2));
}

/// All that a member has counted: of each list the rows with these names, `none` and `other`, and
/// so many more.
fn all(member: &str, names: &[(&str, u64)], more: u64) -> UsageBody {
    let sum: u64 = names.iter().map(|(_, admitted)| admitted).sum();
    let rows: Vec<_> = names
        .iter()
        .map(|(name, admitted)| row("named", Some(name), *admitted, 0))
        .chain([row("none", None, 1, 0), row("other", None, 2, 0)])
        .collect();
    serde_json::from_value(serde_json::json!({
        "member": member, "since": "2026-11-20T23:00:00Z", "by": "offered",
        "total": row("named", None, sum + 3, 0)["total"], "metering_bytes": 1_000,
        "namespaces": rows, "more_namespaces": more, "features": rows, "more_features": more + 1,
        "resources": rows, "more_resources": more + 2,
    }))
    .unwrap()
}

#[test]
fn totals_rows_and_the_numbers_of_further_ones_of_members_add_up_in_each_list() {
    let mut sum = all("a", &[("api", 5), ("web", 4)], 10);
    sum.add(&all("b", &[("web", 6), ("blog", 1)], 20));
    assert_eq!((sum.total.offered, sum.total.units, sum.metering_bytes), (22, 44, 2_000));
    let more = [sum.more_namespaces, sum.more_features, sum.more_resources];
    assert_eq!(more, [30, 32, 34]);
    for rows in [&sum.namespaces, &sum.features, &sum.resources] {
        let counts: Vec<_> =
            rows.iter().map(|row| (row.row, row.name.as_deref(), row.total.offered)).collect();
        let (named, none, other) = (UsageRowKind::Named, UsageRowKind::None, UsageRowKind::Other);
        assert_eq!(
            counts,
            [
                (named, Some("api"), 5),
                (named, Some("web"), 10),
                (none, None, 2),
                (other, None, 4),
                (named, Some("blog"), 1)
            ]
        );
    }
    sum.keep_largest(2, by("units"));
    for rows in [&sum.namespaces, &sum.features, &sum.resources] {
        let names: Vec<_> = rows.iter().map(|row| row.name.as_deref()).collect();
        assert_eq!(names, [Some("web"), Some("api")]);
    }
    assert_eq!([sum.more_namespaces, sum.more_features, sum.more_resources], [33, 35, 37]);
}

#[test]
fn the_parts_of_a_namespace_at_members_add_up_each_by_itself() {
    let member = |no_tenant: u64, other: u64, more: usize| {
        let mut body = namespace("a", &[("ada", 5, 0)]);
        (body.no_tenant.total.offered, body.other.total.offered) = (no_tenant, other);
        (body.tracked, body.more) = (more + 1, more);
        body
    };
    let mut sum = member(1, 20, 3);
    sum.add(&member(2, 40, 4));
    assert_eq!((sum.no_tenant.total.offered, sum.other.total.offered, sum.more), (3, 60, 7));
    let text = words_of_namespace(&sum, by("offered"));
    let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(line("(no tenant)").contains("  3  ") && line("(other tenants)").contains("  60  "), "{text}");
    assert!(text.contains("and 7 more; list them"), "{text}");
}

#[test]
fn refused_units_have_a_column_and_a_saturated_number_a_sentence() {
    let mut body = namespace("a", &[("ada", 9, 3)]);
    let text = words_of_namespace(&body, by("refused_units"));
    let ada = text.lines().find(|line| line.starts_with("ada")).unwrap();
    assert!(text.contains("REFUSED UNITS") && !text.contains("REPEATED"), "{text}");
    assert_eq!(ada.split_whitespace().collect::<Vec<_>>()[..5], ["ada", "12", "9", "3", "6"], "{text}");
    let is_said = |text: &str| text.contains("has reached 2^64 - 1");
    assert!(!is_said(&text));
    body.namespace.total.saturated = true;
    assert!(is_said(&words_of_namespace(&body, by("offered"))));
    let mut all = all("a", &[("api", 1)], 0);
    assert!(!is_said(&words_of_all(&all, by("offered"))));
    all.total.saturated = true;
    assert!(is_said(&words_of_all(&all, by("offered"))));
}

#[test]
fn every_member_is_named_with_its_since() {
    let member = |at: &str, member: &str| MemberUsage {
        at: at.to_owned(),
        member: member.to_owned(),
        since: "2026-11-20T23:00:00Z".to_owned(),
    };
    let one = heading(&[member("http://a:1", "10.0.0.1:1")]);
    assert_eq!(one, "Counted by 10.0.0.1:1 since 2026-11-20T23:00:00Z.\n");
    let two = heading(&[member("http://a:1", "00aa"), member("http://b:1", "00bb")]);
    assert_eq!(
        two,
        "The sum of 2 members:\n  00aa (http://a:1) since 2026-11-20T23:00:00Z\n  00bb (http://b:1) since 2026-11-20T23:00:00Z\n"
    );
}

#[test]
fn requests_that_envoys_decided_have_columns_of_their_own_where_there_are_any() {
    let mut body = namespace("a", &[("ada", 9, 3), ("bob", 1, 0)]);
    assert!(!words_of_namespace(&body, by("offered")).contains("REP."));
    (body.tenants[1].total.reported_admitted, body.tenants[1].total.reported_denied) = (70, 5);
    (body.namespace.total.reported_admitted, body.namespace.total.reported_denied) = (70, 5);
    let text = words_of_namespace(&body, by("reported_denied"));
    let row = |name: &str| -> Vec<String> {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().map(str::to_owned).collect()
    };
    assert!(text.contains("WAIT S  REP. ADMITTED  REP. DENIED\n"), "{text}");
    assert_eq!(row("ada")[9..], ["0", "0"]);
    assert_eq!(row("bob")[1..], ["1", "1", "0", "0", "0", "2", "1.5", "0.0", "70", "5"], "{text}");
    let said = "Envoys report 70 admitted and 5 denied requests, which are in no other number.\n";
    assert!(text.ends_with(said), "{text}");
    // Of a row without a name, that alone is enough to be shown.
    let mut all = all("a", &[("api", 1)], 0);
    (all.features[1].total, all.features[2].total) = <(UsageColumns, UsageColumns)>::default();
    assert!(!words_of_all(&all, by("offered")).contains("(no feature)"));
    all.features[1].total.reported_admitted = 1;
    assert!(words_of_all(&all, by("offered")).contains("(no feature)"));
}
