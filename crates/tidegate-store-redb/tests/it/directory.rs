//! Directories that are missing, in use, or hold something else.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use tidegate_store_redb::{OpenError, RedbConfig};

use crate::place::Place;

#[test]
fn a_missing_directory_is_made_and_a_missing_parent_is_named() {
    let place = Place::new();
    let missing = place.path().join("a");
    let error = place.open_with(&RedbConfig::new(missing.join("b"), [1; 4])).unwrap_err();
    let text = error.to_string();
    assert!(matches!(&error, OpenError::NoParent { parent, .. } if *parent == missing), "{text}");
    assert!(text.contains(&format!("{} is missing", missing.display())), "{text}");
    assert!(!missing.exists());
    place.open_with(&RedbConfig::new(&missing, [1; 4])).unwrap();
    assert!(missing.is_dir());
}

#[test]
fn a_file_in_its_place_is_an_error() {
    let place = Place::new();
    let file = place.path().join("file");
    fs::write(&file, "here first").unwrap();
    for path in [file.clone(), file.join("below")] {
        let error = place.open_with(&RedbConfig::new(&path, [1; 4])).unwrap_err();
        assert!(matches!(error, OpenError::NotADirectory { .. }), "{error}");
    }
    assert_eq!(fs::read(&file).unwrap(), b"here first");
}

#[test]
fn a_directory_in_use_is_an_error_until_it_is_given_back() {
    let place = Place::new();
    let store = place.open();
    let error = place.open_with(&place.config()).unwrap_err();
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    let text = error.to_string();
    assert!(text.ends_with(
        "store is in use by another store of this process; stop that one, or give each a directory of its own"
    ));
    store.close().unwrap();
    let store = place.open();
    drop(store);
    place.open().close().unwrap();
}

#[test]
fn a_directory_that_cannot_be_written_to_is_an_error() {
    let place = Place::new();
    let mut path = place.path().join("read-only");
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o555)).unwrap();
    if fs::write(path.join("probe"), "").is_ok() {
        // Even root cannot create files in the directories of the kernel.
        path = "/sys/kernel".into();
    }
    if !path.is_dir() {
        let line = "skipped: a_directory_that_cannot_be_written_to_is_an_error: this user may write anywhere";
        let _ = writeln!(std::io::stdout(), "{line}");
        return;
    }
    let error = place.open_with(&RedbConfig::new(&path, [1; 4])).unwrap_err();
    assert!(matches!(error, OpenError::NotWritable { .. }), "{error}");
    assert!(error.to_string().contains("cannot be written to; make it writable for this user"), "{error}");
}

#[test]
fn a_database_that_is_none_is_an_error_and_left_as_it_is() {
    let place = Place::new();
    place.open().close().unwrap();
    let file = place.config().path.join("counters.redb");
    for content in [&b""[..], b"nonsense", &[0; 10_000]] {
        fs::write(&file, content).unwrap();
        let error = place.open_with(&place.config()).unwrap_err();
        assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains("move it away to count anew"), "{error}");
        assert_eq!(fs::read(&file).unwrap(), content);
    }
    fs::remove_file(&file).unwrap();
    place.open().close().unwrap();
}

#[test]
fn what_a_crash_left_of_making_a_store_is_made_anew() {
    let place = Place::new();
    let path = place.config().path;
    fs::create_dir(&path).unwrap();
    fs::write(path.join("counters.new"), "half a database").unwrap();
    let store = place.open();
    assert!(!path.join("counters.new").exists());
    assert_eq!(store.epoch(), 1 << 64 | 2);
}
