//! A running daemon: its listeners, its tasks, and how it ends.

use core::time::Duration;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use arc_swap::ArcSwap;
use tidegate_capacity::plan::Plan;
use tidegate_core::random_seed;
use tidegate_driver::Driver;
use tidegate_engine::{AdminError, Engine, TickAction};
use tidegate_net::connections::{ConnectionCommand, ConnectionSlots, Connections, ListenerId};
use tidegate_net::file_backed::{Refresh, look_at};
use tidegate_net::tls::{Tls, TlsFiles};
use tidegate_overload::HistorySet;
use tidegate_policy::{Policy, policy};
use tidegate_store::DynStore;
use tidegate_store_redb::RedbStore;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::config::ServerConfig;
use crate::context::DaemonContext;
use crate::daemon::{Daemon, ProtocolStates};
use crate::fleet::members::Members;
use crate::fleet::membership::keep_joined;
use crate::fleet::override_history::History;
use crate::fleet::shared_store::SharedStore;
use crate::fleet::store_hooks::DaemonHooks;
use crate::in_force::{InForce, PolicyVersion};
use crate::listener::acceptor::{Acceptor, connections_max};
use crate::listener::listener_service::ListenerService;
use crate::listener::{ListenError, Listener};
use crate::metrics::{MetricSources, Metrics};
use crate::panics::kept_running;
use crate::protocol::RESP_NAMESPACE;
use crate::records::advice_log::AdviceLog;
use crate::records::audit::Audit;
use crate::records::decisions::Decisions;
use crate::records::feature_log::FeatureLog;
use crate::records::log_interval::EveryTenSeconds;
use crate::records::refused_keys::RefusedKeys;
use crate::records::shadow_log::ShadowLog;
use crate::reload::policy_file::PolicyFile;
use crate::reload::policy_follower::follow;
use crate::reload::reload_status::Changes;
use crate::service_manager::{ServiceManager, ServiceReport, ServiceReports, ServiceState};
use crate::service_report::keep_watchdog;
use crate::ticket_key_task::keep_ticket_key;
use crate::ticket_signer::{StoreAhead, TicketSigner};
use tidegate_clock::Clock;
use tidegate_policy::policy::{Address, ListenerPolicy, ListenerRole};

/// How long the last write to the disk may take at the end.
const CLOSE_MAX: Duration = Duration::from_secs(10);

/// How long the last lines of the decision log may take at the end.
const DECISIONS_CLOSE_MAX: Duration = Duration::from_secs(5);

/// A step of the wall clock that is worth a line and a count.
const CLOCK_STEP_MIN: Duration = Duration::from_mins(1);

/// The daemon, before it starts.
pub struct Server;

/// The parts of a daemon beside the engine, if it was started from a policy.
#[derive(Default)]
pub(crate) struct DaemonParts {
    /// Of the text of the policy.
    pub(crate) fingerprint: String,
    /// The store in files, to be closed at the end.
    pub(crate) embedded: Option<Arc<RedbStore>>,
    /// The store that members share.
    pub(crate) shared: Option<Arc<SharedStore>>,
    /// This member among those that share the store.
    pub(crate) member: Option<u64>,
    /// The history of overrides before a restart.
    pub(crate) history: History,
    /// By how many nanoseconds the clock of the shared store is ahead.
    pub(crate) store_ahead: Option<StoreAhead>,
    /// Where decisions are written down.
    pub(crate) decisions: Option<Arc<Decisions>>,
}

/// A running daemon. Dropping it without [`Handle::shutdown`] cuts everything off.
pub struct Handle {
    daemon: Arc<Daemon>,
    /// Where each listener listens, with the ports that were found for port 0.
    bound: Vec<(ListenerRole, Address)>,
    stop: watch::Sender<bool>,
    acceptors: Vec<JoinHandle<()>>,
    tasks: Vec<JoinHandle<()>>,
    /// Feeds the watchdog of the service manager until everything else has ended.
    watchdog: Option<JoinHandle<()>>,
    /// Whether a task follows the policy file, and says when it begins and ends to read it.
    follows_policy: bool,
}

