//! Regular expressions where a glob belongs.

/// Whether a pattern of paths is certainly a regular expression.
///
/// Only `^` at the beginning and escapes make it certain: every other character may stand in a
/// path.
pub(super) fn is_expression(pattern: &str) -> bool {
    pattern.starts_with('^') || ["\\d", "\\w", "\\.", "\\/"].iter().any(|escape| pattern.contains(escape))
}

/// The glob that takes the same paths as a regular expression, if there is one.
pub(super) fn glob_of(expression: &str) -> Option<String> {
    let inner = expression.strip_prefix('^').unwrap_or(expression);
    let (inner, is_whole) = inner.strip_suffix('$').map_or((inner, false), |inner| (inner, true));
    // An end that takes anything makes a glob whose star takes anything.
    let open = ["(/.*)?", "(.*)", ".*", ".+"].iter().find_map(|end| inner.strip_suffix(end));
    let (inner, is_open) = open.map_or((inner, !is_whole), |inner| (inner, true));
    let mut glob = inner.to_owned();
    for segment in ["([^/]+)", "([^/]*)", "[^/]+", "[^/]*", "\\d+", "\\w+", "[0-9]+"] {
        glob = glob.replace(segment, "*");
    }
    let glob = glob.replace("\\.", ".").replace("\\/", "/").replace("\\-", "-");
    let is_plain = glob.starts_with('/')
        && !glob.contains(['(', ')', '[', ']', '|', '+', '?', '\\', '{', '}', '^', '$']);
    // A dot before a star is an expression inside, which stands for more than one segment.
    let glob = (is_plain && !glob.contains(".*")).then_some(glob)?;
    Some(if is_open && !glob.ends_with('*') { glob + "*" } else { glob })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issue_15_an_expression_is_known_and_turned_into_its_glob() {
        for (pattern, expected) in [
            ("^/x.*", Some("/x*")),
            ("^/v1/", Some("/v1/*")),
            ("^/v1/.*$", Some("/v1/*")),
            ("^/v1/check$", Some("/v1/check")),
            ("^/v1/[^/]+/items$", Some("/v1/*/items")),
            ("/v1/\\d+", Some("/v1/*")),
            ("/robots\\.txt$", Some("/robots.txt")),
            ("^/(a|b)/", None),
            ("^/a/.*/b$", None),
            ("^x", None),
        ] {
            assert!(is_expression(pattern), "{pattern}");
            assert_eq!(glob_of(pattern).as_deref(), expected, "{pattern}");
        }
        for path in ["/v1/*", "/files/*.*", "/.well-known/*", "/a+b", "/a(b)", "/$x", "x"] {
            assert!(!is_expression(path), "{path}");
        }
    }
}
