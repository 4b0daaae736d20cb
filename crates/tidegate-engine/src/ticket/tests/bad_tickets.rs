//! Every fault has a ticket that has it.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use super::{SUBJECT, asked, keys, terms};
use crate::ticket::signed_text::{SIGNED_BYTES, TICKET_BYTES, text_of};
use crate::ticket::{TICKET_BYTES_MAX, TicketFault, TicketKeys, TicketSubject};

fn bytes() -> Vec<u8> {
    BASE64_URL_SAFE_NO_PAD.decode(keys().seal(&SUBJECT, &terms())).unwrap()
}

/// The fault of a ticket of these bytes, if it has one.
fn fault_of(bytes: &[u8]) -> Option<TicketFault> {
    keys().open(&BASE64_URL_SAFE_NO_PAD.encode(bytes), &SUBJECT, asked()).err()
}

/// The fault of a ticket that is changed and signed again, if it has one.
fn fault_of_signed(change: impl Fn(&mut [u8; SIGNED_BYTES])) -> Option<TicketFault> {
    let mut signed = *bytes().first_chunk().unwrap();
    change(&mut signed);
    keys().open(&text_of(keys().signing(), &signed), &SUBJECT, asked()).err()
}

#[test]
fn every_bit_of_a_ticket_is_signed() {
    assert_eq!(bytes().len(), TICKET_BYTES);
    for bit in 0..TICKET_BYTES * 8 {
        let mut flipped = bytes();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let expected = match bit / 8 {
            0 => TicketFault::Version,
            1..5 => TicketFault::UnknownKey,
            _ => TicketFault::Forged,
        };
        assert_eq!(fault_of(&flipped), Some(expected), "bit {bit}");
    }
}

#[test]
fn every_changed_bit_of_the_text_is_refused() {
    let ticket = keys().seal(&SUBJECT, &terms());
    for bit in 0..ticket.len() * 8 {
        let mut flipped = ticket.clone().into_bytes();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let flipped = String::from_utf8_lossy(&flipped);
        assert!(keys().open(&flipped, &SUBJECT, asked()).is_err(), "bit {bit} of {ticket}");
    }
}

#[test]
fn a_ticket_that_is_cut_or_longer_is_malformed() {
    let ticket = keys().seal(&SUBJECT, &terms());
    for length in 0..ticket.len() {
        for cut in [&ticket[..length], &ticket[ticket.len() - length..]] {
            assert!(keys().open(cut, &SUBJECT, asked()).is_err(), "{length} characters");
        }
        assert_eq!(
            keys().open(&ticket[..length], &SUBJECT, asked()),
            Err(TicketFault::Malformed),
            "{length} characters"
        );
    }
    for more in ["A", "AA", "AAAA", "=", "==", "\n", " ", "\0"] {
        let longer = format!("{ticket}{more}");
        assert_eq!(keys().open(&longer, &SUBJECT, asked()), Err(TicketFault::Malformed), "{more:?}");
    }
    for length in [TICKET_BYTES_MAX, TICKET_BYTES_MAX + 1, 1 << 20] {
        let long = format!("{ticket}{}", "A".repeat(length - ticket.len()));
        assert_eq!(keys().open(&long, &SUBJECT, asked()), Err(TicketFault::Malformed), "{length} characters");
    }
}

#[test]
fn a_ticket_has_one_text() {
    let ticket = keys().seal(&SUBJECT, &terms());
    // The last character has two bits of the ticket and four that are 0.
    let digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let opens = |text: &str| keys().open(text, &SUBJECT, asked()).is_ok();
    let ends = digits.chars().filter(|digit| opens(&format!("{}{digit}", &ticket[..ticket.len() - 1])));
    assert_eq!(ends.count(), 1);
    let standard = ticket.replace('-', "+").replace('_', "/");
    assert!(standard != ticket && !opens(&standard), "{standard}");
    for text in [format!("{ticket}=="), format!(" {ticket}"), format!("{}\n{}", &ticket[..80], &ticket[80..])]
    {
        assert!(!opens(&text), "{text}");
    }
}

#[test]
fn a_later_version_is_a_version_and_a_short_text_is_malformed() {
    assert_eq!(fault_of_signed(|signed| signed[0] = 2), Some(TicketFault::Version));
    let mut longer = bytes();
    longer[0] = 2;
    longer.extend([0; 40]);
    assert_eq!(fault_of(&longer), Some(TicketFault::Version));
    assert_eq!(fault_of(b"a word"), Some(TicketFault::Malformed));
    assert_eq!(fault_of(b""), Some(TicketFault::Malformed));
}

