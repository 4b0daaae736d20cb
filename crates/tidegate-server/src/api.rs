//! The HTTP API: its routes, the operations behind them, and how requests are read and answered.

pub(crate) mod authorize;
pub(crate) mod body;
pub(crate) mod browser_guard;
pub(crate) mod described_request;
pub(crate) mod http_api;
pub(crate) mod http_metrics;
#[cfg(test)]
pub(crate) mod openapi;
pub(crate) mod operations;
pub(crate) mod parameters;
pub(crate) mod route;
pub(crate) mod routes;
pub(crate) mod terms;
