//! Reading a file that the policy names: a regular file, up to a bound.
//!
//! The daemon reads such files again and again, so a pipe is of no use to it: opening one waits for
//! a writer, for as long as none comes. A device may have no end.

use std::fs::{File, FileType};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// The contents of the regular file at `path`, or behind the links there.
///
/// Returns an error for a file with more than `bytes_max` bytes, of which no more than that is
/// read, and for anything that is not a regular file.
pub fn read_regular(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut contents = Vec::new();
    open_regular(path)?.take(bytes_max + 1).read_to_end(&mut contents)?;
    if contents.len() as u64 > bytes_max {
        let text = format!("it is larger than {bytes_max} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(contents)
}

/// The regular file at `path`, or behind the links there, open for reading.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // Before it is opened, since opening a FIFO waits; and after, since the file may have been
    // replaced in between.
    check(std::fs::metadata(path)?.file_type())?;
    let file = File::open(path)?;
    check(file.metadata()?.file_type())?;
    Ok(file)
}

fn check(kind: FileType) -> io::Result<()> {
    let kind = match kind {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_dir() => "directory",
        kind if kind.is_fifo() => "FIFO",
        kind if kind.is_socket() => "socket",
        _ => "device",
    };
    let text = format!("it is a {kind}; name a regular file");
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use tidegate_test_support::TemporaryFolder;

    use super::*;

    #[test]
    fn only_a_regular_file_is_read_and_nothing_else_is_waited_for() {
        let folder = TemporaryFolder::new();
        let path = |name: &str| folder.join(name);
        std::fs::write(path("file"), "text").unwrap();
        std::os::unix::fs::symlink("file", path("link")).unwrap();
        assert_eq!(read_regular(&path("file"), 4).unwrap(), b"text");
        assert_eq!(read_regular(&path("link"), 4).unwrap(), b"text", "as a Kubernetes secret is mounted");
        assert!(Command::new("mkfifo").arg(path("fifo")).status().unwrap().success());
        std::os::unix::fs::symlink("fifo", path("link-to-fifo")).unwrap();
        let _listener = UnixListener::bind(path("socket")).unwrap();
        for (name, kind) in [
            (path("fifo"), "FIFO"),
            (path("link-to-fifo"), "FIFO"),
            (path("socket"), "socket"),
            (folder.path().to_owned(), "directory"),
            ("/dev/zero".into(), "device"),
        ] {
            let error = read_regular(&name, 4).unwrap_err().to_string();
            assert_eq!(error, format!("it is a {kind}; name a regular file"), "{}", name.display());
        }
    }

    #[test]
    fn no_more_than_the_bound_is_read() {
        let folder = TemporaryFolder::new();
        let path = folder.join("file");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read_regular(&path, 5).unwrap(), b"12345");
        let error = read_regular(&path, 4).unwrap_err().to_string();
        assert_eq!(error, "it is larger than 4 bytes");
    }
}
