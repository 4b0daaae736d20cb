//! The migrations of `docs/migration.md`, end to end: its files, commands and outputs, with the
//! real programs that it migrates from.
//!
//! Every block of the page that is carried out here is read from the page, so that neither can
//! change alone. A program that is not installed is a test skipped.

mod envoy_ratelimit;
mod limit_req;
mod limit_req_numbers;
mod redis_cell;
mod side_by_side;
mod workshop;
