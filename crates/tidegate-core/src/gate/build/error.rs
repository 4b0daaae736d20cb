//! The reasons why limits are rejected when a gate is built.

use crate::limit::LimitError;
use crate::table::{SpecOwner, Specs};

/// A reason why a gate cannot be built from the given limits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GateError {
    /// A name that is empty.
    #[error("limit \"\": a name has 1 to 128 bytes; name it")]
    NameEmpty,
    /// A name above [`Limit::NAME_BYTES_MAX`](crate::Limit::NAME_BYTES_MAX).
    #[error("limit \"{limit}\": a name has 1 to 128 bytes, and this one {bytes}; shorten it")]
    NameTooLong {
        /// Its beginning.
        limit: String,
        /// Its length.
        bytes: usize,
    },
    /// Numbers of a limit.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// Two limits of one name.
    #[error("duplicate limit \"{0}\"; rename one of them")]
    DuplicateName(String),
    /// More attributes in a key than [`Limit::KEY_PARTS_MAX`](crate::Limit::KEY_PARTS_MAX).
    #[error("limit \"{limit}\": {parts} attributes in `key`; use at most 16")]
    KeyTooLong {
        /// The limit.
        limit: String,
        /// The attributes in its key.
        parts: usize,
    },
    /// An attribute twice in a key.
    #[error("limit \"{limit}\": duplicate attribute \"{attribute}\" in `key`; remove one")]
    DuplicateKeyPart {
        /// The limit.
        limit: String,
        /// The attribute.
        attribute: String,
    },
    /// An override for an attribute the limit does not count by, or without attributes.
    #[error(
        "limit \"{limit}\": an override needs attributes of `key`, and \"{attribute}\" is not one of them; use an attribute of `key`"
    )]
    OverrideAttribute {
        /// The limit.
        limit: String,
        /// The attribute; empty if the override names none.
        attribute: String,
    },
    /// An override, or the numbers of a plan, with another algorithm.
    #[error("limit \"{limit}\": numbers for {given} of a limit that uses {expected}; use {expected}")]
    OverrideAlgorithm {
        /// The limit.
        limit: String,
        /// The algorithm of the limit.
        expected: &'static str,
        /// The algorithm of the override.
        given: &'static str,
    },
    /// The plans of the namespace.
    #[error("plans of namespace \"{namespace}\": {why}")]
    Plans {
        /// The namespace.
        namespace: String,
        /// The problem and the fix.
        why: String,
    },
    /// Numbers of a limit for a plan.
    #[error("limit \"{limit}\": plan \"{plan}\" {why}")]
    PlanNumbers {
        /// The limit.
        limit: String,
        /// The plan.
        plan: String,
        /// The problem and the fix.
        why: &'static str,
    },
    /// A time zone from an attribute for a limit that has no time zone.
    #[error(
        "limit \"{limit}\": a time zone from an attribute belongs to `calendar`, not to `{algorithm}`; remove it"
    )]
    ZoneFrom {
        /// The limit.
        limit: String,
        /// Its algorithm.
        algorithm: &'static str,
    },
    /// More rows in the cost table of a namespace than
    /// [`CostRow::MAX`](crate::limit::CostRow::MAX).
    #[error("namespace \"{namespace}\": {rows} rows in the cost table; use at most 1024")]
    TooManyCosts {
        /// The namespace.
        namespace: String,
        /// The number of rows.
        rows: usize,
    },
    /// The limits over this table have had as many distinct sets of
    /// [`Limit::refund_on`](crate::Limit::refund_on) as can be told apart, 255.
    #[error(
        "limit \"{0}\": there have been 255 different sets of outcomes to refund on since the start; use one of them, or restart"
    )]
    TooManyRefundSets(String),
    /// A block of no length or longer than 366 days.
    #[error("limit \"{0}\": `block` is not between 1us and 366d; use a span in that range")]
    Block(String),
    /// More limits in a namespace than [`GateBuilder::LIMITS_MAX`](crate::GateBuilder::LIMITS_MAX).
    #[error("namespace \"{namespace}\" has {limits} limits; use at most 1024, or split it")]
    TooManyLimits {
        /// The namespace.
        namespace: String,
        /// The number of its limits.
        limits: usize,
    },
    /// More distinct attributes than
    /// [`GateBuilder::ATTRIBUTES_MAX`](crate::GateBuilder::ATTRIBUTES_MAX).
    #[error("namespace \"{namespace}\" looks at {attributes} attributes; use at most 256")]
    TooManyAttributes {
        /// The namespace.
        namespace: String,
        /// The number of attributes that its limits use.
        attributes: usize,
    },
    /// The table holds as many distinct sets of numbers as it can tell apart, or the run-time
    /// overrides of this namespace hold their share of them. Those that no limit uses any more are
    /// reclaimed by [`KeyTable::reclaim_spec_numbers`](crate::KeyTable::reclaim_spec_numbers), so
    /// this usually passes within seconds.
    #[error("limit \"{limit}\": {why}; retry in a few seconds, or use numbers that another override has")]
    TooManySpecs {
        /// The limit.
        limit: String,
        /// Which bound was reached.
        why: String,
    },
    /// A limit with `Consistency::Leased` whose algorithm, or that of an override, cannot be
    /// leased.
    #[error("limit \"{limit}\": {why}")]
    NotLeasable {
        /// The limit.
        limit: String,
        /// The problem with its numbers, and the fix.
        why: crate::lease::TermsError,
    },
}

/// The error for an algorithm that got no spec number.
pub(super) fn too_many(limit: String, owner: SpecOwner) -> GateError {
    let why = if owner.is_run_time {
        format!(
            "run-time overrides of this namespace hold {} different sets of numbers, in force or not yet reclaimed",
            Specs::AT_RUN_TIME_MAX
        )
    } else {
        format!("the table already tells {} different sets of numbers apart", Specs::MAX)
    };
    GateError::TooManySpecs { limit, why }
}
