//! The seam between a world and an admission design: what a design is told, and what it answers.

use serde::Serialize;
use tidegate_core::Class;
use tidegate_overload::ConcurrencyAdvice;

/// One attempt of a call, by its number in the run.
pub type JobId = usize;

/// The facts about a request that a design knows on its arrival.
#[derive(Clone, Copy, Debug)]
pub struct ArrivedRequest<'a> {
    /// Its number.
    pub job: JobId,
    /// The position of its service.
    pub service: usize,
    /// The namespace of its client.
    pub namespace: u32,
    /// Its class.
    pub class: Class,
    /// Its tenant.
    pub tenant: &'a str,
    /// The position of its feature among those of the scenario; `None`: it is for none.
    pub feature: Option<usize>,
    /// Its cost, which multiplies the service time.
    pub cost: u32,
    /// 0 for the first attempt.
    pub attempt: u32,
    /// The ticket of the last refusal of its operation, where its client uses tickets. Designs
    /// without tickets ignore it.
    pub ticket: Option<&'a str>,
    /// The instant after which the answer is of no use.
    pub deadline: u64,
    /// Until when it may wait in a queue that knows of it.
    pub wait_until: u64,
}

/// The end of work on a request.
#[derive(Clone, Copy, Debug)]
pub struct JobEnd {
    /// Its number.
    pub job: JobId,
    /// The position of its service.
    pub service: usize,
    /// Whether it ended after its deadline.
    pub is_late: bool,
    /// Whether it failed.
    pub has_failed: bool,
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalCause {
    /// It was below the admission cursor, or a rejector drew its level.
    Cursor,
    /// The queue was full.
    QueueFull,
    /// No place in flight was free, or the concurrency limit was reached.
    LimitReached,
    /// It had waited for longer than the delay control allows.
    QueueDelay,
    /// It had waited for as long as it may, or until its deadline.
    WaitedTooLong,
    /// The estimated wait was too long for its deadline.
    DeadlineUnmeetable,
    /// Its feature was off.
    FeatureDisabled,
    /// The program in front of the service started anew.
    Restart,
    /// It was refused because of the load, with a ticket for a second that is reserved for it.
    Deferred,
    /// Another reason of the engine.
    Other,
}

impl RefusalCause {
    /// All of them, in order.
    pub const ALL: [Self; 10] = [
        Self::Cursor,
        Self::QueueFull,
        Self::LimitReached,
        Self::QueueDelay,
        Self::WaitedTooLong,
        Self::DeadlineUnmeetable,
        Self::FeatureDisabled,
        Self::Restart,
        Self::Deferred,
        Self::Other,
    ];

    /// A few words, as in reports.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Cursor => "below the cursor",
            Self::QueueFull => "queue full",
            Self::LimitReached => "limit reached",
            Self::QueueDelay => "queue delay",
            Self::WaitedTooLong => "waited too long",
            Self::DeadlineUnmeetable => "deadline unmeetable",
            Self::FeatureDisabled => "feature disabled",
            Self::Restart => "restart",
            Self::Deferred => "deferred",
            Self::Other => "other",
        }
    }

    /// Whether the request was refused after it had waited in vain rather than shed.
    pub(crate) const fn is_expiry(self) -> bool {
        matches!(self, Self::WaitedTooLong | Self::DeadlineUnmeetable)
    }
}

/// An answer of a design.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The service begins to work on it.
    Start {
        /// The request.
        job: JobId,
        /// The position of the level that its feature gives it, 0 the best.
        level: u8,
    },
    /// A started request is cut short, because its feature was switched off. The design counts it
    /// as ended.
    Cancel(JobId),
    /// It is refused.
    Refuse {
        /// The request.
        job: JobId,
        /// Why.
        cause: RefusalCause,
        /// The nanoseconds before a retry, if the answer names them.
        retry_after: Option<u64>,
        /// The ticket that the answer brings.
        ticket: Option<Box<str>>,
    },
}

