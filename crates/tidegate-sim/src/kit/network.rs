//! The fate of messages between the parties of a world.

use super::chance::Chance;
use super::clock::MS;

/// The number of a party, from 0.
pub type PartyId = u32;

/// How well messages pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkQuality {
    /// How many in a thousand messages are lost.
    pub lost: u64,
    /// How many in a thousand messages arrive twice.
    pub repeated: u64,
    /// How many in a thousand messages are late.
    pub late: u64,
    /// How late those are at most, in nanoseconds.
    pub late_max: u64,
}

impl LinkQuality {
    /// Every message arrives once, within a millisecond.
    pub const PERFECT: Self = Self { lost: 0, repeated: 0, late: 0, late_max: 0 };

    /// A quality from good to bad; late messages are late by up to `late_max` nanoseconds.
    pub fn drawn(chance: &mut Chance, late_max: u64) -> Self {
        Self {
            lost: chance.one_of(&[0, 5, 50]),
            repeated: chance.one_of(&[0, 5, 50]),
            late: chance.one_of(&[0, 20, 100]),
            late_max,
        }
    }
}

/// The network between parties. Messages take 0.2 to 1 ms, or longer if they are late, so that they
/// overtake each other.
#[derive(Debug)]
pub struct Network {
    chance: Chance,
    quality: LinkQuality,
    parties: Vec<Party>,
}

/// How the network treats one party.
#[derive(Clone, Copy, Debug, Default)]
struct Party {
    /// How many disturbances cut it off.
    cuts: u8,
    /// How late the messages that it sends are at most.
    slow: u64,
}

/// When copies of a message arrive: none, one or two.
pub type Fate = [Option<u64>; 2];

impl Network {
    /// A network between so many parties.
    pub fn new(chance: Chance, parties: u32, quality: LinkQuality) -> Self {
        Self { chance, quality, parties: vec![Party::default(); parties as usize] }
    }

    /// Cuts a party off once more, or once less. Nothing passes from it or to it while anything
    /// cuts it off.
    pub fn cut(&mut self, party: PartyId, is_cut: bool) {
        let cuts = &mut self.parties[party as usize].cuts;
        *cuts = if is_cut { *cuts + 1 } else { cuts.saturating_sub(1) };
    }

    /// From now on messages of a party are late by between half of `most` and `most` nanoseconds,
    /// beside everything else. 0 ends that.
    pub fn slow_down(&mut self, party: PartyId, most: u64) {
        self.parties[party as usize].slow = most;
    }

    /// From now on all messages arrive, once and in time.
    pub fn calm_down(&mut self) {
        self.quality = LinkQuality { late_max: self.quality.late_max, ..LinkQuality::PERFECT };
        self.parties.fill(Party::default());
    }

    /// When a message that one party sends to another now arrives.
    pub fn send(&mut self, from: PartyId, to: PartyId, now: u64) -> Fate {
        let sender = self.parties[from as usize];
        let is_cut = sender.cuts > 0 || self.parties[to as usize].cuts > 0;
        if is_cut || self.chance.in_a_thousand(self.quality.lost) {
            return [None, None];
        }
        let late = if sender.slow > 0 { self.chance.between(sender.slow / 2, sender.slow) } else { 0 };
        let first = Some(now + late + self.transit());
        let second = self.chance.in_a_thousand(self.quality.repeated).then(|| now + late + self.transit());
        [first, second]
    }

    /// The time that one copy takes.
    fn transit(&mut self) -> u64 {
        let is_late = self.chance.in_a_thousand(self.quality.late);
        let most = if is_late { self.quality.late_max.max(MS) } else { MS };
        self.chance.between(MS / 5, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAD: LinkQuality = LinkQuality { lost: 100, repeated: 100, late: 100, late_max: 50 * MS };

    /// The number of copies of each of so many messages from party 0 to party 1.
    fn copies(network: &mut Network, messages: u32) -> Vec<usize> {
        (0..messages).map(|_| network.send(0, 1, 0).into_iter().flatten().count()).collect()
    }

    #[test]
    fn messages_are_lost_repeated_and_late_as_often_as_the_quality_says() {
        let mut network = Network::new(Chance::new(1, 1), 2, BAD);
        let counts = copies(&mut network, 10_000);
        let of = |number| counts.iter().filter(|count| **count == number).count();
        assert!((900..1100).contains(&of(0)) && (800..1000).contains(&of(2)), "{} {}", of(0), of(2));
        let arrivals = (0..10_000).filter_map(|_| network.send(0, 1, 7 * MS)[0]);
        let (mut late, mut overtakes, mut last) = (0, 0, 0);
        for at in arrivals {
            assert!((7 * MS + MS / 5..=57 * MS).contains(&at), "{at}");
            late += u32::from(at > 8 * MS);
            overtakes += u32::from(at < last);
            last = at;
        }
        assert!((750..1000).contains(&late) && overtakes > 1000, "{late} {overtakes}");
    }

    #[test]
    fn nothing_passes_from_or_to_a_party_while_anything_cuts_it_off() {
        for party in [0, 1] {
            let mut network = Network::new(Chance::new(1, 1), 3, LinkQuality::PERFECT);
            network.cut(party, true);
            network.cut(party, true);
            network.cut(party, false);
            assert_eq!(copies(&mut network, 5), [0; 5]);
            assert!(network.send(2, 2, 0)[0].is_some(), "the others are not cut off");
            network.cut(party, false);
            assert_eq!(copies(&mut network, 5), [1; 5]);
        }
    }

    #[test]
    fn a_slow_party_sends_late_and_receives_in_time() {
        let mut network = Network::new(Chance::new(1, 1), 2, LinkQuality::PERFECT);
        network.slow_down(0, 100 * MS);
        let at = |fate: Fate| fate[0].unwrap();
        assert!((50 * MS..=101 * MS).contains(&at(network.send(0, 1, 0))));
        assert!(at(network.send(1, 0, 0)) <= MS);
    }

    #[test]
    fn a_calm_network_delivers_every_message_once() {
        let mut network = Network::new(Chance::new(1, 1), 2, BAD);
        network.cut(0, true);
        network.slow_down(0, 100 * MS);
        network.calm_down();
        assert_eq!(copies(&mut network, 1000), [1; 1000]);
        assert!(network.send(0, 1, 0)[0] <= Some(MS));
    }
}
