//! The pace of work whose end is not reported, by which it needs no place in flight.
//!
//! A request whose end nobody reports would keep its place for good. Instead as many of them are
//! admitted a second as the places could serve: by Little's law the limit divided by the average
//! time of service, which work with a known end has shown. The generic cell rate algorithm (ITU-T
//! I.371) spaces them, and lets as many come at once as there are places.
//!
//! Callers say when their work has ended. So a request counts for the average time of its own
//! namespace, at least a tenth of the time of all. The time of all is the median of the namespaces'
//! averages, so each namespace counts once; for an even number it is the lower middle one. And who
//! asks most often would have nearly the whole pace. So once requests of a namespace were refused
//! that had less than its part, each other one that asks for more than its part is spaced by this
//! part, for a minute.

use core::time::Duration;
use std::collections::BTreeMap;

use tidegate_core::Timestamp;

use crate::cursor::capacity_parts::divide_by_weight;
use crate::fault::Fault;
use crate::namespaces::{NamespaceKey, NamespaceShares};
use crate::places::held_parts::{HeldParts, PartClaim};
use crate::sync::{AtomicU64, Ordering};
use crate::tick::TICK;

/// The seconds whose samples count; without any in them nothing is known, and all is admitted.
const SECONDS: usize = 10;
/// A time of service counts as at most this, so that no sum of them can wrap: with 2^22 samples a
/// tick it fits.
const SERVICE_MAX: Duration = Duration::from_hours(1);
/// A request counts for at least this part of the time of service of all.
const LEAST_PART: u64 = 10;
/// A whole pace, of which the bound of a namespace is a part.
const WHOLE: u64 = 1 << 16;
/// The weight of one tick in what is asked for: a time constant of a second.
const GAIN: f64 = 1.0 / 11.0;
/// Of what a namespace asks for that is within its part so much more is kept free, for chance.
const CHANCE: f64 = 1.1;
/// So much work with tickets may come at once beyond what others may, in nanoseconds.
const TICKET_BURST: u64 = 1_000_000_000;
/// Less than this a tick is no demand any more.
const FORGOTTEN: f64 = 1e-3;

/// The pace of one resource.
#[derive(Debug, Default)]
pub(crate) struct Pacer {
    // Relaxed, all of them: each is one word, and guards no other memory.
    /// The time of service of all in nanoseconds; 0: not known.
    service_ns: AtomicU64,
    /// The instant at which the next request is due, in nanoseconds: the theoretical arrival time.
    due_ns: AtomicU64,
    /// The time of places for which requests were admitted since the last tick, in nanoseconds.
    admitted: AtomicU64,
}

/// The pace of one namespace.
#[derive(Debug, Default)]
pub(crate) struct NamespacePace {
    // Relaxed, as those of the pacer.
    /// The average time of its service in nanoseconds; 0: not known.
    service_ns: AtomicU64,
    /// Its part of the pace in [`WHOLE`]ths, and when its next request is due; 0: not bounded.
    part: AtomicU64,
    due_ns: AtomicU64,
    /// The time of service since the last tick, and of how many requests.
    sum_ns: AtomicU64,
    count: AtomicU64,
    /// The requests that were in pace since the last tick, and those that were not.
    admitted: AtomicU64,
    refused: AtomicU64,
}

/// Whether a request is in pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PaceVerdict {
    /// The pace is not known, so that it is admitted.
    Unknown,
    /// It is, and counts.
    InPace,
    /// It is ahead of the pace.
    Ahead,
}

/// The demand of each namespace on the pace, by slot; the ticks own it.
#[derive(Debug, Default)]
pub(crate) struct PaceDemands {
    by_slot: BTreeMap<usize, PaceDemand>,
    held: HeldParts,
}

#[derive(Debug)]
struct PaceDemand {
    namespace: NamespaceKey,
    recent: RecentService,
    /// The requests that were admitted and refused a tick, smoothed.
    admitted: f64,
    refused: f64,
}