/// How a daemon ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drained {
    /// Connections that were cut off because the time for draining was over; 0 when every request
    /// was answered.
    pub cut_off: usize,
}

impl Server {
    /// Opens all listeners and starts serving `engine` on the present tokio runtime.
    ///
    /// Nothing is served unless every listener could be opened. `store` decides the limits that the
    /// engine asks about.
    pub async fn start(
        config: ServerConfig,
        engine: Arc<Engine>,
        store: Arc<dyn DynStore>,
        clock: Arc<dyn Clock>,
    ) -> Result<Handle, ListenError> {
        Self::start_with(config, engine, store, clock, DaemonParts::default()).await
    }

    pub(crate) async fn start_with(
        config: ServerConfig,
        engine: Arc<Engine>,
        store: Arc<dyn DynStore>,
        clock: Arc<dyn Clock>,
        parts: DaemonParts,
    ) -> Result<Handle, ListenError> {
        let mut listeners = Vec::with_capacity(config.listeners.len());
        for listener in &config.listeners {
            listeners.push(OpenListener::new(listener, &config).await?);
        }
        let bound: Vec<_> =
            listeners.iter().map(|listener| (listener.serves.role, listener.bound.clone())).collect();
        let http = listeners.iter().find(|listener| listener.serves.role == ListenerRole::Http);
        let connections = Arc::new(Connections::default());
        let mut metrics = Metrics::new();
        let DaemonParts { fingerprint, embedded, shared, member, history, store_ahead, decisions } = parts;
        let members =
            member.map(|member| Arc::new(Members::new(member, http.map(|one| &one.bound), clock.now())));
        let address = http.or(listeners.first()).map(|one| one.bound.to_string());
        let name = members.as_ref().map(|members| members.name()).or(address).unwrap_or_default();
        let version = PolicyVersion { number: 1, fingerprint, since: clock.now() };
        let asks_store = engine.asks_store();
        join_namespaces_of_requests(&engine, &config);
        connections.divide_watched(engine.owners());
        let driver = Driver::new(Arc::clone(&engine))
            .store(Arc::clone(&store))
            .store_timeout(config.bounds.store_timeout)
            .clock(Arc::clone(&clock));
        let in_force = Arc::new(InForce::new(engine, config.clone(), &metrics, version));
        let protocols = ProtocolStates::registered(&in_force, &mut metrics);
        let in_force = Arc::new(ArcSwap::new(in_force));
        let changes = Arc::new(Changes::default());
        let feature_log = Arc::new(FeatureLog::default());
        let sources = MetricSources {
            in_force: Arc::clone(&in_force),
            clock: Arc::clone(&clock),
            connections: Arc::clone(&connections),
            changes: Arc::clone(&changes),
            embedded: embedded.clone(),
            shared: shared.clone(),
            members: members.clone(),
            decisions: decisions.clone(),
            counters: Arc::clone(metrics.shared()),
            feature_log: Arc::clone(&feature_log),
        };
        metrics.collect(Box::new(sources));
        let stop = watch::Sender::new(false);
        let context = Arc::new_cyclic(|daemon| DaemonContext {
            driver: driver.hooks(Arc::new(DaemonHooks::new(Weak::clone(daemon), shared.clone()))),
            in_force,
            asks_store,
            changes,
            audit: Audit::default(),
            history,
            embedded,
            has_joined: AtomicBool::new(shared.is_none()),
            shared,
            members,
            ticket_signer: TicketSigner::new(&name, store_ahead),
            member: name,
            since: clock.now(),
            decisions,
            metrics,
            feature_log,
            advice_log: AdviceLog::default(),
            refused_keys: RefusedKeys::new(random_seed(), clock.now()),
            histories: Mutex::new(HistorySet::new(config.metering.history_bytes)),
            is_ready: AtomicBool::new(true),
            service: ServiceReports::default(),
            protocols: protocols.hooks(),
            connections,
            store,
            clock,
            // All else is that of the policy in force.
            config: ServerConfig {
                listeners: config.listeners,
                bounds: config.bounds,
                ..ServerConfig::default()
            },
        });
        let daemon = Arc::new(protocols.over(context));
        let context = &daemon.context;
        context.set_up_first_tickets().await;
        context.tell_readiness().await;
        let callers = listeners.iter().filter(|listener| listener.serves.has_callers()).count();
        let mut callers = ConnectionSlots::divide(connections_max(&context.config), callers).into_iter();
        let mut operators = ConnectionSlots::divide(context.config.bounds.admin_connections, 1).into_iter();
        let certificates = listeners.iter().filter_map(|listener| listener.tls.clone()).collect();
        let accept = |(index, OpenListener { listener, serves, tls, .. }): (usize, OpenListener)| {
            let places = if serves.has_callers() { callers.next() } else { operators.next() };
            let acceptor = Acceptor {
                daemon: Arc::clone(&daemon),
                listener,
                serves,
                tls,
                id: ListenerId { index, name: serves.role.as_str() },
                places: places.expect("there are places for each listener"),
                paused: EveryTenSeconds::default(),
                failed: EveryTenSeconds::default(),
            };
            tokio::spawn(acceptor.run(stop.subscribe()))
        };
        let acceptors = listeners.into_iter().enumerate().map(accept).collect();
        let tasks = spawn_tasks(context, certificates);
        Ok(Handle { daemon, bound, stop, acceptors, tasks, watchdog: None, follows_policy: false })
    }
}

