//! Regular expressions where a glob belongs.

/// For a pattern of paths that is certainly a regular expression: the glob to write instead, if it has an equal one.
///
/// Only `^` at the beginning and escapes make it certain: every other character may stand in a path.
pub(in crate::check) fn glob_of(pattern: &str) -> Option<Option<String>> {
    let is_expression = pattern.starts_with('^')
        || ["\\d", "\\w", "\\.", "\\/"].iter().any(|escape| pattern.contains(escape));
    is_expression.then(|| glob(pattern))
}

fn glob(expression: &str) -> Option<String> {
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
            assert_eq!(glob_of(pattern), Some(expected.map(str::to_owned)), "{pattern}");
        }
        for path in ["/v1/*", "/files/*.*", "/.well-known/*", "/a+b", "/a(b)", "/$x", "x"] {
            assert_eq!(glob_of(path), None, "{path}");
        }
    }
}
