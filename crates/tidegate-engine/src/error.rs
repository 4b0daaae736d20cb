//! The errors of an engine, one enum for each phase: making it, asking it, and administering it.

use tidegate_capacity::CapacityError;
use tidegate_core::{GateError, Timestamp};
use tidegate_overload::{FeaturePinError, InstanceError, OverloadError, SignalError};
use tidegate_store::StoreError;

use crate::notes::NoteError;
use crate::permit_id::PermitId;

/// Why an engine could not be built, or could not be built anew after a change of its settings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Two namespaces of one name, or one without a name.
    #[error("namespace \"{0}\" is a duplicate, empty, or longer than 128 bytes; rename it")]
    NamespaceName(String),
    /// A namespace with limits that make no gate.
    #[error("namespace \"{namespace}\" has limits that cannot be used")]
    Limits {
        /// The namespace.
        namespace: String,
        /// The limit and its problem.
        source: GateError,
    },
    /// Tables or nodes that cannot be, or cannot follow those that there are.
    #[error(transparent)]
    Tables(CapacityError),
    /// Resources that cannot be.
    #[error(transparent)]
    Resources(OverloadError),
    /// More overrides from before a restart, or of other members, than can be set at run time.
    #[error("more than {max} run-time overrides; remove some in the store", max = crate::RUNTIME_OVERRIDES_MAX)]
    TooManyOverrides,
}

/// Why the engine could not decide a request, or could not carry out an operation on counters.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// No such namespace.
    #[error("namespace \"{0}\" does not exist; use one of the policy's, or add it")]
    UnknownNamespace(String),
    /// No such limit in the namespace, or it does not apply to the request.
    #[error(
        "limit \"{limit}\" of namespace \"{namespace}\" does not exist or does not apply to these attributes"
    )]
    UnknownLimit {
        /// The namespace.
        namespace: String,
        /// The limit.
        limit: String,
    },
    /// An operation on the key of a limit lacks an attribute of it.
    #[error("limit \"{limit}\" counts by {key}, and \"{lacks}\" is missing")]
    KeyIncomplete {
        /// The limit.
        limit: String,
        /// The attributes of its key, with commas.
        key: String,
        /// The first that is missing.
        lacks: String,
    },
    /// No such permit, or not any more.
    #[error("permit {0} is not held: it was settled before, has expired, or was never given")]
    UnknownPermit(PermitId),
    /// The namespace keeps as many permits as it may: its share of all.
    #[error("the namespace keeps as many permits as its share of {0} allows; settle or release some")]
    TooManyPermits(usize),
    /// The namespace has as many refund keys remembered as it may: its share of all.
    #[error("no room to remember another refund before {until}; nothing was given back, repeat it then")]
    RefundKeysFull {
        /// When the oldest is forgotten.
        until: Timestamp,
    },
    /// The table has no room for another key.
    #[error(transparent)]
    TableFull(#[from] tidegate_core::gate::TableFull),
    /// An access to a table that the namespace lacks.
    #[error(
        "namespace \"{namespace}\" has no table \"{table}\"; leave the access out, or name a table that it has"
    )]
    UnknownTable {
        /// The namespace.
        namespace: String,
        /// The table.
        table: String,
    },
    /// An access that the capacity plane cannot place.
    #[error(transparent)]
    Access(#[from] CapacityError),
    /// The store did not carry out what it was asked.
    #[error("the store did not answer, and what it does not count was left as it is; repeat it")]
    Store(#[source] StoreError),
    /// A permit of a limit whose algorithm has no form in a store.
    #[error("a permit of a {0} limit cannot be kept over a restart; settle it in the process that has it")]
    Unstorable(&'static str),
    /// A limit that arrived with the request cannot be used.
    #[error(transparent)]
    Carry(#[from] tidegate_core::CarryError),
    /// The key of an exact limit is too long for a store.
    #[error("the key of an exact limit is too long for a store")]
    KeyTooLong(#[source] StoreError),
}

/// Why a change to a running engine was not made: an override, an event, a note from before a
/// restart.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// The change names something that the engine does not have, or that has no room.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The engine cannot be built with the change.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A placement of a table's partition, without a capacity plane that has tables.
    #[error(
        "table \"{table}\" cannot be placed: this engine has no capacity plane; set one with `EngineBuilder::capacity`, or leave the placement out"
    )]
    NoCapacityPlane {
        /// The table.
        table: String,
    },
    /// No such resource.
    #[error("resource \"{0}\" does not exist; use one that the overload plane was built with")]
    UnknownResource(String),
    /// A report of an instance that the overload plane cannot take in.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// A value of a pushed signal that the overload plane cannot take in.
    #[error(transparent)]
    Signal(#[from] SignalError),
    /// A pin of a feature that the overload plane cannot set.
    #[error(transparent)]
    FeaturePin(#[from] FeaturePinError),
    /// A pin of a feature with a text that is too long.
    #[error("`{what}` of a pin has {bytes} bytes; use at most {max}", max = crate::FeaturePinning::TEXT_BYTES_MAX)]
    FeaturePinText {
        /// The text.
        what: &'static str,
        /// Its bytes.
        bytes: usize,
    },
    /// A note that cannot be read.
    #[error(transparent)]
    Note(#[from] NoteError),
    /// As many overrides as can be set at run time are set.
    #[error("limit of {max} run-time overrides reached; remove one", max = crate::RUNTIME_OVERRIDES_MAX)]
    TooManyOverrides,
    /// One namespace has set as many overrides as leave the others their shares.
    #[error(
        "namespace \"{namespace}\" has used its share of the {max} run-time overrides; remove one of its own",
        max = crate::RUNTIME_OVERRIDES_MAX
    )]
    TooManyOverridesHere {
        /// The namespace.
        namespace: String,
    },
    /// No such override.
    #[error(
        "limit \"{limit}\" of namespace \"{namespace}\" has no override set at run time for these attributes"
    )]
    UnknownOverride {
        /// The namespace.
        namespace: String,
        /// The limit.
        limit: String,
    },
    /// An override with a text that is too long, or that has expired already.
    #[error("override of limit \"{limit}\": {why}")]
    Override {
        /// The limit.
        limit: String,
        /// The error in it, and the remedy.
        why: String,
    },
}
