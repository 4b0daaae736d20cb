//! Two keys are valid while they rotate, and no more.

use super::{SUBJECT, asked, terms};
use crate::ticket::{TicketFault, TicketKeyError, TicketKeys};

/// Two numbers of keys whose own numbers in tickets are equal, found by trying.
const SAME_NUMBER: [u64; 2] = [2618, 122_888];

fn key(number: u64) -> Vec<u8> {
    let mut bytes = vec![0; 24];
    bytes.extend(number.to_be_bytes());
    bytes
}

fn signed_by(number: u64) -> TicketKeys {
    TicketKeys::new(&key(number)).unwrap()
}

fn opens(keys: &TicketKeys, ticket: &str) -> Result<(), TicketFault> {
    keys.open(ticket, &SUBJECT, asked()).map(|opened| assert_eq!(opened, terms()))
}

/// Which of the keys 1, 2 and 3 are valid.
fn valid(keys: &TicketKeys) -> Vec<u64> {
    let is_valid = |number: &u64| match opens(keys, &signed_by(*number).seal(&SUBJECT, &terms())) {
        Ok(()) => true,
        Err(fault) => {
            assert_eq!(fault, TicketFault::UnknownKey);
            false
        }
    };
    (1..=3).filter(is_valid).collect()
}

#[test]
fn two_keys_are_valid_and_the_first_signs() {
    let keys = signed_by(1).beside(&key(2)).unwrap();
    assert_eq!(valid(&keys), [1, 2]);
    let ticket = keys.seal(&SUBJECT, &terms());
    assert_eq!(ticket, signed_by(1).seal(&SUBJECT, &terms()));
    // A member with the keys in the other order takes it.
    assert_eq!(opens(&signed_by(2).beside(&key(1)).unwrap(), &ticket), Ok(()));
    assert_eq!(opens(&signed_by(2), &ticket), Err(TicketFault::UnknownKey));
}

#[test]
fn a_third_key_is_an_error_and_a_known_one_changes_nothing() {
    let keys = signed_by(1).beside(&key(1)).unwrap();
    assert_eq!(keys.numbers().count(), 1);
    let keys = keys.beside(&key(2)).unwrap().beside(&key(2)).unwrap().beside(&key(1)).unwrap();
    assert_eq!(valid(&keys), [1, 2]);
    assert_eq!(keys.beside(&key(3)).unwrap_err(), TicketKeyError::TooMany);
}

#[test]
fn the_key_that_signed_before_stays_valid_beside_a_new_one() {
    let first = signed_by(1);
    let ticket = first.seal(&SUBJECT, &terms());
    let second = signed_by(2).rotated_from(&first);
    assert_eq!(valid(&second), [1, 2]);
    assert_eq!(opens(&second, &ticket), Ok(()));
    assert_eq!(second.seal(&SUBJECT, &terms()), signed_by(2).seal(&SUBJECT, &terms()));
    // The same file, read again, drops nothing.
    assert_eq!(valid(&signed_by(2).rotated_from(&second)), [1, 2]);
    let third = signed_by(3).rotated_from(&second);
    assert_eq!(valid(&third), [2, 3]);
    assert_eq!(opens(&third, &ticket), Err(TicketFault::UnknownKey));
}

#[test]
fn two_given_keys_are_taken_as_they_are_and_retire_the_others() {
    let before = signed_by(1);
    let listed = signed_by(2).beside(&key(3)).unwrap().rotated_from(&before);
    assert_eq!(valid(&listed), [2, 3]);
    // The second line is removed, so the key in it is retired.
    assert_eq!(valid(&signed_by(2).rotated_from(&listed)), [2]);
    // The other way round: the second line now signs.
    assert_eq!(valid(&signed_by(3).rotated_from(&listed)), [2, 3]);
}

#[test]
fn a_number_is_that_of_its_key_and_two_keys_may_share_one() {
    let numbers = |keys: &TicketKeys| keys.numbers().collect::<Vec<_>>();
    let keys = signed_by(1).beside(&key(2)).unwrap();
    let turned = signed_by(2).beside(&key(1)).unwrap();
    assert_eq!(numbers(&keys), [numbers(&turned)[1], numbers(&turned)[0]]);
    let [one, other] = SAME_NUMBER;
    let keys = signed_by(one).beside(&key(other)).unwrap();
    assert_eq!(numbers(&keys)[0], numbers(&keys)[1]);
    for signing in [one, other] {
        assert_eq!(opens(&keys, &signed_by(signing).seal(&SUBJECT, &terms())), Ok(()));
    }
    assert_eq!(opens(&signed_by(one), &signed_by(other).seal(&SUBJECT, &terms())), Err(TicketFault::Forged));
}

#[test]
fn a_key_has_32_to_1024_bytes_and_its_last_byte_counts() {
    for length in [0, 1, 31] {
        let error = TicketKeys::new(&vec![7; length]).unwrap_err();
        assert_eq!(error, TicketKeyError::Short { bytes: length });
        assert!(error.to_string().contains(&format!("{length} bytes; use at least 32")), "{error}");
    }
    for length in [1025, 1 << 20] {
        let error = TicketKeys::new(&vec![7; length]).unwrap_err();
        assert_eq!(error, TicketKeyError::Long { bytes: length });
    }
    for length in [32, 64, 65, 1024] {
        let mut other = vec![7; length];
        let keys = TicketKeys::new(&other).unwrap();
        other[length - 1] = 8;
        let other = TicketKeys::new(&other).unwrap();
        assert_eq!(opens(&other, &keys.seal(&SUBJECT, &terms())), Err(TicketFault::UnknownKey));
    }
}

#[test]
fn what_is_shown_of_keys_is_their_numbers() {
    let keys = signed_by(1).beside(&key(2)).unwrap();
    let numbers: Vec<String> = keys.numbers().map(|number| format!("{number:08x}")).collect();
    assert_eq!(format!("{keys:?}"), format!("TicketKeys {{ numbers: {numbers:?}, .. }}"));
}
