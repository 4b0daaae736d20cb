//! Traces that no plane may write, one for each invariant.