impl Verdict {
    /// A start at the best level.
    pub const fn start(job: JobId) -> Self {
        Self::Start { job, level: 0 }
    }

    /// A refusal that names no time before a retry.
    pub const fn refuse(job: JobId, cause: RefusalCause) -> Self {
        Self::Refuse { job, cause, retry_after: None, ticket: None }
    }
}

/// The state of one service as a design shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ControlView {
    /// Requests that wait.
    pub queued: usize,
    /// Requests that it has let start and that have not ended.
    pub in_flight: usize,
    /// The most of them at once; `None` without a limit.
    pub limit: Option<f64>,
    /// Whether that limit follows measurements.
    pub is_adaptive: bool,
    /// The part of the range of the admission cursor that is shed, 0 open to 1 closed; `None`
    /// without a cursor.
    pub cursor: Option<f64>,
    /// The load level, 0 normal to 4 emergency; `None` without levels.
    pub level: Option<u8>,
    /// The smoothed pressure that the levels follow; `None` without one.
    pub pressure: Option<f64>,
    /// The advice to change the limit; `None` without any.
    pub advice: Option<ConcurrencyAdvice>,
}

/// The state of one feature as a design shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FeatureControlView {
    /// The position of the worst level that any request gets, 0 the best.
    pub level: u8,
    /// The part of the capacity that a design thinks it takes at its best level, refused requests
    /// included; `None` without such a number.
    pub footprint: Option<f64>,
}

/// A change of the level of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureMove {
    /// The position of the feature among those of the scenario.
    pub feature: usize,
    /// The positions of the levels before and after, 0 the best.
    pub from: u8,
    /// The level after.
    pub to: u8,
}

/// An admission design in front of the workers of all services of a world.
///
/// Each function adds its answers to `out`, in order. A job is answered once: with a start, which
/// [`AdmissionControl::end`] ends, or with a refusal.
pub trait AdmissionControl: core::fmt::Debug {
    /// A request arrives.
    fn arrive(&mut self, arrival: ArrivedRequest<'_>, now: u64, out: &mut Vec<Verdict>);

    /// The work on a started request has ended.
    fn end(&mut self, end: JobEnd, now: u64, out: &mut Vec<Verdict>);

    /// The client of a waiting request has hung up. Whether the request was waiting.
    fn cancel(&mut self, service: usize, job: JobId, now: u64, out: &mut Vec<Verdict>) -> bool;

    /// When [`AdmissionControl::wake`] is to be called; `None`: not before anything else happens.
    fn next_wake(&self) -> Option<u64>;

    /// The instant of [`AdmissionControl::next_wake`] has come.
    fn wake(&mut self, now: u64, out: &mut Vec<Verdict>);

    /// It is replaced by a new one that knows nothing. Waiting requests are refused; started ones
    /// go on, and their ends are not reported any more.
    fn restart(&mut self, now: u64, out: &mut Vec<Verdict>);

    /// A pressure for the first service arrives from outside.
    fn signal(&mut self, pressure: f64, now: u64);

    /// The measured part of a service that is in use arrives from outside, for a service with
    /// [`ServiceSpec::measured_noise`](super::service::ServiceSpec::measured_noise). Designs
    /// without load levels ignore it.
    fn measured(&mut self, _service: usize, _in_use: f64, _now: u64) {}

    /// The state of each feature of the scenario, in order; none from a design that ignores them
    /// and leaves them at their best level.
    fn features(&self, _now: u64) -> Vec<FeatureControlView> {
        Vec::new()
    }

    /// The changes of features since the last call, in order.
    fn take_feature_moves(&mut self) -> Vec<FeatureMove> {
        Vec::new()
    }

    /// The state of a service.
    fn view(&self, service: usize, now: u64) -> ControlView;

    /// The requests that it has refused because of the load, or would have refused in shadow mode,
    /// by class; none for a design that does not say.
    fn refused_by_class(&self, _service: usize, _now: u64) -> [u64; Class::ALL.len()] {
        [0; Class::ALL.len()]
    }
}
