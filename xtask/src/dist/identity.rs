//! The identity of what is given away: version, commit and time.

use std::process::Command;

use crate::cargo::output_of;
use crate::checkout;

/// The variable with the time that is written into archives, in seconds since 1970, as
/// <https://reproducible-builds.org/specs/source-date-epoch/> has it.
pub(super) const EPOCH_VARIABLE: &str = "SOURCE_DATE_EPOCH";

/// The mark in the version and the commit of a checkout with uncommitted changes.
const DIRTY: &str = "-dirty";

/// Version, commit and time of what is given away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// The version of the workspace, with `-dirty` where something is not committed.
    pub(super) version: String,
    /// The commit, with the same mark; `unknown` outside of git.
    pub(super) commit: String,
    /// The time of everything in archives, in seconds since 1970.
    pub(super) epoch: u64,
}

impl Identity {
    /// That of this checkout at the version of the workspace.
    pub(super) fn of_checkout(version: &str) -> Result<Self, String> {
        let git = |arguments: &[&str]| {
            let mut git = Command::new("git");
            output_of(git.args(arguments).current_dir(checkout::root()))
        };
        let given = std::env::var(EPOCH_VARIABLE).ok();
        // The sources may have been unpacked from an archive. In a checkout, a git that fails must
        // not pass for a clean tree: it refuses a checkout of another user, for example.
        if !checkout::root().join(".git").exists() {
            return Ok(Self::new(version, None, false, epoch(given.as_deref(), None)?));
        }
        let commit = git(&["rev-parse", "HEAD"])?;
        let is_dirty = !git(&["status", "--porcelain"])?.trim().is_empty();
        let commit_time = git(&["log", "-1", "--format=%ct"])?;
        let epoch = epoch(given.as_deref(), Some(&commit_time))?;
        Ok(Self::new(version, Some(commit.trim()), is_dirty, epoch))
    }

    fn new(version: &str, commit: Option<&str>, is_dirty: bool, epoch: u64) -> Self {
        let mark = if is_dirty { DIRTY } else { "" };
        let commit = commit.map_or_else(|| "unknown".to_owned(), |commit| format!("{commit}{mark}"));
        Self { version: format!("{version}{mark}"), commit, epoch }
    }

    /// Whether something is not committed.
    pub(super) fn is_dirty(&self) -> bool {
        self.version.ends_with(DIRTY)
    }

    /// Its time as RFC 3339 writes it.
    pub(super) fn time(&self) -> Result<String, String> {
        let at = format!("--date=@{}", self.epoch);
        output_of(Command::new("date").args(["--utc", &at, "+%Y-%m-%dT%H:%M:%SZ"]))
            .map(|text| text.trim().to_owned())
    }

    /// The version of the Debian package: a tilde sorts before the release that it leads to.
    pub(super) fn debian_version(&self) -> String {
        self.version.replacen('-', "~", 1)
    }
}

/// The time of [`EPOCH_VARIABLE`], otherwise that of the commit.
fn epoch(given: Option<&str>, commit_time: Option<&str>) -> Result<u64, String> {
    let Some(text) = given.or(commit_time) else {
        return Err(format!(
            "no time for archives: this is no checkout of git; set {EPOCH_VARIABLE} to seconds since 1970"
        ));
    };
    text.trim().parse().map_err(|_| {
        format!("{EPOCH_VARIABLE} {text:?}: write whole seconds since 1970, such as `date +%s` prints")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dirty_checkout_is_named_in_version_and_commit() {
        let clean = Identity::new("0.1.0", Some("abc"), false, 0);
        assert_eq!(
            (clean.version.as_str(), clean.commit.as_str(), clean.is_dirty()),
            ("0.1.0", "abc", false)
        );
        let dirty = Identity::new("0.1.0", Some("abc"), true, 0);
        assert_eq!((dirty.version.as_str(), dirty.commit.as_str()), ("0.1.0-dirty", "abc-dirty"));
        assert_eq!((dirty.is_dirty(), dirty.debian_version().as_str()), (true, "0.1.0~dirty"));
        assert_eq!(Identity::new("0.1.0", None, false, 0).commit, "unknown");
    }

    #[test]
    fn the_time_is_the_one_that_is_given_else_that_of_the_commit() {
        assert_eq!(epoch(Some("0"), Some("7\n")), Ok(0));
        assert_eq!(epoch(None, Some("7\n")), Ok(7));
        for wrong in ["", "-1", "yesterday", "1e9"] {
            let error = epoch(Some(wrong), Some("7")).unwrap_err();
            assert!(error.contains(EPOCH_VARIABLE) && error.contains("date +%s"), "{error}");
        }
        assert!(epoch(None, None).unwrap_err().contains("set SOURCE_DATE_EPOCH"));
    }

    #[test]
    fn a_clock_of_1970_is_a_time_like_any_other() {
        assert_eq!(Identity::new("0.1.0", None, false, 0).time().unwrap(), "1970-01-01T00:00:00Z");
        assert_eq!(
            Identity::new("0.1.0", None, false, 1_700_000_000).time().unwrap(),
            "2023-11-14T22:13:20Z"
        );
    }
}
