//! Which request is sent when: a Poisson process from a seed, fixed before the first request.
//!
//! Each request also carries the work that it is for the upstream. So a stream of requests has the
//! same instants and the same work in every run, with and without others beside it, and the
//! latencies of two runs differ by what the runs differ in.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::http1::get_with;

/// Requests of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The path and query of its requests, which choose the route.
    pub path: &'static str,
    /// The value of the header `x-tenant`.
    pub tenant: &'static str,
    /// The value of the header `x-class`.
    pub class: &'static str,
    /// The mean of the exponentially distributed work of a request.
    pub mean_work: Duration,
    /// The seed of its instants and of its work.
    pub seed: u64,
}

impl Stream {
    /// A request that is `work` for the upstream.
    pub fn request(&self, work: Duration) -> Request<Bytes> {
        let work = work.as_micros().to_string();
        let headers = [("x-tenant", self.tenant), ("x-class", self.class), ("x-work-us", &*work)];
        get_with(&format!("http://localhost{}", self.path), &headers)
    }
}

/// A request that will be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The instant, from the start of the run.
    pub at: Duration,
    /// The index of its stream.
    pub stream: usize,
    /// Its work.
    pub work: Duration,
}

/// All requests of a run, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    streams: Vec<Stream>,
    arrivals: Vec<Arrival>,
    /// The stream whose requests show a deferral ticket, and the ticket.
    ticket: Option<(usize, HeaderValue)>,
}

impl Schedule {
    /// Adds a stream that sends `rate` requests a second from `from` until `until`.
    ///
    /// The instants are those of a Poisson process, given that it has exactly `rate * (until -
    /// from)` arrivals; the work is exponential and then scaled to the mean of the stream. So the
    /// offered load is the same for every seed. A rate of 0 adds nothing.
    pub fn add(&mut self, stream: Stream, from: Duration, until: Duration, rate: f64) {
        let index = self.streams.iter().position(|known| *known == stream).unwrap_or_else(|| {
            self.streams.push(stream);
            self.streams.len() - 1
        });
        let length = until.saturating_sub(from);
        #[expect(clippy::cast_sign_loss, reason = "a negative rate is saturated to no requests")]
        let count = (rate * length.as_secs_f64()).round() as usize;
        // Each phase of a stream has numbers of its own.
        let mut random = Xoshiro256PlusPlus::seed_from_u64(stream.seed ^ (from.as_millis() as u64) << 16);
        let mut instants: Vec<f64> = (0..count).map(|_| unit(&mut random)).collect();
        instants.sort_by(f64::total_cmp);
        let work: Vec<f64> = (0..count).map(|_| -(1.0 - unit(&mut random)).ln()).collect();
        let mean = work.iter().sum::<f64>() / count.max(1) as f64;
        let arrivals = instants.into_iter().zip(work).map(|(instant, work)| Arrival {
            at: from + length.mul_f64(instant),
            stream: index,
            work: stream.mean_work.mul_f64(work / mean),
        });
        self.arrivals.extend(arrivals);
        self.arrivals.sort_by_key(|arrival| arrival.at);
    }

    /// The streams, as [`Arrival::stream`] counts them.
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// The requests, in order of time.
    pub fn arrivals(&self) -> &[Arrival] {
        &self.arrivals
    }

    /// Lets all requests of a stream that was added show a deferral ticket.
    pub fn show_ticket(&mut self, stream: Stream, ticket: HeaderValue) {
        let index = self.streams.iter().position(|known| *known == stream);
        self.ticket = index.map(|index| (index, ticket));
    }

    /// A request.
    pub fn request(&self, arrival: &Arrival) -> Request<Bytes> {
        let mut request = self.streams[arrival.stream].request(arrival.work);
        if let Some((_, ticket)) = self.ticket.as_ref().filter(|(stream, _)| *stream == arrival.stream) {
            request.headers_mut().insert("tidegate-ticket", ticket.clone());
        }
        request
    }
}

/// A number from 0 to below 1.
fn unit(random: &mut Xoshiro256PlusPlus) -> f64 {
    // The upper 53 bits, as many as a number of this type has.
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEAN: Duration = Duration::from_millis(40);

    fn stream(seed: u64) -> Stream {
        Stream { path: "/", tenant: "acme", class: "critical", mean_work: MEAN, seed }
    }

    fn schedule(rate: f64) -> Schedule {
        let mut schedule = Schedule::default();
        schedule.add(stream(1), Duration::from_secs(2), Duration::from_secs(12), rate);
        schedule
    }

    #[test]
    fn a_stream_offers_its_rate_and_its_mean_work_within_its_time() {
        let schedule = schedule(200.0);
        let arrivals = schedule.arrivals();
        assert_eq!(arrivals.len(), 2000);
        assert!(arrivals.iter().all(|one| (2.0..12.0).contains(&one.at.as_secs_f64())));
        assert!(arrivals.is_sorted_by_key(|one| one.at));
        let work: Duration = arrivals.iter().map(|one| one.work).sum();
        assert!((work.as_secs_f64() / 2000.0 - 0.04).abs() < 1e-6, "{work:?}");
    }

    #[test]
    fn gaps_and_work_are_exponential() {
        let schedule = schedule(1000.0);
        // A variable is exponential if e^-k of its values exceed k means.
        let over = |values: &[f64], means: f64| {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            values.iter().filter(|value| **value > means * mean).count() as f64 / values.len() as f64
        };
        let arrivals = schedule.arrivals();
        let gaps: Vec<f64> =
            arrivals.windows(2).map(|pair| pair[1].at.saturating_sub(pair[0].at).as_secs_f64()).collect();
        let work: Vec<f64> = arrivals.iter().map(|one| one.work.as_secs_f64()).collect();
        for values in [gaps, work] {
            assert!((over(&values, 1.0) - (-1.0_f64).exp()).abs() < 0.02);
            assert!((over(&values, 3.0) - (-3.0_f64).exp()).abs() < 0.01);
        }
    }

    #[test]
    fn a_stream_is_the_same_beside_another() {
        let alone = schedule(40.0);
        let mut beside = Schedule::default();
        beside.add(stream(2), Duration::ZERO, Duration::from_secs(12), 500.0);
        beside.add(stream(1), Duration::from_secs(2), Duration::from_secs(12), 40.0);
        let same: Vec<_> = beside.arrivals().iter().filter(|one| one.stream == 1).collect();
        assert_eq!(same.len(), 400);
        for (one, other) in alone.arrivals().iter().zip(same) {
            assert_eq!((one.at, one.work), (other.at, other.work));
        }
    }
}
