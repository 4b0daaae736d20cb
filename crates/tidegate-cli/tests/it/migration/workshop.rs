//! A folder in which the blocks of the page are carried out as a reader would.
//!
//! The page names fixed addresses. Each is exchanged for a free one in what is written and run, and
//! back in what is printed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate_test_support::TemporaryFolder;

use crate::command::tidegate;
use crate::documents::{Block, blocks, root};
use crate::gateways::exchange::{Answer, send};
use crate::gateways::stand::{Gateway, exchange, free_address};
use crate::process::Daemon;

/// A section of the page.
pub(super) struct Section(String);

impl Section {
    /// The section under this heading, with those below it.
    pub(super) fn of(heading: &str) -> Self {
        let page = fs::read_to_string(root().join("docs/migration.md")).unwrap();
        let (_, rest) = page.split_once(&format!("\n{heading}\n")).unwrap();
        let level = heading.split(' ').next().unwrap();
        let mut is_code = false;
        let lines = rest.lines().take_while(|line| {
            is_code ^= line.starts_with("```");
            let (hashes, _) = line.split_once(' ').unwrap_or_default();
            is_code || !(hashes.starts_with('#') && hashes.len() <= level.len())
        });
        Self(lines.flat_map(|line| [line, "\n"]).collect())
    }

    /// The only block with this text.
    pub(super) fn block(&self, with: &str) -> Block<'_> {
        let mut found: Vec<_> = blocks(&self.0).into_iter().filter(|one| one.text.contains(with)).collect();
        assert_eq!(found.len(), 1, "blocks with {with:?}");
        found.remove(0)
    }

    /// Asserts that the section has this text, whatever its line breaks.
    pub(super) fn assert_says(&self, text: &str) {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words(&self.0).contains(&words(text)), "the page does not say {text:?}");
    }

    /// The cells of the rows of the only table whose first row begins with this.
    pub(super) fn rows(&self, beginning: &str) -> Vec<Vec<&str>> {
        let first = self.0.lines().position(|line| line.starts_with(beginning)).unwrap();
        let rows = self.0.lines().skip(first + 2).take_while(|line| line.starts_with('|'));
        rows.map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
    }
}

/// Where the blocks are carried out. Processes that are started in it end with it.
pub(super) struct Workshop {
    // Before the folder, so that no program outlives its files.
    gateway: Option<Gateway>,
    daemons: Vec<Daemon>,
    folder: TemporaryFolder,
    addresses: Vec<(String, String)>,
}

impl Workshop {
    /// A folder with the documents of the checkout. The ports are those of the page that are
    /// exchanged.
    pub(super) fn new(ports: &[u16]) -> Self {
        let folder = TemporaryFolder::new();
        std::os::unix::fs::symlink(root().join("docs"), folder.path().join("docs")).unwrap();
        let addresses = ports.iter().map(|port| (format!("127.0.0.1:{port}"), free_address())).collect();
        Self { gateway: None, daemons: Vec::new(), folder, addresses }
    }

    /// The address for this port of the page.
    pub(super) fn address(&self, port: u16) -> &str {
        let of_page = format!("127.0.0.1:{port}");
        self.addresses.iter().find(|(known, _)| *known == of_page).map(|(_, free)| &**free).unwrap()
    }

    /// Has the address of the page stand for something that listens already.
    pub(super) fn set_address(&mut self, port: u16, address: &str) {
        self.addresses.push((format!("127.0.0.1:{port}"), address.to_owned()));
    }

    /// A text of the page with the addresses of this workshop.
    fn ours(&self, text: &str) -> String {
        self.addresses.iter().fold(text.to_owned(), |text, (of_page, free)| {
            // The client of Redis takes the port alone.
            let flag = |address: &str| format!("-p {} ", address.rsplit(':').next().unwrap());
            exchange(&text, of_page, free).replace(&flag(of_page), &flag(free))
        })
    }

