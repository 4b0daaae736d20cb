use proptest::prelude::*;

use super::*;

fn shown(value: &str, prefix: u8) -> Option<String> {
    network_of(value, prefix).map(|key| key.to_string())
}

#[test]
fn every_spelling_of_an_address_is_one_key() {
    let v4 = [
        "10.1.2.3",
        "10.1.2.3:443",
        "::ffff:10.1.2.3",
        "::ffff:a01:203",
        "[::ffff:10.1.2.3]:8080",
        "0:0:0:0:0:FFFF:0a01:0203",
        "::ffff:10.1.2.3%eth0",
        " 10.1.2.3",
        "\t10.1.2.3:443 \r\n",
    ];
    for value in v4 {
        assert_eq!(network_of(value, 64), network_of("10.1.2.3", 64), "{value}");
        assert_eq!(shown(value, 64).as_deref(), Some("10.1.2.3"), "{value}");
    }
    let v6 = [
        "2001:db8:1:2::9",
        "2001:0db8:0001:0002:0000:0000:0000:0009",
        "2001:DB8:1:2:0:0:0:9",
        "[2001:db8:1:2::9]",
        "[2001:db8:1:2::9]:443",
        "2001:db8:1:2::9%eth0",
        "[2001:db8:1:2::9%25eth0]:1",
        "2001:db8:1:2::0.0.0.9",
        "2001:db8:1:2::9%",
        " [2001:db8:1:2::9] ",
    ];
    for value in v6 {
        assert_eq!(network_of(value, 128), network_of("2001:db8:1:2::9", 128), "{value}");
        assert_eq!(shown(value, 64).as_deref(), Some("2001:db8:1:2::/64"), "{value}");
    }
}

#[test]
fn an_ipv6_address_counts_by_its_network_and_an_ipv4_address_by_itself() {
    assert_eq!(network_of("2001:db8:1:2::1", 64), network_of("2001:db8:1:2:ffff:ffff:ffff:ffff", 64));
    assert_ne!(network_of("2001:db8:1:2::1", 64), network_of("2001:db8:1:3::1", 64));
    assert_ne!(network_of("10.0.0.1", 8), network_of("10.0.0.2", 8));
    assert_eq!(shown("2001:db8:1:2ff::1", 56).as_deref(), Some("2001:db8:1:200::/56"));
    assert_eq!(shown("2001:db8::1", 0).as_deref(), Some("::/0"));
    assert_eq!(shown("2001:db8::1", 128).as_deref(), Some("2001:db8::1"));
    assert_eq!(network_of("2001:db8::1", 255), network_of("2001:db8::1", 128));
}

#[test]
fn the_families_differ_in_length_even_where_their_bytes_agree() {
    let four = network_of("0.0.0.0", 64).unwrap();
    let six = network_of("::", 64).unwrap();
    assert_eq!((four.as_ref().len(), six.as_ref().len()), (4, 16));
    assert_ne!(four, six);
}

#[test]
fn what_is_no_address_has_no_network() {
    for value in [
        "",
        "ada",
        "10.0.0",
        "10.0.0.256",
        "010.0.0.1",
        "10.0.0.1:",
        "10.0.0.1:+80",
        "10.0.0.1:65536",
        "10.0.0.1:a",
        "[10.0.0.1]",
        "[::1",
        "::1]",
        "[::1]x",
        "[::1]:",
        "[::1]443",
        "[]",
        "[",
        ":",
        "::1::",
        "10.0.0.1%eth0",
        "10. 0.0.1",
        "10.0.0.1 :443",
        "\u{a0}10.0.0.1",
        "1:2",
        "%",
        "::g",
        "２.0.0.1",
        "10.0.0.1/8",
        "2001:db8::1/64",
        "2001:db8::/63",
        "2001:db8::/+64",
        "2001:db8::/",
        "[2001:db8::]/64",
        "::ffff:10.0.0.1/64",
    ] {
        assert_eq!(network_of(value, 64), None, "{value}");
    }
    assert_eq!(network_of("2001:db8::/128", 128), None, "a whole address is shown without its length");
}

#[test]
fn a_network_is_read_as_it_is_shown() {
    for (value, prefix) in [("2001:db8:1:2::9", 64), ("2001:db8:1:2::9", 48), ("::1", 0), ("::1", 127)] {
        let key = network_of(value, prefix).unwrap();
        assert_eq!(network_of(&key.to_string(), prefix), Some(key), "{key}");
        assert_eq!(network_of(&format!(" {key} "), prefix), Some(key), "{key}");
    }
}

proptest! {
    #[test]
    fn any_text_is_an_address_or_is_not(value in "\\PC{0,40}", prefix: u8) {
        let _ = network_of(&value, prefix);
    }

    #[test]
    fn a_network_holds_exactly_the_addresses_that_share_its_bits(a: u128, flip in 0_u32..128, prefix in 0_u8..=128) {
        // Mapped addresses are IPv4 and have no network.
        prop_assume!(Ipv6Addr::from(a).to_ipv4_mapped().is_none());
        let b = a ^ (1 << (127 - flip));
        prop_assume!(Ipv6Addr::from(b).to_ipv4_mapped().is_none());
        let key = |bits: u128| network_of(&Ipv6Addr::from(bits).to_string(), prefix).unwrap();
        prop_assert_eq!(key(a) == key(b), flip >= u32::from(prefix));
    }
}
