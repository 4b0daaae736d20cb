//! Plans: which numbers count, that usage is kept when the plan of a key changes, and that a plan
//! without a limit is neither charged nor refused.

use super::*;
use crate::limit::{PlanAssignment, Plans};

const SECOND: Duration = Duration::from_secs(1);

fn plans() -> Plans {
    let mut plans = Plans::new(["free", "pro", "enterprise"]);
    plans.default = Some("free".to_owned());
    plans.assigned = [("acme", "pro"), ("globex", "enterprise")]
        .map(|(value, plan)| PlanAssignment {
            attribute: "account".to_owned(),
            value: value.to_owned(),
            plan: plan.to_owned(),
        })
        .into();
    plans
}

fn requests() -> Limit {
    per_second("account", 5).plan("free", bucket(2, SECOND)).plan("pro", bucket(50, SECOND))
}

fn gate_with(plans: Plans, limit: Limit) -> Gate {
    Gate::builder("api").plans(plans).limit(limit).table(table()).build().unwrap()
}

fn limit_of(gate: &Gate, attributes: &[(&str, &str)]) -> Option<u64> {
    gate.peek(attributes, Cost::ONE, NOW).limits.first().map(|status| status.limit)
}

#[test]
fn an_assignment_counts_before_the_attribute_and_the_attribute_before_the_default() {
    let gate = gate_with(plans(), requests());
    for (attributes, expected) in [
        (&[("account", "acme")][..], 50),
        (&[("account", "acme"), ("plan", "free")], 50),
        (&[("account", "initech"), ("plan", "pro")], 50),
        (&[("account", "initech"), ("plan", "free")], 2),
        (&[("account", "initech"), ("plan", "platinum")], 2),
        (&[("account", "initech")], 2),
        // The limit lists no numbers for this plan.
        (&[("account", "globex")], 5),
    ] {
        assert_eq!(limit_of(&gate, attributes), Some(expected), "{attributes:?}");
    }
    let gate = gate_with(Plans { default: None, ..plans() }, requests());
    assert_eq!(limit_of(&gate, &[("account", "initech")]), Some(5), "its own numbers");
}

#[test]
fn usage_is_kept_when_the_plan_of_a_key_changes_in_both_directions() {
    for limit in one_of_each(10) {
        let Limit { name, algorithm, .. } = limit.clone();
        let smaller = algorithm.divided(5);
        let gate = gate_with(Plans::new(["free"]), limit.plan("free", smaller));
        let (free, paid) = ([(name.as_str(), "x"), ("plan", "free")], [(name.as_str(), "x")]);
        let mut permits = Vec::new();
        let mut admitted = |attributes: &[(&str, &str)]| {
            let before = permits.len();
            permits.extend((0..20).filter_map(|_| gate.check(attributes, Cost::ONE, NOW).into_result().ok()));
            permits.len() - before
        };
        assert_eq!(admitted(&free), 2, "{name}");
        assert_eq!(admitted(&paid), 8, "{name}: an upgrade keeps what was used");
        assert_eq!(admitted(&free), 0, "{name}: and so does a downgrade");
    }
}

#[test]
fn an_unlimited_plan_is_neither_charged_nor_refused_and_other_limits_still_count() {
    let gate = Gate::builder("api")
        .plans(plans())
        .limit(per_second("account", 1).unlimited_for_plan("pro"))
        .limit(per_second("all", 3).key(["region"]))
        .table(table())
        .build()
        .unwrap();
    let acme = [("account", "acme"), ("region", "eu")];
    for left in [2, 1, 0] {
        let permit = gate.check(&acme, Cost::ONE, NOW).into_result().unwrap();
        assert_eq!(gate.remaining(&permit), left);
    }
    let refusal = gate.check(&acme, Cost::ONE, NOW).into_result().unwrap_err();
    assert_eq!((refusal.name(), refusal.violated.len()), ("all", 1));
    let globex = [("account", "globex")];
    assert!(gate.check(&globex, Cost::ONE, NOW).is_admit());
    assert!(!gate.check(&globex, Cost::ONE, NOW).is_admit(), "another plan is limited");
}

#[test]
fn an_override_wins_over_a_plan() {
    let limit = requests().override_for([("account", "acme")], bucket(7, SECOND));
    let gate = gate_with(plans(), limit.clone());
    assert_eq!(limit_of(&gate, &[("account", "acme")]), Some(7));
    let gate = gate_with(plans(), limit.unlimited_for_plan("enterprise"));
    assert_eq!(limit_of(&gate, &[("account", "globex")]), None);
    assert_eq!(limit_of(&gate, &[("account", "acme"), ("plan", "enterprise")]), Some(7));
}

