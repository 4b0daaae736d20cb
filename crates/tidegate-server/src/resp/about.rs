//! Commands about the server itself, for clients that ask before they begin, and for people.

use core::fmt::Write;
use std::borrow::Cow;

use tidegate_core::Timestamp;
use tidegate_wire::resp::Replies;

use super::command::Command;
use super::command_error::{CommandError, unknown_subcommand};
use crate::context::RequestScope;

/// Settings of a Redis server that tools ask for, with the values for this server: nothing is kept
/// in its files.
const SETTINGS: [(&str, &str); 3] = [("save", ""), ("appendonly", "no"), ("databases", "1")];

/// Answers `COMMAND`.
pub(super) fn commands(arguments: &[Cow<'_, [u8]>], replies: &mut Replies<'_>) -> Result<(), CommandError> {
    let Some((subcommand, names)) = arguments.split_first() else {
        replies.array(Command::ALL.len());
        for command in Command::ALL {
            write_info(command, replies);
        }
        return Ok(());
    };
    let is = |name: &str| subcommand.eq_ignore_ascii_case(name.as_bytes());
    if is("COUNT") && names.is_empty() {
        replies.integer(i64::try_from(Command::ALL.len()).unwrap_or(i64::MAX));
    } else if is("LIST") && names.is_empty() {
        replies.array(Command::ALL.len());
        for command in Command::ALL {
            replies.bulk(command.about().name);
        }
    } else if is("INFO") && names.is_empty() {
        return commands(&[], replies);
    } else if is("INFO") {
        replies.array(names.len());
        for name in names {
            match Command::find(name) {
                Some(command) => write_info(command, replies),
                None => replies.null(),
            }
        }
    } else if is("DOCS") {
        let wanted: Vec<Command> = match names {
            [] => Command::ALL.to_vec(),
            names => names.iter().filter_map(|name| Command::find(name)).collect(),
        };
        replies.map(wanted.len());
        for command in wanted {
            write_docs(command, replies);
        }
    } else {
        return Err(unknown_subcommand(Command::Describe, subcommand));
    }
    Ok(())
}

/// One command as a client's table has it.
fn write_info(command: Command, replies: &mut Replies<'_>) {
    let about = command.about();
    replies.array(10);
    replies.bulk(about.name);
    replies.integer(about.arity);
    replies.array(about.flags.len());
    for flag in about.flags {
        replies.simple(flag);
    }
    replies.integer(about.first_key);
    replies.integer(about.last_key);
    replies.integer(i64::from(about.first_key != 0));
    // Categories, tips, key specifications and subcommands, all empty.
    for _ in 0..4 {
        replies.array(0);
    }
}

/// One command as people read it.
fn write_docs(command: Command, replies: &mut Replies<'_>) {
    let about = command.about();
    replies.bulk(about.name);
    replies.map(3);
    replies.bulk("summary");
    replies.bulk(about.summary);
    replies.bulk("since");
    replies.bulk(env!("CARGO_PKG_VERSION"));
    replies.bulk("group");
    replies.bulk("generic");
}

/// Answers `CONFIG GET`; names that mean nothing here have no value.
pub(super) fn config(arguments: &[Cow<'_, [u8]>], replies: &mut Replies<'_>) -> Result<(), CommandError> {
    let [subcommand, names @ ..] = arguments else {
        return Err(unknown_subcommand(Command::Config, b""));
    };
    if !subcommand.eq_ignore_ascii_case(b"GET") || names.is_empty() {
        return Err(unknown_subcommand(Command::Config, subcommand));
    }
    let is_wanted = |setting: &str| names.iter().any(|name| name.eq_ignore_ascii_case(setting.as_bytes()));
    let wanted = || SETTINGS.iter().filter(|(name, _)| is_wanted(name));
    replies.map(wanted().count());
    for (name, value) in wanted() {
        replies.bulk(name);
        replies.bulk(value);
    }
    Ok(())
}

/// Answers `INFO`, as lines that clients look for `loading:0` in.
pub(super) fn info(
    sections: &[Cow<'_, [u8]>],
    scope: &RequestScope<'_>,
    now: Timestamp,
    replies: &mut Replies<'_>,
) {
    let is_wanted = |section: &str| {
        let all = ["all", "default", "everything"];
        let is = |name: &str| sections.iter().any(|wanted| wanted.eq_ignore_ascii_case(name.as_bytes()));
        sections.is_empty() || is(section) || all.into_iter().any(is)
    };
    let version = env!("CARGO_PKG_VERSION");
    let policy = &scope.in_force.version;
    let age = now.saturating_since(policy.since).as_secs();
    let process = std::process::id();
    let clients = scope.daemon.connections.count();
    let server = format!(
        "server_name:tidegate\r\ntidegate_version:{version}\r\nredis_mode:standalone\r\nprocess_id:{process}\r\n\
         policy_version:{}\r\npolicy_age_seconds:{age}\r\n",
        policy.number
    );
    let table = [
        ("Server", server),
        ("Clients", format!("connected_clients:{clients}\r\n")),
        ("Persistence", "loading:0\r\n".to_owned()),
        ("Replication", "role:master\r\nconnected_slaves:0\r\n".to_owned()),
    ];
    let mut text = String::new();
    for (section, lines) in table.into_iter().filter(|(section, _)| is_wanted(section)) {
        let separator = if text.is_empty() { "" } else { "\r\n" };
        let _ = write!(text, "{separator}# {section}\r\n{lines}");
    }
    replies.bulk(text);
}
