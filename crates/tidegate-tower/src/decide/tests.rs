use http::Request;
use tidegate_core::{Attributes, Limit};
use tidegate_engine::{Engine, EngineConfig, NamespaceConfig};

use super::*;
use crate::AdmitLayer;
use crate::extract::{extension, header, segment};

fn layer() -> AdmitLayer {
    let all = NamespaceConfig::new("api", [Limit::rate("all", "1000/s").unwrap()]);
    let engine = Engine::builder(EngineConfig::seeded([1, 2, 3, 4])).namespace(all).build().unwrap();
    AdmitLayer::new(engine, "api").unwrap()
}

/// The feature of a request to this path with these values of `x-feature`.
fn feature(
    layer: &AdmitLayer,
    (path, values): (&str, &[&[u8]]),
    attributes: &[(&str, &str)],
) -> Result<Option<String>, String> {
    let mut request = Request::get(path);
    for value in values {
        request = request.header("x-feature", *value);
    }
    let request = request.body(()).unwrap();
    let head = Head::from_request(&request);
    let feature = layer.settings.feature_of(&head, Attributes::new(attributes));
    feature.map(|name| name.map(Cow::into_owned)).map_err(|fault| fault.detail)
}

#[test]
fn the_feature_is_what_the_layer_extracts_or_the_attribute_of_that_name() {
    let attributes = [("user", "ada"), ("feature", "search")];
    let request = ("/thumbnails/7", &[&b"reports"[..]][..]);
    for (layer, expected) in [
        (layer(), Some("search")),
        (layer().feature(header("x-feature")), Some("reports")),
        (layer().feature(segment(0)), Some("thumbnails")),
        (layer().feature(segment(5)), None),
        (layer().feature(extension(|feature: &String| Some(feature.clone()))), None),
    ] {
        assert_eq!(feature(&layer, request, &attributes), Ok(expected.map(str::to_owned)));
    }
    assert_eq!(feature(&layer(), request, &[("user", "ada")]), Ok(None));
}

#[test]
fn a_feature_of_any_length_is_taken_and_one_that_cannot_be_read_is_rejected() {
    let layer = layer().feature(header("x-feature"));
    let long = "x".repeat(2048);
    for name in ["", "a b\tc", "orders", &long] {
        assert_eq!(feature(&layer, ("/", &[name.as_bytes()]), &[]), Ok(Some(name.to_owned())));
    }
    let twice = feature(&layer, ("/", &[b"search", b"orders"]), &[]).unwrap_err();
    assert_eq!(twice, "duplicate header x-feature; send it once");
    let bytes = feature(&layer, ("/", &[b"\xff"]), &[]).unwrap_err();
    assert_eq!(bytes, "header x-feature is not UTF-8; encode it");
}

/// The ticket of a request with these values of the headers `tidegate-ticket` and `x-ticket`.
fn ticket(layer: &AdmitLayer, values: &[(&str, &[u8])]) -> Option<String> {
    let mut request = Request::get("/");
    for (name, value) in values {
        request = request.header(*name, *value);
    }
    let request = request.body(()).unwrap();
    layer.settings.ticket_of(&Head::from_request(&request)).map(Cow::into_owned)
}

#[test]
fn the_ticket_is_in_its_header_or_where_the_layer_finds_it_and_never_an_error() {
    let (plain, own) = (layer(), layer().ticket(header("x-ticket")));
    for (layer, name, other) in
        [(&plain, "tidegate-ticket", "x-ticket"), (&own, "x-ticket", "tidegate-ticket")]
    {
        assert_eq!(ticket(layer, &[(other, b"t")]), None);
        let (longest, longer) = ([b'x'; 256], [b'x'; 257]);
        for (values, expected) in [
            (&[(name, &b"AbC-_"[..])][..], "AbC-_"),
            (&[(name, &longest)], core::str::from_utf8(&longest).unwrap()),
            (&[(name, &longer)], ""),
            (&[(name, b"\xff")], ""),
            (&[(name, b"a"), (name, b"b")], ""),
        ] {
            assert_eq!(ticket(layer, values).as_deref(), Some(expected), "{name}");
        }
    }
}