#[test]
fn an_unknown_key_is_told_from_a_forged_signature() {
    let other = TicketKeys::new(&[1; 32]).unwrap();
    let ticket = other.seal(&SUBJECT, &terms());
    assert_eq!(keys().open(&ticket, &SUBJECT, asked()), Err(TicketFault::UnknownKey));
    let mut forged = BASE64_URL_SAFE_NO_PAD.decode(ticket).unwrap();
    forged[1..5].copy_from_slice(&bytes()[1..5]);
    assert_eq!(fault_of(&forged), Some(TicketFault::Forged));
}

/// The part of [`every_bit_of_a_ticket_is_signed`] that the planted fault is held against.
#[test]
pub(super) fn a_ticket_with_another_signature_is_forged() {
    for place in SIGNED_BYTES..TICKET_BYTES {
        let mut forged = bytes();
        forged[place] ^= 0x80;
        assert_eq!(fault_of(&forged), Some(TicketFault::Forged));
    }
    let mut dearer = bytes();
    dearer[45] = 200;
    assert_eq!(fault_of(&dearer), Some(TicketFault::Forged));
}

#[test]
fn a_signed_ticket_with_values_that_cannot_be_is_malformed() {
    assert_eq!(fault_of_signed(|_| ()), None);
    for class in 4..=u8::MAX {
        assert_eq!(fault_of_signed(|signed| signed[37] = class), Some(TicketFault::Malformed), "{class}");
    }
    assert_eq!(fault_of_signed(|signed| signed[38..46].fill(0)), Some(TicketFault::Malformed));
    let swap = |signed: &mut [u8; SIGNED_BYTES]| signed[72..88].rotate_left(8);
    assert_eq!(fault_of_signed(swap), Some(TicketFault::Malformed));
    let before = |signed: &mut [u8; SIGNED_BYTES]| {
        let not_before = terms().not_before.as_nanos();
        signed[80..88].copy_from_slice(&(not_before - 1).to_be_bytes());
    };
    assert_eq!(fault_of_signed(before), Some(TicketFault::Malformed));
    let at_once = |signed: &mut [u8; SIGNED_BYTES]| signed.copy_within(72..80, 80);
    assert_eq!(fault_of_signed(at_once), None);
}

#[test]
fn a_ticket_of_others_names_the_first_name_that_differs() {
    let ticket = keys().seal(&SUBJECT, &terms());
    let others = [
        (TicketSubject { namespace: "Shop", ..SUBJECT }, TicketFault::Namespace),
        (TicketSubject { namespace: "", ..SUBJECT }, TicketFault::Namespace),
        (TicketSubject { resource: Some("db2"), ..SUBJECT }, TicketFault::Resource),
        (TicketSubject { resource: None, ..SUBJECT }, TicketFault::Resource),
        (TicketSubject { operation: Some("import"), ..SUBJECT }, TicketFault::Operation),
        (TicketSubject { operation: None, ..SUBJECT }, TicketFault::Operation),
        (TicketSubject { operation: Some(""), ..SUBJECT }, TicketFault::Operation),
        (TicketSubject { tenant: Some("acm"), ..SUBJECT }, TicketFault::Tenant),
        (TicketSubject { tenant: Some("acme "), ..SUBJECT }, TicketFault::Tenant),
        (TicketSubject { tenant: None, ..SUBJECT }, TicketFault::Tenant),
        (
            TicketSubject { operation: Some("acme"), tenant: Some("export"), ..SUBJECT },
            TicketFault::Operation,
        ),
    ];
    for (other, fault) in others {
        assert_eq!(keys().open(&ticket, &other, asked()), Err(fault), "{other:?}");
    }
}

#[test]
fn an_empty_name_is_not_an_absent_one() {
    let absent = TicketSubject { namespace: "", resource: None, operation: None, tenant: None };
    let empty = TicketSubject { namespace: "", resource: Some(""), operation: Some(""), tenant: Some("") };
    for (one, other) in [(absent, empty), (empty, absent)] {
        let ticket = keys().seal(&one, &terms());
        assert_eq!(keys().open(&ticket, &one, asked()), Ok(terms()));
        assert_eq!(keys().open(&ticket, &other, asked()), Err(TicketFault::Resource));
    }
}

#[test]
fn every_fault_has_a_name_of_its_own_and_a_sentence_with_a_fix() {
    for (at, fault) in TicketFault::ALL.into_iter().enumerate() {
        let name = fault.as_str();
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        assert_eq!(TicketFault::ALL.iter().position(|other| other.as_str() == name), Some(at));
        let sentence = fault.to_string();
        assert!(sentence.len() < 128 && sentence.contains("; send "), "{sentence}");
    }
}
