//! A daemon from a policy file, on a clock that only moves when told to, that can be ended and
//! started anew.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tidegate_core::{Timestamp, error_chain};
use tidegate_server::policy_file::PolicyFile;
use tidegate_server::{Handle, ListenerRole, ManualClock, from_policy};
use tidegate_test_support::{TemporaryFolder, eventually, eventually_some};

use crate::client::{Answer, Client};

/// Where counters are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Where it is when the policy names no store.
    Unnamed,
    Memory,
    Files,
}

pub(crate) struct RestartableDaemon {
    pub(crate) folder: TemporaryFolder,
    pub(crate) clock: Arc<ManualClock>,
    /// The store in the next policy that is written.
    pub(crate) kept: Kept,
    handle: Option<Handle>,
}

impl RestartableDaemon {
    /// A daemon with these namespaces, as they stand in a policy.
    pub(crate) async fn start(kept: Kept, namespaces: &str, now: Timestamp) -> Self {
        Self::start_in(TemporaryFolder::new(), kept, namespaces, now).await
    }

    /// As [`RestartableDaemon::start`], in a folder that may have something in it.
    pub(crate) async fn start_in(
        folder: TemporaryFolder,
        kept: Kept,
        namespaces: &str,
        now: Timestamp,
    ) -> Self {
        let mut this = Self { folder, clock: Arc::new(ManualClock::new(now)), kept, handle: None };
        this.write(namespaces);
        this.open().await;
        this
    }

    fn policy(&self) -> PathBuf {
        self.folder.path().join("policy.yaml")
    }

    /// Puts another policy in the place of the one there is, whole; without `namespaces:` for an
    /// empty text.
    pub(crate) fn write(&self, namespaces: &str) {
        let store = match self.kept {
            Kept::Unnamed => String::new(),
            Kept::Memory => "store: { kind: memory }\n".to_owned(),
            Kept::Files => {
                format!("store: {{ kind: embedded, path: {} }}\n", self.folder.path().join("data").display())
            }
        };
        let new = self.folder.path().join("new.yaml");
        let key = if namespaces.is_empty() { "" } else { "namespaces:\n" };
        std::fs::write(&new, format!("{store}memory: {{ keys: 1MiB }}\n{key}{namespaces}")).unwrap();
        std::fs::rename(new, self.policy()).unwrap();
    }

    async fn open(&mut self) {
        let (file, text) = PolicyFile::open(self.policy()).unwrap();
        let checked = tidegate_policy::parse_bytes("policy.yaml", &text, &|_| None);
        let policy = checked.unwrap_or_else(|problems| panic!("{problems}")).policy;
        let mut config = from_policy::server_config(&policy).unwrap();
        config.listen(ListenerRole::Http, "127.0.0.1:0".parse().unwrap());
        config.bounds.drain_grace = Duration::ZERO;
        // The disk may be busy with other programs.
        config.bounds.store_timeout = Duration::from_mins(1);
        let clock = Arc::clone(&self.clock);
        let mut handle = from_policy::serve_on(&policy, &text, config, clock).await.unwrap();
        handle.follow(file, policy);
        self.handle = Some(handle);
    }

    pub(crate) fn handle(&mut self) -> &mut Handle {
        self.handle.as_mut().unwrap()
    }

    /// Ends it.
    pub(crate) async fn end(&mut self) {
        self.handle.take().unwrap().shutdown().await;
    }

    /// Ends it and starts it anew.
    pub(crate) async fn restart(&mut self) {
        self.handle.take().unwrap().shutdown().await;
        self.open().await;
    }

    /// Ends it, sets the clock, and starts it anew.
    pub(crate) async fn restart_at(&mut self, now: Timestamp) {
        self.handle.take().unwrap().shutdown().await;
        self.clock.set(now);
        self.open().await;
    }

    /// Has it take over another policy, and waits until it has reported what came of it: the
    /// problems, if any, which must be others than those of the policy before.
    pub(crate) async fn reload(&self, namespaces: &str) -> Option<String> {
        let before = self.policy_in_force().await;
        self.write(namespaces);
        // Once: a later call could meet files that the test has written for its next step.
        self.handle.as_ref().unwrap().reload();
        eventually_some("the policy is taken over or rejected", async || {
            let now = self.policy_in_force().await;
            if now["version"] != before["version"] {
                return Some(None);
            }
            let error = &now["last_error"]["problems"];
            let problems = error.as_str().filter(|_| *error != before["last_error"]["problems"]);
            problems.map(|problems| Some(problems.to_owned()))
        })
        .await
    }

    pub(crate) async fn policy_in_force(&self) -> Value {
        self.get("/v1/limits").await.json()["policy"].clone()
    }

    /// Lends the limits of the namespace `api`.
    pub(crate) async fn lend(&self) {
        self.try_lend("api").await.unwrap();
    }

    /// Lends the limits of a namespace, or says why not.
    pub(crate) async fn try_lend(&self, namespace: &str) -> Result<(), String> {
        let lent = self.handle.as_ref().unwrap().lend(namespace).await;
        lent.map_err(|error| error_chain(&error))
    }

    /// Where its reverse proxy listens.
    pub(crate) fn proxy(&self) -> std::net::SocketAddr {
        self.handle.as_ref().unwrap().proxy().unwrap().tcp().unwrap()
    }

    /// Waits until its reverse proxy holds no permit.
    pub(crate) async fn settled(&self) {
        let handle = self.handle.as_ref().unwrap();
        eventually("the proxy holds no permit", async || handle.proxy_in_flight() == 0).await;
    }

    /// Where its gRPC listener listens.
    pub(crate) fn grpc(&self) -> std::net::SocketAddr {
        self.handle.as_ref().unwrap().grpc().unwrap().tcp().unwrap()
    }

    /// Where its listener for Redis clients listens.
    pub(crate) fn resp(&self) -> std::net::SocketAddr {
        self.handle.as_ref().unwrap().resp().unwrap().tcp().unwrap()
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.handle.as_ref().unwrap().http().unwrap().tcp().unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.client().await.get(path).await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Answer {
        self.client().await.post(path, body).await
    }

    /// Status of a check of the namespace `api`, and what its tightest limit has left.
    pub(crate) async fn check(&self, attributes: &str) -> (u16, Option<u64>) {
        let answer = self.ask("/v1/check", attributes, "").await;
        (answer.status, answer.json()["remaining"].as_u64())
    }

    /// How many of so many checks are admitted.
    pub(crate) async fn admits(&self, attributes: &str, checks: usize) -> usize {
        let mut admitted = 0;
        for _ in 0..checks {
            admitted += usize::from(self.check(attributes).await.0 == 200);
        }
        admitted
    }

    /// An operation on the namespace `api`; `rest` is what else its body has, with a comma before
    /// it.
    pub(crate) async fn ask(&self, path: &str, attributes: &str, rest: &str) -> Answer {
        self.post(path, &format!(r#"{{"namespace":"api","attributes":{attributes}{rest}}}"#)).await
    }
}
