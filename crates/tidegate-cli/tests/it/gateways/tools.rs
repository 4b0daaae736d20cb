//! The programs that the tests start: in `PATH`, where the system keeps servers, or where the gate
//! puts them.

use std::io::Write;
use std::path::{Path, PathBuf};

/// Where the program is, if it is anywhere.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// The program, or nothing and a line that says which test did not run.
pub(crate) fn find_or_skip(program: &str, test: &str) -> Option<PathBuf> {
    let found = find(program);
    if found.is_none() {
        skip(test, &format!("{program} is not installed; `cargo xtask test` installs it"));
    }
    found
}

/// Says past the test harness that a test did not run, so that it is seen and counted.
pub(crate) fn skip(test: &str, reason: &str) {
    let _ = writeln!(std::io::stdout(), "skipped: {test}: {reason}");
}

/// A file of what the gate fetches from registries, below `tidegate-tests` in the user's cache; or
/// nothing and a line that says which test did not run. The folders are those of
/// `xtask/src/prerequisites/fetched.rs`.
pub(crate) fn fetched_or_skip(set: &str, file: &str, test: &str) -> Option<PathBuf> {
    let given = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = given("XDG_CACHE_HOME").or_else(|| given("HOME").map(|home| home.join(".cache")));
    let folder = cache.map(|cache| cache.join("tidegate-tests").join(set));
    let folder = folder.filter(|folder| folder.join("installed").is_file());
    let found = folder.and_then(|folder| matching(&folder, file));
    if found.is_none() {
        skip(test, &format!("{set} is not installed; `cargo xtask test` installs it"));
    }
    found
}

/// The file below the folder. A `*` in it stands for any one name: a folder may be called after a
/// version of Python.
fn matching(folder: &Path, file: &str) -> Option<PathBuf> {
    let mut found = folder.to_owned();
    for part in file.split('/') {
        found = match part {
            "*" => std::fs::read_dir(&found).ok()?.find_map(Result::ok)?.path(),
            name => found.join(name),
        };
    }
    found.exists().then_some(found)
}
