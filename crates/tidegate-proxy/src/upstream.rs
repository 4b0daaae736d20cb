//! An upstream: equal servers in rotation, with the health of each and their idle connections.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Arc;

use http::uri::PathAndQuery;
use http::{Request, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tidegate_policy::grammar::ServerUrl;
use tidegate_policy::policy::proxy as policy;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::request_body::RequestBody;

mod connection;
mod connector;
mod tls;

pub(crate) use connection::{note_answer, was_kept_and_closed};
use connector::Connector;
pub(crate) use connector::turned_away;
pub(crate) use tls::UpstreamTlsConfig;

/// How long an idle connection is kept: shorter than most servers keep theirs, so that few are
/// found closed.
const IDLE_CONNECTION_MAX: Duration = Duration::from_secs(50);

/// Sends requests to servers.
pub(crate) type UpstreamClient = Client<Connector, RequestBody>;

/// An upstream as it runs.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) config: policy::Upstream,
    pub(crate) tls: Option<UpstreamTlsConfig>,
    /// Sends requests over connections that are kept.
    pub(crate) client: UpstreamClient,
    /// Sends each request over a connection of its own.
    pub(crate) fresh: UpstreamClient,
    servers: Arc<[Backend]>,
    turn: AtomicUsize,
    born: Instant,
    probing: Option<AbortHandle>,
}

/// One server.
#[derive(Debug)]
struct Backend {
    url: ServerUrl,
    /// Requests that failed since the last that did not.
    failed: AtomicU32,
    /// Until when it is left out, in milliseconds since the upstream was made.
    out_until: AtomicU64,
    /// Whether it failed when it was last asked how it is.
    is_unwell: AtomicBool,
}

/// Which server of its upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServerIndex(usize);

// All numbers of a server are relaxed: each is judged by itself, and being a request late about one
// does no harm.
impl Upstream {
    /// Makes an upstream, which connects to nothing yet. Must be called on a runtime if servers are
    /// to be asked how they are.
    pub(crate) fn new(config: policy::Upstream, tls: Option<UpstreamTlsConfig>) -> Arc<Self> {
        let mut builder = Client::builder(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_CONNECTION_MAX)
            .pool_max_idle_per_host(config.idle_connections)
            .http2_only(config.http2);
        let connector = Connector::new(&config, tls.clone());
        let client = builder.build(connector.clone());
        let fresh = builder.pool_max_idle_per_host(0).build(connector);
        let backend = |url: &ServerUrl| Backend {
            url: url.clone(),
            failed: AtomicU32::new(0),
            out_until: AtomicU64::new(0),
            is_unwell: AtomicBool::new(false),
        };
        let servers: Arc<[Backend]> = config.servers.iter().map(backend).collect();
        let probing = config.health.clone().map(|health| {
            tokio::spawn(ask(Arc::clone(&servers), client.clone(), health, config.name.clone()))
                .abort_handle()
        });
        Arc::new(Self {
            config,
            tls,
            client,
            fresh,
            servers,
            turn: AtomicUsize::new(0),
            born: Instant::now(),
            probing,
        })
    }

    /// The server whose turn it is: the next that is well, or the next one if none is, since one of
    /// them must be tried. `None` if there is no server at all.
    pub(crate) fn take_turn(&self) -> Option<ServerIndex> {
        self.turn_from(self.turn.fetch_add(1, Ordering::Relaxed), None)
    }

    /// Another server for a retry, without advancing the rotation; `None` if there is only one.
    pub(crate) fn other_than(&self, turn: ServerIndex) -> Option<ServerIndex> {
        self.turn_from(turn.0.wrapping_add(1), Some(turn))
    }

    fn turn_from(&self, first: usize, except: Option<ServerIndex>) -> Option<ServerIndex> {
        let count = self.servers.len();
        let turns = || {
            let all = (0..count).map(move |offset| ServerIndex(first.wrapping_add(offset) % count));
            all.filter(move |turn| Some(*turn) != except)
        };
        let now = self.millis();
        turns().find(|turn| self.is_well(*turn, now)).or_else(|| turns().next())
    }

