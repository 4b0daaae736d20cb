//! A folder as the kubelet makes it of a `ConfigMap` or a Secret.

use std::fs;
use std::io::Result;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use crate::TemporaryFolder;

/// One file, which leads through the link `..data` to a folder of its own version.
#[derive(Debug)]
pub struct MountedVolume {
    folder: TemporaryFolder,
    file: &'static str,
    versions: u32,
}

impl MountedVolume {
    /// A volume whose file has this text.
    pub fn new(file: &'static str, text: &str) -> Result<Self> {
        let mut volume = Self { folder: TemporaryFolder::new(), file, versions: 0 };
        volume.exchange(text)?;
        symlink(format!("..data/{file}"), volume.path())?;
        Ok(volume)
    }

    /// Where the file is read.
    pub fn path(&self) -> PathBuf {
        self.folder.join(self.file)
    }

    /// Gives the file another text by the steps of the kubelet's atomic writer: a new folder, a new
    /// link over the old one, and the old folder is removed.
    pub fn exchange(&mut self, text: &str) -> Result<()> {
        self.versions += 1;
        let version = format!("..2026_11_30_18_00_00.{}", self.versions);
        let (link, data) = (self.folder.join("..data_tmp"), self.folder.join("..data"));
        fs::create_dir(self.folder.join(&version))?;
        fs::write(self.folder.join(&version).join(self.file), text)?;
        symlink(&version, &link)?;
        let old = fs::read_link(&data).ok();
        fs::rename(link, data)?;
        old.map_or(Ok(()), |old| fs::remove_dir_all(self.folder.path().join(old)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_the_exchanged_text_and_the_former_folder_is_gone() {
        let mut volume = MountedVolume::new("token", "one").unwrap();
        assert_eq!(fs::read_to_string(volume.path()).unwrap(), "one");
        volume.exchange("two").unwrap();
        assert_eq!(fs::read_to_string(volume.path()).unwrap(), "two");
        // The file, `..data` and one version.
        assert_eq!(fs::read_dir(volume.folder.path()).unwrap().count(), 3);
    }
}