/// Starts the background tasks of a daemon.
fn spawn_tasks<L: Refresh + 'static>(
    daemon: &Arc<DaemonContext>,
    listeners: Vec<Arc<L>>,
) -> Vec<JoinHandle<()>> {
    let files = {
        let daemon = Arc::clone(daemon);
        move || {
            let listeners = listeners.iter().map(|tls| Arc::clone(tls) as Arc<dyn Refresh>);
            let domains = daemon.followed_files().map(|files| Arc::new(files) as Arc<dyn Refresh>);
            let protocols = daemon.protocols.iter().flat_map(|protocol| protocol.files());
            listeners.chain(protocols).chain(daemon.in_force.load().files()).chain(domains).collect()
        }
    };
    let mut tasks = vec![
        spawn(daemon, tick),
        spawn(daemon, sweep),
        spawn(daemon, watch_clock),
        spawn(daemon, move |_| look_at(files.clone())),
        spawn(daemon, keep_ticket_key),
    ];
    if daemon.shared.is_some() {
        tasks.push(spawn(daemon, keep_joined));
        tasks.push(spawn(daemon, async |daemon| daemon.driver.run_lease_renewal().await));
    }
    tasks
}

/// Starts a background task, which begins anew should it panic.
fn spawn<F>(
    daemon: &Arc<DaemonContext>,
    task: impl Fn(Arc<DaemonContext>) -> F + Send + Sync + 'static,
) -> JoinHandle<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let daemon = Arc::clone(daemon);
    tokio::spawn(async move { kept_running(&daemon.metrics, || task(Arc::clone(&daemon))).await })
}

/// Gives shares of the engine's tables to namespaces whose limits arrive with requests.
fn join_namespaces_of_requests(engine: &Engine, config: &ServerConfig) {
    if config.has_listener(ListenerRole::Resp) {
        engine.join(RESP_NAMESPACE);
    }
    if let Some(files) = &config.envoy_ratelimit {
        files.get().domains().for_each(|domain| engine.join(domain));
    }
}

/// A listener of a daemon that is starting.
struct OpenListener {
    listener: Listener,
    bound: Address,
    serves: ListenerService,
    /// Its certificates, which are looked at while it runs.
    tls: Option<Arc<Tls>>,
}

