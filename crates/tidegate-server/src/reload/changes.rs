//! Changes of the policy and the overrides in force while requests go on.
//!
//! One change at a time. A change is made ready aside, written to the store if it must outlive the
//! process, and then put in force by exchanging one pointer: a request sees all of it or nothing.

use std::sync::Arc;

use tidegate_core::{Timestamp, error_chain};
use tidegate_engine::{BuildError, Engine};
use tidegate_policy::{Comparison, Policy, Problems};
use tidegate_store::{NoteChange, StoreError};

use crate::config::ServerConfig;
use crate::context::DaemonContext;
use crate::in_force::{InForce, PolicyVersion};
use crate::no_store::NoStore;
use crate::planes::with_planes;
use crate::policy_config::{self, ConfigError};
use crate::quota_store;
use crate::reload::reload_status::LastError;
use tidegate_policy::policy::{Address, ListenerPolicy};

/// The first listener of `opened` that `policy` would leave without any protection, with its
/// address.
///
/// A listener keeps the address and the TLS that it was opened with until a restart, so those
/// count, and not what `policy` writes under `listen:`. Only `insecure: true` counts at once, for
/// the address that is open.
fn unprotected_listener<'a>(
    opened: &'a ServerConfig,
    policy: &Policy,
) -> Option<(&'static str, &'a Address)> {
    if !policy.authorization.is_empty() {
        return None;
    }
    let is_unprotected = |open: &&ListenerPolicy| {
        let written = policy.listener(open.role);
        let is_insecure = written.is_some_and(|one| one.insecure && one.address == open.address);
        let is_protected = open.address.is_local() || open.asks_for_certificates() || is_insecure;
        open.role.asks_for_grants() && !is_protected
    };
    opened.listeners.iter().find(is_unprotected).map(|open| (open.role.as_str(), &open.address))
}

/// Why a policy was not taken over; the one in force stays, whole.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// It has problems.
    #[error("the policy has problems\n{0}")]
    Problems(Problems),
    /// It cannot be read.
    #[error("the policy cannot be read")]
    Unreadable(#[from] std::io::Error),
    /// Its limits make no engine.
    #[error(transparent)]
    Engine(#[from] BuildError),
    /// It makes no configuration of a daemon.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// It has a quota, and the daemon has no store to keep it in.
    #[error(transparent)]
    NoStore(#[from] NoStore),
    /// It drops `authorization` while a listener that other machines reach stays open.
    #[error(
        "listen.{listener} is open on {address} and only `authorization:` protects it; this policy has no `authorization:`, and \
         what it writes under `listen:` needs a restart; keep `authorization:`, or restart the daemon with this policy"
    )]
    Unprotected {
        /// The name of the listener under `listen:`.
        listener: &'static str,
        /// The address that it is open on.
        address: Address,
    },
    /// It says nothing of namespaces, and there are some.
    #[error(
        "the policy has no `namespaces:`, which would take away all {in_force} in force; add them, or \
         write `namespaces: {{}}` to mean none"
    )]
    NoNamespaces {
        /// How many are in force.
        in_force: usize,
    },
    /// A note that must outlive the process could not be written to the store.
    #[error("renamed limits could not be stored")]
    Store(#[from] StoreError),
}

impl From<Problems> for ReloadError {
    fn from(problems: Problems) -> Self {
        Self::Problems(problems)
    }
}

