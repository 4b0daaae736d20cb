use super::*;
use proptest::prelude::*;

fn proxied(text: &str) -> Result<ValueSource, GrammarError> {
    ValueSource::parse(text, SourceScope::Proxied)
}

#[test]
fn sources_are_shown_as_they_are_written() {
    for text in [
        "header.x-api-key",
        "cookie.sid",
        "query.a b",
        "path.12",
        "path",
        "method",
        "host",
        "jwt.sub",
        "jwt.a.\"b.c\".d",
        "client_ip",
        "\"\"",
        "\"a.b\"",
    ] {
        assert_eq!(proxied(text).unwrap().to_string(), text);
    }
    assert_eq!(ValueSource::parse("entry.user", SourceScope::Described).unwrap().to_string(), "entry.user");
}

#[test]
fn a_source_that_is_none_names_the_value_and_the_fix() {
    for (text, hint) in [
        ("", "write header.NAME"),
        ("ada", "or text in double quotes"),
        ("headers.x-key", "did you mean header.NAME?"),
        ("Method", "did you mean method?"),
        ("client", "did you mean client_ip?"),
        ("entries.user", "write header.NAME"),
        ("header", "write header.NAME"),
        ("header.", "use letters, digits and hyphens"),
        ("header.x key", "use letters, digits and hyphens"),
        ("cookie.", "write it as in cookie.sid"),
        ("cookie.a=b", "write it as in cookie.sid"),
        ("query.", "write it as in query.user"),
        ("entry.", "write it as in entry.user"),
        ("query", "write query.NAME"),
        ("path.", "write path.0"),
        ("path.-1", "write path.0"),
        ("path.+1", "write path.0"),
        ("path.10000", "write path.0"),
        ("method.x", "write method"),
        ("client_ip.x", "write client_ip"),
        ("jwt", "write jwt.CLAIM"),
        ("jwt.", "jwt.org.id"),
        ("jwt.a..b", "jwt.org.id"),
        ("jwt.\"a", "jwt.org.id"),
        ("jwt.\"a\"b", "jwt.org.id"),
        ("\"open", "write \"text\""),
        ("\"", "write \"text\""),
        ("\"a\"b\"", "write \"text\""),
    ] {
        let message = proxied(text).unwrap_err().to_string();
        assert!(
            message.contains(hint) && message.contains(&format!("\"{}\"", shown(text))),
            "{text}: {message}"
        );
    }
    assert!(proxied(&"x".repeat(1 << 20)).unwrap_err().to_string().len() < 400);
}

#[test]
fn a_source_that_its_protocol_does_not_have_is_refused_with_those_it_has() {
    for (text, scope, what, fix) in [
        ("entry.user", SourceScope::Proxied, "a proxied request has none", "write header.NAME"),
        ("log.user", SourceScope::Proxied, "not available in this version", "write header.NAME"),
        ("log.user", SourceScope::Described, "not available in this version", "write entry.NAME"),
        ("log.user", SourceScope::Any, "not available in this version", "write header.NAME"),
        ("header.x-user", SourceScope::Described, "only the reverse proxy sees", "write entry.NAME"),
        ("jwt.sub", SourceScope::Described, "only the reverse proxy sees", "write entry.NAME"),
        ("client_ip", SourceScope::Described, "only the reverse proxy sees", "write entry.NAME"),
        ("method", SourceScope::Described, "only the reverse proxy sees", "write entry.NAME"),
    ] {
        let error = ValueSource::parse(text, scope).unwrap_err();
        assert!(error.what.contains(what) && error.fix.starts_with(fix), "{text}: {error}");
    }
    for scope in [SourceScope::Proxied, SourceScope::Described] {
        assert!(ValueSource::parse("\"text\"", scope).is_ok());
    }
}

#[test]
fn only_claims_and_constants_are_not_the_client_s_to_write() {
    for (text, is_of_client) in [
        ("header.x", true),
        ("cookie.x", true),
        ("query.x", true),
        ("path.0", true),
        ("client_ip", true),
        ("jwt.sub", false),
        ("\"x\"", false),
    ] {
        assert_eq!(proxied(text).unwrap().is_of_client(), is_of_client, "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_text_is_parsed_or_refused(text in "\\PC{0,40}") {
        if let Ok(source) = proxied(&text) {
            prop_assert_eq!(proxied(&source.to_string()).unwrap(), source);
        }
    }
}
