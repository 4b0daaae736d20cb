//! Checks how long requests wait in a queue, by their class.

use core::time::Duration;

use tidegate_core::Class;
use tidegate_core::rate::format_span;

use crate::measure::span;
use crate::path::Path;
use crate::policy::resources::ResourcePolicy;
use crate::printable::shown;
use crate::problem::Report;
use crate::raw::resources::WaitForm;
use crate::raw::text_or::TextOr;

/// The word for a class that does not wait.
const OFF: &str = "off";

/// The waits from the least important class; zero: the class does not wait.
pub(super) fn wait(
    raw: &TextOr<WaitForm>,
    path: &Path,
    report: &mut Report<'_>,
) -> [Duration; Class::ALL.len()] {
    let waits = match raw {
        TextOr::Text(text) => [one(text, path, report); Class::ALL.len()],
        TextOr::Form(form) => {
            let mut written = [None; Class::ALL.len()];
            for (class, text) in Class::ALL.into_iter().zip(form.by_class()) {
                written[class as usize] = text.map(|text| one(text, &path.key(class.as_str()), report));
            }
            with_omitted(written)
        }
    };
    for (class, wait) in Class::ALL.into_iter().zip(waits) {
        let wait = if wait.is_zero() { OFF.to_owned() } else { format_span(wait) };
        report.effective(&path.key(class.as_str()), wait);
    }
    waits
}

/// The wait of one key; zero after a problem has been reported.
fn one(text: &str, path: &Path, report: &mut Report<'_>) -> Duration {
    if text == OFF {
        return Duration::ZERO;
    }
    match span("wait", text) {
        Ok(span) if span.is_zero() || span > ResourcePolicy::WAIT_MAX => {
            let what = format!("a wait of {} is out of range", shown(text));
            report.value(path, what, "use 1ms to 1h, or `off` for a class that does not wait");
        }
        Ok(span) => return span,
        Err((what, fix)) => report.value(path, what, fix),
    }
    Duration::ZERO
}

/// The waits of all classes. A class that is left out waits as long as the longest wait of a lower
/// class, so that no policy makes a class wait less than a lower one by leaving it out.
fn with_omitted(written: [Option<Duration>; Class::ALL.len()]) -> [Duration; Class::ALL.len()] {
    let mut longest = Duration::ZERO;
    written.map(|wait| {
        let wait = wait.unwrap_or(longest);
        longest = longest.max(wait);
        wait
    })
}
