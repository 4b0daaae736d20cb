use super::*;
use proptest::prelude::*;

fn addresses(source: &str, destination: &str) -> Addresses {
    Addresses { source: source.parse().unwrap(), destination: destination.parse().unwrap() }
}

fn second(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).unwrap().to_be_bytes();
    [SIGNATURE_2, &[command, family], &length, body].concat()
}

const FOUR: [u8; 12] = [203, 0, 113, 9, 10, 0, 0, 1, 0x12, 0x67, 0x01, 0xbb];

#[test]
fn version_1_is_read_to_its_line_end_and_no_further() {
    for (line, expected) in [
        ("PROXY TCP4 203.0.113.9 10.0.0.1 4711 443\r\n", Some(addresses("203.0.113.9:4711", "10.0.0.1:443"))),
        ("PROXY TCP6 2001:db8::1 ::1 0 65535\r\n", Some(addresses("[2001:db8::1]:0", "[::1]:65535"))),
        ("PROXY TCP6 ::ffff:203.0.113.9 ::1 1 2\r\n", Some(addresses("203.0.113.9:1", "[::1]:2"))),
        ("PROXY UNKNOWN\r\n", None),
        ("PROXY UNKNOWN ffff::1 anything at all\r\n", None),
    ] {
        let expected = Ok(Preamble { addresses: expected, length: line.len() });
        assert_eq!(Preamble::parse(line.as_bytes()), expected, "{line}");
        assert_eq!(Preamble::parse(format!("{line}GET / HTTP/1.1\r\n").as_bytes()), expected, "{line}");
        for end in 0..line.len() {
            let begun = Preamble::parse(&line.as_bytes()[..end]);
            assert!(matches!(begun, Err(NoPreamble::Incomplete(more)) if more > end), "{end} of {line}");
        }
    }
}

#[test]
fn a_line_of_version_1_that_is_not_well_formed_is_refused() {
    for line in [
        "PROXY TCP4 203.0.113.9 10.0.0.1 4711\r\n",
        "PROXY TCP4 203.0.113.9 10.0.0.1 4711 443 1\r\n",
        "PROXY TCP4  203.0.113.9 10.0.0.1 4711 443\r\n",
        "PROXY TCP4 203.0.113.9 10.0.0.1 4711 443 \r\n",
        "PROXY TCP4 203.0.113.9 10.0.0.1 65536 443\r\n",
        "PROXY TCP4 203.0.113.9 10.0.0.1 +1 443\r\n",
        "PROXY TCP4 203.0.113.9 10.0.0.1 01 443\r\n",
        "PROXY TCP4 203.0.113.09 10.0.0.1 1 443\r\n",
        "PROXY TCP4 2001:db8::1 ::1 1 443\r\n",
        "PROXY TCP6 203.0.113.9 10.0.0.1 1 443\r\n",
        "PROXY UDP4 203.0.113.9 10.0.0.1 1 443\r\n",
        "PROXY UNKNOWNS\r\n",
        "PROXY \r\n",
        "PROXY \u{fc}\r\n",
    ] {
        let refused = Preamble::parse(line.as_bytes());
        assert!(matches!(refused, Err(NoPreamble::Malformed(_))), "{line}: {refused:?}");
    }
    let endless = format!("PROXY UNKNOWN {}", "x".repeat(100));
    assert!(matches!(Preamble::parse(endless.as_bytes()), Err(NoPreamble::Malformed(_))));
}

