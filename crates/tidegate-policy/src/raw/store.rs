//! Where counters are kept, as it is written.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

/// The store: where exact limits are counted and leased limits are lent.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "store")]
pub(crate) struct StoreConfig {
    /// Which store. Default: `embedded` if there is a quota to keep, otherwise `memory`. A quota to
    /// keep is a limit over an hour or longer that is not `consistency: local`, in `namespaces` or
    /// in a file of `envoy_ratelimit`. Danger: `memory` forgets quotas at each restart.
    pub(crate) kind: Option<StoreKindConfig>,
    /// For `kind: embedded`: the directory of its files, relative to where the daemon is started.
    /// The daemon makes its last part if that is missing. 1 to 4096 bytes. Default:
    /// `./tidegate-data`; under systemd with `StateDirectory=`, the first directory of
    /// `$STATE_DIRECTORY`. Danger: one process at a time; another directory is another store, in
    /// which nothing is used.
    pub(crate) path: Option<String>,
    /// For `kind: embedded`: when a charge is on disk. Default: `sync`.
    pub(crate) durability: Option<DurabilityConfig>,
    /// For `durability: interval`: how long an answered charge may wait for the disk, 1ms to 1m,
    /// which is the most that a crash loses. Default: `100ms`.
    pub(crate) interval: Option<String>,
    /// For `kind: embedded`: the memory for counters that are in use, 1MiB to 1TiB. Others are read
    /// from disk when they are asked for, which takes longer and forgets nothing. Default: `64MiB`.
    pub(crate) memory: Option<String>,
    /// For `kind: embedded`: the bound of counters on disk, 1MiB to 1TiB. A counter counts as twice
    /// the bytes of itself and its key, since pages are half full at worst. Half of the bound is
    /// divided among the namespaces, so that none takes the share of another. A new counter without
    /// room follows `memory.when_full`. Danger: a lower bound does not shrink the file. Default:
    /// `4GiB`.
    pub(crate) disk: Option<String>,
    /// For `kind: redis`, and needed there: 1 to 64 addresses, each `redis://host:port`,
    /// `rediss://host:port` with TLS or `unix:///path`, with a database as `redis://host:port/2`.
    /// One for a single server; some of the nodes of a cluster. User and password have keys of
    /// their own. Default: none.
    pub(crate) urls: Option<Vec<String>>,
    /// For `kind: redis`: whether the addresses are nodes of a cluster. Default: `false`.
    pub(crate) cluster: Option<bool>,
    /// For `kind: redis`: the ACL user, 1 to 128 bytes. Default: the server's default user.
    pub(crate) username: Option<String>,
    /// For `kind: redis`: the file with the password, read at the start. A line end behind it does
    /// not count. Default: none.
    pub(crate) password_file: Option<String>,
    /// For `kind: redis` with `rediss://` addresses: the trusted authorities and the certificate of
    /// the daemon.
    pub(crate) tls: Option<StoreTlsConfig>,
    /// For `kind: redis`: the beginning of every key, 1 to 128 bytes without braces, so that
    /// several fleets may share one server. Danger: another prefix is another store, in which
    /// nothing is used. Default: `"tidegate:"`.
    pub(crate) prefix: Option<String>,
    /// For `kind: redis`: how long a request waits for the answer, 1ms to 10s; later,
    /// `on_store_failure` of its limits decides. Default: `50ms`.
    pub(crate) deadline: Option<String>,
    /// For `kind: redis`: the number of members until the store has reported one, 1 to 10000. A
    /// member that cannot reach the store divides the rate and the burst of its limits by the last
    /// reported number, or by this one. Danger: with 1, each member of a fleet that starts while
    /// the store is away admits complete limits. Default: `1`.
    #[cfg_attr(test, schemars(range(min = 1, max = 10_000)))]
    pub(crate) members: Option<u32>,
}

/// TLS to a store. The files are in PEM and read at the start.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "store_tls")]
pub(crate) struct StoreTlsConfig {
    /// Authorities of the server's certificate. Default: those that the machine trusts.
    pub(crate) ca: Option<String>,
    /// The certificate of the daemon, followed by its chain up to a root. Default: none.
    pub(crate) cert: Option<String>,
    /// Its private key. Default: none, and needed beside `cert`.
    pub(crate) key: Option<String>,
}

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case", rename = "store_kind")]
pub(crate) enum StoreKindConfig {
    /// In the memory of this process: lost when the process ends, not shared.
    Memory,
    /// In files of this machine: kept when the process ends or crashes, not shared.
    Embedded,
    /// In Redis 7 or Valkey, single or a cluster: shared by all members that name the same.
    Redis,
}

/// When a charge is on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case", rename = "durability")]
pub(crate) enum DurabilityConfig {
    /// Before the caller is answered: no charge is lost. Callers that come together share one
    /// write.
    #[default]
    Sync,
    /// At most `interval` after the caller is answered.
    Interval,
}
