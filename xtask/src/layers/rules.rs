//! The rules of the layers, as data. A new crate is one more row in [`CRATES`].

/// The rule for one crate, or for a family of crates.
#[derive(Debug)]
pub(crate) struct Rule {
    /// The name of the crate; a trailing `*` stands for every crate that begins so.
    pub(crate) name: &'static str,
    /// The kind of the crate.
    pub(crate) kind: Kind,
    /// The crates of this workspace that it may depend on, apart from its tests.
    pub(crate) may_use: &'static [&'static str],
}

/// The kinds of crates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Reads no clock, opens no socket or file, starts no thread. Published.
    Pure,
    /// Talks to the world. Published.
    Edge,
    /// A tool of the project, never published. No other crate may depend on it, unless the rule of
    /// that crate names it.
    Apart,
}

use Kind::{Apart, Edge, Pure};

/// Stands in `may_use` for every crate that is not [`Kind::Apart`].
pub(crate) const ANY: &str = "any";

/// Every crate, lowest layer first. The reasons are in `ARCHITECTURE.md`.
pub(crate) const CRATES: &[Rule] = &[
    Rule { name: "tidegate-core", kind: Pure, may_use: &[] },
    Rule { name: "tidegate-capacity", kind: Pure, may_use: &["tidegate-core"] },
    Rule { name: "tidegate-overload", kind: Pure, may_use: &["tidegate-core"] },
    Rule { name: "tidegate-store", kind: Pure, may_use: &["tidegate-core"] },
    Rule { name: "tidegate-wire", kind: Pure, may_use: &["tidegate-core"] },
    Rule {
        name: "tidegate-engine",
        kind: Pure,
        may_use: &["tidegate-core", "tidegate-capacity", "tidegate-overload", "tidegate-store"],
    },
    Rule {
        name: "tidegate-policy",
        kind: Pure,
        may_use: &["tidegate-core", "tidegate-capacity", "tidegate-overload"],
    },
    Rule {
        name: "tidegate-sim",
        kind: Pure,
        may_use: &[
            "tidegate-core",
            "tidegate-capacity",
            "tidegate-overload",
            "tidegate-store",
            "tidegate-engine",
            "tidegate-policy",
        ],
    },
    Rule { name: "tidegate-store-*", kind: Edge, may_use: &["tidegate-core", "tidegate-store"] },
    Rule { name: "tidegate-clock", kind: Edge, may_use: &["tidegate-core"] },
    Rule {
        name: "tidegate-driver",
        kind: Edge,
        may_use: &["tidegate-core", "tidegate-clock", "tidegate-store", "tidegate-engine"],
    },
    Rule {
        name: "tidegate-tower",
        kind: Edge,
        may_use: &[
            "tidegate-core",
            "tidegate-overload",
            "tidegate-store",
            "tidegate-engine",
            "tidegate-driver",
            "tidegate-wire",
        ],
    },
    Rule {
        name: "tidegate",
        kind: Edge,
        may_use: &[
            "tidegate-core",
            "tidegate-clock",
            "tidegate-store",
            "tidegate-engine",
            "tidegate-driver",
            "tidegate-policy",
            "tidegate-store-*",
            "tidegate-tower",
        ],
    },
    Rule { name: "tidegate-net", kind: Edge, may_use: &["tidegate-core", "tidegate-wire"] },
    Rule {
        name: "tidegate-proxy",
        kind: Edge,
        may_use: &[
            "tidegate-core",
            "tidegate-wire",
            "tidegate-engine",
            "tidegate-driver",
            "tidegate-policy",
            "tidegate-net",
        ],
    },
    Rule {
        name: "tidegate-server",
        kind: Edge,
        may_use: &[
            "tidegate-core",
            "tidegate-capacity",
            "tidegate-overload",
            "tidegate-store",
            "tidegate-clock",
            "tidegate-wire",
            "tidegate-engine",
            "tidegate-driver",
            "tidegate-policy",
            "tidegate-store-*",
            "tidegate-net",
            "tidegate-proxy",
        ],
    },
    Rule {
        name: "tidegate-cli",
        kind: Edge,
        may_use: &["tidegate-core", "tidegate-server", "tidegate-sim", "tidegate-policy", "tidegate-wire"],
    },
    Rule { name: "tidegate-test-support", kind: Apart, may_use: &[] },
    Rule { name: "tidegate-bench", kind: Apart, may_use: &[ANY] },
    Rule { name: "tidegate-blackbox", kind: Apart, may_use: &["tidegate-wire", "tidegate-test-support"] },
    Rule { name: "tidegate-fuzz", kind: Apart, may_use: &[ANY] },
    Rule {
        name: "tidegate-lab",
        kind: Apart,
        may_use: &[
            "tidegate-core",
            "tidegate-capacity",
            "tidegate-overload",
            "tidegate-engine",
            "tidegate-store",
            "tidegate-sim",
        ],
    },
    Rule { name: "xtask", kind: Apart, may_use: &[] },
];

/// Crates that are published for `cargo install tidegate-cli` alone. Their API is no promise and is
/// in no list; the first line of each crate has [`INTERNAL_NOTICE`].
pub(crate) const INTERNAL: &[&str] =
    &["tidegate-net", "tidegate-proxy", "tidegate-server", "tidegate-sim", "tidegate-cli"];

