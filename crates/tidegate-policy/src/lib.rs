//! Tidegate's configuration: from YAML text to checked settings, or to every problem at once.
//!
//! ```
//! use tidegate_policy::{Policy, parse};
//!
//! let checked = parse("example.yaml", Policy::example(), &|_name| None)?;
//! assert_eq!(checked.policy.namespaces[0].limits.len(), 2);
//!
//! let text = "namespaces: { api: { limits: [{ name: reads, rate: 0/s }] } }";
//! let problems = parse("tidegate.yaml", text, &|_name| None).unwrap_err();
//! assert_eq!(
//!     problems.to_string(),
//!     "tidegate.yaml:1:52: namespaces.api.limits[0].rate: rate \"0/s\" admits nothing; \
//!      use at least 1 unit, or block the key",
//! );
//! # Ok::<(), tidegate_policy::Problems>(())
//! ```
//!
//! Nothing here reads a file or the environment: text and variables are passed in. The way is: YAML
//! text to a tree with positions, the tree against the schema of the raw types, the raw types to a
//! [`Policy`].

pub mod envoy;
pub mod grammar;
pub mod policy;

mod check;
mod compare;
mod environment;
mod measure;
mod numbers;
mod parse;
mod path;
mod planned;
mod printable;
mod problem;
mod raw;
mod reference;
mod schema;
mod setting_tree;
mod shape;
mod suggestion;
mod tree;
mod words;

/// The bounds of a configuration file; a file beyond one of them is refused as a whole.
pub mod bounds {
    pub use crate::tree::{DEPTH_MAX, DOCUMENT_BYTES_MAX, NODES_MAX, SCALAR_BYTES_MAX, TEXT_BYTES_MAX};
}

pub use check::document::{DeferralEntries, DocumentCheck, FeatureEntries, LoadLevelEntries};
pub use compare::{Change, Comparison, Fate, LimitChange, SettingChange, compare};
pub use numbers::{OverrideNumbers, parse_numbers};
pub use parse::{Checked, parse, parse_bytes, parse_document, parse_document_with};
pub use policy::{NamespacePolicy, Policy};
pub use problem::{PROBLEMS_MAX, Problem, Problems};
pub use reference::{ReferencePage, reference, reference_pages};
pub use schema::schema;
#[cfg(any(test, feature = "schema"))]
pub use schema::schema_of;
pub use suggestion::nearest;
pub use tidegate_core::rate::parse_span;
pub use words::words;
