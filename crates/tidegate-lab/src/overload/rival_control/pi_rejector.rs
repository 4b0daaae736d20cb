//! A rejector with a proportional and an integral part, as Uber describes that of Cinnamon.
//!
//! The source leaves the scale of the integral open. Here the error of an update is the surplus of
//! arrivals over departures less the free places, divided by the departures; the share of refused
//! requests follows `Kp * error + Ki * sum of errors * 0.05`.

use std::collections::VecDeque;

use tidegate_sim::kit::MS;

const PROPORTIONAL: f64 = 0.1;
const INTEGRAL: f64 = 1.4;
/// The scale of the integral, so that a surplus that lasts is refused after some updates.
const INTEGRAL_SCALE: f64 = 0.05;
const UPDATE: u64 = 500 * MS;
/// The levels that the threshold is a quantile of.
const LEVELS_KEPT: usize = 1000;
const LEVELS: usize = 512;

#[derive(Debug)]
pub(super) struct PiRejector {
    incoming: u64,
    outgoing: u64,
    sum: f64,
    /// The share of requests to refuse.
    share: f64,
    /// Levels below it are refused.
    threshold: usize,
    recent: VecDeque<usize>,
    next_update: u64,
}

impl PiRejector {
    pub(super) const fn new() -> Self {
        let recent = VecDeque::new();
        Self { incoming: 0, outgoing: 0, sum: 0.0, share: 0.0, threshold: 0, recent, next_update: UPDATE }
    }

    pub(super) const fn next_update(&self) -> u64 {
        self.next_update
    }

    pub(super) fn position(&self) -> f64 {
        self.threshold as f64 / LEVELS as f64
    }

    /// Counts a request; whether its level is at the threshold or above.
    pub(super) fn admits(&mut self, level: usize) -> bool {
        self.recent.push_back(level);
        if self.recent.len() > LEVELS_KEPT {
            self.recent.pop_front();
        }
        let is_admitted = level >= self.threshold;
        self.incoming += u64::from(is_admitted);
        is_admitted
    }

    /// A request has left the queue for a worker.
    pub(super) const fn went_out(&mut self) {
        self.outgoing += 1;
    }

    /// Moves the threshold, with so many workers free.
    pub(super) fn update(&mut self, free: usize, now: u64) {
        if now < self.next_update {
            return;
        }
        self.next_update = now + UPDATE;
        let (incoming, outgoing) = (self.incoming as f64, self.outgoing.max(1) as f64);
        let error = ((incoming - outgoing - free as f64) / outgoing).clamp(-1.0, 1.0);
        self.sum = (self.sum + error * INTEGRAL_SCALE).clamp(0.0, 1.0 / INTEGRAL);
        self.share = (PROPORTIONAL * error + INTEGRAL * self.sum).clamp(0.0, 0.99);
        let mut levels: Vec<usize> = self.recent.iter().copied().collect();
        levels.sort_unstable();
        let place = (levels.len() as f64 * self.share) as usize;
        self.threshold = if self.share > 0.0 { levels.get(place).copied().unwrap_or(0) } else { 0 };
        (self.incoming, self.outgoing) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lasting_surplus_is_refused_from_the_least_important_level_on() {
        let mut rejector = PiRejector::new();
        let mut admitted = 0;
        for update in 1..=60 {
            admitted = 0;
            for request in 0..1000 {
                admitted += usize::from(rejector.admits(request % LEVELS));
            }
            (0..500_usize.min(admitted)).for_each(|_| rejector.went_out());
            rejector.update(500_usize.saturating_sub(admitted), update * UPDATE);
        }
        assert!((430..=570).contains(&admitted), "{admitted} {rejector:?}");
        assert!(rejector.position() > 0.3);
    }
}
