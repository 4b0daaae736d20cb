use super::*;

fn body(fault: &Fault) -> String {
    let mut out = Vec::new();
    fault.write_body(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_fault_says_what_where_and_what_to_do() {
    let mut fault =
        Fault::new(FaultCode::MalformedBody, "cost 0 charges nothing").fix("send peek").field("cost");
    fault.position = Some((1, 12));
    assert_eq!(
        body(&fault),
        concat!(
            r#"{"type":"about:blank","title":"Bad Request","status":400,"error":"malformed_body","#,
            r#""detail":"cost 0 charges nothing","fix":"send peek","field":"cost","line":1,"column":12}"#
        )
    );
}

#[test]
fn a_fault_that_knows_no_place_names_none() {
    assert_eq!(
        body(&Fault::new(FaultCode::UnknownNamespace, "no namespace \"x\"")),
        concat!(
            r#"{"type":"about:blank","title":"Not Found","status":404,"error":"unknown_namespace","#,
            r#""detail":"no namespace \"x\""}"#
        )
    );
}

#[test]
fn what_a_stranger_sent_does_not_decide_how_long_the_answer_is() {
    let long = "\u{e9}".repeat(100_000);
    assert!(body(&Fault::new(FaultCode::MalformedBody, &long)).len() < 600);
    let key = format!(r#"{{"{long}":1}}"#);
    let fault = crate::operation::read::<crate::operation::Check<'_>>(key.as_bytes()).unwrap_err();
    assert!(body(&fault).len() < 1500, "{}", body(&fault).len());
}

#[test]
fn codes_are_distinct_and_their_status_is_an_error() {
    let mut names: Vec<_> = FaultCode::ALL.iter().map(|code| code.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), FaultCode::ALL.len());
    assert!(FaultCode::ALL.iter().all(|code| (400..600).contains(&code.status())));
}

/// Each body is wrong in another way; the words of the reader's language are not those of JSON.
#[test]
fn a_body_that_cannot_be_read_is_told_in_the_words_of_json() {
    for (body, told) in [
        (r#"{"namespace":"#, "the body ends where a value should be"),
        (r#"{"namespace":"api""#, "the body ends inside of an object"),
        (r#"{"namespace":"ap"#, "the body ends inside of a text"),
        (r#"{"namespace":"api"} {}"#, "the body goes on behind its JSON value"),
        (r#"{"namespace":"api","wait_ms":"5"}"#, "expected a whole number from 0"),
        (r#"{"namespace":"api","wait_ms":-5}"#, "expected a whole number from 0"),
        (r#"{"namespace":[]}"#, "invalid type: a list"),
    ] {
        let fault = crate::operation::read::<crate::operation::Check<'_>>(body.as_bytes()).unwrap_err();
        assert!(fault.detail.contains(told), "{body}: {}", fault.detail);
        for word in ["EOF", "variant", "u64", "sequence", "trailing"] {
            assert!(!fault.detail.contains(word), "{body}: {}", fault.detail);
        }
    }
}
