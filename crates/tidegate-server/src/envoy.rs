//! Domains of envoyproxy/ratelimit's files: the files, and the decisions by them.

pub(crate) mod carried_keys;
pub(crate) mod envoy_files;
pub(crate) mod file_domains;
pub(crate) mod followed_files;
