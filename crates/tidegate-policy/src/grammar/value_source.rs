//! Where a value of a request is found, as a policy writes it.

use core::fmt;
use core::str::FromStr;

use http::HeaderName;

use super::GrammarError;
use crate::printable::shown;

/// The longest source in bytes. Above it: refused when the configuration is read.
pub const SOURCE_BYTES_MAX: usize = 256;

/// The part of a request that a value is, written as in a policy:
///
/// | written | is |
/// |---|---|
/// | `header.x-api-key` | the header of that name |
/// | `cookie.sid` | the cookie of that name, exactly as it is written |
/// | `query.key` | the parameter of that name in the query, decoded |
/// | `path` | the whole path, decoded |
/// | `path.0` | a segment of the path, decoded and counted from 0 |
/// | `method` | the method |
/// | `host` | the host that was asked for, in lower case, without a port and without a dot at its end |
/// | `jwt.sub`, `jwt.org.id`, `jwt."https://example.com/tenant"` | a claim of the token, or one inside of it |
/// | `client_ip` | the address of the client behind the proxies that are trusted |
/// | `entry.user` | the entry of that name in an Envoy descriptor, or the attribute of that name at the API |
/// | `log.user` | the field of that name in a log |
/// | `"text"` | that text for every request |
///
/// [`SourceScope`] says which of them a request of a protocol has.
///
/// ```
/// # use tidegate_policy::grammar::{SourceScope, ValueSource};
/// let organisation = ValueSource::parse("jwt.org.id", SourceScope::Proxied)?;
/// assert_eq!(organisation, ValueSource::Claim(vec!["org".to_owned(), "id".to_owned()]));
/// // A request that is described by names and values has no headers.
/// let error = ValueSource::parse("header.x-api-key", SourceScope::Described).unwrap_err();
/// assert_eq!(error.fix, "write entry.NAME, or text in double quotes");
/// # Ok::<(), tidegate_policy::grammar::GrammarError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValueSource {
    /// `header.NAME`.
    Header(HeaderName),
    /// `cookie.NAME`.
    Cookie(String),
    /// `query.NAME`.
    Query(String),
    /// `path.N`.
    Segment(usize),
    /// `path`.
    Path,
    /// `method`.
    Method,
    /// `host`.
    Host,
    /// `jwt.CLAIM`: names from the outside in.
    Claim(Vec<String>),
    /// `client_ip`.
    ClientIp,
    /// `entry.NAME`.
    Entry(String),
    /// `log.NAME`.
    Log(String),
    /// `"text"`.
    Constant(String),
}

/// The requests in which a source is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceScope {
    /// A request that the reverse proxy passes on.
    Proxied,
    /// A request that is described by names and values: Envoy's descriptors, `TG.CHECK`, gateway
    /// subrequests and the bodies of the API.
    Described,
    /// Any of these requests, for a source that each protocol reads if it can.
    Any,
}

impl SourceScope {
    /// The sources that such a request has, for messages.
    const fn sources(self) -> &'static str {
        match self {
            Self::Proxied => {
                "header.NAME, cookie.NAME, query.NAME, path, path.N, method, host, jwt.CLAIM, client_ip, or text in \
                 double quotes"
            }
            Self::Described => "entry.NAME, or text in double quotes",
            Self::Any => {
                "header.NAME, cookie.NAME, query.NAME, path, path.N, method, host, jwt.CLAIM, client_ip, entry.NAME, \
                 or text in double quotes"
            }
        }
    }

    /// Whether such a request has the source.
    pub const fn has(self, source: &ValueSource) -> bool {
        match source {
            ValueSource::Constant(_) => true,
            ValueSource::Entry(_) => matches!(self, Self::Described | Self::Any),
            ValueSource::Log(_) => false,
            _ => matches!(self, Self::Proxied | Self::Any),
        }
    }
}

const KINDS: [&str; 11] = [
    "header.NAME",
    "cookie.NAME",
    "query.NAME",
    "path.N",
    "path",
    "method",
    "host",
    "jwt.CLAIM",
    "client_ip",
    "entry.NAME",
    "log.NAME",
];

impl ValueSource {
    /// Parses the text of a policy. A source that requests of `scope` do not have is an error.
    pub fn parse(text: &str, scope: SourceScope) -> Result<Self, GrammarError> {
        let source = Self::parse_any(text, scope)?;
        if scope.has(&source) {
            return Ok(source);
        }
        let what = match (&source, scope) {
            (Self::Log(_), _) | (_, SourceScope::Any) => {
                "is a field of a log, and limits that read logs are not available in this version"
            }
            (_, SourceScope::Proxied) => "is an entry of a descriptor, and a proxied request has none",
            (_, SourceScope::Described) => "is a part of an HTTP request that only the reverse proxy sees",
        };
        let fix = format!("write {}", scope.sources());
        Err(GrammarError::new(format!("\"{}\" {what}", shown(text)), fix))
    }