/// Why expired overrides stay.
#[derive(Debug, thiserror::Error)]
enum OverrideExpiryError {
    #[error(transparent)]
    Engine(#[from] BuildError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl DaemonContext {
    /// Replaces `old` by `new`, or returns an error. The result reports the treatment of the
    /// counters.
    pub(crate) async fn take_over(
        &self,
        old: &Policy,
        new: &Policy,
        fingerprint: String,
    ) -> Result<Comparison, ReloadError> {
        let _turn = self.changes.turn.lock().await;
        let mut config = policy_config::server_config(new)?;
        let before = self.in_force.load_full();
        if before.config.authorization.is_some()
            && let Some((listener, address)) = unprotected_listener(&self.config, new)
        {
            return Err(ReloadError::Unprotected { listener, address: address.clone() });
        }
        if before.config.keeps_proxying {
            config.proxying = before.config.proxying.clone();
            config.keeps_proxying = true;
        }
        if !self.asks_store {
            quota_store::check_without_store(new, config.envoy_ratelimit.as_ref())?;
        }
        let now = self.clock.now();
        let (engine, report) = before.engine.reconfigured(policy_config::namespaces(new))?;
        self.store_notes(&engine, &report.notes).await?;
        // Last, since resources have their new bounds at once. The policy's checks leave nothing
        // that could fail here.
        let engine = with_planes(&engine, new, self.clock.now())?;
        let version = PolicyVersion { number: before.version.number + 1, fingerprint, since: now };
        self.put_in_force(&before, engine, config, version);
        if let Some(store) = &self.embedded {
            store.set_namespaces(new.namespaces.len());
        }
        let comparison = tidegate_policy::compare(old, new);
        let restart = comparison.settings.iter().filter(|setting| setting.needs_restart);
        let mut status = self.changes.status();
        status.succeeded += 1;
        (status.last_error, status.files_error) = (None, None);
        status.restart_needed = restart.map(|setting| setting.path.clone()).collect();
        Ok(comparison)
    }

    /// Notes that a policy was not taken over.
    pub(crate) fn reload_failed(&self, error: &ReloadError) {
        let at = self.clock.now().to_whole_millis().to_string();
        let mut status = self.changes.status();
        status.failed += 1;
        status.last_error = Some(LastError { at, problems: error_chain(error) });
    }

    /// Makes another engine out of the one in force and puts it in its place, under the same
    /// policy. The notes that `change` returns are stored before the first decision by the new
    /// engine.
    pub(crate) async fn change_engine<E: From<StoreError>>(
        &self,
        change: impl FnOnce(&Engine, Timestamp) -> Result<(Engine, Vec<NoteChange>), E>,
    ) -> Result<(), E> {
        let _turn = self.changes.turn.lock().await;
        let before = self.in_force.load_full();
        let (engine, notes) = change(&before.engine, self.clock.now())?;
        self.store_notes(&engine, &notes).await?;
        self.put_in_force(&before, engine, before.config.clone(), before.version.clone());
        Ok(())
    }

    /// Takes out the overrides that have expired. They no longer apply in any case; this lets go of
    /// them.
    pub(crate) async fn drop_expired_overrides(&self) {
        let mut expired = Vec::new();
        let dropped = self.change_engine(|engine, now| {
            let (engine, gone) = engine.without_expired(now)?;
            expired = gone;
            Ok::<_, OverrideExpiryError>((engine, Vec::new()))
        });
        if let Err(error) = dropped.await {
            tracing::error!(error = error_chain(&error), "expired overrides could not be removed");
        }
        for one in expired {
            tracing::info!(
                target: "tidegate::audit",
                namespace = one.namespace,
                limit = one.limit,
                numbers = one.numbers_in_words(),
                "an override has expired"
            );
        }
    }

    pub(crate) fn put_in_force(
        &self,
        before: &InForce,
        engine: Engine,
        config: ServerConfig,
        version: PolicyVersion,
    ) {
        self.connections.divide_watched(engine.owners());
        let now = Arc::new(InForce::new(Arc::new(engine), config, &self.metrics, version));
        for protocol in &self.protocols {
            protocol.take_over(&now);
        }
        self.in_force.store(Arc::clone(&now));
        self.driver.handle().replace(Arc::clone(&now.engine));
        now.metrics.forget(&before.metrics);
        match (&before.config.envoy_ratelimit, &now.config.envoy_ratelimit) {
            (Some(before), Some(now)) => now.replace(before),
            (Some(before), None) => before.forget(),
            (None, _) => {}
        }
    }

    /// Writes notes, if there are any and a store that outlives the process.
    pub(crate) async fn store_notes(&self, engine: &Engine, notes: &[NoteChange]) -> Result<(), StoreError> {
        if !self.asks_store {
            return Ok(());
        }
        for batch in engine.note_batches(notes) {
            self.driver.call_store(&batch).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRANT: &str = "authorization: [{ token: ada-has-a-long-token, namespaces: ['*'] }]\n";

    fn policy(text: &str) -> Policy {
        let parsed =
            tidegate_policy::parse("t.yaml", &format!("namespaces: {{ api: {{}} }}\n{text}"), &|_| None);
        parsed.unwrap_or_else(|problems| panic!("{text}: {problems}")).policy
    }

    /// The listener that the policy `new` would leave unprotected in a daemon that was started with
    /// `old`.
    fn unprotected(old: &str, new: &str) -> Option<String> {
        let opened = policy_config::server_config(&policy(&format!("{GRANT}{old}"))).unwrap();
        let found = unprotected_listener(&opened, &policy(new));
        found.map(|(name, address)| format!("{name} {address}"))
    }

    #[test]
    fn a_policy_is_held_against_the_listeners_that_are_open_and_not_against_those_it_writes() {
        const TLS: &str = "tls: { cert: c, key: k, client_ca: ca }";
        for (listener, port) in [("http", 8080), ("admin", 8082), ("grpc", 8081), ("resp", 6380)] {
            let address = format!("0.0.0.0:{port}");
            let open = format!("listen: {{ {listener}: \"{address}\" }}\n");
            let with =
                |form: &str| format!("listen: {{ {listener}: {{ address: \"{address}\", {form} }} }}\n");
            let expected = Some(format!("{listener} {address}"));
            for (case, new) in [
                ("a client CA that is not in force", with(TLS)),
                ("a loopback address", format!("listen: {{ {listener}: \"127.0.0.1:{port}\" }}\n")),
                ("no listener at all", String::new()),
                (
                    "insecure, on another address",
                    format!("listen: {{ {listener}: {{ address: \"10.0.0.1:{port}\", insecure: true }} }}\n"),
                ),
            ] {
                assert_eq!(unprotected(&open, &new), expected, "{listener}: {case}");
            }
            assert_eq!(unprotected(&open, GRANT), None, "{listener}: grants stay");
            assert_eq!(unprotected(&open, &with("insecure: true")), None, "{listener}: insecure is written");
            assert_eq!(
                unprotected(&with(TLS), ""),
                None,
                "{listener}: certificates are asked for until a restart"
            );
            let tls = with("tls: { cert: c, key: k }");
            assert_eq!(unprotected(&tls, &with(TLS)), expected, "{listener}: TLS alone protects nobody");
            let local = format!("listen: {{ {listener}: \"127.0.0.1:{port}\" }}\n");
            assert_eq!(unprotected(&local, ""), None, "{listener}: only this machine reaches it");
        }
    }

    #[test]
    fn a_unix_socket_and_the_reverse_proxy_need_no_grants() {
        for listener in ["http", "grpc", "resp"] {
            let socket = format!("listen: {{ {listener}: \"unix:/run/tidegate.sock\" }}\n");
            assert_eq!(unprotected(&socket, ""), None, "{listener}");
        }
        let proxy = "listen: { proxy: { address: \"0.0.0.0:80\", insecure: true } }\n";
        assert_eq!(unprotected(proxy, ""), None);
    }
}
