//! How work in flight, throughput and latency move together over the last windows.
//!
//! More work in flight that brings less throughput, or only more latency, means that the limit is
//! above the resource's knee, whatever the ratio of latencies says (Uber's Cinnamon, failsafe-go).

/// The windows that count; older ones are overwritten.
const WINDOWS: usize = 20;
/// With fewer windows nothing is concluded.
const WINDOWS_MIN: usize = 10;
/// The coefficient of variation of the work in flight below which correlation is noise.
const VARIATION_MIN: f64 = 0.03;

/// A ring of the last windows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Covariance {
    in_flight: [f64; WINDOWS],
    throughput: [f64; WINDOWS],
    latency: [f64; WINDOWS],
    next: usize,
    len: usize,
}

impl Covariance {
    pub(super) fn add(&mut self, in_flight: f64, throughput: f64, latency: f64) {
        self.in_flight[self.next] = in_flight;
        self.throughput[self.next] = throughput;
        self.latency[self.next] = latency;
        self.next = (self.next + 1) % WINDOWS;
        self.len = (self.len + 1).min(WINDOWS);
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether more work in flight brought less throughput, or more latency and no throughput. The
    /// bounds of the correlation are those of failsafe-go, with -0.2 for its 0: at 10 to 20 windows
    /// a smaller value is noise.
    pub(super) fn vetoes(&self) -> bool {
        let in_flight = &self.in_flight[..self.len];
        if self.len < WINDOWS_MIN || variation(in_flight) < VARIATION_MIN {
            return false;
        }
        let throughput = correlation(in_flight, &self.throughput[..self.len]);
        let latency = correlation(in_flight, &self.latency[..self.len]);
        throughput < -0.2 || (throughput < 0.3 && latency > 0.5)
    }
}

fn mean(values: &[f64]) -> f64 {
    let mut mean = 0.0;
    let mut count = 0.0;
    for value in values {
        count += 1.0;
        mean += (value - mean) / count;
    }
    mean
}

fn variation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let variance = covariance(values, values);
    if mean > 0.0 { variance.sqrt() / mean } else { 0.0 }
}

fn covariance(left: &[f64], right: &[f64]) -> f64 {
    let (left_mean, right_mean) = (mean(left), mean(right));
    let mut sum = 0.0;
    let mut count = 0.0;
    for (left, right) in left.iter().zip(right) {
        sum += (left - left_mean) * (right - right_mean);
        count += 1.0;
    }
    if count > 0.0 { sum / count } else { 0.0 }
}

/// Pearson's correlation; 0 when either side does not vary.
fn correlation(left: &[f64], right: &[f64]) -> f64 {
    let scale = (covariance(left, left) * covariance(right, right)).sqrt();
    if scale > 0.0 { covariance(left, right) / scale } else { 0.0 }
}
