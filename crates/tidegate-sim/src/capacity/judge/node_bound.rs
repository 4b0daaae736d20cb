//! I5: a request beyond a partition's allocation is admitted only while its node has room for it.
//!
//! In any span that ends with such a request, everything that the node was charged is at most its
//! rate over the span and the depth of its bucket. Requests on the allocated path are charged
//! whatever is left, and close the way for the others until the node is back in credit.

use super::books::{NODE_DEPTH_PARTS, PassedBy};
use super::level::{DrainingFill, fine, units};

/// The checker of one node.
#[derive(Clone, Debug)]
pub(super) struct NodeBound {
    fill: DrainingFill,
    /// Thousandths a second.
    rate: i64,
}

impl NodeBound {
    pub(super) fn new(rate: i64) -> Self {
        Self { fill: DrainingFill::default(), rate }
    }

    #[inline]
    pub(super) fn charge(&mut self, path: PassedBy, cost: i64, at: u64) -> Option<String> {
        let fill = self.fill.add(cost, self.rate, at);
        let most = fine(self.rate / NODE_DEPTH_PARTS);
        (path != PassedBy::Allocation && fill > most).then(|| {
            format!(
                "a request beyond its partition's allocation brought the node to {} units beyond {} a second; at \
                 most {} may be",
                units(fill),
                units(fine(self.rate)),
                units(most)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::SECOND;

    #[test]
    fn a_burst_on_a_node_that_allocations_have_used_up_is_found() {
        let mut node = NodeBound::new(10_000);
        // Allocations take what they are promised, and more than the depth at once.
        assert_eq!(node.charge(PassedBy::Allocation, 3000, SECOND), None);
        // A tenth of a second later two thirds of it are still there.
        let later = SECOND + SECOND / 10;
        assert!(node.charge(PassedBy::Burst, 1000, later).unwrap().contains("3 units beyond 10 a second"));
        assert!(node.clone().charge(PassedBy::Spare, 1, later).is_some());
        // In credit again, bursts pass.
        assert_eq!(node.charge(PassedBy::Burst, 1000, 2 * SECOND), None);
        assert!(node.charge(PassedBy::Burst, 1, 2 * SECOND).is_some());
    }
}