#[test]
fn version_2_is_read_and_its_additions_are_passed_over() {
    let six = [[0x20; 16], [0x30; 16]].concat();
    let six = [&six[..], &[0, 1, 0, 2]].concat();
    for (bytes, expected) in [
        (second(0x21, 0x11, &FOUR), Some(addresses("203.0.113.9:4711", "10.0.0.1:443"))),
        (second(0x21, 0x12, &FOUR), Some(addresses("203.0.113.9:4711", "10.0.0.1:443"))),
        (
            second(0x21, 0x11, &[&FOUR[..], &[3, 0, 4, 1, 2, 3, 4]].concat()),
            Some(addresses("203.0.113.9:4711", "10.0.0.1:443")),
        ),
        (
            second(0x21, 0x21, &six),
            Some(addresses(
                "[2020:2020:2020:2020:2020:2020:2020:2020]:1",
                "[3030:3030:3030:3030:3030:3030:3030:3030]:2",
            )),
        ),
        (second(0x20, 0x11, &FOUR), None),
        (second(0x20, 0x00, &[]), None),
        (second(0x21, 0x00, &[1, 2, 3]), None),
        (second(0x21, 0x31, &[0; 216]), None),
        (second(0x20, 0x00, &[0; VERSION_2_BYTES_MAX]), None),
    ] {
        let expected = Ok(Preamble { addresses: expected, length: bytes.len() });
        assert_eq!(Preamble::parse(&bytes), expected);
        assert_eq!(Preamble::parse(&[&bytes[..], b"GET"].concat()), expected);
        for end in 0..bytes.len().min(64) {
            let begun = Preamble::parse(&bytes[..end]);
            assert!(matches!(begun, Err(NoPreamble::Incomplete(more)) if more > end), "{end}: {begun:?}");
        }
    }
}

#[test]
fn a_preamble_of_version_2_that_is_not_well_formed_is_refused() {
    for bytes in [
        second(0x11, 0x11, &FOUR),
        second(0x22, 0x11, &FOUR),
        second(0x21, 0x11, &FOUR[..11]),
        second(0x21, 0x21, &[0; 35]),
        second(0x21, 0x31, &[0; 215]),
        second(0x21, 0x41, &FOUR),
        second(0x21, 0x13, &FOUR),
    ] {
        let refused = Preamble::parse(&bytes);
        assert!(matches!(refused, Err(NoPreamble::Malformed(_))), "{bytes:?}: {refused:?}");
    }
    let long = second(0x20, 0, &[0; VERSION_2_BYTES_MAX + 1]);
    assert_eq!(Preamble::parse(&long), Err(NoPreamble::TooLong(VERSION_2_BYTES_MAX + 1)));
    assert_eq!(Preamble::parse(&long[..16]), Err(NoPreamble::TooLong(VERSION_2_BYTES_MAX + 1)));
}

#[test]
fn a_connection_without_a_preamble_is_told_from_one_that_is_cut_off() {
    for bytes in [&b"GET / HTTP/1.1\r\n"[..], b"PRI * HTTP/2.0", b"\x16\x03\x01", b"proxy TCP4", b"\r\n\r\nx"]
    {
        assert_eq!(Preamble::parse(bytes), Err(NoPreamble::Absent));
    }
    assert!(matches!(Preamble::parse(b""), Err(NoPreamble::Incomplete(_))));
}

proptest! {
    #[test]
    fn whatever_is_sent_is_read_or_refused(
        begin in prop::sample::select(vec![&b""[..], b"PROXY TCP4 ", b"PROXY ", SIGNATURE_2]),
        bytes in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let whole = [begin, &bytes].concat();
        match Preamble::parse(&whole) {
            Ok(preamble) => prop_assert!(preamble.length <= whole.len()),
            Err(NoPreamble::Incomplete(more)) => prop_assert!(more > whole.len()),
            Err(_) => {}
        }
    }

    #[test]
    fn any_two_ends_are_read_back(ends in any::<[u8; 12]>(), more in prop::collection::vec(any::<u8>(), 0..40)) {
        let bytes = second(0x21, 0x11, &[&ends[..], &more].concat());
        let found = Preamble::parse(&bytes).unwrap().addresses.unwrap();
        let [a, b, c, d, ..] = ends;
        prop_assert_eq!(found.source.ip(), IpAddr::from([a, b, c, d]));
        prop_assert_eq!(found.destination.port(), u16::from_be_bytes([ends[10], ends[11]]));
    }
}
