//! Advice about the places of a resource: whether `concurrency` is plainly too low or too high.
//!
//! Each request that ends is a pair: the places in use when it was admitted, itself included, and
//! the time for which it kept its place ([`times_by_use`]). A service with enough workers takes as
//! long at any use. Behind `w` workers with a queue, a request takes `max(1, n / w)` times as long
//! at `n` places in use. Only pairs of the same few seconds are compared ([`use_contrast`]): a
//! service that slows down fills its places, too, but within a moment its time does not depend on
//! their number.
//!
//! [`advice_rule`] decides from these comparisons and from the last minute ([`load_minute`]);
//! [`advice_state`] keeps both for one resource.

#![expect(
    clippy::cast_precision_loss,
    reason = "counts and microseconds are far below 2^53, and their means are rough numbers"
)]

pub(crate) mod advice_rule;
pub(crate) mod advice_state;
pub(crate) mod concurrency_advice;
pub(crate) mod load_minute;
pub(crate) mod times_by_use;
pub(crate) mod use_contrast;
