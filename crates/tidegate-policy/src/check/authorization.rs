//! Checks the grants of callers. A message about a token never shows the token.

use tidegate_core::Class;

use super::claims::class_of;
use super::name_and_path::check_name;
use crate::path::Path;
use crate::policy::PATH_BYTES_MAX;
use crate::policy::authorization::{Credential, Grant, Namespaces, Secret, Verb, Verbs};
use crate::printable::shown;
use crate::problem::Report;
use crate::raw::authorization::GrantConfig;

const NAME_BYTES_MAX: usize = 128;
const CERTIFICATE_BYTES_MAX: usize = 1024;
const HASH: &str = "sha256:";
const HASH_DIGITS: usize = 64;

pub(super) fn authorization(raw: Option<&[GrantConfig]>, path: &Path, report: &mut Report<'_>) -> Vec<Grant> {
    let Some(raw) = raw else { return Vec::new() };
    if raw.is_empty() {
        // An empty list is ambiguous: it could admit no caller or every caller.
        let fix = "add grants, or remove it to serve callers without authentication";
        report.value(path, "an empty list of grants", fix);
    }
    if !report.check_count(path, raw.len(), "grants", Grant::COUNT_MAX) {
        return Vec::new();
    }
    raw.iter().enumerate().filter_map(|(index, raw)| grant(raw, index, &path.index(index), report)).collect()
}

fn grant(raw: &GrantConfig, index: usize, path: &Path, report: &mut Report<'_>) -> Option<Grant> {
    let namespaces = namespaces(&raw.namespaces, &path.key("namespaces"), report);
    let verbs = verbs(raw, path, report);
    if namespaces != Namespaces::All {
        useless_verbs(verbs, &path.key("verbs"), report);
    }
    let credential = credential(raw, path, report)?;
    let name = raw.name.clone().unwrap_or_else(|| match &credential {
        Credential::TokenFile(file) => shortened(file),
        Credential::Certificate(name) => shortened(name),
        Credential::Token(_) => format!("authorization[{index}]"),
    });
    report.effective(&path.key("name"), name.as_str());
    check_name("grant", &name, NAME_BYTES_MAX, |what, fix| report.value(&path.key("name"), what, fix));
    let ceiling = raw.ceiling.map_or(Class::CriticalPlus, class_of);
    Some(Grant { name, credential, namespaces, verbs, ceiling })
}

fn shortened(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(NAME_BYTES_MAX / 4).collect()
}

fn verbs(raw: &GrantConfig, path: &Path, report: &mut Report<'_>) -> Verbs {
    let Some(verbs) = &raw.verbs else { return [Verb::Check].into_iter().collect() };
    if verbs.is_empty() {
        report.value(&path.key("verbs"), "a grant without verbs permits nothing", "name some, or remove it");
    }
    verbs.iter().copied().collect()
}

/// Warns about verbs that a grant needs all namespaces for.
fn useless_verbs(verbs: Verbs, path: &Path, report: &mut Report<'_>) {
    for (verb, things) in
        [(Verb::Inspect, "metrics and refused keys"), (Verb::Signal, "signals"), (Verb::Feature, "features")]
    {
        if verbs.has(verb) {
            let verb = verb.as_str();
            let what = format!("{things} are not of one namespace, so `{verb}` is of no use here");
            report.warn(path, what, format!("write `namespaces: [\"*\"]`, or leave `{verb}` out"));
        }
    }
}

fn namespaces(raw: &[String], path: &Path, report: &mut Report<'_>) -> Namespaces {
    if raw.is_empty() {
        let fix = "name some, or write `[\"*\"]` for all";
        report.value(path, "a grant without namespaces permits nothing", fix);
    }
    if raw.iter().any(|name| name == "*") {
        return Namespaces::All;
    }
    for (index, name) in raw.iter().enumerate() {
        let at = path.index(index);
        check_name("namespace", name, NAME_BYTES_MAX, |what, fix| report.value(&at, what, fix));
    }
    Namespaces::Some(raw.to_vec())
}

fn credential(raw: &GrantConfig, path: &Path, report: &mut Report<'_>) -> Option<Credential> {
    match (&raw.token_file, &raw.token, &raw.certificate) {
        (Some(file), None, None) => {
            if file.is_empty() || file.len() > PATH_BYTES_MAX || file.contains('\0') {
                let what = format!("\"{}\" is not the path of a file", shown(file));
                report.value(
                    &path.key("token_file"),
                    what,
                    format!("write a path of 1 to {PATH_BYTES_MAX} bytes"),
                );
            }
            Some(Credential::TokenFile(file.clone()))
        }
        (None, Some(token), None) => {
            if let Err((what, fix)) = check_token(token) {
                // The key, not the value: a secret must not be quoted.
                report.key(&path.key("token"), what, fix);
            }
            Some(Credential::Token(Secret::new(token)))
        }
        (None, None, Some(name)) => {
            if name.is_empty() || name.len() > CERTIFICATE_BYTES_MAX {
                let what = format!("the name of a certificate has {} bytes", name.len());
                report.value(
                    &path.key("certificate"),
                    what,
                    format!("write 1 to {CERTIFICATE_BYTES_MAX} bytes"),
                );
            }
            Some(Credential::Certificate(name.clone()))
        }
        (None, None, None) => {
            let fix = "add `token_file`, `token` or `certificate`";
            report.key(path, "the grant names no caller", fix);
            None
        }
        _ => {
            let what = "the grant has several of `token_file`, `token` and `certificate`";
            report.key(path, what, "write a grant for each");
            None
        }
    }
}

/// The problem of a token, without showing the token.
fn check_token(token: &str) -> Result<(), (String, String)> {
    if let Some(digits) = token.strip_prefix(HASH) {
        let is_hash = digits.len() == HASH_DIGITS && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let what = || format!("the token begins with {HASH} and is no hash");
        let fix =
            || format!("write {HASH} and {HASH_DIGITS} hexadecimal digits, as `tidegate token` prints them");
        if Grant::is_hash_of_nothing(token) {
            let what = "the token is the SHA-256 of nothing or of an empty line, so anybody would have it"
                .to_owned();
            return Err((what, "run `tidegate token`, and write the hash that it prints".to_owned()));
        }
        return if is_hash { Ok(()) } else { Err((what(), fix())) };
    }
    let is_plain = token.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_plain {
        let what = "the token has characters that cannot stand in a header".to_owned();
        return Err((what, "use printable ASCII without spaces".to_owned()));
    }
    if !(Grant::TOKEN_BYTES_MIN..=Grant::TOKEN_BYTES_MAX).contains(&token.len()) {
        let what = format!("the token has {} characters", token.len());
        let fix = format!("use {} to {}", Grant::TOKEN_BYTES_MIN, Grant::TOKEN_BYTES_MAX);
        return Err((what, fix));
    }
    Ok(())
}
