//! Opening the store that a policy names: Redis or Valkey. Nothing else of the daemon knows which
//! store its members share.

use std::io;
use std::path::Path;

use tidegate_net::file_backed::FILE_BYTES_MAX;
use tidegate_net::regular_file::read_regular;
use tidegate_policy::policy::Redis;
use tidegate_store_redis::{OpenError, RedisConfig, RedisStore, Secret};
pub use tidegate_store_redis::{PROTOCOL, VALUE_LAYOUTS};

/// Why a shared store cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SharedStoreError {
    /// Its settings cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A file that the policy names cannot be read.
    #[error("{key}: {path} cannot be read")]
    File {
        /// The key of the policy.
        key: &'static str,
        /// The file.
        path: String,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The file holds no password, or one that is not UTF-8.
    #[error("store.password_file: {path} holds no password; write it there, as text")]
    Password {
        /// The file.
        path: String,
    },
}

/// Opens it; whether it can be reached shows later.
pub(crate) fn open(redis: &Redis) -> Result<RedisStore, SharedStoreError> {
    let mut config = RedisConfig::new(&redis.urls);
    config.cluster = redis.cluster;
    config.username.clone_from(&redis.username);
    config.prefix.clone_from(&redis.prefix);
    config.deadline = redis.deadline;
    if let Some(path) = &redis.password_file {
        let bytes = read("store.password_file", path)?;
        let text = str::from_utf8(&bytes).ok().map(|text| text.trim_end_matches(['\r', '\n']));
        let Some(text) = text.filter(|text| !text.is_empty()) else {
            return Err(SharedStoreError::Password { path: path.clone() });
        };
        config.password = Some(Secret::new(text));
    }
    config.tls.roots = redis.tls.ca.as_ref().map(|path| read("store.tls.ca", path)).transpose()?;
    if let Some((cert, key)) = &redis.tls.client {
        config.tls.client = Some((read("store.tls.cert", cert)?, read("store.tls.key", key)?));
    }
    Ok(RedisStore::open(config)?)
}

fn read(key: &'static str, path: &str) -> Result<Vec<u8>, SharedStoreError> {
    read_regular(Path::new(path), FILE_BYTES_MAX).map_err(|source| SharedStoreError::File {
        key,
        path: path.to_owned(),
        source,
    })
}

/// The store at an address, with default settings.
#[cfg(test)]
pub(crate) fn at(url: &str) -> RedisStore {
    RedisStore::open(RedisConfig::new([url])).unwrap()
}