    fn parse_any(text: &str, scope: SourceScope) -> Result<Self, GrammarError> {
        let wrong = |why: &str, fix: &str| {
            let fix = if fix.is_empty() { format!("write {}", scope.sources()) } else { fix.to_owned() };
            GrammarError::new(format!("\"{}\" is not a source of a value: {why}", shown(text)), fix)
        };
        if text.len() > SOURCE_BYTES_MAX {
            return Err(wrong("it is longer than 256 bytes", "use a shorter name"));
        }
        if let Some(rest) = text.strip_prefix('"') {
            let inner = rest.strip_suffix('"').filter(|inner| !inner.contains('"'));
            let constant = inner.ok_or_else(|| wrong("it is not quoted to its end", "write \"text\""))?;
            return Ok(Self::Constant(constant.to_owned()));
        }
        let (kind, name) = text.split_once('.').map_or((text, None), |(kind, name)| (kind, Some(name)));
        Ok(match (kind, name) {
            ("path", None) => Self::Path,
            ("method", None) => Self::Method,
            ("host", None) => Self::Host,
            ("client_ip", None) => Self::ClientIp,
            ("header", Some(name)) => {
                let name = HeaderName::try_from(name);
                Self::Header(name.map_err(|_| {
                    wrong(
                        "no header name follows the dot",
                        "use letters, digits and hyphens, as in header.x-user",
                    )
                })?)
            }
            ("cookie", Some(name)) => {
                let is_name = |byte: u8| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?={}".contains(&byte);
                if name.is_empty() || !name.bytes().all(is_name) {
                    return Err(wrong("no cookie name follows the dot", "write it as in cookie.sid"));
                }
                Self::Cookie(name.to_owned())
            }
            ("query", Some(name)) if !name.is_empty() => Self::Query(name.to_owned()),
            ("entry", Some(name)) if !name.is_empty() => Self::Entry(name.to_owned()),
            ("log", Some(name)) if !name.is_empty() => Self::Log(name.to_owned()),
            ("query" | "entry" | "log", Some(_)) => {
                return Err(wrong("no name follows the dot", &format!("write it as in {kind}.user")));
            }
            ("path", Some(index)) => {
                let is_index = index.len() <= 4 && index.bytes().all(|byte| byte.is_ascii_digit());
                let index = index.parse().ok().filter(|_| is_index);
                Self::Segment(index.ok_or_else(|| {
                    wrong("no number from 0 to 9999 follows the dot", "write path.0 for the first segment")
                })?)
            }
            ("jwt", Some(claim)) => Self::Claim(name_path(claim).ok_or_else(|| {
                wrong("no claim follows the dot", "write jwt.sub, jwt.org.id or jwt.\"a.name.with.dots\"")
            })?),
            _ => return Err(wrong("it names no part of a request", &resembled(kind).unwrap_or_default())),
        })
    }

    /// Whether the text begins as a source, or nearly so, rather than as the name of a header.
    pub(crate) fn has_kind(text: &str) -> bool {
        match text.split_once('.') {
            Some((kind, _)) => resembled(kind).is_some(),
            None => text.starts_with('"') || KINDS.contains(&text),
        }
    }

    /// Whether a client can write it as it likes. Claims of a verified token and constants are not
    /// the client's.
    pub const fn is_of_client(&self) -> bool {
        !matches!(self, Self::Claim(_) | Self::Constant(_))
    }
}

/// The names in `a."b.c".d`; `None` if one is empty or a quotation mark is left open.
pub(super) fn name_path(text: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut rest = text;
    loop {
        let (name, tail) = if let Some(quoted) = rest.strip_prefix('"') {
            let (name, tail) = quoted.split_once('"')?;
            (name, if tail.is_empty() { None } else { Some(tail.strip_prefix('.')?) })
        } else {
            rest.split_once('.').map_or((rest, None), |(name, tail)| (name, Some(tail)))
        };
        if name.is_empty() || name.contains('"') {
            return None;
        }
        names.push(name.to_owned());
        match tail {
            Some(tail) => rest = tail,
            None => return Some(names),
        }
    }
}

/// Writes the names as [`name_path`] reads them, each behind a dot.
pub(super) fn write_name_path(f: &mut fmt::Formatter<'_>, names: &[String]) -> fmt::Result {
    for name in names {
        if name.contains(['.', '+']) { write!(f, ".\"{name}\"")? } else { write!(f, ".{name}")? }
    }
    Ok(())
}

/// For an unknown kind: the known one that it resembles, as a proposal.
fn resembled(kind: &str) -> Option<String> {
    if let Some(known) = KINDS.iter().find(|known| known.split('.').next() == Some(kind)) {
        return Some(format!("write {known}"));
    }
    let resembled = KINDS.iter().find(|known| {
        let known = known.split('.').next().unwrap_or(known);
        kind.len() >= 3
            && (known.starts_with(kind) || kind.eq_ignore_ascii_case(known) || kind.starts_with(known))
    });
    resembled.map(|known| format!("did you mean {known}?"))
}

/// Parses the source of a proxied request.
impl FromStr for ValueSource {
    type Err = GrammarError;

    fn from_str(text: &str) -> Result<Self, GrammarError> {
        Self::parse(text, SourceScope::Proxied)
    }
}

/// As it is written in a policy.
impl fmt::Display for ValueSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header.{name}"),
            Self::Cookie(name) => write!(f, "cookie.{name}"),
            Self::Query(name) => write!(f, "query.{name}"),
            Self::Segment(index) => write!(f, "path.{index}"),
            Self::Path => f.write_str("path"),
            Self::Method => f.write_str("method"),
            Self::Host => f.write_str("host"),
            Self::Claim(names) => {
                f.write_str("jwt")?;
                write_name_path(f, names)
            }
            Self::ClientIp => f.write_str("client_ip"),
            Self::Entry(name) => write!(f, "entry.{name}"),
            Self::Log(name) => write!(f, "log.{name}"),
            Self::Constant(text) => write!(f, "\"{text}\""),
        }
    }
}

#[cfg(test)]
mod tests;
