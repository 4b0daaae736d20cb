//! Commands whole, in pieces and malformed.

use proptest::prelude::*;

use super::*;

fn framed(arguments: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        let argument = argument.as_ref();
        bytes.extend(format!("${}\r\n", argument.len()).as_bytes());
        bytes.extend(argument);
        bytes.extend(b"\r\n");
    }
    bytes
}

fn read(bytes: &[u8]) -> Result<Read, ProtocolError> {
    read_command(bytes, &mut Arguments::new())
}

fn message(bytes: &[u8]) -> String {
    read(bytes).unwrap_err().to_string()
}

#[test]
fn a_command_borrows_its_arguments_from_the_bytes() {
    let bytes = framed(&["CL.THROTTLE", "k\0\r\n\u{e4}", "", "1"]);
    let mut arguments = Arguments::new();
    assert_eq!(read_command(&bytes, &mut arguments), Ok(Read::Command { bytes: bytes.len() }));
    assert_eq!(&arguments[..], [&b"CL.THROTTLE"[..], "k\0\r\n\u{e4}".as_bytes(), b"", b"1"]);
    assert!(arguments.iter().all(|argument| matches!(argument, Cow::Borrowed(_))));
    assert!(!arguments.spilled());
}

#[test]
fn what_follows_a_command_is_left_alone() {
    let mut bytes = framed(&["PING"]);
    let length = bytes.len();
    bytes.extend(b"$garbage");
    assert_eq!(read(&bytes), Ok(Read::Command { bytes: length }));
    assert_eq!(read(b"*0\r\nPING\r\n"), Ok(Read::Command { bytes: 4 }));
}

#[test]
fn lengths_beyond_their_bounds_are_told_before_anything_is_waited_for() {
    assert_eq!(
        message(b"*2\r\n$2147483648\r\n"),
        "invalid bulk length \"2147483648\"; an argument takes at most 65536 bytes"
    );
    assert_eq!(
        message(b"*1\r\n$-1\r\n"),
        "invalid bulk length \"-1\"; an argument takes at most 65536 bytes"
    );
    assert_eq!(
        message(b"*-1\r\n"),
        "invalid multibulk length \"-1\"; a command takes at most 1024 arguments"
    );
    for bytes in [&b"*1025\r\n"[..], b"*99999999999999999999\r\n", b"*\r\n", b"*1x\r\n", b"*+1\r\n", b"*1\rx"]
    {
        assert!(message(bytes).starts_with("invalid multibulk length"), "{}", bytes.escape_ascii());
    }
    for bytes in [&b"*1\r\n$65537\r\n"[..], b"*1\r\n$\r\n", b"*1\r\n$1 \r\n", b"*1\r\n$18446744073709551615"]
    {
        assert!(message(bytes).starts_with("invalid bulk length"), "{}", bytes.escape_ascii());
    }
}

#[test]
fn nested_arrays_are_told_so() {
    let wanted = "expected '$', got '*'; send a command as an array of bulk strings";
    assert_eq!(message(b"*1\r\n*1\r\n$4\r\nPING\r\n"), wanted);
    assert!(message(b"*1\r\n\x00").starts_with(r"expected '$', got '\x00'"));
}

#[test]
fn an_argument_longer_than_was_said_is_told_so() {
    assert!(message(b"*1\r\n$3\r\nPING\r\n").starts_with("expected a line end after an argument, got 'G'"));
    assert!(message(b"*1\r\n$4\r\nPING\rX").starts_with("expected a line end after an argument, got 'X'"));
}

#[test]
fn the_largest_command_is_read_and_one_byte_more_is_not() {
    let full = vec![b'x'; ARGUMENT_BYTES_MAX];
    // Sixteen such arguments with their lengths are above a mebibyte; the last one takes what is
    // left.
    let frames = 16 * (1 + 5 + 2 + 2) + 5;
    let left = COMMAND_BYTES_MAX - 15 * ARGUMENT_BYTES_MAX - frames;
    let mut arguments = vec![full; 15];
    arguments.push(vec![b'x'; left]);
    let bytes = framed(&arguments);
    assert_eq!(bytes.len(), COMMAND_BYTES_MAX);
    assert_eq!(read(&bytes), Ok(Read::Command { bytes: COMMAND_BYTES_MAX }));
    arguments[15].push(b'x');
    assert_eq!(read(&framed(&arguments)), Err(ProtocolError::Command));
}

#[test]
fn what_is_missing_is_never_more_than_what_really_is() {
    let bytes = framed(&["CL.THROTTLE", "key", "", "100", "60"]);
    for end in 0..bytes.len() {
        let Ok(Read::Unfinished { bytes_missing }) = read(&bytes[..end]) else { panic!("{end}") };
        assert!((1..=bytes.len() - end).contains(&bytes_missing), "{end}: {bytes_missing}");
    }
    let long = framed(&["ECHO", &"x".repeat(1000)]);
    assert_eq!(read(&long[..30]), Ok(Read::Unfinished { bytes_missing: long.len() - 30 }));
}

proptest! {
    #[test]
    fn whatever_comes_is_read_or_told_and_never_read_past(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut arguments = Arguments::new();
        if let Ok(Read::Command { bytes: taken }) = read_command(&bytes, &mut arguments) {
            prop_assert!(taken <= bytes.len() && taken > 0);
        }
    }

    #[test]
    fn what_looks_like_a_command_is_read_or_told(
        text in "[*$]{0,2}[0-9-]{0,3}(\r\n)?([*$][0-9]{1,2}\r\n[a-z\r\n]{0,6}(\r\n)?){0,4}"
    ) {
        let mut arguments = Arguments::new();
        if let Ok(Read::Command { bytes }) = read_command(text.as_bytes(), &mut arguments) {
            prop_assert!(bytes <= text.len());
        }
    }

    #[test]
    fn every_command_is_read_back(arguments in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..20)) {
        let bytes = framed(&arguments);
        let mut read = Arguments::new();
        prop_assert_eq!(read_command(&bytes, &mut read), Ok(Read::Command { bytes: bytes.len() }));
        let read: Vec<Vec<u8>> = read.iter().map(|argument| argument.to_vec()).collect();
        prop_assert_eq!(read, arguments);
    }
}
