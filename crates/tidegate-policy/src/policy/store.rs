//! Where counters are kept, checked.

use core::time::Duration;

/// The store that a policy asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreChoice {
    /// The policy names this one.
    Named(StoreKind),
    /// The policy names none: this one if there is a quota to keep, otherwise memory.
    ForQuotas(Embedded),
}

impl StoreChoice {
    /// The store to use, by whether there is a quota to keep: see [`super::Policy::quotas`] and
    /// [`crate::envoy::Files::quotas`].
    pub fn kind(&self, has_quotas: bool) -> StoreKind {
        match self {
            Self::Named(kind) => kind.clone(),
            Self::ForQuotas(embedded) if has_quotas => StoreKind::Embedded(embedded.clone()),
            Self::ForQuotas(_) => StoreKind::Memory,
        }
    }

    /// Whether the policy says that counters are kept in memory, whatever is counted.
    pub fn is_memory(&self) -> bool {
        *self == Self::Named(StoreKind::Memory)
    }
}

/// Where the counters of exact limits are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreKind {
    /// In the memory of this process.
    Memory,
    /// In files of this machine.
    Embedded(Embedded),
    /// In Redis or Valkey, shared with every member that names the same.
    Redis(Redis),
}

impl StoreKind {
    /// How many exact limits a namespace may have, since one request may ask for all of them in one
    /// batch.
    pub const EXACT_LIMITS_MAX: usize = 64;
}

/// The store in files of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Embedded {
    /// The directory, 1 to [`super::PATH_BYTES_MAX`] bytes; default the first of
    /// [`Embedded::STATE_DIRECTORY`], and [`Embedded::PATH_DEFAULT`] where that variable is not
    /// set.
    pub path: String,
    /// Where the store of this policy was kept before [`Embedded::STATE_DIRECTORY`] was read, if
    /// that is not `path`. A store that is there goes on being used.
    pub earlier_path: Option<String>,
    /// When a charge is on disk; default [`Durability::Sync`].
    pub durability: Durability,
    /// The memory for counters that are in use in bytes, [`Embedded::MEMORY_BYTES_MIN`] to
    /// [`Embedded::MEMORY_BYTES_MAX`]; default [`Embedded::MEMORY_BYTES_DEFAULT`].
    pub memory_bytes: usize,
    /// How much counters may take on disk in bytes, [`Embedded::DISK_BYTES_MIN`] to
    /// [`Embedded::DISK_BYTES_MAX`]; default [`Embedded::DISK_BYTES_DEFAULT`].
    pub disk_bytes: u64,
}

impl Embedded {
    /// The directory where neither the policy nor the environment names one.
    pub const PATH_DEFAULT: &'static str = "./tidegate-data";
    /// The variable in which systemd names the directories of a service, separated by colons.
    pub const STATE_DIRECTORY: &'static str = "STATE_DIRECTORY";
    /// The memory for counters unless told otherwise: 64 MiB.
    pub const MEMORY_BYTES_DEFAULT: usize = 64 << 20;
    /// The least memory for counters: 1 MiB.
    pub const MEMORY_BYTES_MIN: u64 = 1 << 20;
    /// The most memory for counters: 1 TiB.
    pub const MEMORY_BYTES_MAX: u64 = 1 << 40;
    /// The disk for counters unless told otherwise: 4 GiB.
    pub const DISK_BYTES_DEFAULT: u64 = 4 << 30;
    /// The least disk for counters: 1 MiB.
    pub const DISK_BYTES_MIN: u64 = 1 << 20;
    /// The most disk for counters: 1 TiB.
    pub const DISK_BYTES_MAX: u64 = 1 << 40;
}

/// When a charge is on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Before the caller is answered.
    #[default]
    Sync,
    /// At most this long after the caller was answered, [`Durability::INTERVAL_MIN`] to
    /// [`Durability::INTERVAL_MAX`].
    Interval(Duration),
}

impl Durability {
    /// The interval unless told otherwise: 100 ms.
    pub const INTERVAL_DEFAULT: Duration = Duration::from_millis(100);
    /// The shortest interval: 1 ms.
    pub const INTERVAL_MIN: Duration = Duration::from_millis(1);
    /// The longest interval: a minute.
    pub const INTERVAL_MAX: Duration = Duration::from_mins(1);
}

/// The store in Redis or Valkey.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Redis {
    /// Where it is, 1 to [`Redis::URLS_MAX`] addresses: `redis://host:port`, `rediss://host:port`
    /// with TLS, or `unix:///path`, with a database as `redis://host:port/2`; at most
    /// [`Redis::URL_BYTES_MAX`] bytes each and without credentials. One for a single server; some
    /// of the nodes of a cluster.
    pub urls: Vec<String>,
    /// Whether it is a cluster; default no.
    pub cluster: bool,
    /// The ACL user, 1 to [`Redis::NAME_BYTES_MAX`] bytes; `None` is the server's default user.
    pub username: Option<String>,
    /// The file with the password, a path of 1 to [`super::PATH_BYTES_MAX`] bytes; `None`: without
    /// one.
    pub password_file: Option<String>,
    /// Whom to believe behind `rediss://`, and who to say we are.
    pub tls: RedisTls,
    /// The prefix of every key, 1 to [`Redis::NAME_BYTES_MAX`] bytes without braces; default
    /// [`Redis::PREFIX_DEFAULT`].
    pub prefix: String,
    /// How long a request waits for the answer, [`Redis::DEADLINE_MIN`] to [`Redis::DEADLINE_MAX`];
    /// default [`Redis::DEADLINE_DEFAULT`].
    pub deadline: Duration,
    /// How many members to assume until the store has reported how many there are, 1 to
    /// [`Redis::MEMBERS_MAX`]; default 1.
    pub members: u32,
}

impl Redis {
    /// The most addresses.
    pub const URLS_MAX: usize = 64;
    /// The longest address in bytes.
    pub const URL_BYTES_MAX: usize = 1024;
    /// The longest user and the longest prefix in bytes.
    pub const NAME_BYTES_MAX: usize = 128;
    /// The default prefix of keys.
    pub const PREFIX_DEFAULT: &'static str = "tidegate:";
    /// How long a request waits unless told otherwise: 50 ms.
    pub const DEADLINE_DEFAULT: Duration = Duration::from_millis(50);
    /// The shortest wait: 1 ms.
    pub const DEADLINE_MIN: Duration = Duration::from_millis(1);
    /// The longest wait: 10 s.
    pub const DEADLINE_MAX: Duration = Duration::from_secs(10);
    /// The most members.
    pub const MEMBERS_MAX: u32 = 10_000;
}

/// The files of TLS to Redis, each a path of 1 to [`super::PATH_BYTES_MAX`] bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisTls {
    /// Certificates that the server's must come from; `None`: those that the machine trusts.
    pub ca: Option<String>,
    /// The certificate that this member shows, and its key; `None`: none.
    pub client: Option<(String, String)>,
}
