//! The fluid model: what each design would throttle if requests were a liquid, by the second.
//!
//! It knows no order of arrivals and no nodes, and it shares no code with the capacity plane. Its
//! values are printed beside the measured ones: where they differ much, one of the two is wrong.

use serde::Serialize;

use crate::capacity::demand::arrivals::ArrivalSource;
use crate::capacity::scenario::TableSpec;

/// Parts of the requests that are throttled while no more is asked for than the table has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FluidShares {
    /// Under equal shares.
    pub static_shares: f64,
    /// With burst credit, full at the beginning.
    pub burst: f64,
    /// With global admission, which only the ceilings of the configured partitions bound.
    pub global: f64,
    /// With the best cuts there could be: what single keys, or a tail, are asked for beyond a
    /// ceiling. No design can throttle less.
    pub floor: f64,
}

impl FluidShares {
    pub(crate) fn new(spec: &TableSpec, source: &ArrivalSource, seconds: u32) -> Self {
        let partitions = spec.partitions;
        let rate = spec.units_per_second as f64;
        let base = rate / f64::from(partitions);
        let ceiling = spec.ceiling as f64;
        let credit_max = base * 300.0;
        let mut partitions_left: Vec<PartitionLeft> =
            vec![PartitionLeft { share: base, credit: credit_max, ceiling }; partitions as usize];
        let mut keys_left = Vec::new();
        let (mut all, mut sums) = (0.0, Self::default());
        let mut shares = source.shares_at(0.0, partitions);
        for second in 0..seconds {
            let at = f64::from(second);
            let offered = spec.demand.rate_at(at);
            if second > 0 && !source.has_same_shares(at - 1.0, at) {
                shares = source.shares_at(at, partitions);
            }
            let mut lost = Self::default();
            for (part, left) in shares.of_partition.iter().zip(&mut partitions_left) {
                let load = part * offered;
                lost.static_shares += load - served(load, base, &mut left.share);
                let under_ceiling = served(load, ceiling, &mut left.ceiling);
                lost.global += load - under_ceiling;
                let in_burst = under_ceiling.min(base + left.credit);
                lost.burst += load - in_burst;
                left.credit = (left.credit + base - in_burst).min(credit_max);
            }
            keys_left.resize(shares.hot_keys.len(), ceiling);
            lost.floor = if spec.demand.is_tail_at(at) {
                // The tail leaves each partition behind, and no cut is made in time.
                lost.global
            } else {
                let keys = shares.hot_keys.iter().zip(&mut keys_left);
                keys.map(|(part, left)| part * offered - served(part * offered, ceiling, left)).sum()
            };
            if offered <= rate {
                all += offered;
                sums.static_shares += lost.static_shares;
                sums.burst += lost.burst;
                sums.global += lost.global;
                sums.floor += lost.floor;
            }
        }
        let part = |sum: f64| if all > 0.0 { sum / all } else { 0.0 };
        Self {
            static_shares: part(sums.static_shares),
            burst: part(sums.burst),
            global: part(sums.global),
            floor: part(sums.floor),
        }
    }
}

/// The levels of a partition's buckets without the inflow of the next second.
#[derive(Clone, Copy, Debug)]
struct PartitionLeft {
    share: f64,
    credit: f64,
    ceiling: f64,
}

/// The part of `load` that a bucket of one second serves in the next second; `left` is what it has
/// beside its inflow.
fn served(load: f64, rate: f64, left: &mut f64) -> f64 {
    let served = load.min(rate + *left);
    *left = (*left + rate - served).min(rate);
    served
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_of_a_second_serves_its_rate_and_once_what_it_kept() {
        let mut left = 10.0;
        let of_each: Vec<f64> =
            [25.0, 25.0, 0.0, 5.0, 30.0].map(|load| served(load, 10.0, &mut left)).to_vec();
        assert_eq!(of_each, [20.0, 10.0, 0.0, 5.0, 20.0]);
    }
}