/// The samples of the last seconds.
#[derive(Debug, Default)]
struct RecentService {
    /// The sums and counts of each second, at its number modulo their number.
    seconds: [(u64, u64); SECONDS],
    /// The last second that was written.
    second: u64,
}

impl RecentService {
    /// Adds what a tick has seen, and forgets what is too old. A clock that stepped back forgets
    /// all.
    fn add(&mut self, sum: u64, count: u64, now: Timestamp) {
        let second = now.as_nanos() / 1_000_000_000;
        let passed = second.checked_sub(self.second).unwrap_or(SECONDS as u64).min(SECONDS as u64);
        for back in 0..passed {
            self.seconds[slot_of(second.saturating_sub(back))] = (0, 0);
        }
        self.second = second;
        let slot = &mut self.seconds[slot_of(second)];
        *slot = (slot.0.saturating_add(sum), slot.1.saturating_add(count));
    }

    /// The average time of service; 0 without a sample.
    fn average_ns(&self) -> u64 {
        let sums = self.seconds.iter().map(|(sum, _)| u128::from(*sum)).sum::<u128>();
        let count = self.seconds.iter().map(|(_, count)| u128::from(*count)).sum::<u128>();
        sums.checked_div(count).map_or(0, |average| u64::try_from(average).unwrap_or(u64::MAX).max(1))
    }
}

fn slot_of(second: u64) -> usize {
    usize::try_from(second % SECONDS as u64).expect("it is below their number")
}

impl NamespacePace {
    /// Adds the time from the admission to the end of one request's work.
    pub(crate) fn add(&self, service: Duration) {
        let service = u64::try_from(service.min(SERVICE_MAX).as_nanos()).unwrap_or(u64::MAX);
        self.sum_ns.fetch_add(service, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// The time that one of its requests counts for where that of all is `all`.
    fn service(&self, all: u64) -> u64 {
        match self.service_ns.load(Ordering::Relaxed) {
            0 => all,
            own => own.max(all / LEAST_PART).max(1),
        }
    }

    /// Its own pace; `None`: it is not bounded.
    fn spacing(&self, of_all: &RequestSpacing) -> Option<RequestSpacing> {
        let part = self.part.load(Ordering::Relaxed);
        (part > 0).then(|| {
            let whole = u128::from(of_all.interval) * u128::from(WHOLE) / u128::from(part);
            of_all.spaced(u64::try_from(whole).unwrap_or(u64::MAX))
        })
    }

    /// Bounds it to half of the pace.
    #[cfg(test)]
    pub(crate) fn halve(&self) {
        self.part.store(WHOLE / 2, Ordering::Relaxed);
    }

    /// Its slot has another namespace from now on.
    pub(crate) fn clear(&self) {
        for word in [&self.service_ns, &self.part, &self.due_ns] {
            word.store(0, Ordering::Relaxed);
        }
    }
}

impl PaceDemands {
    /// Takes in a tick: the averages of the namespaces, and the parts of those that ask for more
    /// than theirs while another lacks its own. The time of service of all in nanoseconds; 0: not
    /// known.
    #[expect(clippy::cast_precision_loss, reason = "counts of a tick")]
    fn tick<'a>(
        &mut self,
        of_slot: impl Fn(usize) -> &'a NamespacePace,
        active: impl Iterator<Item = (usize, NamespaceKey)>,
        shares: &NamespaceShares,
        places: u64,
        now: Timestamp,
    ) -> u64 {
        for (slot, namespace) in active {
            let known = self.by_slot.entry(slot).or_insert_with(|| PaceDemand::new(namespace));
            if known.namespace != namespace {
                *known = PaceDemand::new(namespace);
            }
        }
        let mut averages = Vec::new();
        for (slot, demand) in &mut self.by_slot {
            let pace = of_slot(*slot);
            let take = |sum: &AtomicU64| sum.swap(0, Ordering::Relaxed);
            demand.recent.add(take(&pace.sum_ns), take(&pace.count), now);
            let average = demand.recent.average_ns();
            pace.service_ns.store(average, Ordering::Relaxed);
            averages.extend(Some(average).filter(|average| *average > 0));
            for (rate, count) in
                [(&mut demand.admitted, &pace.admitted), (&mut demand.refused, &pace.refused)]
            {
                *rate += GAIN * (take(count) as f64 - *rate);
            }
        }
        averages.sort_unstable();
        let all = averages.len().checked_sub(1).map_or(0, |last| averages[last / 2]);
        self.bound(&of_slot, shares, (places, all), now);
        self.by_slot.retain(|slot, one| {
            let asks = one.recent.average_ns() > 0 || one.admitted.max(one.refused) > FORGOTTEN;
            if !asks {
                of_slot(*slot).part.store(0, Ordering::Relaxed);
            }
            asks
        });
        all
    }

    /// Sets the parts of those that ask for more than theirs, while the parts hold.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "counts of a tick and times below a day, of which three digits matter"
    )]
    fn bound<'a>(
        &mut self,
        of_slot: impl Fn(usize) -> &'a NamespacePace,
        shares: &NamespaceShares,
        (places, all): (u64, u64),
        now: Timestamp,
    ) {
        if !self.held.may_hold(self.by_slot.values().any(PaceDemand::is_refused)) {
            return;
        }
        let tick_ns = TICK.as_nanos() as f64 * places.max(1) as f64;
        let claim = |(slot, one): (&usize, &PaceDemand)| {
            let part_of = |requests: f64| requests * of_slot(*slot).service(all) as f64 / tick_ns;
            PartClaim {
                wanted: part_of(one.admitted + one.refused),
                had: part_of(one.admitted),
                is_refused: one.is_refused(),
            }
        };
        // Of the whole pace, what each asks for and has.
        let claims: Vec<PartClaim> = self.by_slot.iter().map(claim).collect();
        let weight = |one: &PaceDemand| f64::from(shares.weight(one.namespace));
        let weights: Vec<f64> = self.by_slot.values().map(weight).collect();
        let asked: Vec<f64> = claims.iter().map(|claim| claim.wanted * CHANCE).collect();
        let parts = divide_by_weight(&asked, &weights, 1.0);
        let holds = self.held.tick(claims.iter().zip(&parts), now);
        for (slot, (claim, part)) in self.by_slot.keys().zip(claims.iter().zip(&parts)) {
            let is_bounded = holds && claim.wanted > *part;
            let part = if is_bounded { ((part * WHOLE as f64) as u64).max(1) } else { 0 };
            of_slot(*slot).part.store(part, Ordering::Relaxed);
        }
    }
}

