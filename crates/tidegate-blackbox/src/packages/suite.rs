//! The tables of the parts.

use super::{archive, debian, deploy_files, image, reproduction, rolling_update};
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
    "debian" debian::run:
        "the package of Debian in a root of its own: looked at, installed, serving, removed";
    "debian-service" debian::run_service:
        "the service of the package under a running systemd: started, watched, replaced under load";
    "image" image::run:
        "the image by its own layout: built, started read-only as its user, answering its health check";
    "deploy-files" deploy_files::run:
        "the files of deploy by every version of Kubernetes, and the chart as it is given away";
    "rolling-update" rolling_update::run:
        "three daemons replaced by the chart's own timing: no call of 10 000 fails, no charge is lost";
};

/// A suite of its own, as it builds the program once more.
pub const REPRODUCTION: &[Trial] = parts! {
    "reproduction" reproduction::run:
        "the same commit in another folder makes the same checksums";
};
