//! Changes of the policy and the overrides in force while requests go on.
//!
//! One change at a time. A change is made ready aside, written to the store if it must outlive the
//! process, and then put in force by exchanging one pointer: a request sees all of it or nothing.

use std::sync::Arc;

use tidegate_core::{Timestamp, error_chain};
use tidegate_engine::{AdminError, BuildError, Engine};
use tidegate_policy::policy::{Address, ListenerPolicy};
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

/// The first listener of `opened` that `policy` would leave without any protection, with its
/// address.
///
/// A listener keeps all that it was opened with until a restart, so that counts, and not what
/// `policy` writes under `listen:`. A listener that was opened with `insecure: true` needs no other
/// protection while `policy` still writes it so; a policy that takes `insecure` back, or names
/// another address, does not mean that anybody may reach the address that stays open.
fn unprotected_listener<'a>(
    opened: &'a ServerConfig,
    policy: &Policy,
) -> Option<(&'static str, &'a Address)> {
    if !policy.authorization.is_empty() {
        return None;
    }
    let is_unprotected = |open: &&ListenerPolicy| {
        let written = policy.listener(open.role);
        let is_still = |one: &ListenerPolicy| one.insecure && one.address == open.address;
        let is_insecure = open.insecure && written.is_some_and(is_still);
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
    /// Replaces `running` by `new`, or returns an error. The result is the policy that runs now,
    /// with those settings of `running` that take a restart, and the treatment of the counters.
    pub(crate) async fn take_over(
        &self,
        running: &Policy,
        new: &Policy,
        fingerprint: String,
    ) -> Result<(Policy, Comparison), ReloadError> {
        let _turn = self.changes.turn.lock().await;
        let policy = new.clone().in_place_of(running);
        let mut config = policy_config::server_config(&policy)?;
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
            // By the store that the new policy names, which may be memory.
            quota_store::check_without_store(new, config.envoy_ratelimit.as_ref())?;
        }
        let now = self.clock.now();
        let (engine, report) = before.engine.reconfigured(policy_config::namespaces(&policy))?;
        self.store_notes(&engine, &report.notes).await?;
        // Last, since resources have their new bounds at once. The policy's checks leave nothing
        // that could fail here.
        let engine = with_planes(&engine, &policy, self.clock.now())?;
        let engine = engine.with_features(policy.features.iter().map(|feature| feature.name.as_str()));
        self.set_up_tickets(&engine, &config.ticket_keys).await;
        let version = PolicyVersion { number: before.version.number + 1, fingerprint, since: now };
        self.put_in_force(&before, engine, config, version);
        if let Some(store) = &self.embedded {
            store.set_namespaces(policy.namespaces.len());
        }
        let comparison = tidegate_policy::compare(running, new);
        let mut status = self.changes.status();
        status.succeeded += 1;
        (status.last_error, status.files_error) = (None, None);
        status.restart_needed = comparison.needs_restart().map(|setting| setting.path.clone()).collect();
        Ok((policy, comparison))
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

    /// Lends the limits of a namespace, now and under all later policies until the process ends, so
    /// that Envoys may hold parts of them. Costs next to nothing where they are lent already, as
    /// with a store that members share.
    ///
    /// Fails if there is no such namespace, or as a reload may.
    pub(crate) async fn lend(&self, namespace: &str) -> Result<(), AdminError> {
        if self.in_force.load().engine.lends(namespace) {
            return Ok(());
        }
        let _turn = self.changes.turn.lock().await;
        let before = self.in_force.load_full();
        if let Some(engine) = before.engine.with_lent(namespace)? {
            self.put_in_force(&before, engine, before.config.clone(), before.version.clone());
            tracing::info!(namespace, "the rates of a namespace are lent from now on");
        }
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
        for protocol in &self.protocols {
            protocol.policy_changed();
        }
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
            let insecure = with("insecure: true");
            assert_eq!(unprotected(&open, &insecure), expected, "{listener}: insecure needs a restart");
            assert_eq!(unprotected(&insecure, &insecure), None, "{listener}: it was opened so");
            assert_eq!(unprotected(&insecure, ""), expected, "{listener}: insecure is taken back");
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

    /// All that a reload puts in force of a policy.
    fn in_force(policy: &Policy) -> String {
        let config = policy_config::server_config(policy).unwrap();
        let planes = (policy.capacity(), policy.overload(), policy.memory.waiting_bytes);
        let shares: Vec<_> = policy.resources.iter().map(|resource| &resource.shares).collect();
        let listed = (shares, &policy.features);
        format!("{config:?} {:?} {planes:?} {listed:?}", policy_config::namespaces(policy))
    }

    /// The keys of which the schema says whether a reload takes them over.
    fn declared(schema: &serde_json::Value) -> Vec<(String, bool)> {
        let mut declared = Vec::new();
        for (section, property) in schema["properties"].as_object().unwrap() {
            declared.extend(property["x-reload"].as_bool().map(|reloads| (section.clone(), reloads)));
            let Some(reference) = property["$ref"].as_str() else { continue };
            let definition = &schema["$defs"][reference.trim_start_matches("#/$defs/")];
            for (key, inner) in definition["properties"].as_object().unwrap() {
                declared
                    .extend(inner["x-reload"].as_bool().map(|reloads| (format!("{section}.{key}"), reloads)));
            }
        }
        declared
    }

    #[test]
    fn a_reload_takes_over_the_keys_that_say_so_in_the_schema_and_no_others() {
        let folder = tidegate_test_support::TemporaryFolder::new();
        let file = |name: &str| folder.write(name, format!("domain: {name}\n")).display().to_string();
        let files = ["a", "b"].map(|name| format!("envoy_ratelimit: {{ path: '{}' }}", file(name)));
        let proxy = |path: &str| {
            format!(
                "proxy: {{ upstreams: {{ app: {{ servers: ['http://127.0.0.1:1'] }} }}, \
                 routes: [{{ name: r, match: {{ path: {path} }}, upstream: app }}] }}"
            )
        };
        let table = |rest: &str| {
            format!(
                "namespaces: {{ api: {{ tables: [{{ name: t, provisioned: {{ read: 9, write: 9 }} }}] }} }}\n{rest}"
            )
        };
        let api = |rest: &str| format!("namespaces: {{ api: {{}} }}\n{rest}");
        let limit =
            |rate: &str| format!("namespaces: {{ api: {{ limits: [{{ name: a, rate: {rate} }}] }} }}");
        let resource = |places: u32| api(&format!("resources: {{ app: {{ concurrency: {places} }} }}"));
        let signal =
            |target: &str| api(&format!("signals: [{{ name: s, source: push, target: '{target}' }}]"));
        let cases: Vec<(&str, [String; 2])> = vec![
            ("listen", ["1", "2"].map(|port| api(&format!("listen: {{ http: '127.0.0.1:{port}' }}")))),
            (
                "store",
                ["redis", "memory"].map(|kind| match kind {
                    "redis" => api("store: { kind: redis, urls: [redis://127.0.0.1:1] }"),
                    kind => api(&format!("store: {{ kind: {kind} }}")),
                }),
            ),
            (
                "memory",
                ["keys: 1MiB, when_full: admit", "keys: 2MiB"]
                    .map(|text| api(&format!("memory: {{ {text} }}"))),
            ),
            ("memory.waiting", ["1MiB", "2MiB"].map(|size| api(&format!("memory: {{ waiting: {size} }}")))),
            ("metering", ["tenants: 1", "history: off"].map(|text| api(&format!("metering: {{ {text} }}")))),
            ("namespaces", ["1/s", "2/s"].map(limit)),
            ("nodes", [10, 20].map(|units| table(&format!("nodes: [{{ name: n, units: {units}000 }}]")))),
            (
                "accounts",
                [10, 20].map(|units| table(&format!("accounts: [{{ name: a, read: {units}, write: 9 }}]"))),
            ),
            ("resources", [1, 2].map(resource)),
            ("signals", ["1", "2"].map(signal)),
            ("rlqs", [10, 20].map(|ttl| api(&format!("rlqs: {{ ttl: {ttl}s }}")))),
            ("features", ["a", "b"].map(|name| api(&format!("features: [{name}]")))),
            // Grants are not shown for debugging, so that one appears here.
            ("authorization", [api(""), api(GRANT)]),
            (
                "authorize",
                ["x-a", "x-b"].map(|name| api(&format!("authorize: {{ headers: {{ {name}: a }} }}"))),
            ),
            ("proxy", ["/a", "/b"].map(|path| api(&proxy(path)))),
            ("envoy_ratelimit", files.map(|text| api(&text))),
            (
                "http",
                ["body: 1KiB, attribute: 16B", "body: 2KiB"]
                    .map(|text| api(&format!("http: {{ bounds: {{ {text} }} }}"))),
            ),
            (
                "http.legacy_headers",
                ["rate_limit", "x_rate_limit"]
                    .map(|text| api(&format!("http: {{ legacy_headers: [{text}] }}"))),
            ),
            (
                "log",
                ["level: warn", "format: json, decisions: d"].map(|text| api(&format!("log: {{ {text} }}"))),
            ),
            ("log.refusals", ["1/s", "off"].map(|text| api(&format!("log: {{ refusals: {text} }}")))),
        ];
        let read = |text: &str| {
            let parsed = tidegate_policy::parse("t.yaml", text, &|_| None);
            parsed.unwrap_or_else(|problems| panic!("{text}: {problems}")).policy
        };
        let mut declared = declared(&tidegate_policy::schema());
        for (key, [old, new]) in cases {
            let place = declared.iter().position(|(declared, _)| declared == key);
            let (_, reloads) =
                declared.remove(place.unwrap_or_else(|| panic!("{key} says nothing of reloads")));
            let (old, new) = (read(&old), read(&new));
            let said: Vec<bool> =
                tidegate_policy::compare(&old, &new).settings.iter().map(|one| !one.needs_restart).collect();
            assert!(said.iter().all(|said| *said == reloads), "{key}: {said:?}");
            let taken_over = in_force(&old) != in_force(&new.clone().in_place_of(&old));
            assert_eq!(taken_over, reloads, "{key}");
        }
        assert_eq!(declared, [], "keys without a case");
    }
}
