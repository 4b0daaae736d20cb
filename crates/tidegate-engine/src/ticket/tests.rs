//! Tickets that were sold open, and nothing else does.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use proptest::prelude::*;
use tidegate_core::{Class, Cost, Timestamp};
use tidegate_overload::{TicketIssuer, TicketNumber};

use super::{TICKET_BYTES_MAX, TicketFault, TicketKeys, TicketSubject, TicketTerms};

mod bad_tickets;
#[cfg(tidegate_planted_faults)]
mod faults;
mod key_file;
mod key_rotation;

const SUBJECT: TicketSubject<'static> = TicketSubject {
    namespace: "shop",
    resource: Some("db"),
    operation: Some("export"),
    tenant: Some("acme"),
};

fn terms() -> TicketTerms {
    TicketTerms {
        class: Class::SheddablePlus,
        cost: Cost::new(3).unwrap(),
        number: TicketNumber {
            issuer: TicketIssuer { member: 7, start: 1_800_000_000_000_000_000 },
            slot: 1_800_000_200,
            sequence: 41,
        },
        not_before: Timestamp::from_secs(1_800_000_200),
        expires: Timestamp::from_secs(1_800_000_205),
        deferrals: 1,
    }
}

/// The class and the cost of the request that got [`terms`].
fn asked() -> (Class, Cost) {
    (terms().class, terms().cost)
}

fn keys() -> TicketKeys {
    let bytes: Vec<u8> = (0..32).collect();
    TicketKeys::new(&bytes).unwrap()
}

/// The terms in which each number is the least, and those in which each is the most.
fn extremes() -> [TicketTerms; 2] {
    let least = TicketTerms {
        class: Class::Sheddable,
        cost: Cost::ONE,
        number: TicketNumber { issuer: TicketIssuer { member: 0, start: 0 }, slot: 0, sequence: 0 },
        not_before: Timestamp::MIN,
        expires: Timestamp::MIN,
        deferrals: 0,
    };
    let most = TicketTerms {
        class: Class::CriticalPlus,
        cost: Cost::new(u64::MAX).unwrap(),
        number: TicketNumber {
            issuer: TicketIssuer { member: u64::MAX, start: u64::MAX },
            slot: u64::MAX,
            sequence: u16::MAX,
        },
        not_before: Timestamp::MAX,
        expires: Timestamp::MAX,
        deferrals: u8::MAX,
    };
    [least, most]
}

#[test]
fn a_ticket_opens_with_the_terms_that_were_sealed() {
    let ticket = keys().seal(&SUBJECT, &terms());
    assert_eq!(keys().open(&ticket, &SUBJECT, asked()), Ok(terms()));
}

/// The texts were made by a Python program of its own from the table of the module.
#[test]
fn the_bytes_of_a_ticket_are_those_of_the_documented_layout() {
    assert_eq!(
        keys().seal(&SUBJECT, &terms()),
        "AazfoPewXuRFGi10GZr2E9oCmPRGWBES5WmaWMt-_jIpoJ0S1QEAAAAAAAAAAwAAAAAAAAAHGPridpO0AAAAAAAAa0nSyAApGPripSSh0AAY\
         -uKmTqfCAAHTIwEB9bKLmvRDb_4VzxbzzwgHODaB0QpC1ecEBU0_tg"
    );
    let nameless = TicketSubject { namespace: "", resource: None, operation: None, tenant: None };
    let [least, most] = extremes();
    let number = TicketNumber { sequence: u16::MAX, ..least.number };
    let terms = TicketTerms { class: most.class, cost: most.cost, number, deferrals: u8::MAX, ..least };
    assert_eq!(
        keys().seal(&nameless, &terms),
        "AazfoPfoxUExaiZC0_bwQXG5bWkrL_1ds7lJbTOCxpXLZhoonAP__________wAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAP__AAAAAAAAAAAA\
         AAAAAAAAAP9DsFw_mmyZNaVdBnI3_3GIXpFdKZDa79-e8lVmQYvAJg"
    );
}

