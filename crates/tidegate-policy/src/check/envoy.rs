//! Checks how the files of envoyproxy/ratelimit are taken.

use super::name_and_path::check_path;
use crate::path::Path;
use crate::policy::envoy::{EnvoyRatelimit, Headers, Semantics, Settings};
use crate::printable::shown;
use crate::problem::Report;
use crate::raw::envoy::{EnvoyHeadersConfig, EnvoyRatelimitConfig};

/// The longest name of a header in bytes.
const HEADER_BYTES_MAX: usize = 128;

pub(super) fn envoy(raw: &EnvoyRatelimitConfig, path: &Path, report: &mut Report<'_>) -> EnvoyRatelimit {
    check_path("the files", &raw.path, &path.key("path"), report);
    let semantics = raw.semantics.unwrap_or_default();
    let stop = raw.stop_increment_when_over_limit.unwrap_or(false);
    if stop && semantics == Semantics::Tidegate {
        let fix = "remove it, or use `semantics: strict`";
        let what = "`semantics: tidegate` never charges what is refused";
        report.value(&path.key("stop_increment_when_over_limit"), what, fix);
    }
    let ratio =
        raw.near_limit_ratio.as_deref().map(|text| ratio(text, &path.key("near_limit_ratio"), report));
    EnvoyRatelimit {
        path: raw.path.clone(),
        settings: Settings {
            semantics,
            shadow: raw.shadow.unwrap_or(false),
            quota_mode: raw.quota_mode.unwrap_or(false),
            near_limit_ratio: ratio.unwrap_or(Settings::NEAR_LIMIT_RATIO_DEFAULT),
            headers: headers(raw.headers.as_ref(), &path.key("headers"), report),
            dynamic_metadata: raw.dynamic_metadata.unwrap_or(false),
            merge_domains: raw.merge_domains.unwrap_or(false),
            stop_increment_when_over_limit: stop,
        },
    }
}

fn ratio(text: &str, path: &Path, report: &mut Report<'_>) -> f32 {
    match text.parse::<f32>() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => ratio,
        _ => {
            let what = format!("near_limit_ratio \"{}\" is not a part of a limit", shown(text));
            report.value(path, what, "write a decimal from 0 to 1, for example 0.8");
            Settings::NEAR_LIMIT_RATIO_DEFAULT
        }
    }
}

fn headers(raw: Option<&EnvoyHeadersConfig>, path: &Path, report: &mut Report<'_>) -> Headers {
    let mut headers = Headers::default();
    let Some(raw) = raw else { return headers };
    headers.enabled = raw.enabled.unwrap_or(false);
    headers.retry_after = raw.retry_after.unwrap_or(false);
    for (key, given, name) in [
        ("limit", &raw.limit, &mut headers.limit),
        ("remaining", &raw.remaining, &mut headers.remaining),
        ("reset", &raw.reset, &mut headers.reset),
    ] {
        let Some(given) = given else { continue };
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if given.is_empty() || given.len() > HEADER_BYTES_MAX || !given.chars().all(is_token) {
            let what = format!("\"{}\" is not the name of a header", shown(given));
            let fix = format!("use 1 to {HEADER_BYTES_MAX} letters, digits and dashes");
            report.value(&path.key(key), what, fix);
        }
        name.clone_from(given);
    }
    headers
}
