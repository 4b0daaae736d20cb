//! The table of commands: their names, their arguments, and their purpose.

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Throttle,
    ThrottleMillis,
    Check,
    Release,
    Del,
    Ping,
    Echo,
    Hello,
    Auth,
    Client,
    Describe,
    Config,
    Info,
    Select,
    Multi,
    Exec,
    Discard,
    Reset,
    Quit,
}

/// The properties of a command.
#[derive(Debug)]
pub(super) struct About {
    /// In lower case.
    pub(super) name: &'static str,
    /// The number of arguments, its name among them; a negative number is the least.
    pub(super) arity: i64,
    pub(super) flags: &'static [&'static str],
    /// The first of its arguments that is a key, and the last; 0 of one without keys, -1 for the
    /// very last.
    pub(super) first_key: i64,
    pub(super) last_key: i64,
    pub(super) summary: &'static str,
    /// How it is written, behind its name.
    pub(super) form: &'static str,
    /// The words that may follow its name, in upper case; none where any may.
    pub(super) subcommands: &'static [&'static str],
}

const PLAIN: About = About {
    name: "",
    arity: 1,
    flags: &["fast", "loading", "stale"],
    first_key: 0,
    last_key: 0,
    summary: "",
    form: "",
    subcommands: &[],
};

const WRITES: &[&str] = &["write", "fast"];

const THROTTLE: About = About {
    arity: -5,
    flags: WRITES,
    first_key: 1,
    last_key: 1,
    form: "key max_burst count period [quantity]",
    ..PLAIN
};

impl Command {
    /// Every command, in the order of the documentation.
    pub(super) const ALL: [Self; 19] = [
        Self::Throttle,
        Self::ThrottleMillis,
        Self::Check,
        Self::Release,
        Self::Del,
        Self::Ping,
        Self::Echo,
        Self::Hello,
        Self::Auth,
        Self::Client,
        Self::Describe,
        Self::Config,
        Self::Info,
        Self::Select,
        Self::Multi,
        Self::Exec,
        Self::Discard,
        Self::Reset,
        Self::Quit,
    ];

    /// The command of this name, in whatever case.
    #[inline]
    pub(super) fn find(name: &[u8]) -> Option<Self> {
        // Nearly all clients send the first one.
        Self::ALL.into_iter().find(|command| name.eq_ignore_ascii_case(command.about().name.as_bytes()))
    }

    pub(super) const fn about(self) -> &'static About {
        match self {
            Self::Throttle => &About {
                name: "cl.throttle",
                summary: "Charges a bucket whose numbers arrive with the command; waits in seconds",
                ..THROTTLE
            },
            Self::ThrottleMillis => &About {
                name: "tg.throttle",
                summary: "As CL.THROTTLE, with waits in milliseconds",
                ..THROTTLE
            },
            Self::Check => &About {
                name: "tg.check",
                arity: -2,
                flags: WRITES,
                summary: "Asks the limits of a namespace of the policy",
                form: "namespace [COST units] [RELEASE] [attribute value ...]",
                ..PLAIN
            },
            Self::Release => &About {
                name: "tg.release",
                arity: 2,
                flags: WRITES,
                summary: "Gives back what a permit of TG.CHECK lends",
                form: "permit",
                ..PLAIN
            },
            Self::Del => &About {
                name: "del",
                arity: -2,
                flags: &["write"],
                first_key: 1,
                last_key: -1,
                summary: "Forgets what CL.THROTTLE has counted of keys",
                form: "key [key ...]",
                ..PLAIN
            },
            Self::Ping => &About { name: "ping", arity: -1, summary: "Answers", form: "[message]", ..PLAIN },
            Self::Echo => {
                &About { name: "echo", arity: 2, summary: "Answers a message", form: "message", ..PLAIN }
            }
            Self::Hello => &About {
                name: "hello",
                arity: -1,
                summary: "Chooses the version of the protocol",
                form: "[2|3 [AUTH user password] [SETNAME name]]",
                ..PLAIN
            },
            Self::Auth => &About {
                name: "auth",
                arity: -2,
                summary: "Says who is there",
                form: "[user] password",
                ..PLAIN
            },
            Self::Client => &About {
                name: "client",
                arity: -2,
                summary: "Names the connection",
                form: "GETNAME|ID|SETINFO attribute value|SETNAME name",
                subcommands: &["GETNAME", "ID", "SETINFO", "SETNAME"],
                ..PLAIN
            },
            Self::Describe => &About {
                name: "command",
                arity: -1,
                summary: "Describes commands",
                form: "[COUNT|DOCS [name ...]|INFO [name ...]|LIST]",
                subcommands: &["COUNT", "DOCS", "INFO", "LIST"],
                ..PLAIN
            },
            Self::Config => &About {
                name: "config",
                arity: -2,
                summary: "Answers what tools ask of a Redis server",
                form: "GET name [name ...]",
                subcommands: &["GET"],
                ..PLAIN
            },
            Self::Info => &About {
                name: "info",
                arity: -1,
                summary: "Describes the server",
                form: "[section ...]",
                ..PLAIN
            },
            Self::Select => {
                &About { name: "select", arity: 2, summary: "Takes database 0", form: "0", ..PLAIN }
            }
            Self::Multi => &About { name: "multi", summary: "Begins a transaction", ..PLAIN },
            Self::Exec => {
                &About { name: "exec", summary: "Decides the commands since MULTI in order", ..PLAIN }
            }
            Self::Discard => &About { name: "discard", summary: "Forgets the commands since MULTI", ..PLAIN },
            Self::Reset => &About { name: "reset", summary: "Begins the connection anew", ..PLAIN },
            Self::Quit => &About { name: "quit", arity: -1, summary: "Closes the connection", ..PLAIN },
        }
    }

    /// Whether it is carried out at once, also between `MULTI` and `EXEC`.
    pub(super) const fn is_never_queued(self) -> bool {
        matches!(self, Self::Multi | Self::Exec | Self::Discard | Self::Reset | Self::Quit)
    }

    /// About how many bytes its reply has beyond the arguments that it repeats.
    pub(super) const fn reply_bytes(self) -> usize {
        match self {
            Self::Throttle | Self::ThrottleMillis => 64,
            Self::Describe => 8 << 10,
            Self::Check | Self::Info | Self::Hello => 1 << 10,
            _ => 256,
        }
    }

    /// Whether the word behind its name, if there is one, is one that it knows.
    pub(super) fn knows(self, subcommand: Option<&[u8]>) -> bool {
        let known = self.about().subcommands;
        subcommand.is_none_or(|word| {
            known.is_empty() || known.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
        })
    }

    /// Whether it accepts this number of arguments, its name among them.
    pub(super) fn takes(self, arguments: usize) -> bool {
        let arity = self.about().arity;
        let least = usize::try_from(arity.unsigned_abs()).unwrap_or(usize::MAX);
        if arity < 0 { arguments >= least } else { arguments == least }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_by_its_name_in_any_case() {
        for (index, command) in Command::ALL.into_iter().enumerate() {
            let name = command.about().name;
            assert_eq!(name, name.to_lowercase());
            assert_eq!(command as usize, index);
            assert_eq!(Command::find(name.as_bytes()), Some(command));
            assert_eq!(Command::find(name.to_uppercase().as_bytes()), Some(command));
            assert!(!command.about().summary.is_empty());
        }
        assert_eq!(Command::find(b"get"), None);
        assert_eq!(Command::find(b""), None);
    }
}