/// How the documentation of such a crate begins.
pub(crate) const INTERNAL_NOTICE: &str = "//! Internal, no promise:";

/// Packages that bring a clock, a socket, a thread or randomness of their own. A pure crate reaches
/// none of them, under any of its features and over however many dependencies.
pub(crate) const IMPURE_PACKAGES: &[&str] = &[
    "async-std",
    "axum",
    "fastrand",
    "getrandom",
    "hyper",
    "mio",
    "quanta",
    "rand",
    "redis",
    "reqwest",
    "smol",
    "socket2",
    "tokio",
    "tonic",
];

/// A package that brings an impure one for a part of itself that no pure crate may use.
#[derive(Debug)]
pub(crate) struct UnusedImpurity {
    /// The package.
    pub(crate) package: &'static str,
    /// The impure package that it depends on.
    pub(crate) brings: &'static str,
}

/// The engine signs and verifies tickets with ring. `ring::rand::SystemRandom` alone asks
/// `getrandom`, and the bans forbid that type.
pub(crate) const UNUSED_IMPURITIES: &[UnusedImpurity] =
    &[UnusedImpurity { package: "ring", brings: "getrandom" }];

/// Crates that are not pure and that programs without a runtime use, on their own or by others.
pub(crate) const WITHOUT_RUNTIME: &[&str] = &["tidegate-clock"];

/// Packages that such a crate does not reach.
pub(crate) const RUNTIMES: &[&str] = &["async-std", "smol", "tokio"];

/// The crate whose `clippy.toml` is the text that every pure crate repeats.
pub(crate) const MODEL_OF_BANS: &str = "tidegate-core";

/// The least bans of that text. The check fails if one of them is removed from the model.
pub(crate) const LEAST_BANS: &[&str] = &[
    "ring::rand::SystemRandom",
    "std::env::var",
    "std::fs::File",
    "std::net::TcpStream",
    "std::net::UdpSocket",
    "std::thread::sleep",
    "std::thread::spawn",
    "std::time::Instant::now",
    "std::time::SystemTime::now",
];

/// Fields that every `Cargo.toml` inherits from the workspace.
pub(crate) const INHERITED: &[(&str, &[&str])] = &[
    ("package", &["authors", "edition", "license", "repository", "rust-version", "version"]),
    ("lints", &[""]),
];

/// A function that several files define and one file alone may use.
#[derive(Debug)]
pub(crate) struct SoleUser {
    /// The crate.
    pub(crate) package: &'static str,
    /// The folder of the files that define it.
    pub(crate) folder: &'static str,
    /// Its name.
    pub(crate) function: &'static str,
    /// The file that may use it.
    pub(crate) user: &'static str,
}

/// A crate of this workspace that one file alone of another may name.
#[derive(Debug)]
pub(crate) struct SoleImporter {
    /// The crate that names it.
    pub(crate) package: &'static str,
    /// The crate that is named, as code writes it.
    pub(crate) import: &'static str,
    /// The file that may name it.
    pub(crate) file: &'static str,
}

/// The daemon knows in one place which store its members share.
pub(crate) const SOLE_IMPORTERS: &[SoleImporter] = &[SoleImporter {
    package: "tidegate-server",
    import: "tidegate_store_redis",
    file: "src/fleet/redis_store.rs",
}];

/// The planes of the engine are asked by its walk and by nothing else.
pub(crate) const SOLE_USERS: &[SoleUser] = &[SoleUser {
    package: "tidegate-engine",
    folder: "src/engine/admission",
    function: "step",
    user: "src/engine/admission.rs",
}];

/// A circle between files that is older than the check.
#[derive(Debug)]
pub(crate) struct KnownCircle {
    /// The crate.
    pub(crate) package: &'static str,
    /// All its files, in order.
    pub(crate) files: &'static [&'static str],
}

/// The circles that are left. None may be added, and one that is gone is removed here.
pub(crate) const KNOWN_CIRCLES: &[KnownCircle] = &[
    KnownCircle { package: "tidegate-core", files: &["src/gate/charge.rs", "src/gate/permit.rs"] },
    KnownCircle { package: "tidegate-engine", files: &["src/continuation.rs", "src/decision.rs"] },
    KnownCircle { package: "tidegate-store", files: &["src/record.rs", "src/record/lent.rs", "src/step.rs"] },
    KnownCircle { package: "tidegate-store", files: &["src/keeper.rs", "src/memory.rs"] },
    KnownCircle { package: "tidegate-store-redis", files: &["src/ledger.rs", "src/numbers.rs"] },
    KnownCircle { package: "tidegate-store-redis", files: &["src/probe.rs", "src/shared.rs"] },
];

/// The rule for the crate of that name; an exact name wins over a beginning.
pub(crate) fn rule_for(name: &str) -> Option<&'static Rule> {
    CRATES
        .iter()
        .find(|rule| rule.name == name)
        .or_else(|| CRATES.iter().find(|rule| matches(rule.name, name)))
}

/// Whether `name` is `pattern`, or begins with it where the pattern ends in `*`.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |beginning| name.starts_with(beginning))
}
