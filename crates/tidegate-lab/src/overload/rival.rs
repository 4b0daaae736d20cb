//! The known designs that the engine is compared with.

/// A known design: one queue or one limit for each service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rival {
    /// One queue without a bound.
    NoControl,
    /// One queue of at most 1000 requests.
    BoundedFifo,
    /// One queue; requests past their deadline are dropped when their turn comes.
    FifoExpiry,
    /// One queue with `CoDel` as folly has it.
    CoDel,
    /// The queue timeouts of "Fail at Scale", last in first out while a queue stands.
    CoDelLifo,
    /// An admission cursor with fixed steps.
    Dagor,
    /// A queue for each class, the most important class first.
    StrictPriority,
    /// A concurrency limit by additive increase and multiplicative decrease.
    Aimd,
    /// A concurrency limit by the gradient of the latency.
    Gradient2,
    /// A rejector with a proportional and an integral part, as Cinnamon's.
    PiRejector,
}

impl Rival {
    /// All of them, in order.
    pub const ALL: [Self; 10] = [
        Self::NoControl,
        Self::BoundedFifo,
        Self::FifoExpiry,
        Self::CoDel,
        Self::CoDelLifo,
        Self::Dagor,
        Self::StrictPriority,
        Self::Aimd,
        Self::Gradient2,
        Self::PiRejector,
    ];

    /// One word, as in tables and on the command line, and a sentence that describes it, with its
    /// source and its numbers.
    pub(super) const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::NoControl => {
                ("none", "One queue in order of arrival, without a bound. Nothing is refused.")
            }
            Self::BoundedFifo => {
                ("fifo", "One queue in order of arrival. A request that finds 1000 in it is refused.")
            }
            Self::FifoExpiry => (
                "expiry",
                "One queue in order of arrival. A request past its deadline is dropped when its turn comes.",
            ),
            Self::CoDel => (
                "codel",
                "One queue in order of arrival. While the shortest wait of the last 100 ms was above 5 ms, a request \
                that has waited for more than 10 ms is dropped when its turn comes (folly::Codel).",
            ),
            Self::CoDelLifo => (
                "lifo",
                "The newest request first while the queue has not been empty for 100 ms; a request is then dropped \
                after 5 ms in the queue, otherwise after 100 ms (Fail at Scale, 2015).",
            ),
            Self::Dagor => (
                "dagor",
                "Requests below a cursor of class and random cohort are refused. Each second, or each 2000 requests, \
                the cursor admits 5 % less if the average wait was above 20 ms, else 1 % more (DAGOR, SoCC 2018). \
                A request that waits longer than 250 ms is dropped.",
            ),
            Self::StrictPriority => (
                "strict",
                "The most important class first, in order of arrival within it. A request that waits longer than 250 ms is \
                dropped.",
            ),
            Self::Aimd => (
                "aimd",
                "At most as many requests at the service as a limit says, others are refused. The limit grows by one \
                while half of it is used, and falls by a tenth with each answer after the deadline; 20 to 200 \
                (Netflix concurrency-limits, AIMDLimit).",
            ),
            Self::Gradient2 => (
                "gradient2",
                "The same with a limit that follows the ratio of the long-term to the present latency; 20 to 200 \
                (Netflix concurrency-limits, Gradient2Limit).",
            ),
            Self::PiRejector => (
                "pi",
                "The share of requests to refuse comes from a controller (proportional 0.1, integral 1.4) over what \
                comes in and goes out, each 500 ms; the least important levels among the last 1000 requests are \
                refused (Cinnamon). Then the most important class first, for at most 250 ms.",
            ),
        }
    }
}
