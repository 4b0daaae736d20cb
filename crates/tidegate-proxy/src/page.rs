//! The refusal page for browsers: the reason, and the time at which a retry is worth it.
//!
//! It loads nothing, runs one short script that counts down and reloads, and works without it.

use core::fmt::Write;
use core::time::Duration;

use http::header::{ACCEPT, HeaderMap};
use tidegate_core::display::HumanDuration;
use tidegate_core::{Refusal, Timestamp};
use tidegate_wire::problem::Sentence;
use tidegate_wire::retry_after;

/// The media type of the page.
pub(crate) const MEDIA_TYPE: &str = "text/html; charset=utf-8";

/// The permissions of the page: its own style and script, and nothing from another origin.
pub(crate) const SECURITY_POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; frame-ancestors 'none'";

/// The longest wait after which the page comes back by itself, in seconds. Beyond it a person
/// decides.
const RELOAD_SECONDS_MAX: u64 = 3600;

/// Whether the client is a browser that shows pages: it accepts HTML, and prefers it to JSON or
/// names it first.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    let (mut html, mut json) = (0, 0);
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    for range in values.flat_map(|value| value.split(',')) {
        let (media_type, parameters) = range.split_once(';').unwrap_or((range, ""));
        let media_type = media_type.trim().to_ascii_lowercase();
        let quality = quality(parameters);
        if media_type == "text/html" && quality > json {
            html = html.max(quality);
        } else if media_type.ends_with("json") && quality > html {
            json = json.max(quality);
        }
    }
    html > json
}

/// The weight of a media range in thousandths (RFC 9110, 12.4.2): 1000 where it has none, 0 where
/// it cannot be read.
fn quality(parameters: &str) -> u16 {
    let weight = parameters.split(';').filter_map(|parameter| parameter.split_once('='));
    let weight = weight.map(|(name, value)| (name.trim(), value.trim()));
    let Some((_, value)) = { weight }.find(|(name, _)| name.eq_ignore_ascii_case("q")) else { return 1000 };
    match value.split_once('.').unwrap_or((value, "")) {
        ("1", _) => 1000,
        ("0", digits) if digits.len() <= 3 => format!("{digits:0<3}").parse().unwrap_or(0),
        _ => 0,
    }
}

/// The page about a refusal.
pub(crate) fn write(refusal: &Refusal, status: u16, now: Timestamp) -> String {
    let refusal = refusal.view();
    let seconds = retry_after::seconds_of(&refusal, now);
    let mut page = String::with_capacity(1536);
    let title = if status == 429 { "Too many requests" } else { "Please try again later" };
    let _ = write!(
        page,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\"><title>{title}</title><style>body{{font:1.1rem/1.5 \
         system-ui,sans-serif;max-width:34rem;margin:15vh auto;padding:0 1rem;color:#222;background:#fff}}\
         @media(prefers-color-scheme:dark){{body{{color:#ddd;background:#181818}}}}small{{color:#777}}</style>\
         </head><body><h1>{title}</h1>"
    );
    match seconds {
        Some(seconds) => {
            let wait = HumanDuration(Duration::from_secs(seconds));
            let _ = write!(page, "<p role=\"timer\">You can try again in <b id=\"s\">{wait}</b>.</p>");
        }
        None => page.push_str("<p>Trying again will not help.</p>"),
    }
    page.push_str("<p><small>");
    escape(&Sentence { refusal: &refusal, now }.to_string(), &mut page);
    let _ = write!(page, " ({})</small></p>", refusal.reason.as_str());
    if let Some(seconds) = seconds.filter(|seconds| *seconds <= RELOAD_SECONDS_MAX) {
        let _ = write!(
            page,
            "<script>var n={seconds},e=document.getElementById('s'),t=setInterval(function(){{n--;\
             e.textContent=(n>59?Math.floor(n/60)+' min ':'')+Math.max(n%60,0)+' s';\
             if(n<=0){{clearInterval(t);location.reload()}}}},1000)</script>"
        );
    }
    page.push_str("</body></html>\n");
    page
}

fn escape(text: &str, page: &mut String) {
    for c in text.chars() {
        match c {
            '&' => page.push_str("&amp;"),
            '<' => page.push_str("&lt;"),
            '>' => page.push_str("&gt;"),
            '"' => page.push_str("&quot;"),
            '\'' => page.push_str("&#39;"),
            c => page.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use tidegate_core::{Reason, Retry, Text, refusal::Violated};

    fn accepts(text: &'static str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(text));
        is_wanted(&headers)
    }

    #[test]
    fn browsers_get_a_page_and_programs_do_not() {
        assert!(accepts("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"));
        assert!(accepts("TEXT/HTML"));
        assert!(accepts("text/html, application/json"));
        assert!(accepts("application/json;q=0.5, text/html"));
        assert!(!accepts("text/html;q=0"));
        assert!(!accepts("text/html;Q=0.000"));
        assert!(!accepts("text/html; level=1; q=0.4, application/json; q=0.5"));
        assert!(!accepts("text/html;q=high"));
        assert!(!accepts("*/*"));
        assert!(!accepts("application/json, text/html"));
        assert!(!accepts("application/problem+json"));
        assert!(!is_wanted(&HeaderMap::new()));
    }

    #[test]
    fn a_long_wait_is_shown_in_units_that_people_use() {
        let violated = Violated {
            name: Text::from_static("daily"),
            reason: Reason::QuotaExceeded,
            retry: Retry::At(Timestamp::from_secs(86_400)),
            limit: 1,
            remaining: 0,
            window: None,
        };
        let refusal = Refusal::new("api", tidegate_core::refusal::ScopeValues::new(), violated);
        let page = write(&refusal, 429, Timestamp::MIN);
        assert!(page.contains("in <b id=\"s\">24 h</b>."), "{page}");
    }

    #[test]
    fn what_strangers_wrote_is_text_on_the_page() {
        let now = Timestamp::from_secs(1000);
        let violated = Violated {
            name: Text::from_static("<script>alert(1)</script>"),
            reason: Reason::RateExceeded,
            retry: Retry::At(Timestamp::from_secs(1007)),
            limit: 1,
            remaining: 0,
            window: None,
        };
        let page =
            write(&Refusal::new("api", tidegate_core::refusal::ScopeValues::new(), violated), 429, now);
        assert!(!page.contains("<script>alert"), "{page}");
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
        assert!(page.contains("in <b id=\"s\">7 s</b>."));
        assert!(!page.contains("http"), "nothing is loaded from anywhere");
    }
}
