//! Valid requests, and every kind of invalid request.

use super::*;

fn entry(key: &str, value: &str) -> Entry {
    Entry { key: key.to_owned(), value: value.to_owned() }
}

fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entries = entries.iter().map(|(key, value)| entry(key, value)).collect();
    RateLimitDescriptor { entries, ..RateLimitDescriptor::default() }
}

fn request(descriptors: impl IntoIterator<Item = RateLimitDescriptor>) -> RateLimitRequest {
    RateLimitRequest { domain: "api".into(), descriptors: descriptors.into_iter().collect(), hits_addend: 0 }
}

fn hits(addend: Option<u64>, is_negative: bool, of_request: u32) -> Hits {
    let mut one = descriptor(&[("user", "ada")]);
    (one.hits_addend, one.is_negative_hits) = (addend, is_negative);
    let request = RateLimitRequest { hits_addend: of_request, ..request([one]) };
    ParsedRequest::read(&request).unwrap().descriptors[0].hits
}

fn wrong(request: &RateLimitRequest) -> String {
    ParsedRequest::read(request).unwrap_err().to_string()
}

#[test]
fn the_weight_of_a_descriptor_wins_over_that_of_the_request_even_when_it_is_zero() {
    let cost = |units| Cost::new(units).unwrap();
    assert_eq!(hits(None, false, 0), Hits::Ask(None));
    assert_eq!(hits(None, false, 4), Hits::Ask(Some(cost(4))));
    assert_eq!(hits(Some(7), false, 4), Hits::Charge(cost(7)));
    assert_eq!(hits(Some(0), false, 4), Hits::Look);
    assert_eq!(hits(Some(u64::MAX), false, 0), Hits::Charge(cost(u64::MAX)));
    assert_eq!(hits(None, true, 0), Hits::GiveBack(None));
    assert_eq!(hits(Some(7), true, 4), Hits::GiveBack(Some(cost(7))));
    assert_eq!(hits(Some(0), true, 4), Hits::Look, "nothing is given back");
}

#[test]
fn a_limit_that_comes_with_a_descriptor_is_read_and_admits_nothing_at_zero() {
    let mut one = descriptor(&[("user", "ada")]);
    one.limit = Some(RateLimitOverride { requests_per_unit: 0, unit: 5 });
    let request = request([one]);
    let limit = ParsedRequest::read(&request).unwrap().descriptors[0].limit.unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit), (0, RateLimitUnit::Month));
    assert_eq!(limit.window, Duration::from_hours(30 * 24));
}

#[test]
fn a_bad_request_is_told_which_field_is_wrong_and_what_to_do() {
    let good = descriptor(&[("user", "ada")]);
    let nameless = RateLimitRequest { domain: String::new(), ..request([good.clone()]) };
    assert_eq!(wrong(&nameless), "domain is empty; name a namespace of the policy");
    let long = RateLimitRequest { domain: "d".repeat(1025), ..request([good.clone()]) };
    assert_eq!(wrong(&long), "domain has 1025 bytes; it takes 1024; name a namespace of the policy");
    assert_eq!(wrong(&request([])), "descriptors is empty; send at least one");
    assert_eq!(
        wrong(&request(vec![good.clone(); 10_000])),
        "descriptors has 10000 descriptors; a request takes 128; send fewer, or several requests"
    );
    assert_eq!(
        wrong(&request([good.clone(), descriptor(&[])])),
        "descriptors[1].entries is empty; send at least one key with its value"
    );
    assert_eq!(
        wrong(&request([descriptor(&[("k", "v"); 65])])),
        "descriptors[0].entries has 65 entries; a descriptor takes 64; send those that limits use"
    );
    assert_eq!(
        wrong(&request([descriptor(&[("k", "v"), ("", "v")])])),
        "descriptors[0].entries[1].key is empty; name what its value is"
    );
    assert_eq!(
        wrong(&request([descriptor(&[(&"k".repeat(1025), "v")])])),
        "descriptors[0].entries[0].key has 1025 bytes; it takes 1024; use a short name"
    );
    assert_eq!(
        wrong(&request([descriptor(&[("k", &"v".repeat(1 << 20))])])),
        "descriptors[0].entries[0].value has 1048576 bytes; it takes 65536; send a shorter value"
    );
    for (unit, told) in [(0, "is UNKNOWN"), (8, "is 8, which is no unit"), (-1, "is -1, which is no unit")] {
        let limit = Some(RateLimitOverride { requests_per_unit: 1, unit });
        let told = format!("descriptors[0].limit.unit {told}; send SECOND, MINUTE, HOUR, DAY, MONTH or YEAR");
        assert_eq!(wrong(&request([RateLimitDescriptor { limit, ..good.clone() }])), told);
    }
}

#[test]
fn what_is_just_within_the_bounds_is_taken() {
    let value = "v".repeat(VALUE_BYTES_MAX);
    let entries: Vec<_> = (0..ENTRIES_MAX).map(|index| entry(&format!("k{index}"), "")).collect();
    let mut most = vec![descriptor(&[(&"k".repeat(NAME_BYTES_MAX), &value)]); DESCRIPTORS_MAX];
    most[0].entries = entries;
    assert_eq!(ParsedRequest::read(&request(most)).unwrap().descriptors.len(), DESCRIPTORS_MAX);
}

#[test]
fn a_key_that_stands_several_times_loses_none_of_its_values() {
    let request = request([descriptor(&[("generic_key", "a"), ("user", "ada"), ("generic_key", "b")])]);
    let asked = ParsedRequest::read(&request).unwrap();
    let pairs = asked.descriptors[0].attributes();
    let pairs: Vec<_> = pairs.iter().map(|(name, value)| (&**name, *value)).collect();
    assert_eq!(pairs, [("generic_key", "a"), ("user", "ada"), ("generic_key.2", "b")]);
}

#[test]
fn a_key_that_is_called_as_the_repetition_of_another_loses_no_value() {
    let names = |keys: &[&str]| {
        let entries: Vec<_> = keys.iter().map(|key| (*key, "v")).collect();
        let request = request([descriptor(&entries)]);
        let asked = ParsedRequest::read(&request).unwrap();
        asked.descriptors[0].attributes().into_iter().map(|(name, _)| name.into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&["a", "a.2", "a", "a"]), ["a", "a.2", "a.3", "a.4"]);
    assert_eq!(names(&["a", "a", "a", "a.3", "a.2"]), ["a", "a.4", "a.5", "a.3", "a.2"]);
    assert_eq!(names(&["a", "a", "a.2", "a.2"]), ["a", "a.3", "a.2", "a.2.2"]);
    // A key that is not written as the repetition of another takes no name of it.
    for other in ["a.02", "a.+2", "a.2x", "a.", "a.99999999999999999999"] {
        assert_eq!(names(&["a", "a", other]), ["a", "a.2", other]);
    }
}