impl PaceDemand {
    fn new(namespace: NamespaceKey) -> Self {
        Self { namespace, recent: RecentService::default(), admitted: 0.0, refused: 0.0 }
    }

    fn is_refused(&self) -> bool {
        self.refused > FORGOTTEN
    }
}

impl Pacer {
    /// Takes in a tick of a resource with so many places. `of_slot` has the pace of each slot,
    /// `active` the slots that have a namespace. The part of the places' time for which requests
    /// were admitted in pace.
    #[expect(clippy::cast_precision_loss, reason = "a part, of which three digits matter")]
    pub(crate) fn tick<'a>(
        &self,
        demands: &mut PaceDemands,
        of_slot: impl Fn(usize) -> &'a NamespacePace,
        active: impl Iterator<Item = (usize, NamespaceKey)>,
        shares: &NamespaceShares,
        places: u64,
        now: Timestamp,
    ) -> f64 {
        self.service_ns.store(demands.tick(of_slot, active, shares, places, now), Ordering::Relaxed);
        let admitted = self.admitted.swap(0, Ordering::Relaxed) as f64;
        admitted / (TICK.as_nanos() as f64 * places.max(1) as f64)
    }

    /// Whether [`Pacer::admits`] would admit one more request.
    pub(crate) fn would_admit(&self, own: &NamespacePace, places: u64, now: Timestamp) -> bool {
        let Some((of_all, _)) = self.spacing(own, places, now) else { return true };
        let is_due =
            |of: &RequestSpacing, due: &AtomicU64| of.next_due(due.load(Ordering::Relaxed)).is_some();
        is_due(&of_all, &self.due_ns)
            && own.spacing(&of_all).is_none_or(|spacing| is_due(&spacing, &own.due_ns))
    }

    /// The time that one request counts for; zero: not known.
    pub(crate) fn service(&self) -> Duration {
        Duration::from_nanos(self.service_ns.load(Ordering::Relaxed))
    }

    /// The pace of a request with so many places, at least 1, and the time that it counts for;
    /// `None` where it is not known.
    #[inline]
    fn spacing(&self, own: &NamespacePace, places: u64, now: Timestamp) -> Option<(RequestSpacing, u64)> {
        let all = self.service_ns.load(Ordering::Relaxed);
        if all == 0 || Fault::PaceUnbounded.is_planted() {
            return None;
        }
        let service = own.service(all);
        let interval = interval(service, places);
        // As many at once as there are places take one time of service.
        Some((RequestSpacing { now: now.as_nanos(), interval, burst: all.max(service) }, service))
    }

    /// [`Pacer::admits`] for a request with a ticket. A second's worth more of these is admitted at
    /// once: those without are ahead of the pace until this is made up for.
    pub(crate) fn admits_ticket(&self, own: &NamespacePace, places: u64, now: Timestamp) -> PaceVerdict {
        let Some((mut of_all, service)) = self.spacing(own, places, now) else { return PaceVerdict::Unknown };
        of_all.burst = of_all.burst.saturating_add(TICKET_BURST);
        self.count(own, service, of_all.take(&self.due_ns))
    }

    /// Counts a request of a namespace that is in pace or ahead of it.
    #[inline]
    fn count(&self, own: &NamespacePace, service: u64, is_in_pace: bool) -> PaceVerdict {
        if !is_in_pace {
            own.refused.fetch_add(1, Ordering::Relaxed);
            return PaceVerdict::Ahead;
        }
        own.admitted.fetch_add(1, Ordering::Relaxed);
        self.admitted.fetch_add(service, Ordering::Relaxed);
        PaceVerdict::InPace
    }

    /// Takes back a request that was in pace and did not go ahead after all.
    pub(crate) fn give_back(&self, own: &NamespacePace, places: u64, now: Timestamp) {
        let of_all = self.take_back(own, places, now);
        if let Some(spacing) = of_all.and_then(|of_all| own.spacing(&of_all)) {
            give_back(&own.due_ns, spacing.interval);
        }
    }

    /// The same for a request with a ticket, which took no turn of its namespace.
    pub(crate) fn give_back_ticket(&self, own: &NamespacePace, places: u64, now: Timestamp) {
        self.take_back(own, places, now);
    }

    /// Takes a request back from the pace of all, which is returned where it is known.
    fn take_back(&self, own: &NamespacePace, places: u64, now: Timestamp) -> Option<RequestSpacing> {
        let (of_all, service) = self.spacing(own, places, now)?;
        give_back(&self.due_ns, of_all.interval);
        let less = |sum: u64| Some(sum.saturating_sub(service));
        let _ = self.admitted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        Some(of_all)
    }

    /// Whether one more request of a namespace is in pace with so many places, at least 1; it then
    /// counts.
    #[inline]
    pub(crate) fn admits(&self, own: &NamespacePace, places: u64, now: Timestamp) -> PaceVerdict {
        let Some((of_all, service)) = self.spacing(own, places, now) else { return PaceVerdict::Unknown };
        let bound = own.spacing(&of_all);
        if bound.is_some_and(|spacing| !spacing.take(&own.due_ns)) {
            return self.count(own, service, false);
        }
        let is_in_pace = of_all.take(&self.due_ns);
        if let Some(bound) = bound.filter(|_| !is_in_pace) {
            give_back(&own.due_ns, bound.interval);
        }
        self.count(own, service, is_in_pace)
    }
}

