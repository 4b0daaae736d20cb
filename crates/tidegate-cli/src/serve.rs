//! `tidegate serve`.

use std::io::{self, Write};

use tidegate_core::error_chain;
use tidegate_policy::policy::{Format, NamespacePolicy, Policy, StoreKind};
use tidegate_server::ProxyConfig;
use tidegate_server::{Address, Handle, ListenerRole, ServerConfig, ServiceManager, from_policy};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::arguments::{LogFormat, Serve};
use crate::exit::{Exit, complain};
use crate::policy_file::{self, PolicyFileError, WatchedPolicy};
use crate::{first_minute, logging};

pub(crate) fn run(arguments: &Serve) -> Exit {
    let (source, checked) = if let Some(path) = arguments.configuration() {
        match policy_file::follow(path) {
            Ok((source, checked)) => (Some(source), checked),
            Err(PolicyFileError::Unreadable(error)) => {
                complain(format_args!("cannot read {}: {error}", path.display()));
                return Exit::Unreadable;
            }
            Err(PolicyFileError::Problems(problems)) => {
                complain(format_args!("the configuration has problems\n{problems}"));
                return Exit::Problems;
            }
        }
    } else {
        let text = if arguments.upstream.is_some() { Policy::upstream_example() } else { Policy::example() };
        let checked = tidegate_policy::parse("built-in example", text, &|_| None)
            .expect("the built-in example is valid, which a test sees to");
        (None, checked)
    };
    let policy = &checked.policy;
    let format = match arguments.log_format {
        Some(LogFormat::Text) => Format::Text,
        Some(LogFormat::Json) => Format::Json,
        None => policy.log.format,
    };
    logging::start(policy.log.level, format);
    tidegate_server::log_panics();
    for warning in &checked.warnings {
        tracing::warn!("{warning}");
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(format_args!("cannot start threads: {error}"));
            return Exit::CannotStart;
        }
    };
    runtime.block_on(serve(arguments, policy, source))
}

async fn serve(arguments: &Serve, policy: &Policy, source: Option<WatchedPolicy>) -> Exit {
    // Before anything can be asked: a signal that comes early must not be missed.
    let signals = Signals::listen();
    let text = source.as_ref().map_or(&[][..], |source| &source.text);
    let started = start(arguments, policy, text).await;
    let (mut handle, store, mut signals) = match (started, signals) {
        (Ok((handle, store)), Ok(signals)) => (handle, store, signals),
        (Err(error), _) => {
            complain(error);
            return Exit::CannotStart;
        }
        (_, Err(error)) => {
            complain(format_args!("cannot listen for signals: {error}"));
            return Exit::CannotStart;
        }
    };
    if let Some(manager) = ServiceManager::from_environment() {
        handle.report_to(manager).await;
    }
    // A closed standard output is no reason not to serve.
    let _ = write!(io::stdout(), "{}", first_minute::lines(policy, &handle, &store, arguments));
    let _ = io::stdout().flush();
    if let Some(WatchedPolicy { file, .. }) = source {
        handle.follow(file, policy.clone());
    }
    let name = signals.end(|| handle.reload()).await;
    tracing::info!(signal = name, "ending");
    tokio::select! {
        drained = handle.shutdown() => if drained.cut_off == 0 { Exit::Done } else { Exit::CutOff },
        _ = signals.end(|| {}) => {
            tracing::warn!("a second signal; requests in flight are cut off");
            Exit::CutOff
        }
    }
}

/// The daemon, and the store that it uses.
async fn start(arguments: &Serve, policy: &Policy, text: &[u8]) -> Result<(Handle, StoreKind), String> {
    let mut config = from_policy::server_config(policy).map_err(|error| error_chain(&error))?;
    if let Some(address) = &arguments.listen {
        if !address.is_local() {
            return Err(format!(
                "--listen {address} is reachable from other machines; say so with `insecure: true` in a configuration"
            ));
        }
        config.listen(ListenerRole::Http, address.clone());
    }
    if let Some(url) = &arguments.upstream {
        stand_before(url, policy, &mut config, &arguments.proxy)?;
    }
    let store = from_policy::store_kind(policy, &config);
    let handle = from_policy::serve(policy, text, config).await.map_err(|error| error_chain(&error))?;
    Ok((handle, store))
}

/// Has the daemon pass requests on to the service at `url`, by the limits of the policy's only
/// namespace.
fn stand_before(
    url: &str,
    policy: &Policy,
    config: &mut ServerConfig,
    proxy: &Address,
) -> Result<(), String> {
    if config.has_listener(ListenerRole::Proxy) {
        return Err("--upstream does not go with a configuration that has a proxy of its own; \
                    name the service under proxy.upstreams"
            .to_owned());
    }
    if !proxy.is_local() {
        return Err(format!(
            "--proxy {proxy} is reachable from other machines; say so with `listen.proxy` and `insecure: true` in a \
             configuration"
        ));
    }
    let [namespace] = policy.namespaces.as_slice() else {
        return Err(format!(
            "--upstream needs a configuration with one namespace, and this one has {}; write `proxy.routes` instead",
            policy.namespaces.len()
        ));
    };
    if let Some(warning) = misfit(namespace) {
        tracing::warn!("{warning}");
    }
    config.proxying = ProxyConfig::to_upstream(url, &namespace.name).map_err(|error| error_chain(&error))?;
    config.keeps_proxying = true;
    config.listen(ListenerRole::Proxy, proxy.clone());
    Ok(())
}

/// The attributes of requests that --upstream passes on.
const UPSTREAM_ATTRIBUTES: [&str; 4] = ["ip", "method", "path", "host"];

/// The warning about a namespace whose limits count none of the requests that --upstream passes on,
/// or refuse all of them.
fn misfit(namespace: &NamespacePolicy) -> Option<String> {
    let name = &namespace.name;
    let set = "--upstream sets only ip, method, path and host";
    if let Some((limit, attribute)) = namespace.refuses_requests_with(&UPSTREAM_ATTRIBUTES) {
        let limit = &limit.name;
        return Some(format!(
            "every request is refused: limit \"{limit}\" of namespace \"{name}\" needs attribute \"{attribute}\", and {set}; \
             use `proxy.routes` to set it, or `missing: group`"
        ));
    }
    (!namespace.counts_requests_with(&UPSTREAM_ATTRIBUTES)).then(|| {
        format!(
            "every request is admitted: no limit of namespace \"{name}\" applies to any, and {set}; count by those, or \
             use `proxy.routes` to set others"
        )
    })
}

/// The signals that end the daemon, and the one that has it read its policy again.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// The name of the next one that ends it. Until then `reload` is called for each of the others.
    async fn end(&mut self, reload: impl Fn()) -> &'static str {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return "SIGTERM",
                _ = self.interrupt.recv() => return "SIGINT",
                _ = self.hang_up.recv() => {
                    tracing::info!(signal = "SIGHUP", "reading the policy again");
                    reload();
                }
            }
        }
    }
}
