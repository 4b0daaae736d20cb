//! Attacks on the embedded store: the permissions of its files, their size, and a full disk.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_test_support::TemporaryFolder;

use crate::attack::{AttackResult, RunContext, require};
use crate::attacks::require_honest_check;
use crate::daemon::Daemon;
use crate::{http1, raw, resp};

/// Commands with keys as long as a store takes: [`LONG_KEYS`] times [`KEY_BYTES`] are 84 MB.
const LONG_KEYS: u64 = 60_000;
const KEY_BYTES: usize = 1_400;
/// The configured bound of the store on disk, and the largest size of its files: pages are half
/// full at worst, and a commit needs room beside the pages that it replaces.
const STORE_MIB: u64 = 16;
const STORE_MIB_MAX: u64 = 64;
/// The size at which the store's file can grow no more.
const DISK_KIB: u32 = 4 << 10;
/// The permissions of the group and of all others.
const OTHERS: u32 = 0o077;
/// How long it is filled, and how long the daemon may take to log that a commit failed, and to
/// recover.
const FILL_TIME: Duration = Duration::from_secs(8);
const NOTICE_MAX: Duration = Duration::from_secs(5);

fn policy(durability: &str) -> String {
    format!(
        "listen: {{ http: '127.0.0.1:0', resp: '127.0.0.1:0' }}\n\
         store: {{ kind: embedded, path: data, {durability} }}\n\
         namespaces:\n  honest: {{ limits: [{{ name: quota, key: [user], missing: group, fixed: {{ limit: 1000, window: 2h }} }}] }}\n"
    )
}

/// The files of the store are readable by their owner only.
pub(crate) fn file_modes(context: &RunContext) -> AttackResult {
    let daemon = Daemon::start(context, &policy("durability: sync"))?;
    // The first commits may take longer than a check waits for the store; they write the files all
    // the same.
    for _ in 0..20 {
        if http1::ask(daemon.http()?, http1::check("honest", "ada"))?.status == 200 {
            break;
        }
        thread::sleep(Duration::from_millis(200));
    }
    let data = daemon.folder().path().join("data");
    let mut modes = vec![("data/".to_owned(), mode(&data)?)];
    for entry in fs::read_dir(&data)? {
        let entry = entry?;
        modes.push((entry.file_name().to_string_lossy().into_owned(), mode(&entry.path())?));
    }
    let seen: Vec<String> = modes.iter().map(|(name, mode)| format!("{name} {mode:04o}")).collect();
    require!(modes.iter().all(|(_, mode)| mode & OTHERS == 0), "others may read: {}", seen.join(", "))?;
    Ok(seen.join(", "))
}

fn mode(path: &Path) -> std::io::Result<u32> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o777)
}

/// Long keys of one namespace fill neither the disk nor the share of another.
pub(crate) fn long_keys(context: &RunContext) -> AttackResult {
    let bounded = policy(&format!("durability: interval, disk: {STORE_MIB}MiB"));
    let daemon = match Daemon::try_start(context, TemporaryFolder::new(), &bounded)? {
        Ok(daemon) => daemon,
        // A daemon whose store has no such bound has to keep within it all the same.
        Err(_) => Daemon::start(context, &policy("durability: interval"))?,
    };
    let filler = "k".repeat(KEY_BYTES);
    let throttle =
        |number: u64| resp::command(&["CL.THROTTLE", &format!("{number}-{filler}"), "0", "1", "2678400"]);
    let errors = resp::errors(&resp::flood(daemon.resp()?, LONG_KEYS, 2, throttle)?);
    thread::sleep(Duration::from_millis(500));
    let mut bytes = 0;
    for entry in fs::read_dir(daemon.folder().path().join("data"))? {
        bytes += entry?.metadata()?.len();
    }
    let seen =
        format!("{LONG_KEYS} keys of {KEY_BYTES} bytes ({errors} errors) take {} MiB of disk", bytes >> 20);
    require!(bytes >> 20 <= STORE_MIB_MAX, "{seen}")?;
    require_honest_check(&daemon, "ada", &seen)?;
    Ok(format!("{seen}, and a new quota of the honest namespace is admitted"))
}

/// A full disk is logged, and passes.
pub(crate) fn full_disk(context: &RunContext, durability: &str) -> AttackResult {
    let mut daemon = Daemon::start_on_small_disk(context, &policy(durability), DISK_KIB)?;
    let lines = daemon.log_lines();
    let (began, mut sent, mut refused) = (Instant::now(), 0_u64, 0_u64);
    while began.elapsed() < FILL_TIME && refused == 0 && daemon.log_lines() == lines {
        let check = |number: u64| http1::check("honest", &format!("{}-{}", sent + number, "u".repeat(400)));
        let statuses = raw::flood(daemon.http()?, 1_024, 8, check)?;
        sent += 1_024;
        refused += statuses.iter().filter(|(status, _)| **status != 200).map(|(_, count)| count).sum::<u64>();
    }
    require!(daemon.is_running(), "the daemon ends on a full disk: {}", daemon.log().trim())?;
    let is_logged = daemon.logs("commit", NOTICE_MAX)
        || ["disk", "File too large", "cannot be written"].iter().any(|word| daemon.log().contains(word));
    let lines = daemon.log_lines();
    require!(
        is_logged,
        "after {sent} checks ({refused} refused) the disk is full, and none of {lines} lines of the log reports it"
    )?;
    daemon.allow_large_files()?;
    let began = Instant::now();
    loop {
        let answer = http1::ask(daemon.http()?, http1::check("honest", "ada"))?;
        if answer.status == 200 {
            break;
        }
        require!(
            began.elapsed() < NOTICE_MAX,
            "5 s after there is room again, a check gets {} {}",
            answer.status,
            answer.member("reason")
        )?;
        thread::sleep(Duration::from_millis(100));
    }
    let took = began.elapsed().as_secs_f64();
    Ok(format!(
        "{sent} checks filled the disk ({refused} refused), the log reports it, and {took:.1} s after there is room a check is admitted"
    ))
}
