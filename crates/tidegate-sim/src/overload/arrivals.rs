//! The operations of one group of clients: when they begin, of which tenant, and how much work each
//! call is. They come from the seed alone, so that every design is asked the same.

use super::client::{ArrivalPattern, ClientSpec};
use super::service::nanos_of_ms;
use crate::kit::{Chance, SECOND, seconds};

/// The first part of a world's chance that belongs to clients.
const CLIENT_PARTS: u64 = 1000;

/// A begun operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OperationStart {
    pub(crate) at: u64,
    pub(crate) tenant: u32,
}

/// The source of operations of one group.
#[derive(Debug)]
pub(crate) struct ClientSource {
    arrivals: Chance,
    tenants: Chance,
    work: Chance,
    /// Where the next gap begins.
    at: u64,
    end: u64,
    /// The part of an operation that is still to come, where they come at equal distances.
    due: f64,
}

impl ClientSource {
    pub(crate) fn new(seed: u64, client: usize, seconds: u32) -> Self {
        let part = CLIENT_PARTS + 10 * client as u64;
        let due = Chance::new(seed, part + 3).unit();
        Self {
            due,
            arrivals: Chance::new(seed, part),
            tenants: Chance::new(seed, part + 1),
            work: Chance::new(seed, part + 2),
            at: 0,
            end: u64::from(seconds) * SECOND,
        }
    }

    /// The next operation; `None` after the end of the run. A Poisson process whose rate changes
    /// begins anew at each change, since it has no memory.
    pub(crate) fn next(&mut self, client: &ClientSpec) -> Option<OperationStart> {
        loop {
            if self.at >= self.end {
                return None;
            }
            let second = seconds(self.at);
            let rate = client.rate_at(second);
            let change = client.next_phase(second).map_or(u64::MAX, |from| nanos_of_ms(from * 1000.0));
            let gap = match client.arrivals {
                _ if rate <= 0.0 => u64::MAX,
                ArrivalPattern::Poisson => self.arrivals.gap(SECOND as f64 / rate),
                ArrivalPattern::Even => (self.due * SECOND as f64 / rate) as u64,
            };
            let next = self.at.saturating_add(gap);
            if next >= change {
                self.due = (self.due - seconds(change - self.at) * rate).max(0.0);
                self.at = change;
                continue;
            }
            (self.at, self.due) = (next, 1.0);
            let tenant = self.tenants.below(u64::from(client.tenants)) as u32;
            return (next < self.end).then_some(OperationStart { at: next, tenant });
        }
    }

    /// The seed of the work of an operation's calls.
    pub(crate) fn work_seed(&mut self) -> u64 {
        self.work.bits()
    }
}

#[cfg(test)]
mod tests {
    use super::super::client::LoadPhase;
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_phase_and_no_operation_comes_while_it_is_zero() {
        let mut client = ClientSpec::bronze(1000.0);
        let phase = |from, factor| LoadPhase { from, factor };
        client.phases = vec![phase(10.0, 0.0), phase(20.0, 2.0)];
        let mut source = ClientSource::new(4, 0, 30);
        let mut counts = [0_u32; 30];
        while let Some(start) = source.next(&client) {
            counts[(start.at / SECOND) as usize] += 1;
        }
        let sum = |range: core::ops::Range<usize>| counts[range].iter().sum::<u32>();
        assert!((9_700..=10_300).contains(&sum(0..10)), "{counts:?}");
        assert_eq!(sum(10..20), 0);
        assert!((19_500..=20_500).contains(&sum(20..30)), "{counts:?}");
    }
}
