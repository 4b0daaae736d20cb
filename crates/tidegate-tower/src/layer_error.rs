//! Why a layer cannot be made.

use core::fmt;

/// Why an [`AdmitLayer`](crate::AdmitLayer) cannot be made. Its message names the value and says
/// what to use.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayerError {
    /// The engine has no such namespace.
    UnknownNamespace {
        /// The namespace that was asked for.
        namespace: String,
        /// Those that the engine has.
        known: Vec<String>,
    },
    /// The engine has no such resource.
    UnknownResource {
        /// The resource that was asked for.
        resource: String,
        /// Those that the engine has.
        known: Vec<String>,
    },
    /// No limit of the namespace looks at an attribute of the layer.
    UnusedAttribute {
        /// The namespace.
        namespace: String,
        /// The attribute.
        attribute: String,
        /// Those that its limits look at.
        known: Vec<String>,
    },
}

impl fmt::Display for LayerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownNamespace { namespace, known } => {
                write!(f, "namespace \"{namespace}\" does not exist; use {}", Choices(known))
            }
            Self::UnknownResource { resource, known } if known.is_empty() => {
                write!(
                    f,
                    "resource \"{resource}\" does not exist; give the engine an overload plane that has it"
                )
            }
            Self::UnknownResource { resource, known } => {
                write!(f, "resource \"{resource}\" does not exist; use {}", Choices(known))
            }
            Self::UnusedAttribute { namespace, attribute, known } => write!(
                f,
                "no limit of namespace \"{namespace}\" looks at attribute \"{attribute}\"; use {}, or remove it",
                Choices(known)
            ),
        }
    }
}

impl core::error::Error for LayerError {}

/// Names to choose from: `"a", "b" or "c"`.
struct Choices<'a>(&'a [String]);

impl fmt::Display for Choices<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((last, others)) = self.0.split_last() else { return f.write_str("nothing, there are none") };
        for (at, name) in others.iter().enumerate() {
            write!(f, "{}\"{name}\"", if at == 0 { "" } else { ", " })?;
        }
        write!(f, "{}\"{last}\"", if others.is_empty() { "" } else { " or " })
    }
}
