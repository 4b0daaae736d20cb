//! The marker of an epoch, as the script writes it.

/// What a marker says: `<id>.<number>.<began>.<0|1>`, or an id alone, which is of a time without epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marker<'a> {
    /// Which life of the store it is. A loss is told by it alone.
    pub(crate) id: &'a [u8],
    /// The epoch that ledgers count in, at least 1.
    pub(crate) number: u64,
    /// When it began, in microseconds.
    began: &'a [u8],
    /// Whether something may have been lost at its beginning.
    pub(crate) is_after_loss: bool,
}

impl<'a> Marker<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        let parts: Vec<_> = bytes.split(|byte| *byte == b'.').collect();
        let number = |part: &[u8]| str::from_utf8(part).ok()?.parse().ok();
        if let [id, count, began, flag] = parts.as_slice()
            && let Some(count) = number(count)
        {
            return Self { id, number: count, began, is_after_loss: *flag == b"1" };
        }
        Self { id: bytes, number: 1, began: b"0", is_after_loss: false }
    }

    /// All but the id, as it is written behind one.
    pub(crate) fn epoch(self) -> Vec<u8> {
        let number = self.number.to_string();
        let flag: &[u8] = if self.is_after_loss { b"1" } else { b"0" };
        [b".", number.as_bytes(), b".", self.began, b".", flag].concat()
    }

    /// Whether it is a later one of the same life.
    pub(crate) fn follows(self, other: Self) -> bool {
        self.id == other.id && self.number > other.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_alone_is_the_first_epoch() {
        let marker = Marker::of(b"0123");
        assert_eq!(marker, Marker { id: b"0123", number: 1, began: b"0", is_after_loss: false });
        assert_eq!(marker.epoch(), b".1.0.0");
        let next = Marker::of(b"0123.1800000000.1800000000000000.1");
        assert_eq!((next.id, next.number, next.is_after_loss), (&b"0123"[..], 1_800_000_000, true));
        assert_eq!(next.epoch(), b".1800000000.1800000000000000.1");
        assert!(next.follows(marker) && !marker.follows(next) && !next.follows(next));
        assert!(!Marker::of(b"4567.2.0.0").follows(marker));
    }
}
