//! The marker of an epoch, as the script writes it; `script/epoch.lua` has its parts and its rules.

use tidegate_core::Timestamp;

/// The lease protocol of this version: how members write ledgers and what they rely on. A member
/// does not decide on a store whose marker has a higher number.
pub const PROTOCOL: u32 = 2;

/// The parts of a marker: `<id>.<number>.<began>.<flag>.<protocol>[.<acknowledged>]`. Earlier
/// versions wrote the first four parts, or only the id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Marker {
    /// The bytes as they are in the store.
    pub(crate) bytes: Vec<u8>,
    /// Which life of the store it is. A loss is recognised by it alone.
    pub(crate) id: String,
    /// The epoch that ledgers count in, at least 1.
    pub(crate) number: u32,
    /// When the epoch began, in microseconds.
    pub(crate) began_us: u64,
    /// Whether a living member noticed a loss at the beginning of the epoch and the loss is not
    /// acknowledged.
    pub(crate) is_after_loss: bool,
    /// Losses that began at this instant or before it are acknowledged, in microseconds; 0 if none
    /// is.
    pub(crate) acknowledged_us: u64,
}

impl Marker {
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let mut parts = text.split('.');
        let id = parts.next().unwrap_or_default();
        let numbers = [parts.next(), parts.next(), parts.next()];
        if let [Some(number), Some(began), Some(flag)] = numbers
            && let (Ok(number), Ok(began_us)) = (number.parse(), began.parse())
        {
            let acknowledged_us = parts.nth(1).and_then(|part| part.parse().ok()).unwrap_or(0);
            let is_after_loss = flag == "1";
            return Self {
                bytes: bytes.to_vec(),
                id: id.to_owned(),
                number,
                began_us,
                is_after_loss,
                acknowledged_us,
            };
        }
        Self {
            bytes: bytes.to_vec(),
            id: text.into_owned(),
            number: 1,
            began_us: 0,
            is_after_loss: false,
            acknowledged_us: 0,
        }
    }

    /// The epoch as the marker of another slot says it behind its own id.
    pub(crate) fn epoch(&self) -> String {
        format!(".{}.{}.{}", self.number, self.began_us, u8::from(self.is_after_loss))
    }

    /// When the epoch began.
    pub(crate) fn began(&self) -> Timestamp {
        Timestamp::from_nanos(self.began_us.saturating_mul(1000))
    }

    /// Whether the marker may take the place of `known`, which a member has seen before: it is of
    /// the same life, and no earlier.
    pub(crate) fn replaces(&self, known: &Self) -> bool {
        self.id == known.id && self.number >= known.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_alone_is_the_first_epoch() {
        let marker = Marker::read(b"0123");
        assert_eq!((marker.id.as_str(), marker.number, marker.began_us), ("0123", 1, 0));
        assert!(!marker.is_after_loss && marker.acknowledged_us == 0);
        assert_eq!(marker.epoch(), ".1.0.0");
    }

    #[test]
    fn markers_of_every_version_are_read() {
        let texts = [
            ("0123.18.19.1", 0),
            ("0123.18.19.1.2", 0),
            ("0123.18.19.1.2.20", 20),
            ("0123.18.19.1.7.20.21", 20),
        ];
        for (text, acknowledged_us) in texts {
            let marker = Marker::read(text.as_bytes());
            assert_eq!((marker.id.as_str(), marker.number, marker.began_us), ("0123", 18, 19), "{text}");
            assert!(marker.is_after_loss, "{text}");
            assert_eq!(
                (marker.acknowledged_us, marker.epoch().as_str()),
                (acknowledged_us, ".18.19.1"),
                "{text}"
            );
        }
        let broken = Marker::read(b"0123.many.19.1");
        assert_eq!((broken.id.as_str(), broken.number), ("0123.many.19.1", 1));
    }

    #[test]
    fn a_marker_of_another_life_or_of_an_earlier_epoch_replaces_none() {
        let known = Marker::read(b"0123.18.19.1.2");
        assert!(Marker::read(b"0123.18.19.0.2.20").replaces(&known));
        assert!(Marker::read(b"0123.19.19.0.2").replaces(&known));
        assert!(!Marker::read(b"0123.17.19.0.2").replaces(&known));
        assert!(!Marker::read(b"4567.19.19.0.2").replaces(&known));
    }
}
