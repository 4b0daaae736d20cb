//! Bodies of the HTTP API: the first line names the route, the rest is the body.

use serde_json::Value;
use tidegate_wire::Fault;
use tidegate_wire::fault::DETAIL_BYTES_MAX;
use tidegate_wire::operation::{Block, Check, Refund, Release, Report, Reserve, Reset, Settle, Weight, read};
use tidegate_wire::pairs::Pairs;

use crate::Taken;

/// The longest path to a value, and the longest advice, in bytes.
const PLACE_BYTES_MAX: usize = 1024;

/// Reads the body of a route.
///
/// An accepted body is an object whose members say the same to a general reader of JSON, and no
/// shorter body says it too; a refused one names a place inside the body in a bounded sentence.
pub fn bodies(bytes: &[u8]) -> Taken {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return Taken::Refused };
    let (route, body) = (&bytes[..end], &bytes[end + 1..]);
    let text = |text: &str| Value::from(text);
    let units = |cost: Weight| cost.0.units();
    let outcome = match route {
        b"check" => read::<Check<'_>>(body).map(|check| {
            if check.access.is_some() {
                let size = member(body, &["access", "size"]);
                assert_eq!(
                    check.access.as_ref().map(|access| access.size),
                    size.map_or(Some(1), |size| size.as_u64())
                );
            }
            assert_eq!(member(body, &["resource"]), check.resource.as_deref().map(text));
            assert_eq!(member(body, &["peek"]).is_some_and(|peek| peek == true), check.peek);
            (Some(check.namespace.0), Some(check.attributes), check.cost.map(units))
        }),
        b"report" => read::<Report<'_>>(body)
            .map(|report| (Some(report.namespace.0), Some(report.attributes), report.cost.map(units))),
        b"refund" => read::<Refund<'_>>(body).map(|refund| {
            if let Some(fault) = refund.fault() {
                assert_fault(&fault, body);
            }
            assert_eq!(member(body, &["refund_key"]), Some(text(&refund.refund_key)));
            (Some(refund.namespace.0), Some(refund.attributes), refund.cost.map(units))
        }),
        b"reserve" => read::<Reserve<'_>>(body).map(|reserve| {
            match reserve.expires_after() {
                Ok(span) => assert!((1..=86_400_000).contains(&span.as_millis()), "{span:?}"),
                Err(fault) => assert_fault(&fault, body),
            }
            (Some(reserve.namespace.0), Some(reserve.attributes), reserve.cost.map(units))
        }),
        b"settle" => read::<Settle<'_>>(body).map(|settle| {
            assert_eq!(member(body, &["permit"]), Some(text(&settle.permit)));
            assert_eq!(member(body, &["cost"]).and_then(|cost| cost.as_u64()), settle.cost);
            (None, None, None)
        }),
        b"release" => read::<Release<'_>>(body).map(|release| {
            assert_eq!(member(body, &["permit"]), Some(text(&release.permit)));
            (None, None, None)
        }),
        b"reset" => {
            read::<Reset<'_>>(body).map(|reset| (Some(reset.namespace.0), Some(reset.attributes), None))
        }
        b"block" => read::<Block<'_>>(body).map(|block| {
            if let Err(fault) = block.span() {
                assert_fault(&fault, body);
            }
            assert_eq!(member(body, &["for_ms"]).and_then(|span| span.as_u64()), Some(block.for_ms));
            (Some(block.namespace.0), Some(block.attributes), None)
        }),
        _ => return Taken::Refused,
    };
    match outcome {
        Ok((namespace, attributes, cost)) => {
            assert_eq!(member(body, &["namespace"]), namespace.as_deref().map(text));
            if let Some(attributes) = attributes {
                assert_attributes(body, &attributes);
            }
            if route != b"settle" {
                assert_eq!(member(body, &["cost"]).and_then(|cost| cost.as_u64()), cost);
            }
            let shorter = &body.trim_ascii_end()[..body.trim_ascii_end().len() - 1];
            assert!(read::<Check<'_>>(shorter).is_err(), "a body that is cut off is read");
            Taken::Accepted
        }
        Err(fault) => {
            assert_fault(&fault, body);
            Taken::Refused
        }
    }
}

/// The member at the end of `path` as a general reader of JSON finds it; `null` counts as absent.
fn member(body: &[u8], path: &[&str]) -> Option<Value> {
    let whole: Value = serde_json::from_slice(body).expect("an accepted body is JSON");
    assert!(whole.is_object(), "an accepted body is no object");
    let found = path.iter().try_fold(&whole, |value, name| value.get(name));
    found.filter(|value| !value.is_null()).cloned()
}

fn assert_attributes(body: &[u8], attributes: &Pairs<'_>) {
    let pairs = attributes.borrowed();
    let found = member(body, &["attributes"]);
    let found = found.as_ref().and_then(Value::as_object);
    assert_eq!(found.map_or(0, serde_json::Map::len), pairs.len());
    for (name, value) in pairs {
        assert_eq!(found.and_then(|all| all.get(name)), Some(&Value::from(value)), "attribute {name:?}");
    }
}

/// A fault is bounded, has a place inside the body, and can be written as an answer.
fn assert_fault(fault: &Fault, body: &[u8]) {
    assert!(
        (1..=DETAIL_BYTES_MAX + '\u{2026}'.len_utf8()).contains(&fault.detail.len()),
        "{:?}",
        fault.detail
    );
    let shown = [fault.field.as_deref(), fault.fix.as_deref()];
    assert!(shown.iter().flatten().all(|text| text.len() <= PLACE_BYTES_MAX), "{fault:?}");
    if let Some((line, column)) = fault.position {
        let lines = body.split(|byte| *byte == b'\n').count();
        assert!((1..=lines).contains(&line) && column <= body.len(), "no such place: {fault:?}");
    }
    let mut out = Vec::new();
    fault.write_body(&mut out);
    let written: Value = serde_json::from_slice(&out).expect("a fault is written as JSON");
    assert_eq!(written["error"], fault.code.as_str());
    assert_eq!(written["detail"], fault.detail.as_str());
}