    /// A text of ours with the addresses of the page.
    fn of_page(&self, text: &str) -> String {
        self.addresses.iter().fold(text.to_owned(), |text, (of_page, free)| exchange(&text, free, of_page))
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file with addresses of the page.
    pub(super) fn write(&self, name: &str, text: &str) {
        let file = self.file(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, self.ours(text)).unwrap();
    }

    /// Exchanges the addresses of a file that a command of the page made.
    pub(super) fn adapt(&self, name: &str) {
        self.write(name, &fs::read_to_string(self.file(name)).unwrap());
    }

    /// Replaces a text of a file, which it must have.
    pub(super) fn edit(&self, name: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.file(name)).unwrap();
        assert!(text.contains(from), "{name} has no {from:?}: {text}");
        // In one step, for a daemon that may read it at any time.
        fs::write(self.file("edited"), text.replace(from, to)).unwrap();
        fs::rename(self.file("edited"), self.file(name)).unwrap();
    }

    /// Writes the file that the block shows under its name, or carries out its commands; after a
    /// command comes what it prints.
    pub(super) fn follow(&mut self, block: &Block<'_>) {
        let text = &block.text;
        match block.language {
            "console" => {
                for (command, printed) in exchanges(text) {
                    assert_eq!(self.run(command), printed, "$ {command}");
                }
            }
            "sh" => {
                for command in text.replace("\\\n", " ").lines() {
                    match command
                        .strip_suffix(" &")
                        .and_then(|command| command.strip_prefix("tidegate serve "))
                    {
                        Some(policy) => self.serve(policy),
                        None => drop(self.run(command)),
                    }
                }
            }
            _ => {
                let name = text.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap();
                self.write(name, text);
            }
        }
    }

    /// The output of the command, with the addresses of the page. It must succeed.
    pub(super) fn run(&self, command: &str) -> String {
        // Where its output is no terminal, the client of Redis prints bare values.
        let command = match command.strip_prefix("redis-cli ") {
            Some(words) if !words.contains('|') => format!("redis-cli --no-raw {words}"),
            _ => command.to_owned(),
        };
        let ours = self.ours(&command);
        let programs = Path::new(env!("CARGO_BIN_EXE_tidegate")).parent().unwrap();
        let path = format!("{}:/usr/sbin:{}", programs.display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("sh");
        shell.args(["-c", &ours]).current_dir(self.path()).env("PATH", path);
        let output = shell.env_remove("TIDEGATE_LOG").env_remove("TIDEGATE_TOKEN").output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        let complained = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "$ {command}\n{told}{complained}");
        self.of_page(&told)
    }

    /// Serves a policy in the folder. The last one of several is the one that [`Workshop::daemon`]
    /// gives.
    pub(super) fn serve(&mut self, policy: &str) {
        let mut command = tidegate();
        command.args(["serve", policy]).current_dir(self.path());
        let mut daemon = Daemon::spawn(command);
        daemon.address();
        self.daemons.push(daemon);
    }

    /// Ends the daemon that was started first, without a word to it.
    pub(super) fn kill_first_daemon(&mut self) {
        drop(self.daemons.remove(0));
    }

    /// Starts a gateway in place of the one before. It listens at port 8000 of the page.
    pub(super) fn start_gateway(&mut self, command: &mut Command) {
        self.gateway = None;
        self.gateway = Some(Gateway::start(command, self.folder.path(), self.address(8000)));
    }

    /// Asks what listens at this port of the page.
    pub(super) fn get(&self, port: u16, path: &str, headers: &[(&str, &str)]) -> Answer {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        send(self.address(port), "GET", path, &headers, b"")
    }
}

/// The commands of a block and what each prints.
pub(super) fn exchanges(text: &str) -> Vec<(&str, String)> {
    let mut exchanges: Vec<(&str, String)> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("$ "), exchanges.last_mut()) {
            (Some(command), _) => exchanges.push((command, String::new())),
            (None, Some((_, printed))) => printed.extend([line, "\n"]),
            (None, None) => panic!("the block begins with no command: {line}"),
        }
    }
    exchanges
}

/// Waits until the present hour lasts for so many minutes, for counters that begin anew with the
/// next one.
pub(super) fn until_the_hour_has(minutes: u64) {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let left = Duration::from_hours(1).saturating_sub(Duration::from_nanos(
        u64::try_from(since_epoch.as_nanos() % Duration::from_hours(1).as_nanos()).unwrap(),
    ));
    if left < Duration::from_mins(minutes) {
        // Sleeps: until the next hour of the wall clock, with which the counters begin anew.
        std::thread::sleep(left);
    }
}