fn give_back(due: &AtomicU64, interval: u64) {
    let earlier = |due: u64| Some(due.saturating_sub(interval));
    let _ = due.fetch_update(Ordering::Relaxed, Ordering::Relaxed, earlier);
}

/// The times between requests that are in pace at one instant, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct RequestSpacing {
    now: u64,
    interval: u64,
    /// The time of service, in which as many may come at once as it has room for.
    burst: u64,
}

impl RequestSpacing {
    /// The same at another interval.
    const fn spaced(self, interval: u64) -> Self {
        Self { interval, ..self }
    }

    /// The latest instant at which a request that is admitted now may leave the next one due.
    fn latest(&self) -> u64 {
        self.now.saturating_add(self.burst.max(self.interval))
    }

    /// When the next request is due after one more, the first being due at `due`; `None` if that
    /// one is ahead of the pace.
    #[inline]
    fn next_due(&self, due: u64) -> Option<u64> {
        // Later than any that is admitted now: the clock has stepped back, or work got faster.
        let next = due.clamp(self.now, self.latest()).saturating_add(self.interval);
        (next <= self.latest()).then_some(next)
    }

    /// Takes one more request in; whether it is in pace.
    #[inline]
    fn take(&self, due: &AtomicU64) -> bool {
        let taken = due.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |due| self.next_due(due));
        if taken.is_err_and(|due| due > self.latest()) {
            // Kept, or a clock that stepped back by an hour would stop all for an hour.
            due.fetch_min(self.latest(), Ordering::Relaxed);
        }
        taken.is_ok()
    }
}

