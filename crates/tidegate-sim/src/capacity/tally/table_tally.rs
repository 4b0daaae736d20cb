//! The counts and the partitions of one table under one design.

use std::collections::BTreeMap;

use tidegate_capacity::{KeyRange, PartitionId, Throttled};

use crate::capacity::judge::trace::PartitionRecord;
use crate::capacity::plane::operator::ForcedChanges;
use crate::capacity::run::{PartitionSpan, Reshape, TableResult, Victim};
use crate::capacity::scenario::CapacityScenario;
use crate::capacity::tally::cut_watch::CutWatch;
use crate::capacity::tally::{HeatCounts, SecondCount, bound_name};
use crate::kit::{SECOND, seconds};

/// The most partitions that a result names as victims.
const VICTIMS_MAX: usize = 12;

/// The counts of one table under one design.
#[derive(Debug)]
pub(crate) struct TableTally {
    /// The counts so far; the figures that need all of them are made at the end.
    pub(crate) result: TableResult,
    refusals: BTreeMap<(PartitionId, &'static str), Victim>,
    /// The partitions at present. Those of the past are in the result.
    open: Vec<PartitionSpan>,
    pub(crate) cuts: CutWatch,
}

impl TableTally {
    pub(crate) fn new(scenario: &CapacityScenario, table: usize, records: &[PartitionRecord]) -> Self {
        let result = TableResult {
            table: scenario.tables[table].name.clone(),
            seconds: vec![SecondCount::default(); scenario.seconds as usize],
            heat: HeatCounts::new(scenario.seconds),
            ..TableResult::default()
        };
        let open = records.iter().map(|record| span_of(record, 0.0)).collect();
        Self { result, refusals: BTreeMap::new(), open, cuts: CutWatch::default() }
    }

    #[inline]
    pub(crate) fn admit(&mut self, at: u64) {
        self.result.offered += 1;
        self.result.seconds[(at / SECOND) as usize].offered += 1;
    }

    pub(crate) fn refuse(&mut self, at: u64, word: u64, throttled: &Throttled<'_>) {
        self.admit(at);
        let (second, bound) = ((at / SECOND) as u32, bound_name(throttled.bound));
        self.result.throttled += 1;
        self.result.seconds[second as usize].throttled += 1;
        *self.result.by_bound.entry(bound).or_default() += 1;
        self.result.heat.add(at, word);
        let victim = self.refusals.entry((throttled.partition, bound)).or_insert_with(|| Victim {
            partition: throttled.partition.0,
            range: throttled.range.to_string(),
            node: throttled.node.to_owned(),
            bound,
            limit: throttled.limit.as_f64(),
            requests: 0,
            seconds: 0,
            first_second: second,
            last_second: u32::MAX,
            example: example_of(throttled, at),
        });
        victim.requests += 1;
        if victim.last_second != second {
            victim.last_second = second;
            victim.seconds += 1;
        }
    }

    /// Notes that a control loop cuts this range, or joins partitions to it.
    pub(crate) fn reshape(&mut self, at: u64, range: KeyRange, is_split: bool) {
        let changes = &mut self.result.changes;
        *(if is_split { &mut changes.splits } else { &mut changes.merges }) += 1;
        self.result.reshapes.push(Reshape { second: seconds(at), range, is_split });
    }

    /// Notes the partitions that there are.
    pub(crate) fn update(&mut self, records: &[PartitionRecord], at: u64) {
        let is_same = |span: &PartitionSpan, record: &PartitionRecord| {
            span.partition == record.id.0 && span.node == record.leader
        };
        if self.open.len() == records.len() && self.open.iter().zip(records).all(|(s, r)| is_same(s, r)) {
            return;
        }
        let now = seconds(at);
        let mut open = Vec::with_capacity(records.len());
        for record in records {
            match self.open.iter().find(|span| span.partition == record.id.0) {
                Some(span) if span.node == record.leader => open.push(span.clone()),
                Some(_) => {
                    self.result.changes.moves += 1;
                    open.push(span_of(record, now));
                }
                None => open.push(span_of(record, now)),
            }
        }
        for mut span in core::mem::take(&mut self.open) {
            if !open.contains(&span) {
                span.seconds.1 = now;
                self.result.spans.push(span);
            }
        }
        self.open = open;
    }