impl OpenListener {
    async fn new(policy: &ListenerPolicy, config: &ServerConfig) -> Result<Self, ListenError> {
        let ListenerPolicy { role, proxy_protocol, .. } = *policy;
        let tls = policy.tls.as_ref().map(|tls| Tls::open(tls_files(tls))).transpose()?.map(Arc::new);
        let (listener, bound) = Listener::open(&policy.address, config.bounds.backlog).await?;
        let has_no_admin = !config.has_listener(ListenerRole::Admin);
        let operators =
            role == ListenerRole::Admin || (role == ListenerRole::Http && bound.is_local() && has_no_admin);
        let is_plain_loopback = tls.is_none() && bound.is_local() && bound.tcp().is_some();
        let serves = ListenerService { role, operators, is_plain_loopback, proxy_protocol };
        Ok(Self { listener, bound, serves, tls })
    }
}

fn tls_files(tls: &policy::Tls) -> TlsFiles {
    let client_ca = tls.client_ca.as_ref().map(PathBuf::from);
    TlsFiles { cert: PathBuf::from(&tls.cert), key: PathBuf::from(&tls.key), client_ca }
}

tidegate_core::debug_fields!(Server {});

impl Handle {
    /// Where the listeners with this role listen, with the ports that were found for port 0.
    pub fn addresses(&self, role: ListenerRole) -> impl Iterator<Item = &Address> {
        self.bound.iter().filter(move |(of, _)| *of == role).map(|(_, address)| address)
    }

    /// Where callers of the API ask first; `None` if they cannot.
    pub fn http(&self) -> Option<&Address> {
        self.addresses(ListenerRole::Http).next()
    }

    /// Where operators look; `None` if no listener is for them.
    pub fn admin(&self) -> Option<&Address> {
        let local = self.addresses(ListenerRole::Http).find(|address| address.is_local());
        self.addresses(ListenerRole::Admin).next().or(local)
    }

    /// Where requests come that are passed on; `None` if there is no reverse proxy.
    pub fn proxy(&self) -> Option<&Address> {
        self.addresses(ListenerRole::Proxy).next()
    }

    /// Where gRPC callers ask; `None` if they cannot.
    pub fn grpc(&self) -> Option<&Address> {
        self.addresses(ListenerRole::Grpc).next()
    }

    /// Where Redis clients connect; `None` if they cannot.
    pub fn resp(&self) -> Option<&Address> {
        self.addresses(ListenerRole::Resp).next()
    }

    /// Permits that requests of the reverse proxy hold at this moment.
    pub fn proxy_in_flight(&self) -> usize {
        self.daemon.proxy.state().in_flight()
    }

    /// Requests of the reverse proxy that wait at this moment.
    pub fn proxy_waiting(&self) -> usize {
        self.daemon.context.driver.engine().waiting()
    }

    /// Lends the limits of a namespace until the daemon ends, those that can be, so that Envoys may
    /// hold parts of them; they need no call. Does nothing where the limits are lent already.
    ///
    /// Fails if there is no such namespace.
    pub async fn lend(&self, namespace: &str) -> Result<(), AdminError> {
        self.daemon.context.lend(namespace).await
    }

    /// Takes over whatever policy appears in `file`, in place of `policy`, which is in force. Call
    /// it once.
    pub fn follow(&mut self, file: PolicyFile, policy: Policy) {
        self.follows_policy = true;
        self.tasks.push(tokio::spawn(follow(Arc::clone(&self.daemon.context), file, policy)));
    }

    /// Tells `manager` that all listeners accept connections, and from now on when a reload begins
    /// and ends and when the drain begins. Feeds its watchdog until the daemon has ended.
    ///
    /// Only the first manager is told.
    pub async fn report_to(&mut self, manager: ServiceManager) {
        let daemon = &self.daemon.context;
        let report = ServiceReport { manager, listening: self.listening() };
        if daemon.service.report.set(report).is_ok() {
            daemon.tell_service_manager(ServiceState::Ready).await;
            self.watchdog = Some(spawn(daemon, keep_watchdog));
        }
    }

