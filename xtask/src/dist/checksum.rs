//! The file of checksums beside what is given away.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// The name of the file, as `sha256sum --check` reads it.
pub(super) const FILE: &str = "SHA256SUMS";

/// The SHA-256 of bytes, in hexadecimal.
pub(super) fn sha256(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The line of a file.
pub(super) fn line(name: &str, bytes: &[u8]) -> String {
    format!("{}  {name}\n", sha256(bytes))
}

/// The names of the files that the text lists.
pub(super) fn names(text: &str) -> impl Iterator<Item = &str> {
    // A name with a slash would be a file elsewhere.
    text.lines()
        .filter_map(|line| line.split_once("  "))
        .map(|(_, name)| name)
        .filter(|name| !name.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_known_one_and_the_names_are_read_back() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(line("a", b""), format!("{empty}  a\n"));
        let text = line("a.tar.gz", b"") + &line("../b", b"");
        assert_eq!(names(&text).collect::<Vec<_>>(), ["a.tar.gz"]);
    }
}