#[test]
fn a_ticket_has_162_url_safe_characters_whatever_it_says() {
    let long = "n".repeat(2048);
    let subjects = [
        SUBJECT,
        TicketSubject { namespace: "", resource: None, operation: None, tenant: None },
        TicketSubject {
            namespace: &long,
            resource: Some(&long),
            operation: Some(&long),
            tenant: Some(&long),
        },
    ];
    for terms in extremes().into_iter().chain([terms()]) {
        for subject in &subjects {
            let ticket = keys().seal(subject, &terms);
            assert_eq!(ticket.len(), 162);
            assert!(ticket.len() <= TICKET_BYTES_MAX);
            assert!(ticket.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
            assert_eq!(keys().open(&ticket, subject, (terms.class, terms.cost)), Ok(terms));
        }
    }
}

#[test]
fn a_lower_class_and_a_lower_cost_than_the_tickets_count_and_higher_ones_do_not() {
    for sold in Class::ALL {
        let terms = TicketTerms { class: sold, ..terms() };
        let ticket = keys().seal(&SUBJECT, &terms);
        for class in Class::ALL {
            for units in [1, 2, 3, 4, u64::MAX] {
                let expected = match () {
                    () if class > sold => Err(TicketFault::Class),
                    () if units > 3 => Err(TicketFault::Cost),
                    () => Ok(terms),
                };
                let opened = keys().open(&ticket, &SUBJECT, (class, Cost::new(units).unwrap()));
                assert_eq!(opened, expected, "a ticket of {sold} and 3 for {class} and {units}");
            }
        }
    }
}

#[test]
fn a_ticket_of_a_tenant_of_2_kb_is_for_that_tenant_alone() {
    let tenant = "t".repeat(2048);
    let subject = TicketSubject { tenant: Some(&tenant), ..SUBJECT };
    let ticket = keys().seal(&subject, &terms());
    assert_eq!(keys().open(&ticket, &subject, asked()), Ok(terms()));
    for other in [&tenant[1..], &format!("{tenant}t"), &tenant.replacen('t', "T", 1), ""] {
        let other = TicketSubject { tenant: Some(other), ..SUBJECT };
        assert_eq!(keys().open(&ticket, &other, asked()), Err(TicketFault::Tenant));
    }
}

#[test]
fn a_ticket_shows_no_name_as_text_or_bytes_and_other_keys_show_other_hashes() {
    let ticket = keys().seal(&SUBJECT, &terms());
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(&ticket).unwrap();
    for name in ["shop", "db", "export", "acme"] {
        assert!(!ticket.contains(name), "{name} in {ticket}");
        assert!(!bytes.windows(name.len()).any(|window| window == name.as_bytes()), "{name} in {bytes:?}");
    }
    let other = TicketKeys::new(&[9; 32]).unwrap().seal(&SUBJECT, &terms());
    let other = BASE64_URL_SAFE_NO_PAD.decode(other).unwrap();
    for hash in 0..4 {
        let place = 5 + 8 * hash..13 + 8 * hash;
        assert_ne!(bytes[place.clone()], other[place], "hash {hash} does not depend on the key");
    }
}

/// Any name, or none; short ones, so that names often are equal.
fn any_name() -> impl Strategy<Value = Option<String>> {
    prop_oneof![Just(None), "[ab]{0,2}".prop_map(Some), ".{0,64}".prop_map(Some)]
}

fn any_names() -> impl Strategy<Value = [Option<String>; 4]> {
    [any_name(), any_name(), any_name(), any_name()]
}

fn subject_of(names: &[Option<String>; 4]) -> TicketSubject<'_> {
    let [namespace, resource, operation, tenant] = names.each_ref().map(Option::as_deref);
    TicketSubject { namespace: namespace.unwrap_or(""), resource, operation, tenant }
}

fn any_terms() -> impl Strategy<Value = TicketTerms> {
    let numbers = (any::<[u64; 6]>(), any::<u16>(), any::<u8>(), 0..Class::ALL.len());
    numbers.prop_map(|([cost, member, start, slot, one, other], sequence, deferrals, class)| TicketTerms {
        class: Class::ALL[class],
        cost: Cost::new(cost.max(1)).unwrap(),
        number: TicketNumber { issuer: TicketIssuer { member, start }, slot, sequence },
        not_before: Timestamp::from_nanos(one.min(other)),
        expires: Timestamp::from_nanos(one.max(other)),
        deferrals,
    })
}

proptest! {
    #[test]
    fn any_terms_come_back_for_the_names_they_were_sealed_for(names in any_names(), terms in any_terms()) {
        let ticket = keys().seal(&subject_of(&names), &terms);
        prop_assert!(ticket.len() <= TICKET_BYTES_MAX);
        prop_assert_eq!(keys().open(&ticket, &subject_of(&names), (terms.class, terms.cost)), Ok(terms));
    }

    #[test]
    fn the_first_name_that_differs_is_the_fault(one in any_names(), other in any_names()) {
        let ticket = keys().seal(&subject_of(&one), &terms());
        let (one, other) = (subject_of(&one), subject_of(&other));
        let expected = match () {
            () if one.namespace != other.namespace => Err(TicketFault::Namespace),
            () if one.resource != other.resource => Err(TicketFault::Resource),
            () if one.operation != other.operation => Err(TicketFault::Operation),
            () if one.tenant != other.tenant => Err(TicketFault::Tenant),
            () => Ok(terms()),
        };
        prop_assert_eq!(keys().open(&ticket, &other, asked()), expected);
    }

    #[test]
    fn any_text_is_refused(text in ".{0,300}") {
        prop_assert!(keys().open(&text, &SUBJECT, asked()).is_err());
    }

    #[test]
    fn any_bytes_of_the_length_of_a_ticket_are_forged(mut bytes in prop::collection::vec(any::<u8>(), 121)) {
        let number = keys().numbers().next().unwrap();
        bytes[0] = 1;
        bytes[1..5].copy_from_slice(&number.to_be_bytes());
        let ticket = BASE64_URL_SAFE_NO_PAD.encode(bytes);
        prop_assert_eq!(keys().open(&ticket, &SUBJECT, asked()), Err(TicketFault::Forged));
    }
}
