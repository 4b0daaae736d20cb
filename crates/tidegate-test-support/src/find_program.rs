//! The programs of the machine.

use std::path::PathBuf;

/// The place of a program: in `PATH`, or where the system keeps servers; `None` if it is not
/// installed.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let servers = ["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from);
    let mut files = std::env::split_paths(&path).chain(servers).map(|folder| folder.join(name));
    files.find(|file| file.is_file())
}
