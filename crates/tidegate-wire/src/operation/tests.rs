use super::*;

fn fault<'a, T: Deserialize<'a> + fmt::Debug>(body: &'a str) -> Fault {
    read::<T>(body.as_bytes()).unwrap_err()
}

#[test]
fn a_check_needs_only_a_namespace() {
    let check: Check<'_> = read(br#"{"namespace":"api"}"#).unwrap();
    assert_eq!(
        (&*check.namespace, check.cost, check.class.unwrap_or_default().0),
        ("api", None, Class::SheddablePlus)
    );
    assert!(!check.peek && check.wait_ms == 0 && check.access.is_none());
    assert!(check.attributes.borrowed().is_empty());
}

#[test]
fn a_check_reads_everything_it_may_hold() {
    let body = br#"{"namespace":"api","attributes":{"user":"ada"},"cost":18446744073709551615,
        "class":"critical","access":{"table":"t","key":"k","kind":"write","size":9},"peek":true,"wait_ms":0}"#;
    let check: Check<'_> = read(body).unwrap();
    assert_eq!(check.cost.unwrap().0.units(), u64::MAX);
    assert_eq!((check.class.unwrap_or_default().0, check.peek), (Class::Critical, true));
    let access = check.access.unwrap();
    assert_eq!((&*access.table, &*access.key, access.kind, access.size), ("t", "k", AccessKind::Write, 9));
}

#[test]
fn cost_zero_says_to_peek() {
    let fault = fault::<Check<'_>>(r#"{"namespace":"api","cost":0}"#);
    assert_eq!(fault.code, FaultCode::MalformedBody);
    assert_eq!(fault.field.as_deref(), Some("cost"));
    assert!(fault.detail.contains("send \"peek\": true"), "{}", fault.detail);
}

#[test]
fn a_cost_that_is_no_whole_number_is_named_with_its_place() {
    for (cost, shown) in [
        ("1.5", "the number `1.5`"),
        ("\"5\"", "the text \"5\""),
        ("-1", "the number `-1`"),
        ("18446744073709551616", "the number `"),
        ("true", "the value `true`"),
        ("null", "null"),
    ] {
        let fault = fault::<Check<'_>>(&format!(r#"{{"namespace":"api","cost":{cost}}}"#));
        assert_eq!(fault.field.as_deref(), Some("cost"), "{cost}");
        assert!(fault.detail.contains(shown), "{cost}: {}", fault.detail);
        assert!(fault.detail.contains("whole number from 1"), "{cost}: {}", fault.detail);
        assert_eq!(fault.position.unwrap().0, 1);
    }
}

#[test]
fn an_unknown_key_is_an_error_with_the_nearest_known_one() {
    let fault = fault::<Check<'_>>(r#"{"namespace":"api","atributes":{}}"#);
    assert!(fault.detail.contains("unknown field `atributes`"), "{}", fault.detail);
    assert_eq!(fault.fix.as_deref(), Some("did you mean \"attributes\"?"));
    let fault = self::fault::<Check<'_>>(r#"{"namespace":"api","zzzzzzzz":1}"#);
    assert!(fault.fix.unwrap().starts_with("leave it out; known are namespace, attributes"));
}

#[test]
fn every_route_refuses_keys_it_does_not_know() {
    let body = br#"{"namespace":"api","permit":"p","limit":"l","for_ms":1,"refund_key":"k","nonsense":1}"#;
    let details = [
        read::<Check<'_>>(body).unwrap_err(),
        read::<Report<'_>>(body).unwrap_err(),
        read::<Refund<'_>>(body).unwrap_err(),
        read::<Reserve<'_>>(body).unwrap_err(),
        read::<Settle<'_>>(body).unwrap_err(),
        read::<Release<'_>>(body).unwrap_err(),
        read::<Reset<'_>>(body).unwrap_err(),
        read::<Block<'_>>(body).unwrap_err(),
    ];
    for fault in details {
        assert!(fault.detail.contains("unknown field"), "{}", fault.detail);
    }
}

