//! A hash that is the same in every process and every version: SipHash-2-4 of Aumasson and
//! Bernstein, twice.
//!
//! Names made of this hash outlive the process, so it must not come from a hasher that is seeded
//! anew at each start or that may change with its version. The two keys are fixed and public: it
//! tells names apart, it keeps no secret.

use siphasher::sip::SipHasher24;

const KEYS: [[u64; 2]; 2] =
    [[0x7469_6465_6761_7465, 0x6e61_6d65_732d_6869], [0x7469_6465_6761_7465, 0x6e61_6d65_732d_6c6f]];

/// 128 bits that name this list of parts; each is written with its length, so that no two lists
/// give the same bytes.
pub(crate) fn name_of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u128 {
    let mut bytes = Vec::with_capacity(128);
    for part in parts {
        bytes.extend((part.len() as u64).to_le_bytes());
        bytes.extend(part);
    }
    let [high, low] = KEYS.map(|key| sip(key, &bytes));
    u128::from(high) << 64 | u128::from(low)
}

fn sip([k0, k1]: [u64; 2], bytes: &[u8]) -> u64 {
    SipHasher24::new_with_keys(k0, k1).hash(bytes)
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn it_is_siphash_by_the_vectors_of_its_authors() {
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let bytes: Vec<u8> = (0..15).collect();
        assert_eq!(sip(key, &bytes), 0xa129_ca61_49be_45e5);
        assert_eq!(sip(key, &[]), 0x726f_db47_dd0e_0e31);
    }

    #[test]
    fn a_name_is_the_same_in_every_version_and_lists_stay_apart() {
        assert_ne!(name_of([&b"a"[..], b"bc"]), name_of([&b"ab"[..], b"c"]));
        assert_ne!(name_of([&b"a"[..]]), name_of([&b"a"[..], b""]));
        assert_eq!(name_of([&b"refund"[..], b"api", b"order-1"]), NAME_OF_ORDER_1);
    }

    /// Written down once: whoever changes the hash must know that stored names change with it.
    const NAME_OF_ORDER_1: u128 = 205_692_434_312_129_521_253_825_184_632_984_127_085;
}
