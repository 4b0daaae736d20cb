//! The class of a request, read from a header.

use http::{HeaderMap, HeaderName};
use tidegate::Class;
use tidegate_wire::text::shortened;

use super::rejection::{Rejection, RejectionCode};

/// Where the class of a request comes from.
///
/// Every client that may send the header can give its requests the highest class. So name a header
/// that the proxies in front set themselves and do not pass on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassSource {
    /// The header that names it. Default none.
    pub header: Option<HeaderName>,
    /// The class of requests without the header. Default `sheddable_plus`.
    pub default: Class,
}

impl ClassSource {
    /// The class of a request with these headers. A duplicate header, or one that names no class,
    /// is rejected with 400.
    pub fn read(&self, headers: &HeaderMap) -> Result<Class, Rejection> {
        let Some(name) = &self.header else { return Ok(self.default) };
        let mut values = headers.get_all(name).iter();
        let Some(value) = values.next() else { return Ok(self.default) };
        if values.next().is_some() {
            return Err(Rejection::new(
                RejectionCode::AmbiguousAttribute,
                format_args!("duplicate header {name}"),
            )
            .fix("send it once"));
        }
        let text = value.to_str().unwrap_or("not ASCII");
        text.parse().map_err(|_| {
            let text = shortened(text, 64);
            Rejection::new(
                RejectionCode::MalformedHeader,
                format_args!("header {name} \"{text}\" names no class"),
            )
            .fix("use critical_plus, critical, sheddable_plus or sheddable, or leave it out")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn read(values: &[&'static [u8]]) -> Result<Class, Rejection> {
        let source =
            ClassSource { header: Some(HeaderName::from_static("x-class")), default: Class::Critical };
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append("x-class", HeaderValue::from_bytes(value).unwrap());
        }
        source.read(&headers)
    }

    #[test]
    fn the_header_says_the_class_and_the_default_stands_without_it() {
        assert_eq!(read(&[]), Ok(Class::Critical));
        for class in Class::ALL {
            assert_eq!(read(&[class.as_str().as_bytes()]), Ok(class));
        }
        assert_eq!(ClassSource::default().read(&HeaderMap::new()), Ok(Class::SheddablePlus));
    }

    #[test]
    fn a_class_that_is_none_or_stands_twice_is_rejected() {
        for value in [&b""[..], b"urgent", b"CRITICAL", b"critical!", b"\xff"] {
            let Err(rejection) = read(&[value]) else { panic!("{value:?} was taken") };
            assert_eq!(rejection.code, RejectionCode::MalformedHeader);
        }
        let twice = read(&[b"sheddable", b"critical_plus"]).unwrap_err();
        assert_eq!(twice.code, RejectionCode::AmbiguousAttribute);
    }
}
