//! The artifacts of `cargo xtask dist` as a user meets them: unpacked, installed, started.
//!
//! Each part is a trial of the suite `packages` and takes its artifact from the folder that `cargo
//! xtask dist` wrote ([`RunContext::artifact`](crate::attack::RunContext)). A part ends with
//! [`Failure::Skipped`](crate::attack::Failure) and the reason where this machine lacks a tool or
//! `dist` made no such artifact; a claim inside of a part is skipped by `Findings::claimed`.
//!
//! - `suite`: the tables of the parts
//! - `archive`: the archive in a root with Debian's base and nothing else
//! - `debian`: the package of Debian, in a root and under a running systemd
//! - `image`: the image for containers, as its own root and by `buildah`
//! - `reproduction`: everything made again in another folder, compared byte by byte
//! - `deploy_files`: checks of the files of `deploy` that the gate leaves out
//! - `rolling_update`: the chart's fleet replaced under calls, with `balancer` and `rendered_chart`
//! - `root`, `container`: a folder as the root of processes, alone and as a runtime confines it
//! - `served`: a daemon in such a root
//! - `decisions`: the first minute, and a table of decisions over HTTP and RESP

#![expect(clippy::cast_precision_loss, reason = "sizes and counts are far below 2^52")]

mod archive;
mod balancer;
mod buildah;
mod container;
mod debian;
mod decisions;
mod deploy_files;
mod image;
mod rendered_chart;
mod reproduction;
mod rolling_update;
mod root;
mod served;
pub mod suite;