    fn is_well(&self, turn: ServerIndex, now: u64) -> bool {
        let server = &self.servers[turn.0];
        server.out_until.load(Ordering::Relaxed) <= now && !server.is_unwell.load(Ordering::Relaxed)
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// A server answered.
    pub(crate) fn succeeded(&self, turn: ServerIndex) {
        let failed = &self.servers[turn.0].failed;
        // Read first: a write would move the line between cores on every request.
        if failed.load(Ordering::Relaxed) > 0 {
            failed.store(0, Ordering::Relaxed);
        }
    }

    /// A server did not answer, or not in a way that can be understood.
    pub(crate) fn failed(&self, turn: ServerIndex) {
        let server = &self.servers[turn.0];
        let failed = server.failed.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let out_for = u64::try_from(self.config.out_for.as_millis()).unwrap_or(u64::MAX);
        if self.config.failures > 0 && failed >= self.config.failures {
            let until = self.millis().saturating_add(out_for);
            // A line for each time it is left out, not for each request that fails meanwhile.
            let before = server.out_until.swap(until, Ordering::Relaxed);
            if before < until.saturating_sub(out_for) {
                tracing::warn!(
                    upstream = self.config.name,
                    server = %server.url.authority(),
                    failed,
                    out_ms = out_for,
                    "a server failed too often in a row and is left out for a while"
                );
            }
        }
    }

    /// The address of `target` at a server.
    pub(crate) fn uri(&self, turn: ServerIndex, target: Option<&PathAndQuery>) -> Uri {
        address(&self.servers[turn.0].url, target)
    }

    /// The name of a server.
    pub(crate) fn server(&self, turn: ServerIndex) -> &str {
        self.servers[turn.0].url.authority().as_str()
    }

    /// How many servers are neither left out nor unwell.
    pub(crate) fn well(&self) -> usize {
        let now = self.millis();
        (0..self.servers.len()).filter(|index| self.is_well(ServerIndex(*index), now)).count()
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        if let Some(probing) = &self.probing {
            probing.abort();
        }
    }
}

fn address(server: &ServerUrl, target: Option<&PathAndQuery>) -> Uri {
    let mut parts = http::uri::Parts::default();
    parts.scheme = Some(server.scheme().clone());
    parts.authority = Some(server.authority().clone());
    parts.path_and_query = Some(target.cloned().unwrap_or(PathAndQuery::from_static("/")));
    Uri::from_parts(parts).expect("a scheme, an authority and a path make an address")
}

/// Asks every server how it is, again and again.
async fn ask(servers: Arc<[Backend]>, client: UpstreamClient, health: policy::Health, name: String) {
    let Ok(target) = health.path.parse::<PathAndQuery>() else { return };
    let mut interval = tokio::time::interval(health.interval);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        for server in &*servers {
            let mut request = Request::new(RequestBody::Empty);
            *request.uri_mut() = address(&server.url, Some(&target));
            let answer = tokio::time::timeout(health.timeout, client.request(request)).await;
            let is_well = matches!(answer, Ok(Ok(answer)) if answer.status().as_u16() < 400);
            if server.is_unwell.swap(!is_well, Ordering::Relaxed) == is_well {
                tracing::info!(upstream = name, server = %server.url.authority(), is_well, "a server has changed");
            }
            if is_well {
                server.failed.store(0, Ordering::Relaxed);
                server.out_until.store(0, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upstream(servers: &[&str]) -> Arc<Upstream> {
        let servers = servers.iter().map(|url| url.parse().unwrap());
        Upstream::new(policy::Upstream::new("app", servers), None)
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_fails_three_times_in_a_row_is_left_out_for_a_while() {
        let upstream = upstream(&["http://a", "http://b"]);
        let taken = |count: usize| {
            let turns = (0..count).filter_map(|_| upstream.take_turn());
            turns.map(|turn| upstream.server(turn).to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(taken(4), ["a", "b", "a", "b"]);
        for _ in 0..2 {
            upstream.failed(ServerIndex(0));
        }
        upstream.succeeded(ServerIndex(0));
        upstream.failed(ServerIndex(0));
        assert_eq!(upstream.well(), 2, "never three in a row");
        upstream.failed(ServerIndex(0));
        upstream.failed(ServerIndex(0));
        assert_eq!(upstream.well(), 1);
        assert_eq!(taken(3), ["b", "b", "b"]);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(upstream.well(), 2);
        upstream.failed(ServerIndex(0));
        assert_eq!(upstream.well(), 1, "tried again and still failing");
    }

    #[tokio::test(start_paused = true)]
    async fn one_is_tried_even_if_none_is_well_and_a_retry_goes_to_another() {
        let upstream = upstream(&["http://a", "http://b"]);
        for turn in [ServerIndex(0), ServerIndex(1)] {
            for _ in 0..3 {
                upstream.failed(turn);
            }
        }
        assert_eq!(upstream.well(), 0);
        let turn = upstream.take_turn().unwrap();
        assert_ne!(upstream.other_than(turn).unwrap(), turn);
        assert_eq!(self::upstream(&["http://a"]).other_than(ServerIndex(0)), None);
        assert_eq!(self::upstream(&[]).take_turn(), None);
    }
}