#[test]
fn bodies_that_are_no_json_say_where() {
    for (body, line, column) in [
        (&b"{\"namespace\":\n\"api\",}"[..], 2, 7),
        (b"{\"namespace\":\"\xff\xfe\"}", 1, 15),
        (b"\xff", 1, 1),
        (b"{\"namespace\":\"api\"} extra", 1, 21),
        (b"[1,2]", 1, 0),
    ] {
        let fault = read::<Check<'_>>(body).unwrap_err();
        let (found_line, found_column) = fault.position.unwrap();
        assert_eq!(found_line, line, "{body:?}: {}", fault.detail);
        assert!(
            column == 0 || found_column.abs_diff(column) <= 2,
            "{body:?}: {found_column} {}",
            fault.detail
        );
        assert!(!fault.detail.contains(" at line "), "{}", fault.detail);
    }
    assert!(read::<Check<'_>>(b"").unwrap_err().detail.contains("empty"));
}

#[test]
fn a_thousand_nested_arrays_are_an_error_and_not_a_full_stack() {
    let deep = format!(r#"{{"namespace":{}"#, "[".repeat(100_000));
    assert_eq!(fault::<Check<'_>>(&deep).code, FaultCode::MalformedBody);
}

#[test]
fn attributes_name_the_one_that_is_wrong() {
    let fault = fault::<Check<'_>>(r#"{"namespace":"api","attributes":{"user":"a","app":7}}"#);
    assert!(fault.detail.contains("write the value of an attribute in quotes"), "{}", fault.detail);
    assert!(fault.field.as_deref().unwrap().starts_with("attributes"), "{:?}", fault.field);
}

#[test]
fn a_check_waits_for_a_minute_at_most_and_a_peek_not_at_all() {
    let wait = |more: &str| {
        let body = format!(r#"{{"namespace":"api"{more}}}"#);
        read::<Check<'_>>(body.as_bytes()).unwrap().wait()
    };
    assert_eq!(wait("").unwrap(), Duration::ZERO);
    assert_eq!(wait(r#","wait_ms":0,"peek":true"#).unwrap(), Duration::ZERO);
    assert_eq!(wait(r#","wait_ms":60000"#).unwrap(), WAIT_MAX);
    for (more, hint) in [
        (r#","wait_ms":60001"#, "wait_ms 60001 is out of range"),
        (r#","wait_ms":18446744073709551615"#, "out of range"),
        (r#","wait_ms":1,"peek":true"#, "does not wait"),
    ] {
        let fault = wait(more).unwrap_err();
        assert_eq!((fault.code, fault.field.as_deref()), (FaultCode::MalformedBody, Some("wait_ms")));
        assert!(fault.detail.contains(hint), "{}", fault.detail);
    }
}

#[test]
fn a_wait_in_an_attribute_has_the_bounds_of_the_member_and_digits_only() {
    assert_eq!(wait_of_attribute("0", true).unwrap(), Duration::ZERO);
    assert_eq!(wait_of_attribute("1500", false).unwrap(), Duration::from_millis(1500));
    assert_eq!(wait_of_attribute("60000", false).unwrap(), WAIT_MAX);
    for (value, peek, detail) in [
        ("60001", false, "tidegate-wait-ms 60001 is out of range"),
        ("18446744073709551616", false, "\"18446744073709551616\" is not a number of milliseconds"),
        ("", false, "\"\" is not a number of milliseconds"),
        ("+5", false, "\"+5\" is not a number of milliseconds"),
        ("1.5", false, "\"1.5\" is not a number of milliseconds"),
        ("1s", false, "\"1s\" is not a number of milliseconds"),
        ("1", true, "does not wait"),
    ] {
        let fault = wait_of_attribute(value, peek).unwrap_err();
        assert_eq!((fault.code, fault.field.as_deref()), (FaultCode::MalformedBody, Some(WAIT_MS)));
        assert!(fault.detail.contains(detail), "{value}: {}", fault.detail);
    }
}

#[test]
fn spans_have_their_bounds() {
    let reserve = |ms: u64| {
        let body = format!(r#"{{"namespace":"api","expires_ms":{ms}}}"#);
        read::<Reserve<'_>>(body.as_bytes()).unwrap().expires_after()
    };
    assert_eq!(reserve(1), Ok(Duration::from_millis(1)));
    assert_eq!(reserve(86_400_000), Ok(RESERVATION_MAX));
    assert!(reserve(0).is_err() && reserve(86_400_001).is_err() && reserve(u64::MAX).is_err());
    let none: Reserve<'_> = read(br#"{"namespace":"api"}"#).unwrap();
    assert_eq!(none.expires_after(), Ok(RESERVATION_DEFAULT));
    let block = |ms: u64| {
        let body = format!(r#"{{"namespace":"api","limit":"l","for_ms":{ms}}}"#);
        read::<Block<'_>>(body.as_bytes()).unwrap().span()
    };
    assert_eq!(block(0), Ok(Duration::ZERO));
    assert_eq!(block(31_622_400_000), Ok(BLOCK_MAX));
    assert!(block(31_622_400_001).is_err() && block(u64::MAX).is_err());
}

#[test]
fn a_refund_key_has_1_to_256_bytes() {
    let refund = |length: usize| {
        let body = format!(r#"{{"namespace":"api","refund_key":"{}"}}"#, "k".repeat(length));
        read::<Refund<'_>>(body.as_bytes()).unwrap().fault()
    };
    assert!(refund(1).is_none() && refund(256).is_none());
    assert!(refund(0).is_some() && refund(257).is_some());
    assert!(fault::<Refund<'_>>(r#"{"namespace":"api"}"#).detail.contains("missing field `refund_key`"));
}

#[test]
fn a_settlement_has_an_outcome_or_a_cost() {
    let settle: Settle<'_> = read(br#"{"permit":"p","cost":0}"#).unwrap();
    assert_eq!((settle.cost, settle.outcome, settle.fault()), (Some(0), None, None));
    let both: Settle<'_> = read(br#"{"permit":"p","cost":3,"outcome":"cancelled"}"#).unwrap();
    assert_eq!(both.fault().unwrap().field.as_deref(), Some("cost"));
    assert!(
        fault::<Settle<'_>>(r#"{"permit":"p","outcome":"lost"}"#).detail.contains("unknown value `lost`")
    );
}

#[test]
fn a_class_that_does_not_exist_is_told_the_ones_that_do() {
    let fault = fault::<Check<'_>>(r#"{"namespace":"api","class":"urgent"}"#);
    assert!(fault.detail.contains("use critical_plus, critical"), "{}", fault.detail);
}

#[test]
fn a_word_in_the_place_of_a_value_is_shown_and_numbers_that_are_not_finite_are_explained() {
    for (word, is_explained) in
        [("NaN", true), ("-NaN", true), ("-Infinity", true), ("inf", true), ("None", false), ("0x10", false)]
    {
        let fault = fault::<Check<'_>>(&format!("{{\"namespace\": \"api\",\n \"wait_ms\": {word}}}"));
        let detail = &fault.detail;
        assert!(word == "0x10" || detail.ends_with(&format!(", found `{word}`")), "{detail}");
        let fix = fault.fix.unwrap_or_default();
        assert_eq!(fix.contains("finite number"), is_explained, "{word}: {detail}; {fix}");
    }
    let long = "x".repeat(10_000);
    let of_long = fault::<Check<'_>>(&format!("{{\"wait_ms\": {long}}}")).detail;
    assert!(of_long.len() < 100, "{of_long}");
    let in_text = fault::<Check<'_>>(r#"{"namespace": "a\qNaN"}"#).detail;
    assert!(!in_text.contains("found"), "{in_text}");
}
