//! Where the value of an attribute comes from, as a policy writes it.

use core::fmt;
use core::str::FromStr;

use http::HeaderName;
use tidegate_wire::text::shortened;

/// The longest expression in bytes. Above it: refused when the configuration is read.
pub const SOURCE_BYTES_MAX: usize = 256;

/// The part of a request that an attribute is, written as in a policy:
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
/// | `"text"` | that text for every request |
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttributeSource {
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
    /// `"text"`.
    Constant(String),
}

/// Text that says no part of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("attribute source \"{source}\" {what}; {fix}", source = .text)]
pub struct NotASource {
    /// The text, of which the message shows at most 64 bytes.
    pub text: String,
    /// The problem.
    pub what: &'static str,
    /// The text to write instead.
    pub fix: String,
}

const KINDS: [&str; 9] = [
    "header.NAME",
    "cookie.NAME",
    "query.NAME",
    "path.N",
    "path",
    "method",
    "host",
    "jwt.CLAIM",
    "client_ip",
];

impl AttributeSource {
    /// Parses the text of a policy.
    pub fn parse(text: &str) -> Result<Self, NotASource> {
        let wrong = |what, fix: &str| NotASource { text: shortened(text, 64).into(), what, fix: fix.into() };
        if text.len() > SOURCE_BYTES_MAX {
            return Err(wrong("is longer than 256 bytes", "use a shorter name"));
        }
        if let Some(rest) = text.strip_prefix('"') {
            let inner = rest.strip_suffix('"').filter(|inner| !inner.contains('"'));
            let constant = inner.ok_or_else(|| wrong("is not quoted to its end", "write \"text\""))?;
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
                    wrong("has no header name behind the dot", "use letters, digits and hyphens")
                })?)
            }
            ("cookie", Some(name)) => {
                let is_name = |byte: u8| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?={}".contains(&byte);
                if name.is_empty() || !name.bytes().all(is_name) {
                    return Err(wrong("has no cookie name behind the dot", "write it as in cookie.sid"));
                }
                Self::Cookie(name.to_owned())
            }
            ("query", Some(name)) if !name.is_empty() => Self::Query(name.to_owned()),
            ("query", Some(_)) => {
                return Err(wrong("names no parameter", "write its name decoded, as in query.key"));
            }
            ("path", Some(index)) => {
                let is_index = index.len() <= 4 && index.bytes().all(|byte| byte.is_ascii_digit());
                let index = index.parse().ok().filter(|_| is_index);
                Self::Segment(index.ok_or_else(|| {
                    wrong("has no segment from 0 to 9999 behind the dot", "write path.0 for the first one")
                })?)
            }
            ("jwt", Some(claim)) => Self::Claim(claim_path(claim).ok_or_else(|| {
                wrong("has no claim behind the dot", "write jwt.sub, jwt.org.id or jwt.\"a.name.with.dots\"")
            })?),
            _ => return Err(wrong("says no part of a request", &suggestion(text, kind))),
        })
    }
}

/// The names in `a."b.c".d`; `None` if one is empty or a quotation mark is left open.
fn claim_path(text: &str) -> Option<Vec<String>> {
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

/// For something unknown: the known that it resembles most, or all of them.
fn suggestion(text: &str, kind: &str) -> String {
    if let Some(known) = KINDS.iter().find(|known| known.split('.').next() == Some(kind)) {
        return format!("write {known}");
    }
    let resembled = KINDS.iter().find(|known| {
        let known = known.split('.').next().unwrap_or(known);
        kind.len() >= 3
            && (known.starts_with(kind) || kind.eq_ignore_ascii_case(known) || kind.starts_with(known))
    });
    match resembled {
        Some(known) => format!("did you mean {known}?"),
        None => format!(
            "write one of {}, or \"{}\" in quotation marks for that text",
            KINDS.join(", "),
            shortened(text, 32)
        ),
    }
}

impl FromStr for AttributeSource {
    type Err = NotASource;

    fn from_str(text: &str) -> Result<Self, NotASource> {
        Self::parse(text)
    }
}

/// As it is written in a policy.
impl fmt::Display for AttributeSource {
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
                for name in names {
                    if name.contains('.') { write!(f, ".\"{name}\"")? } else { write!(f, ".{name}")? }
                }
                Ok(())
            }
            Self::ClientIp => f.write_str("client_ip"),
            Self::Constant(text) => write!(f, "\"{text}\""),
        }
    }
}
