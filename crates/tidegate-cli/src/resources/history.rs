//! The history of a resource: asked for or read, and drawn.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use console::Term;
use tidegate_wire::resource_history::HistoryBody;

use super::picture::HistoryPicture;
use super::svg_plot;
use super::terminal_plot::{self, TerminalLook};
use crate::arguments::request::{Resources, word};
use crate::client::{self, ClientError, encoded, print, target, wait_for};
use crate::exit::{Exit, complain};
use crate::local_time::LocalTime;

/// The columns of a picture that is not shown on a terminal.
const COLUMNS: usize = 80;

/// The largest saved answer that is read, in bytes.
const SAVED_BYTES_MAX: u64 = 64 << 20;

/// Draws the history that the arguments ask for.
pub(super) fn draw(arguments: &Resources) -> Exit {
    let history = match history(arguments) {
        Ok(history) => history,
        Err(unanswered) => return unanswered.complain(),
    };
    let zone = LocalTime::system();
    if let Some(path) = &arguments.svg
        && let Err(exit) = write_svg(&history, arguments.hours, &zone, path)
    {
        return exit;
    }
    if !arguments.plot && arguments.svg.is_some() && !arguments.json {
        return Exit::Done;
    }
    let stdout = Term::stdout();
    let columns = stdout.size_checked().map_or(COLUMNS, |(_, columns)| usize::from(columns));
    let look = TerminalLook::of_width(columns, stdout.is_term() && console::colors_enabled());
    print(arguments.json, Ok(history), |history| {
        match HistoryPicture::new(history, arguments.hours, look.plot_columns(), &zone) {
            Ok(picture) => terminal_plot::text(&picture, &zone, look),
            Err(empty) => format!("{empty}\n"),
        }
    })
}

fn history(arguments: &Resources) -> Result<HistoryBody, ClientError> {
    if let Some(path) = &arguments.saved {
        return saved(path);
    }
    let Some(name) = &arguments.name else {
        let why = "--plot and --svg draw one resource; name it, as `tidegate resources app --plot`";
        return Err(ClientError::Untaken(why.to_owned()));
    };
    let path = format!("/v1/resources/{}/history", encoded(name));
    wait_for(client::get(&arguments.daemon, &target(&path, &[("by", &word(arguments.by))])))
}

/// Reads an answer that was saved.
fn saved(path: &Path) -> Result<HistoryBody, ClientError> {
    let fail = |what: &str| ClientError::File(format!("cannot read {}: {what}", path.display()));
    let mut text = String::new();
    let file = File::open(path).map_err(|error| fail(&error.to_string()))?;
    file.take(SAVED_BYTES_MAX).read_to_string(&mut text).map_err(|error| fail(&error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| {
        fail(&format!("{error}; save it with `tidegate resources NAME --plot --json > FILE`"))
    })
}

fn write_svg(history: &HistoryBody, hours: u8, zone: &LocalTime, path: &Path) -> Result<(), Exit> {
    let picture = HistoryPicture::new(history, hours, svg_plot::COLUMNS, zone).map_err(|empty| {
        complain(empty);
        Exit::Untaken
    })?;
    let drawn = svg_plot::svg(&picture, zone).map_err(std::io::Error::other);
    drawn.and_then(|svg| fs::write(path, svg)).map_err(|error| {
        complain(format_args!("cannot write {}: {error}", path.display()));
        Exit::Unreadable
    })
}
