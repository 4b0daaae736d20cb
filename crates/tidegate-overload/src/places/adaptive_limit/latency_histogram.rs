//! A histogram of latencies, for their median.

/// Buckets for each doubling: a bucket is at most 1/32 wide, and the median is interpolated in it.
const BUCKETS_PER_DOUBLING: usize = 32;
/// Doublings from 1 us; longer latencies, above 19 hours, count in the last bucket.
const DOUBLINGS: usize = 36;
const BUCKETS: usize = BUCKETS_PER_DOUBLING * DOUBLINGS;

/// The number of latencies in each bucket; 5 KiB.
#[derive(Debug)]
pub(super) struct LatencyHistogram {
    buckets: Box<[u32; BUCKETS]>,
    count: u32,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self { buckets: Box::new([0; BUCKETS]), count: 0 }
    }
}

impl LatencyHistogram {
    /// Counts a latency of so many microseconds.
    pub(super) fn add(&mut self, micros: u64) {
        let bucket = &mut self.buckets[bucket_of(micros)];
        *bucket = bucket.saturating_add(1);
        self.count = self.count.saturating_add(1);
    }

    /// The median in seconds; `None` without a latency.
    pub(super) fn median(&self) -> Option<f64> {
        let half = f64::from(self.count) / 2.0;
        let mut below = 0.0;
        for (index, count) in self.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = f64::from(*count);
            if below + count >= half {
                return Some(bucket_value(index, (half - below) / count));
            }
            below += count;
        }
        None
    }

    /// Forgets all latencies.
    pub(super) fn clear(&mut self) {
        self.buckets.fill(0);
        self.count = 0;
    }
}

fn bucket_of(micros: u64) -> usize {
    let micros = micros.max(1);
    let doubling = micros.ilog2();
    // The next five bits below the highest one.
    let rest = if doubling >= 5 { micros >> (doubling - 5) } else { micros << (5 - doubling) };
    let index = doubling as usize * BUCKETS_PER_DOUBLING + (rest & 31) as usize;
    index.min(BUCKETS - 1)
}

/// The latency in seconds at a part of a bucket.
fn bucket_value(index: usize, part: f64) -> f64 {
    let doubling = u32::try_from(index / BUCKETS_PER_DOUBLING).expect("there are 36 doublings");
    let rest = u32::try_from(index % BUCKETS_PER_DOUBLING).expect("there are 32 buckets");
    let micros = 2f64.powi(doubling.cast_signed()) * (1.0 + (f64::from(rest) + part) / 32.0);
    micros / 1e6
}
