//! Programs that the gate fetches from registries.

use std::fs::read_dir;
use std::path::{Path, PathBuf};

/// The folder of a set that is fetched once and kept, below `tidegate-tests` in the user's cache;
/// `None` without a home. A set is complete when it has the file `installed`.
pub fn fetched_folder(set: &str) -> Option<PathBuf> {
    let given = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = given("XDG_CACHE_HOME").or_else(|| given("HOME").map(|home| home.join(".cache")))?;
    Some(cache.join("tidegate-tests").join(set))
}

/// A file of what the gate fetches from registries, below `tidegate-tests` in the user's cache;
/// `None` if it is not there. The folders are those of `xtask/src/prerequisites/fetched.rs`. A `*`
/// in `file` stands for any one name: a folder may be called after a version of Python.
pub fn fetched(set: &str, file: &str) -> Option<PathBuf> {
    let folder = fetched_folder(set)?;
    if folder.join("installed").is_file() { matching(&folder, file) } else { None }
}

/// The file below the folder.
fn matching(folder: &Path, file: &str) -> Option<PathBuf> {
    let mut found = folder.to_owned();
    for part in file.split('/') {
        found = match part {
            "*" => read_dir(&found).ok()?.find_map(Result::ok)?.path(),
            name => found.join(name),
        };
    }
    found.exists().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TemporaryFolder;

    #[test]
    fn a_star_stands_for_one_name_and_a_missing_file_is_none() {
        let folder = TemporaryFolder::new();
        std::fs::create_dir_all(folder.join("lib/python3.11/bin")).unwrap();
        let file = folder.write("lib/python3.11/bin/envoy", "");
        assert_eq!(matching(folder.path(), "lib/*/bin/envoy"), Some(file));
        assert_eq!(matching(folder.path(), "lib/*/bin/other"), None);
        assert_eq!(matching(folder.path(), "other/*/envoy"), None);
    }
}
