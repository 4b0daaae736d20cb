//! The partitions of a table over time.

use tidegate_capacity::KeyRange;

use crate::capacity::judge::trace::PartitionRecord;
use crate::capacity::run::{
    CarriedOutPlan, FirstVerdict, GrowthSeries, PartitionSpan, Reshape, ShapeChanges,
};
use crate::capacity::tally::cut_watch::CutWatch;
use crate::kit::seconds;

/// The partitions of a table over time.
#[derive(Debug)]
pub(crate) struct TableShape {
    open: Vec<PartitionSpan>,
    closed: Vec<PartitionSpan>,
    pub(crate) changes: ShapeChanges,
    pub(crate) cuts: CutWatch,
    pub(crate) plans: Vec<CarriedOutPlan>,
    pub(crate) verdicts: Vec<FirstVerdict>,
    pub(crate) reshapes: Vec<Reshape>,
    pub(crate) growth: GrowthSeries,
}

impl TableShape {
    pub(crate) fn new(records: &[PartitionRecord]) -> Self {
        let open = records.iter().map(|record| span_of(record, 0.0)).collect();
        Self {
            open,
            closed: Vec::new(),
            changes: ShapeChanges::default(),
            cuts: CutWatch::default(),
            plans: Vec::new(),
            verdicts: Vec::new(),
            reshapes: Vec::new(),
            growth: GrowthSeries::default(),
        }
    }

    /// Notes that a control loop cuts this range, or joins partitions to it.
    pub(crate) fn reshape(&mut self, at: u64, range: KeyRange, is_split: bool) {
        if is_split {
            self.changes.splits += 1;
        } else {
            self.changes.merges += 1;
        }
        self.reshapes.push(Reshape { second: seconds(at), range, is_split });
    }

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
                    self.changes.moves += 1;
                    open.push(span_of(record, now));
                }
                None => open.push(span_of(record, now)),
            }
        }
        for mut span in core::mem::take(&mut self.open) {
            if !open.contains(&span) {
                span.seconds.1 = now;
                self.closed.push(span);
            }
        }
        self.open = open;
    }

    pub(crate) fn into_spans(mut self, end: f64) -> Vec<PartitionSpan> {
        for span in &mut self.open {
            span.seconds.1 = end;
        }
        self.closed.extend(self.open);
        self.closed
    }
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
