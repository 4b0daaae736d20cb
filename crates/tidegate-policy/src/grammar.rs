//! The small languages inside of settings, parsed once: where a request or its answer has a value,
//! which paths a route takes, and the addresses of servers.
//!
//! A checked policy has the parsed values. Protocols evaluate them and parse nothing.

mod path_pattern;
mod response_value;
mod server_url;
mod value_source;

pub use path_pattern::{PATTERN_BYTES_MAX, PathPattern};
pub use response_value::{FIELD_DEPTH_MAX, FIELDS_MAX, FieldPath, ResponseValue};
pub use server_url::ServerUrl;
pub(crate) use server_url::is_server_name;
pub use value_source::{SOURCE_BYTES_MAX, SourceScope, ValueSource};

/// Text that one of the languages does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}; {fix}")]
pub struct GrammarError {
    /// The problem, with the text in question.
    pub what: String,
    /// The text to write instead.
    pub fix: String,
}

impl GrammarError {
    fn new(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { what: what.into(), fix: fix.into() }
    }
}
