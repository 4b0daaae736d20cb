//! Inputs that resemble the kept ones, for machines without the fuzzer.

use crate::draws::Draws;

/// Bytes at which readers decide something.
const EDGES: &[u8] = b"\0\x01\x7f\x80\xff\r\n \t\"'{}[]:,;%&=+-.0919eE*$#|A\\/";

/// The most bytes of a mutated input.
const BYTES_MAX: usize = 8 << 10;

/// `input` with a few changes; some of them insert pieces of `other`. The same `seed` makes the
/// same changes.
///
/// There is no feedback from coverage: this finds what is near the kept inputs, and the fuzzer in
/// `fuzz/` what is far from them.
pub fn mutated(input: &[u8], other: &[u8], seed: u64) -> Vec<u8> {
    let mut draws = Draws::new(&seed.to_le_bytes());
    let mut bytes = input.to_vec();
    for _ in 0..=draws.below(4) {
        let at = draws.below(bytes.len() + 1);
        let end = (at + 1 + draws.below(8)).min(bytes.len());
        match draws.below(7) {
            0 if at < end => bytes[at] ^= 1 << draws.below(8),
            1 if at < end => bytes[at] = EDGES[draws.below(EDGES.len())],
            2 => bytes.insert(at, EDGES[draws.below(EDGES.len())]),
            3 => drop(bytes.drain(at..end)),
            4 => bytes.truncate(at),
            5 => {
                let piece = bytes[at..end].repeat(1 + draws.below(40));
                bytes.splice(at..at, piece);
            }
            _ => {
                let from = draws.below(other.len() + 1);
                let to = (from + draws.below(64)).min(other.len());
                bytes.splice(at..end, other[from..to].iter().copied());
            }
        }
        bytes.truncate(BYTES_MAX);
    }
    bytes
}
