//! The grants of callers, as they are written.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use super::claims::ClassConfig;
use crate::policy::authorization::Verb;

/// The grant of a caller with a token or a certificate. Exactly one of `token_file`, `token` and
/// `certificate` identifies the caller.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "grant")]
pub(crate) struct GrantConfig {
    /// The name of the caller in logs. Default: the file, the certificate, or the place in this
    /// list.
    pub(crate) name: Option<String>,
    /// A file with tokens, one in each line: as they are, or as `sha256:` and 64 hexadecimal
    /// digits. Empty lines and lines that begin with `#` are ignored. A changed file is read within
    /// seconds. A token has 16 to 1024 characters.
    pub(crate) token_file: Option<String>,
    /// The token, as `sha256:` and 64 hexadecimal digits, which `tidegate token` prints, or from
    /// the environment as `${NAME}`.
    #[cfg_attr(test, schemars(extend("x-secret" = true)))]
    pub(crate) token: Option<String>,
    /// The name in a client's certificate of an authority in `tls.client_ca` of the listener: a URI
    /// such as `spiffe://prod/checkout`, or a host name.
    pub(crate) certificate: Option<String>,
    /// The namespaces of the grant; `"*"` is all of them. `CL.THROTTLE` counts in the namespace
    /// `resp`.
    pub(crate) namespaces: Vec<String>,
    /// The allowed verbs. Default: `[check]`.
    pub(crate) verbs: Option<Vec<Verb>>,
    /// The highest class that its requests may claim; a higher claim counts as this one. Default:
    /// `critical_plus`.
    pub(crate) ceiling: Option<ClassConfig>,
}
