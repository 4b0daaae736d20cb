//! The counters of Envoys, for the hottest key.

use std::collections::VecDeque;

use crate::fleet::report::{EnvoyGroup, EnvoyReport};
use crate::fleet::scenario::{Load, Numbers, Scenario};
use crate::fleet::usage::Used;
use crate::kit::{MS, SECOND, rounded};

/// Demand that has moved is followed within this time, so that shares are counted from then on.
const FOLLOWED_WITHIN: u64 = 15 * SECOND;

/// In a second in which the busy half gets this part of what is due to it, demand is followed.
const FOLLOWED_PERCENT: u64 = 90;

const TENTH: u64 = SECOND / 10;

/// The counters.
#[derive(Debug)]
pub(crate) struct EnvoyTally {
    limit: Numbers,
    load: Load,
    /// How many of the Envoys are in the first half.
    first: u32,
    each: Vec<Used>,
    /// From when on `each` counts.
    shares_from: u64,
    ends: u64,
    /// From when on all should be well.
    measured_from: u64,
    moves_at: u64,
    /// The admissions of the last second.
    recent: VecDeque<u64>,
    second_max: u64,
    steady_second_max: u64,
    /// Offered and admitted at the half that is busy after the move, by the tenth of a second
    /// since then.
    moved: Vec<(u64, u64)>,
    /// Admitted by all within [`FOLLOWED_WITHIN`] after the move.
    admitted_after_move: u64,
    pub(crate) reports: u64,
    pub(crate) responses: u64,
}

impl EnvoyTally {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let measured_from = u64::from(scenario.measured_from()) * SECOND;
        let ends = u64::from(scenario.seconds) * SECOND;
        let moved = if scenario.load == Load::Moved { scenario.moves_at() + FOLLOWED_WITHIN } else { 0 };
        Self {
            limit: scenario.limit,
            load: scenario.load,
            first: scenario.envoys.div_ceil(2),
            each: vec![Used::default(); scenario.envoys as usize],
            shares_from: measured_from.max(moved).min(ends),
            ends,
            measured_from,
            moves_at: scenario.moves_at(),
            recent: VecDeque::new(),
            second_max: 0,
            steady_second_max: 0,
            moved: Vec::new(),
            admitted_after_move: 0,
            reports: 0,
            responses: 0,
        }
    }

    pub(crate) fn offered(&mut self, envoy: u32, now: u64) {
        if now >= self.shares_from {
            self.each[envoy as usize].offered += 1.0;
        }
        if let Some((offered, _)) = self.after_move(envoy, now) {
            *offered += 1;
        }
    }

    pub(crate) fn admitted(&mut self, envoy: u32, now: u64) {
        if now >= self.shares_from {
            self.each[envoy as usize].admitted += 1.0;
        }
        if let Some((_, admitted)) = self.after_move(envoy, now) {
            *admitted += 1;
        }
        if self.load == Load::Moved && (self.moves_at..self.moves_at + FOLLOWED_WITHIN).contains(&now) {
            self.admitted_after_move += 1;
        }
        while self.recent.front().is_some_and(|at| at + SECOND <= now) {
            self.recent.pop_front();
        }
        self.recent.push_back(now);
        let count = self.recent.len() as u64;
        self.second_max = self.second_max.max(count);
        if now >= self.measured_from + SECOND {
            self.steady_second_max = self.steady_second_max.max(count);
        }
    }

    /// The counters of this tenth of a second, of an Envoy that is busy after the move.
    fn after_move(&mut self, envoy: u32, now: u64) -> Option<&mut (u64, u64)> {
        let passed = now.checked_sub(self.moves_at)?;
        if self.load != Load::Moved || envoy < self.first {
            return None;
        }
        let tenth = (passed / TENTH) as usize;
        if self.moved.len() <= tenth {
            self.moved.resize(tenth + 1, (0, 0));
        }
        Some(&mut self.moved[tenth])
    }

    pub(crate) fn report(&self, decisions: u64) -> EnvoyReport {
        let rate = self.limit.rate();
        let messages = self.reports + self.responses;
        let offered: f64 = self.each.iter().map(|used| used.offered).sum();
        let admitted: f64 = self.each.iter().map(|used| used.admitted).sum();
        let parts = self.each.iter().filter(|used| used.offered > 0.0);
        let parts = parts.map(|used| rounded(used.admitted * offered / used.offered / admitted.max(1.0)));
        let (least, most) =
            parts.fold((f64::MAX, 0.0), |(least, most): (f64, f64), part| (least.min(part), most.max(part)));
        let is_moved = self.load == Load::Moved && self.ends >= self.moves_at + FOLLOWED_WITHIN;
        let due = rate * (FOLLOWED_WITHIN / SECOND) as f64;
        EnvoyReport {
            reports: self.reports,
            responses: self.responses,
            messages_per_decision: rounded(messages as f64 / decisions.max(1) as f64),
            second_max: self.second_max,
            steady_second_max: self.steady_second_max,
            second_bound: (rate * 1.1) as u64 + u64::from(self.limit.burst()),
            groups: self.groups(),
            least_part: if least > most { 0.0 } else { least },
            most_part: most,
            followed_after_ms: if is_moved { self.followed_after_ms() } else { None },
            used_after_move: is_moved.then(|| rounded(self.admitted_after_move as f64 / due)),
        }
    }

    /// The Envoys of which the same is asked.
    fn groups(&self) -> Vec<EnvoyGroup> {
        let all = self.each.len();
        let first = match self.load {
            Load::Uneven | Load::Moved => self.first as usize,
            Load::OneIdle => all - 1,
            _ => all,
        };
        let seconds = (self.ends - self.shares_from).max(1) as f64 / SECOND as f64;
        let groups = [&self.each[..first], &self.each[first..]].into_iter().filter(|group| !group.is_empty());
        let made = groups.map(|group| EnvoyGroup {
            envoys: group.len(),
            offered_per_second: rounded(group.iter().map(|used| used.offered).sum::<f64>() / seconds),
            admitted_per_second: rounded(group.iter().map(|used| used.admitted).sum::<f64>() / seconds),
        });
        made.collect()
    }

    /// How long after the move the first second began in which the half that is busy since then got
    /// nearly what is due to it.
    fn followed_after_ms(&self) -> Option<u64> {
        let (first, rest) = (u64::from(self.first), self.each.len() as u64 - u64::from(self.first));
        // Ten of eleven parts where the halves are equal.
        let due = self.limit.rate() * (10 * rest) as f64 / (10 * rest + first).max(1) as f64;
        let mut seconds = self.moved.windows(10).enumerate();
        let found = seconds.find(|(_, second)| {
            let offered: u64 = second.iter().map(|(offered, _)| offered).sum();
            let admitted: u64 = second.iter().map(|(_, admitted)| admitted).sum();
            admitted as f64 * 100.0 >= (offered as f64).min(due) * FOLLOWED_PERCENT as f64
        });
        found.map(|(tenth, _)| tenth as u64 * TENTH / MS)
    }
}
