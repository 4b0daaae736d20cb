//! Faults of bodies that cannot be read: where in the body, and what was probably meant.

use serde::Deserialize;

use super::{Fault, FaultCode};
use crate::text::shortened;

impl Fault {
    /// The fault of a body that could not be read as a `T`.
    ///
    /// `body` is read once more to find the path of the value that is wrong; the first reading does
    /// not keep track.
    pub fn of_body<'a, T: Deserialize<'a>>(error: &serde_json::Error, body: &'a [u8]) -> Self {
        let mut fault = Self::new(FaultCode::MalformedBody, sentence(error));
        if error.line() > 0 {
            fault.position = Some((error.line(), error.column()));
        }
        let mut deserializer = serde_json::Deserializer::from_slice(body);
        if let Err(located) = serde_path_to_error::deserialize::<_, T>(&mut deserializer) {
            let path = located.path().to_string();
            if path != "." && path != "?" {
                fault.field = Some(shortened(&path, 200).into_owned());
            }
        }
        fault.fix = suggestion(error);
        fault
    }
}

/// The message without the position, which stands beside it.
fn sentence(error: &serde_json::Error) -> String {
    let message = error.to_string();
    match message.rfind(" at line ") {
        Some(end) if error.line() > 0 => message[..end].to_owned(),
        _ => message,
    }
}

/// For an unknown key: the known one that it resembles most.
fn suggestion(error: &serde_json::Error) -> Option<String> {
    let message = error.to_string();
    let rest = message.strip_prefix("unknown field `")?;
    let (unknown, rest) = rest.split_once('`')?;
    let known: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
    let (nearest, distance) = known
        .iter()
        .map(|name| (*name, strsim::damerau_levenshtein(&shortened(unknown, 64), name)))
        .min_by_key(|(_, distance)| *distance)?;
    if distance <= 1 + nearest.len() / 3 {
        return Some(format!("did you mean \"{nearest}\"?"));
    }
    Some(format!("leave it out; known are {}", known.join(", ")))
}
