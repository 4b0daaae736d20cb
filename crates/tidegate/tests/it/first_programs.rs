//! Programs as a stranger writes them first. That they compile is the point: each is kept as short
//! as it is here.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::time::SystemTime;

use tidegate::{Attributes, Cost, Gate, Limit, Permit, Refusal, Timestamp};

fn gate() -> Gate {
    Gate::builder("api").limit(Limit::rate("per-user", "1/h").unwrap().key(["user"])).build().unwrap()
}

fn now() -> Timestamp {
    SystemTime::now().into()
}

#[test]
fn the_decision_is_kept_in_a_variable() {
    let (gate, user) = (gate(), "ada");
    let decision = gate.check(&[("user", user)], Cost::ONE, now());
    assert!(decision.is_admit());
}

#[test]
fn values_are_strings_of_any_kind() {
    let gate = gate();
    let owned = String::from("ada");
    let decision = gate.check(&[("user", &owned)], Cost::ONE, now());
    assert!(decision.is_admit());
    assert!(!gate.check(&[("user", owned.clone())], Cost::ONE, now()).is_admit());
    assert!(!gate.check(&[("user".to_owned(), owned)], Cost::ONE, now()).is_admit());
}

#[test]
fn attributes_are_a_vec_of_pairs_or_a_map() {
    let gate = gate();
    let pairs: Vec<(&str, &str)> = vec![("user", "ada"), ("plan", "gold")];
    assert!(gate.check(&pairs, Cost::ONE, now()).is_admit());
    let owned: Vec<(String, String)> = vec![("user".into(), "ada".into())];
    assert!(!gate.check(&owned, Cost::ONE, now()).is_admit());
    let map = HashMap::from([("user", "ada".to_owned())]);
    assert!(!gate.check(&map, Cost::ONE, now()).is_admit());
    assert_eq!(Attributes::from(&owned), Attributes::from(&map));
}

#[test]
fn a_request_without_attributes_is_the_unit() {
    let gate = Gate::builder("api").limit(Limit::rate("all", "1/h").unwrap()).build().unwrap();
    assert!(gate.check((), Cost::ONE, now()).is_admit());
    assert!(!gate.check((), Cost::ONE, now()).is_admit());
}

fn admit(gate: &Gate, user: &str) -> Result<Permit, Refusal> {
    gate.check(&[("user", user)], Cost::ONE, now()).into_result()
}

fn handle(gate: &Gate, user: &str) -> Result<String, Box<dyn Error + Send + Sync>> {
    let _permit = admit(gate, user)?;
    Ok(format!("hello {user}"))
}

#[test]
fn a_refusal_is_returned_as_an_error() {
    let gate = gate();
    assert_eq!(handle(&gate, "ada").unwrap(), "hello ada");
    let error = handle(&gate, "ada").unwrap_err().to_string();
    assert!(
        error.starts_with("limit \"per-user\" of \"api\" (user=ada): quota_exceeded, 0 of 1 left"),
        "{error}"
    );
}

struct Service {
    gate: Gate,
    last: Option<Refusal>,
}

#[test]
fn a_gate_is_a_field_and_a_refusal_outlives_its_request() {
    let mut service = Service { gate: gate(), last: None };
    for _ in 0..2 {
        let user = String::from("ada");
        service.last = admit(&service.gate, &user).err();
    }
    assert_eq!(service.last.unwrap().scope[0].1, "ada");
}

#[test]
fn a_gate_is_shared_by_threads() {
    let gate = Arc::new(gate());
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let gate = Arc::clone(&gate);
            std::thread::spawn(move || gate.check(&[("user", "ada")], Cost::ONE, now()).is_admit())
        })
        .collect();
    let admitted = threads.into_iter().map(|thread| thread.join().unwrap());
    assert_eq!(admitted.filter(|admitted| *admitted).count(), 1);
}

#[test]
fn two_limits_are_charged_together_or_not_at_all() -> Result<(), Box<dyn Error>> {
    let gate = Gate::builder("api")
        .limit(Limit::rate("per-user", "1/h")?.key(["user"]))
        .limit(Limit::rolling("all", 10, "1m")?)
        .build()?;
    let permit = gate.check(&[("user", "ada")], Cost::ONE, now()).into_result()?;
    assert_eq!(gate.remaining(&permit), 0);
    assert_eq!(format!("{permit:?}").split("admitted_at").next().unwrap(), "Permit { cost: 1, ");
    assert!(!gate.check(&[("user", "ada")], Cost::ONE, now()).is_admit());
    let others = gate.check(&[("user", "bob")], Cost::ONE, now()).into_result()?;
    assert_eq!(gate.statuses(&others).map(|one| one.remaining).collect::<Vec<_>>(), [0, 8]);
    Ok(())
}

#[test]
fn two_gates_place_their_keys_by_other_seeds() {
    let fingerprint = || gate().table().fingerprint();
    assert_ne!(fingerprint(), fingerprint());
}

#[test]
fn an_error_tells_its_cause_once() {
    let limit = || Limit::rate("per-user", "10/s").unwrap().burst(0);
    let cause = "limit \"per-user\": burst 0 admits nothing; use at least 1, or remove `burst` to allow one span of `rate`";
    let error = Gate::builder("api").limit(limit()).build().unwrap_err();
    assert_eq!((error.to_string(), error.source().is_none()), (cause.to_owned(), true));
    let error = tidegate::tower::AdmitLayer::from_limits([limit()]).unwrap_err();
    assert_eq!(error.to_string(), "namespace \"default\" has limits that cannot be used");
    assert_eq!(error.source().unwrap().to_string(), cause);
    assert_eq!(tidegate::error_chain(&error), format!("{error}: {cause}"));
}