/// How long after one request the next one is due.
fn interval(service_ns: u64, places: u64) -> u64 {
    (service_ns / places.max(1)).max(1)
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
pub(crate) mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_secs(1_800_000_000);
    const MS: Duration = Duration::from_millis(1);

    fn after(span: Duration) -> Timestamp {
        START.saturating_add(span)
    }

    /// The pace of a resource with namespaces.
    struct Paced {
        pacer: Pacer,
        namespaces: Vec<NamespacePace>,
        demands: PaceDemands,
        places: u64,
    }

    impl Paced {
        /// Namespaces whose work took so long.
        fn new(places: u64, services: &[Duration]) -> Self {
            let namespaces: Vec<_> = services.iter().map(|_| NamespacePace::default()).collect();
            for (namespace, service) in namespaces.iter().zip(services) {
                (0..10).for_each(|_| namespace.add(*service));
            }
            let demands = PaceDemands::default();
            let mut paced = Self { pacer: Pacer::default(), namespaces, demands, places };
            paced.tick(START);
            paced
        }

        fn tick(&mut self, now: Timestamp) -> f64 {
            let Self { pacer, namespaces, demands, places } = self;
            let active = (0..namespaces.len()).map(|slot| (slot, NamespaceKey::Exact(slot as u32)));
            pacer.tick(demands, |slot| &namespaces[slot], active, &NamespaceShares::default(), *places, now)
        }

        fn admits(&self, namespace: usize, now: Timestamp) -> bool {
            self.pacer.admits(&self.namespaces[namespace], self.places, now) != PaceVerdict::Ahead
        }
    }

    #[test]
    pub(crate) fn the_pace_is_the_places_divided_by_the_time_of_service_after_a_burst_of_all_places() {
        let paced = Paced::new(10, &[50 * MS]);
        let burst = (0..100).filter(|_| paced.admits(0, START)).count();
        assert_eq!(burst, 10);
        // A thousand a second ask for ten seconds; ten places of 50 ms serve 200 a second.
        let admitted = (1..=10_000).filter(|ms| paced.admits(0, after(MS * *ms))).count();
        assert!((1990..=2010).contains(&admitted), "{admitted}");
    }

    #[test]
    fn without_a_sample_of_the_last_ten_seconds_nothing_is_paced() {
        let mut paced = Paced::new(1, &[]);
        paced.namespaces.push(NamespacePace::default());
        paced.tick(START);
        assert!((0..1000).all(|_| paced.admits(0, START)));
        let mut paced = Paced::new(1, &[50 * MS]);
        let is_paced = |paced: &Paced, now| !(0..1000).all(|_| paced.admits(0, now));
        paced.tick(after(Duration::from_secs(9)));
        assert!(is_paced(&paced, after(Duration::from_secs(9))));
        paced.tick(after(Duration::from_secs(10)));
        assert!(!is_paced(&paced, after(Duration::from_secs(10))));
    }

    #[test]
    fn a_clock_that_steps_back_and_the_longest_and_shortest_work_stop_nothing_for_good() {
        let paced = Paced::new(10, &[50 * MS]);
        let day = Duration::from_hours(24);
        assert!((0..1000).any(|_| paced.admits(0, after(day))));
        let admitted = (0..1000).filter(|ms| paced.admits(0, after(MS * *ms))).count();
        assert!((190..=210).contains(&admitted), "{admitted}");
        let paced = Paced::new(1, &[Duration::MAX]);
        assert!(paced.admits(0, START) && !paced.admits(0, START) && paced.admits(0, after(SERVICE_MAX)));
        let mut paced = Paced::new(u64::MAX, &[Duration::ZERO]);
        assert!(paced.admits(0, START));
        paced.places = 1;
        assert!(paced.admits(0, START.saturating_add(MS)));
        // Neither overflows.
        let admits = |places, now| paced.pacer.admits(&paced.namespaces[0], places, now);
        let _ = (admits(0, Timestamp::MAX), admits(0, Timestamp::MIN));
    }

    /// The part that each namespace gets of so many requests a second in the last 20 of 30 seconds.
    fn admitted(paced: &mut Paced, asked: &[u32]) -> Vec<u32> {
        let mut admitted = vec![0; asked.len()];
        for ms in 0..30_000_u32 {
            let now = after(MS * ms);
            for (namespace, per_second) in asked.iter().enumerate() {
                // Spread evenly; the one that asks most comes first in each millisecond.
                let due = |ms: u32| ms * per_second / 1000;
                for _ in due(ms)..due(ms + 1) {
                    admitted[namespace] += u32::from(paced.admits(namespace, now) && ms >= 10_000);
                }
            }
            if ms % 100 == 0 {
                // The work of each goes on as it was.
                for namespace in &paced.namespaces {
                    let service = namespace.service_ns.load(Ordering::Relaxed);
                    namespace.add(Duration::from_nanos(service));
                }
                paced.tick(now);
            }
        }
        admitted.into_iter().map(|count| count / 20).collect()
    }

    #[test]
    fn a_namespace_that_asks_far_more_often_leaves_another_its_part_of_the_pace() {
        // 8 places of 40 ms: 200 a second.
        let of = |asked: &[u32]| admitted(&mut Paced::new(8, &[40 * MS, 40 * MS]), asked);
        let served = of(&[4_000, 50]);
        assert!(served[1] >= 48 && served[0] + served[1] >= 185, "{served:?}");
        let served = of(&[4_000, 400]);
        assert!((90..=110).contains(&served[1]) && (90..=110).contains(&served[0]), "{served:?}");
        assert!(of(&[4_000, 0])[0] >= 195, "it is alone");
    }

    #[test]
    fn no_time_that_a_namespace_reports_moves_the_pace_of_another() {
        for reported in [Duration::ZERO, MS, Duration::from_hours(1)] {
            let served = admitted(&mut Paced::new(8, &[reported, 40 * MS]), &[400, 100]);
            assert!(served[1] >= 90, "{served:?} beside {reported:?}");
        }
    }

    #[test]
    fn a_request_that_did_not_go_ahead_gives_its_turn_back_and_the_pace_tells_its_use() {
        let mut paced = Paced::new(10, &[50 * MS]);
        assert!((0..10).all(|_| paced.admits(0, START)) && !paced.admits(0, START));
        paced.pacer.give_back(&paced.namespaces[0], 10, START);
        assert!(paced.admits(0, START) && !paced.admits(0, START));
        // 10 of 50 ms in a tick of 100 ms with 10 places.
        let used = paced.tick(after(TICK));
        assert!((used - 0.5).abs() < 1e-9, "{used}");
    }
}
