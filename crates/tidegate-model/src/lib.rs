//! The lease protocol of [`tidegate_core::lease`](https://docs.rs/tidegate) in every order of events
//! that small fleets allow.
//!
//! There is nothing to use here: the model and what it must satisfy are the tests of this crate.
//! `docs/internals/leases-proof.md` says what is modelled and what is not.
