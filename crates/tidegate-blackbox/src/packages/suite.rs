//! The table of the parts.

use super::{archive, image, reproduction};
use crate::trial::{Pace, Repetition, Trial};

macro_rules! parts {
    ($($name:literal $run:path: $claim:literal;)*) => {
        &[$(Trial {
            name: $name,
            claim: $claim,
            pace: Pace::Long,
            repeats: Repetition::Run,
            mebibytes_max: None,
            run: $run,
        }),*]
    };
}

/// All parts, in the order in which they run.
pub const PARTS: &[Trial] = parts! {
    "archive" archive::run:
        "the archive in a root with Debian's base and nothing else: verified, unpacked, serving";
    "image" image::run:
        "the image by its own layout: built, started read-only as its user, answering its health check";
    "reproduction" reproduction::run:
        "the same commit in another folder makes the same checksums";
};
