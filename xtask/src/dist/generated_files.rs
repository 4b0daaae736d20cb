//! The files that the command writes about itself, and the texts that go with it, in the folder
//! from which packages take them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::binary::PACKAGE;
use crate::cargo::{cargo, output_of, succeeds};
use crate::{checkout, notices};

/// The folder, from the root of the checkout. The metadata of `cargo deb` names it.
const FOLDER: &str = "target/packaging";

/// The shells with completions, each with the name of its file.
const COMPLETIONS: [(&str, &str); 3] =
    [("bash", "tidegate.bash"), ("zsh", "_tidegate"), ("fish", "tidegate.fish")];

/// The unit, which names the place of a program that was installed by hand.
const UNIT: &str = "deploy/systemd/tidegate.service";

/// The folder with the files.
#[derive(Clone, Debug)]
pub(super) struct GeneratedFiles {
    folder: PathBuf,
    /// The notices of the crates of others.
    pub(super) notices: String,
}

impl GeneratedFiles {
    /// Writes the files anew. `program` is a binary of this version that runs here; without one,
    /// the files are made by a build for this machine.
    pub(super) fn write(program: Option<&Path>) -> Result<Self, String> {
        let folder = checkout::root().join(FOLDER);
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let (man, completions) = (folder.join("man"), folder.join("completions"));
        fs::create_dir_all(&man).and_then(|()| fs::create_dir_all(&completions)).map_err(failed)?;
        let command = || match program {
            Some(program) => Command::new(program),
            None => cargo(&["run", "--locked", "--quiet", "--package", PACKAGE, "--"]),
        };
        if !succeeds(command().arg("man").arg(&man).stdin(Stdio::null())) {
            return Err("`tidegate man` failed".to_owned());
        }
        for (shell, file) in COMPLETIONS {
            let text = output_of(command().args(["completions", shell]).stdin(Stdio::null()))?;
            fs::write(completions.join(file), text).map_err(failed)?;
        }
        let notices = notices::collect()?;
        fs::write(folder.join("THIRD-PARTY-NOTICES"), &notices).map_err(failed)?;
        let unit = read(UNIT)?;
        fs::write(folder.join("tidegate.service"), packaged_unit(&unit)?).map_err(failed)?;
        Ok(Self { folder, notices })
    }

    /// The folder with man pages.
    pub(super) fn man(&self) -> PathBuf {
        self.folder.join("man")
    }

    /// The folder with completions.
    pub(super) fn completions(&self) -> PathBuf {
        self.folder.join("completions")
    }
}

/// A text of the checkout.
pub(super) fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(checkout::root().join(path)).map_err(|error| format!("{path}: {error}"))
}

/// The unit for a program that a package installed.
fn packaged_unit(unit: &str) -> Result<String, String> {
    const BY_HAND: &str = "ExecStart=/usr/local/bin/tidegate ";
    if unit.contains(BY_HAND) {
        Ok(unit.replace(BY_HAND, "ExecStart=/usr/bin/tidegate "))
    } else {
        Err(format!("{UNIT} has no line {BY_HAND:?}, which packages replace"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_of_packages_starts_the_program_of_packages_and_nothing_else_differs() {
        let unit = read(UNIT).unwrap();
        let packaged = packaged_unit(&unit).unwrap();
        let differing = unit.lines().zip(packaged.lines()).filter(|(one, other)| one != other);
        assert_eq!((differing.count(), unit.lines().count()), (1, packaged.lines().count()));
        assert!(
            packaged.contains("\nExecStart=/usr/bin/tidegate serve --config /etc/tidegate/tidegate.yaml\n")
        );
        let error = packaged_unit(&unit.replace("ExecStart", "ExecStrat")).unwrap_err();
        assert!(error.contains(UNIT), "{error}");
    }
}