    /// Where all listeners listen, for people.
    fn listening(&self) -> String {
        let listeners: Vec<_> =
            self.bound.iter().map(|(role, address)| format!("{} on {address}", role.as_str())).collect();
        if listeners.is_empty() { "no listeners".to_owned() } else { listeners.join(", ") }
    }

    /// Reads the followed policy file and the files of envoyproxy/ratelimit now, and opens the
    /// decision log anew, so that a file that was moved away is let go.
    pub fn reload(&self) {
        self.daemon.context.changes.asked.notify_one();
        if let Some(files) = self.daemon.context.followed_files() {
            tokio::task::spawn_blocking(move || files.look_again());
        }
        if let Some(decisions) = &self.daemon.context.decisions {
            decisions.log.reopen();
        }
        if !self.follows_policy {
            let daemon = Arc::clone(&self.daemon.context);
            tokio::spawn(async move {
                daemon.tell_service_manager(ServiceState::Reloading).await;
                daemon.tell_service_manager(ServiceState::Ready).await;
            });
        }
    }

    /// Reads the files of envoyproxy/ratelimit, of tokens and of ticket keys now, if the policy
    /// names some, and takes them over if they have changed. Otherwise they are looked at every 5
    /// seconds. Blocks while it reads.
    pub fn look_at_files(&self) {
        self.daemon.context.in_force.load().files().iter().for_each(|one| one.look());
        if let Some(files) = self.daemon.context.followed_files() {
            files.look();
        }
    }

    /// Ends the daemon: accepts no more connections, answers requests on open ones for
    /// [`crate::Bounds::drain_grace`] and tells each to close with its answer, then closes those
    /// that are idle, answers every request that was read, and returns when all are closed or
    /// [`crate::Bounds::drain`] is over. Requests that remain are cut off, and logged.
    pub async fn shutdown(mut self) -> Drained {
        let daemon = Arc::clone(&self.daemon.context);
        daemon.is_ready.store(false, Ordering::Relaxed);
        daemon.tell_service_manager(ServiceState::Stopping).await;
        for protocol in &daemon.protocols {
            protocol.announce(false).await;
        }
        self.stop.send_replace(true);
        daemon.driver.engine().drain_waiting();
        for acceptor in self.acceptors.drain(..) {
            // An acceptor ends when `stop` is set; one that panicked has ended too.
            let _ = acceptor.await;
        }
        let open = daemon.connections.count();
        tracing::info!(connections = open, "draining: no new connections are accepted");
        let deadline = tokio::time::Instant::now() + daemon.config.bounds.drain;
        // A busy caller has its next request on the way: closing now would lose it unread.
        let grace = daemon.config.bounds.drain_grace.min(daemon.config.bounds.drain);
        let _ = tokio::time::timeout(grace, daemon.connections.all_closed()).await;
        for protocol in &daemon.protocols {
            protocol.end_streams().await;
        }
        daemon.connections.tell_all(ConnectionCommand::Finish);
        let is_drained = tokio::time::timeout_at(deadline, daemon.connections.all_closed());
        let cut_off = if is_drained.await.is_ok() { 0 } else { daemon.connections.count() };
        if cut_off > 0 {
            let requests = daemon.connections.in_flight();
            tracing::warn!(
                connections = cut_off,
                requests,
                "the time for draining is over; the remaining requests are cut off"
            );
            daemon.connections.tell_all(ConnectionCommand::Close);
        } else {
            tracing::info!("drained: every request was answered");
        }
        for task in self.tasks.drain(..) {
            task.abort();
            // It holds on to the daemon, and with it to the store, until it has ended.
            let _ = task.await;
        }
        if tokio::time::timeout(CLOSE_MAX, daemon.close()).await.is_err() {
            tracing::error!("the last counters could not be written to disk");
        }
        if let Some(watchdog) = self.watchdog.take() {
            watchdog.abort();
            let _ = watchdog.await;
        }
        Drained { cut_off }
    }
}