#[test]
fn an_explanation_names_the_plan_and_why_the_request_has_it() {
    let gate = gate_with(plans(), requests().unlimited_for_plan("enterprise"));
    let plan = |attributes: &[(&str, &str)]| match gate.explain(attributes, Cost::ONE, NOW).remove(0).standing
    {
        Standing::Counts(counting) => match counting.numbers_of {
            NumbersOf::Plan(plan) => (plan.name, plan.found_by, counting.algorithm.limit()),
            other => panic!("{other:?}"),
        },
        Standing::Unlimited { plan } => (plan.name, plan.found_by, u64::MAX),
        other => panic!("{other:?}"),
    };
    let assigned =
        |value: &str| PlanSource::Assigned { attribute: "account".to_owned(), value: value.to_owned() };
    assert_eq!(plan(&[("account", "acme")]), ("pro".to_owned(), assigned("acme"), 50));
    assert_eq!(plan(&[("account", "globex")]), ("enterprise".to_owned(), assigned("globex"), u64::MAX));
    let named = PlanSource::Attribute { attribute: "plan".to_owned() };
    assert_eq!(plan(&[("account", "x"), ("plan", "pro")]), ("pro".to_owned(), named, 50));
    let default = |unknown: Option<&str>| PlanSource::Default { unknown: unknown.map(str::to_owned) };
    assert_eq!(plan(&[("account", "x")]), ("free".to_owned(), default(None), 2));
    let gold = [("account", "x"), ("plan", "gold")];
    assert_eq!(plan(&gold), ("free".to_owned(), default(Some("gold")), 2));
}

#[test]
fn plans_that_make_no_gate_are_named_with_what_to_do() {
    let error = |plans: Option<Plans>, limit: Limit| {
        let builder = Gate::builder("api").limit(limit).table(table());
        let builder = match plans {
            Some(plans) => builder.plans(plans),
            None => builder,
        };
        builder.build().unwrap_err().to_string()
    };
    let twice = Plans::new(["free", "free"]);
    assert_eq!(
        error(Some(twice), per_second("a", 1)),
        "plans of namespace \"api\": duplicate plan \"free\"; rename one of them"
    );
    let unknown = Plans { default: Some("gold".to_owned()), ..Plans::new(["free"]) };
    assert_eq!(
        error(Some(unknown), per_second("a", 1)),
        "plans of namespace \"api\": there is no plan \"gold\"; name one of the plans"
    );
    assert_eq!(
        error(None, requests()),
        "limit \"account\": plan \"free\" is not a plan of the namespace; name one of its plans"
    );
    assert_eq!(
        error(Some(plans()), requests().plan("pro", bucket(1, SECOND))),
        "limit \"account\": plan \"pro\" has numbers already; remove one of the two"
    );
    assert_eq!(
        error(Some(plans()), per_second("a", 1).plan("pro", one_of_each(3)[1].algorithm.clone())),
        "limit \"a\": numbers for rolling of a limit that uses rate; use rate"
    );
    let many = Plans::new((0..=Plans::MAX).map(|at| at.to_string()));
    assert_eq!(
        error(Some(many), per_second("a", 1)),
        "plans of namespace \"api\": 257 plans; use at most 256"
    );
}

#[test]
fn the_cost_of_a_request_is_that_of_the_first_row_that_it_meets() {
    use crate::limit::CostRow;
    use crate::matcher::Matcher;
    let row = |units: u64| CostRow::new(cost(units));
    let gate = Gate::builder("api")
        .cost(row(50).when("method", Matcher::exact("POST")).when("path", Matcher::prefix("/export")))
        .cost(row(10).when("path", Matcher::prefix("/export")))
        .cost(row(2).when("method", Matcher::exact("POST")))
        .limit(per_second("user", 100))
        .table(table())
        .build()
        .unwrap();
    for (attributes, expected) in [
        (&[("method", "POST"), ("path", "/export/1")][..], (50, Some(0))),
        (&[("path", "/export"), ("method", "GET")], (10, Some(1))),
        (&[("path", "/export")], (10, Some(1))),
        (&[("method", "POST"), ("path", "/")], (2, Some(2))),
        (&[("method", "GET")], (1, None)),
        (&[], (1, None)),
    ] {
        let found = (gate.cost_of(attributes).units(), gate.cost_row(attributes));
        assert_eq!(found, expected, "{attributes:?}");
    }
    assert_eq!(self::gate([per_second("user", 1)]).cost_of(&[("user", "ada")]), Cost::ONE);
    let rows = (0..=CostRow::MAX).map(|_| row(1));
    let error = Gate::builder("api").costs(rows).build().unwrap_err().to_string();
    assert_eq!(error, "namespace \"api\": 1025 rows in the cost table; use at most 1024");
}