    /// The result of the table at a position.
    pub(crate) fn into_result(
        mut self,
        scenario: &CapacityScenario,
        table: usize,
        forced: ForcedChanges,
    ) -> TableResult {
        let is_within: Vec<bool> = (0..scenario.seconds)
            .map(|second| {
                let second = f64::from(second);
                scenario.is_within(table, second) && scenario.is_within(table, second + 0.999)
            })
            .collect();
        let mut result = self.result;
        let part = |of: &dyn Fn(usize) -> bool| {
            let seconds = result.seconds.iter().enumerate().filter(|(second, _)| of(*second));
            share_of(seconds.map(|(_, count)| count))
        };
        let last_minute = result.seconds.len().saturating_sub(60);
        let share_within = part(&|second| is_within[second]).unwrap_or(0.0);
        let share_at_end = part(&|second| second >= last_minute && is_within[second]).unwrap_or(0.0);
        result.share_beyond = part(&|second| !is_within[second]);
        (result.share_within, result.share_at_end) = (share_within, share_at_end);
        result.recovery_seconds = recovery_of(&result.seconds, scenario.onset);
        result.changes.useless_splits = self.cuts.useless();
        (result.forced_cuts, result.forced_moves) = (forced.cuts, forced.moves);
        // Refusals by the tokens of the table are no partition's.
        let is_of_table = |victim: &Victim| victim.bound == "table tokens";
        result.victims = self.refusals.into_values().collect();
        result.victims.sort_by_key(|victim| {
            (is_of_table(victim), core::cmp::Reverse(victim.requests), victim.partition)
        });
        result.victims.truncate(VICTIMS_MAX);
        self.open.iter_mut().for_each(|span| span.seconds.1 = f64::from(scenario.seconds));
        result.spans.extend(self.open);
        result
    }
}

/// A refusal with its numbers, as a caller would see it.
fn example_of(throttled: &Throttled<'_>, at: u64) -> String {
    let burst = throttled.burst_left.map_or(String::new(), |left| format!(", burst credit left {left}"));
    let at = seconds(at);
    format!(
        "at {at:.1} s: {}, {} level {} of {} units a second, partition {} ({}) on {}, consumed {} in the last \
         second{burst}",
        throttled.reason.as_str(),
        bound_name(throttled.bound),
        throttled.level,
        throttled.limit,
        throttled.partition,
        throttled.range,
        throttled.node,
        throttled.consumed,
    )
}

fn span_of(record: &PartitionRecord, now: f64) -> PartitionSpan {
    let part = |word: u64| word as f64 / 18_446_744_073_709_551_616.0;
    let (first, _) = record.range.words();
    let end = record.range.end.map_or(1.0, |end| part(end.first_word()));
    PartitionSpan {
        partition: record.id.0,
        keys: (part(first), end),
        seconds: (now, now),
        node: record.leader,
    }
}

/// The part of the requests that was refused; `None` if there were none.
pub(crate) fn share_of<'a>(counts: impl Iterator<Item = &'a SecondCount>) -> Option<f64> {
    let (offered, throttled) = counts.fold((0_u64, 0_u64), |(offered, throttled), count| {
        (offered + u64::from(count.offered), throttled + u64::from(count.throttled))
    });
    let share = throttled as f64 / offered as f64;
    (offered > 0).then_some(share)
}

/// Seconds from `onset` to the end of the first ten seconds with less than a hundredth throttled.
fn recovery_of(seconds: &[SecondCount], onset: u32) -> Option<u32> {
    const WINDOW: usize = 10;
    let after = seconds.get(onset as usize..)?;
    let calm = after.windows(WINDOW).position(|window| share_of(window.iter()).unwrap_or(0.0) < 0.01)?;
    Some((calm + WINDOW) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recovery_ends_with_the_first_calm_ten_seconds_after_the_onset() {
        let bad = SecondCount { offered: 100, throttled: 50 };
        let good = SecondCount { offered: 100, throttled: 0 };
        let mut seconds = vec![good; 20];
        seconds.extend([bad; 7]);
        seconds.extend([good; 30]);
        assert_eq!(recovery_of(&seconds, 20), Some(17));
        assert_eq!(recovery_of(&seconds, 0), Some(10));
        assert_eq!(recovery_of(&[bad; 40], 3), None);
        assert_eq!(recovery_of(&seconds, 1000), None);
    }
}