impl DaemonContext {
    /// Returns leases, and waits until all charges are on disk.
    pub(crate) async fn close(self: Arc<Self>) {
        self.leave().await;
        if let Some(store) = &self.embedded
            && let Err(error) = store.flush().await
        {
            tracing::error!(%error, "what was charged last could not be written");
        }
        let this = Arc::clone(&self);
        let closing = tokio::task::spawn_blocking(move || {
            if let Some(decisions) = &this.decisions {
                let _ = decisions.log.close(DECISIONS_CLOSE_MAX);
            }
        });
        let _ = closing.await;
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        for task in self.tasks.iter().chain(&self.acceptors).chain(&self.watchdog) {
            task.abort();
        }
        self.daemon.context.connections.tell_all(ConnectionCommand::Close);
    }
}

tidegate_core::debug_fields!(Handle { bound });

/// Writes the advice about the resources of the policy in force.
fn log_advice(daemon: &DaemonContext) {
    let (in_force, now) = (daemon.in_force.load(), daemon.clock.now());
    for (resource, advice) in in_force.engine.concurrency_advice() {
        daemon.advice_log.write(resource, &advice, now);
    }
}

/// Runs the engine's timers.
async fn tick(daemon: Arc<DaemonContext>) {
    let mut at = daemon.clock.now();
    let mut shadow_log = ShadowLog::default();
    loop {
        let tick = daemon.driver.tick_at(at).await;
        // Relaxed: the number orders nothing.
        daemon.service.ticks.fetch_add(1, Ordering::Relaxed);
        daemon.ticket_signer.follow_clock(&daemon.in_force.load().engine);
        daemon.observe_resources();
        shadow_log.follow(&daemon.in_force.load().engine, daemon.clock.now());
        daemon.follow_features();
        log_advice(&daemon);
        for plan in &tick.reshaped {
            log_reshaped(plan);
        }
        for action in tick.actions {
            match action {
                TickAction::RenewLeases => daemon.driver.renew_leases(),
                TickAction::RebuildOverrides => daemon.drop_expired_overrides().await,
                TickAction::CountExpiredPermits(expired) => {
                    daemon.metrics.shared().permits_expired.fetch_add(expired as u64, Ordering::Relaxed);
                }
            }
        }
        at = tick.next;
    }
}

/// Says how a partition was split or merged, and why.
fn log_reshaped(plan: &Plan) {
    let benefit = plan.benefit.as_f64();
    tracing::info!(
        target: "tidegate::capacity",
        namespace = %plan.namespace,
        table = %plan.table,
        change = %plan.change,
        reason = plan.reason.as_str(),
        benefit_units_per_second = benefit,
        "a table has other partitions"
    );
}

/// Ends connections that are over a bound.
async fn sweep(daemon: Arc<DaemonContext>) {
    let bounds = &daemon.config.bounds;
    let mut interval = tokio::time::interval(Connections::sweep_interval(bounds));
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        let ended = daemon.connections.sweep(Instant::now(), bounds);
        daemon.metrics.shared().connections_timed_out.fetch_add(ended as u64, Ordering::Relaxed);
    }
}

/// Says when the wall clock is set, which decisions do not follow.
async fn watch_clock(daemon: Arc<DaemonContext>) {
    loop {
        tokio::time::sleep(Duration::from_secs(10)).await;
        let drift = daemon.clock.drift();
        if drift.ahead.max(drift.behind) > CLOCK_STEP_MIN {
            daemon.metrics.shared().clock_steps.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                ahead_s = drift.ahead.as_secs(),
                behind_s = drift.behind.as_secs(),
                "the wall clock was set; decisions go on from the time at start, restart to take the new one"
            );
        }
    }
}
