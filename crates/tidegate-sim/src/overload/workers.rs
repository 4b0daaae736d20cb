//! The workers of one service: what they work on, what waits behind the design, and the time that
//! rejections take from them.

use std::collections::VecDeque;

use super::control::JobId;
use super::service::{ServiceSpec, nanos_of_ms};

/// The workers of one service.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    busy: u32,
    /// Started requests that wait for a worker, in order; empty unless the design lets more start
    /// than there are workers.
    backlog: VecDeque<(JobId, u64)>,
    /// The time that rejections have taken and no work has been delayed by yet.
    owed: u64,
}

/// Work that a worker has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BegunWork {
    pub(crate) job: JobId,
    pub(crate) ends_at: u64,
    pub(crate) fails: bool,
}

impl Workers {
    pub(crate) const fn busy(&self) -> u32 {
        self.busy
    }

    pub(crate) fn backlog(&self) -> usize {
        self.backlog.len()
    }

    /// A rejection takes the time of one worker: the next request that begins is delayed by it.
    pub(crate) fn reject(&mut self, service: &ServiceSpec) {
        self.owed += u64::from(service.rejection_us) * 1000;
    }

    /// A started request goes to a worker, or behind those that wait for one.
    pub(crate) fn start(
        &mut self,
        service: &ServiceSpec,
        job: JobId,
        work: u64,
        now: u64,
    ) -> Option<BegunWork> {
        if self.busy >= service.workers {
            self.backlog.push_back((job, work));
            return None;
        }
        Some(self.begin(service, job, work, now))
    }

    /// A worker is free; it takes the next request.
    pub(crate) fn finish(&mut self, service: &ServiceSpec, now: u64) -> Option<BegunWork> {
        self.busy -= 1;
        let (job, work) = self.backlog.pop_front()?;
        Some(self.begin(service, job, work, now))
    }

    /// A started request is cut short: it gives back its worker, which takes the next request, or
    /// its place behind the others.
    pub(crate) fn cancel(&mut self, service: &ServiceSpec, job: JobId, now: u64) -> Option<BegunWork> {
        if let Some(place) = self.backlog.iter().position(|(waiting, _)| *waiting == job) {
            self.backlog.remove(place);
            return None;
        }
        self.finish(service, now)
    }

    fn begin(&mut self, service: &ServiceSpec, job: JobId, work: u64, now: u64) -> BegunWork {
        self.busy += 1;
        let phase = service.phase_at(now);
        let failing = phase.and_then(|phase| phase.failing_ms);
        let factor = phase.map_or(1.0, |phase| phase.factor);
        let time = failing.map_or((work as f64 * factor) as u64, nanos_of_ms);
        let ends_at = now + (time + core::mem::take(&mut self.owed)).max(1);
        BegunWork { job, ends_at, fails: failing.is_some() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejections_delay_the_next_work_and_no_more_begins_than_there_are_workers() {
        let mut service = ServiceSpec::reference("a");
        service.workers = 1;
        let mut workers = Workers::default();
        workers.reject(&service);
        workers.reject(&service);
        let begun = workers.start(&service, 1, 1_000_000, 0);
        assert_eq!(begun, Some(BegunWork { job: 1, ends_at: 1_100_000, fails: false }));
        assert_eq!(workers.start(&service, 2, 1_000_000, 0), None);
        let next = workers.finish(&service, 1_100_000);
        assert_eq!(next, Some(BegunWork { job: 2, ends_at: 2_100_000, fails: false }));
        assert_eq!((workers.finish(&service, 2_100_000), workers.busy()), (None, 0));
    }
}
