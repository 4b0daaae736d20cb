//! The class that a proxied request claims, within the bounds of its route.

use tidegate_core::Class;
use tidegate_policy::policy::claims::ClassSource;
use tidegate_wire::text::shortened;

use crate::attributes::RequestValues;
use crate::rejection::{Rejection, RejectionCode};

/// The class that a request claims; `None` if it claims none. A claim of a peer that is not trusted
/// is at most the ceiling of the route. A duplicate source, or a value that names no class, is
/// rejected with 400.
pub(super) fn claimed(
    source: &ClassSource,
    values: &RequestValues<'_>,
    is_trusted: bool,
) -> Result<Option<Class>, Rejection> {
    let Some(from) = &source.from else { return Ok(None) };
    let Some(text) = values.value(from)? else { return Ok(None) };
    let class: Class = text.parse().map_err(|_| {
        let text = shortened(&text, 64);
        let detail = format_args!("{from} \"{text}\" names no class");
        Rejection::new(RejectionCode::MalformedHeader, detail)
            .fix("use critical_plus, critical, sheddable_plus or sheddable, or leave it out")
    })?;
    Ok(Some(if is_trusted { class } else { class.min(source.ceiling) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_fixture::{parts, path, values};

    fn read(claims: &[&[u8]], is_trusted: bool) -> Result<Option<Class>, Rejection> {
        let mut source = ClassSource::default();
        source.from = Some("header.x-class".parse().unwrap());
        source.ceiling = Class::Critical;
        let claims: Vec<_> = claims.iter().map(|claim| ("x-class", *claim)).collect();
        let parts = parts("/", &claims);
        claimed(&source, &values(&parts, &path(&parts)), is_trusted)
    }

    #[test]
    fn a_peer_that_is_not_trusted_claims_at_most_the_ceiling() {
        assert_eq!(read(&[], true), Ok(None));
        for class in Class::ALL {
            assert_eq!(read(&[class.as_str().as_bytes()], true), Ok(Some(class)));
            assert_eq!(read(&[class.as_str().as_bytes()], false), Ok(Some(class.min(Class::Critical))));
        }
    }

    #[test]
    fn a_class_that_is_none_or_stands_twice_is_rejected() {
        for value in [&b""[..], b"urgent", b"CRITICAL", b"critical!"] {
            let Err(rejection) = read(&[value], false) else { panic!("{value:?} was taken") };
            assert_eq!(rejection.code, RejectionCode::MalformedHeader);
        }
        for values in [&[&b"sheddable"[..], b"critical_plus"][..], &[b"\xff"]] {
            assert_eq!(read(values, false).unwrap_err().code, RejectionCode::AmbiguousAttribute);
        }
    }
}
