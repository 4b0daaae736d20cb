//! Key files are read by one plain rule, and an error names the line.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use proptest::prelude::*;

use crate::ticket::{TicketKeyError, TicketKeys};

fn line(byte: u8, length: usize) -> String {
    BASE64_STANDARD.encode(vec![byte; length])
}

fn numbers(keys: &TicketKeys) -> Vec<u32> {
    keys.numbers().collect()
}

fn error_of(file: &str) -> String {
    TicketKeys::parse(file.as_bytes()).unwrap_err().to_string()
}

#[test]
fn the_first_line_signs_and_a_second_one_is_valid_too() {
    let one = TicketKeys::new(&[1; 32]).unwrap();
    let two = one.clone().beside(&[2; 48]).unwrap();
    let (first, second) = (line(1, 32), line(2, 48));
    for file in [first.clone(), format!("{first}\n"), format!("{first}\r\n"), format!("\n  {first} \n\n")] {
        assert_eq!(numbers(&TicketKeys::parse(file.as_bytes()).unwrap()), numbers(&one), "{file:?}");
    }
    for file in [format!("{first}\n{second}"), format!("{first}\r\n\r\n{second}\r\n")] {
        assert_eq!(numbers(&TicketKeys::parse(file.as_bytes()).unwrap()), numbers(&two), "{file:?}");
    }
    let same = TicketKeys::parse(format!("{first}\n{first}\n").as_bytes()).unwrap();
    assert_eq!(numbers(&same), numbers(&one));
}

#[test]
fn the_longest_keys_are_read() {
    let file = format!("{}\n{}\n", line(1, 1024), line(2, 1024));
    assert!(file.len() <= TicketKeys::FILE_BYTES_MAX);
    assert_eq!(numbers(&TicketKeys::parse(file.as_bytes()).unwrap()).len(), 2);
}

#[test]
fn every_error_of_a_file_names_the_line_and_the_fix() {
    let good = line(1, 32);
    let cases = [
        (String::new(), "the key file has no key; write one with `openssl rand -base64 32`"),
        ("\n \r\n".to_owned(), "the key file has no key; write one with `openssl rand -base64 32`"),
        (
            format!("{good}\n{good}\n\n{good}\n"),
            "line 4: the key file has more than two keys; use one line for the key that signs, and at most one more \
             for a key that is valid too",
        ),
        (
            line(1, 31),
            "line 1: the key has 31 bytes; use at least 32 random bytes, as `openssl rand -base64 32` prints them",
        ),
        (
            format!("\n{good}\n{}", line(1, 16)),
            "line 3: the key has 16 bytes; use at least 32 random bytes, as `openssl rand -base64 32` prints them",
        ),
        (line(1, 1025), "line 1: the key has 1025 bytes; use at most 1024, 32 are enough"),
        (
            format!("{good}\nnot base64"),
            "line 2: the key is not base64 with `+`, `/` and padding; write it as `openssl rand -base64 32` prints it",
        ),
        ("A".repeat(4097), "the key file has 4097 bytes; use at most 4096, one or two lines of base64"),
    ];
    for (file, expected) in cases {
        assert_eq!(error_of(&file), expected, "{file:?}");
    }
}

#[test]
fn other_spellings_are_not_base64() {
    let unpadded = line(1, 32).replace('=', "");
    let url_safe = BASE64_STANDARD.encode([0xfb; 33]).replace('+', "-").replace('/', "_");
    let key_is_two_words = format!("{} {}", line(1, 16), line(1, 16));
    for text in [unpadded, url_safe, key_is_two_words, "-----BEGIN PRIVATE KEY-----".to_owned()] {
        let error = TicketKeys::parse(text.as_bytes()).unwrap_err();
        let expected = TicketKeyError::InLine { line: 1, problem: Box::new(TicketKeyError::NotBase64) };
        assert_eq!(error, expected, "{text}");
    }
    assert!(TicketKeys::parse(&[0xff; 44]).is_err());
}

#[test]
fn no_error_shows_a_byte_of_the_file() {
    for file in ["c2VjcmV0", "secret!", "secret\nsecret\nsecret"] {
        let error = TicketKeys::parse(file.as_bytes()).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("c2Vj"), "{error:?}");
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_keys_or_an_error_of_one_line(file in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Err(error) = TicketKeys::parse(&file) {
            let line = error.to_string();
            prop_assert!(line.len() < 200 && !line.contains(char::is_control), "{}", line);
        }
    }
}
