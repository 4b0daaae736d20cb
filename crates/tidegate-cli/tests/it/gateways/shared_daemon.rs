//! One daemon that serves every gateway and every client at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tidegate_test_support::TemporaryFile;

use super::clients;
use super::exchange::get;
use super::stand::{Stand, free_address};
use super::{caddy, envoy, haproxy, nginx};

use crate::process::Daemon;

const TEST: &str = "one_daemon_serves_every_gateway_and_every_client_at_once";

#[test]
fn one_daemon_serves_every_gateway_and_every_client_at_once() {
    let (http, grpc, resp) = (free_address(), free_address(), free_address());
    let policy = TemporaryFile::new(&format!(
        "listen: {{ http: {http}, grpc: {grpc}, resp: {resp} }}\n\
         authorize: {{ headers: {{ x-api-key: api_key }} }}\n\
         namespaces: {{ api: {{ limits: [\n\
         {{ name: per-key, key: [api_key], rolling: {{ limit: 5, window: 10m }} }},\n\
         {{ name: per-user, key: [user], rolling: {{ limit: 5, window: 10m }} }}] }} }}\n"
    ));
    let mut daemon = Daemon::start(&["--config", policy.as_str()]);
    assert_eq!(daemon.address(), http);
    let beside = |recipe| {
        let (http, grpc) = (&http, &grpc);
        move || Stand::beside(recipe, http, grpc)
    };
    // A missing gateway has already printed that it is skipped.
    let gateways: Vec<Stand> = [
        envoy::start(beside("envoy"), "fail-closed.yaml", TEST),
        nginx::start(beside("nginx"), "fail-closed.conf", TEST),
        caddy::start(beside("caddy"), "fail-closed.Caddyfile", TEST),
        haproxy::start(beside("haproxy"), "fail-closed.cfg", TEST),
    ]
    .into_iter()
    .flatten()
    .collect();

    let shared = AtomicUsize::new(0);
    let port = resp.rsplit(':').next().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| clients::cli(port, TEST));
        scope.spawn(|| clients::benchmark(port, TEST));
        scope.spawn(|| clients::python("redis_py.py", &resp, TEST));
        scope.spawn(|| clients::python("grpc_client.py", &grpc, TEST));
        scope.spawn(|| clients::node("node_redis.cjs", &resp, TEST));
        scope.spawn(|| clients::node("ioredis.cjs", &resp, TEST));
        for (number, gateway) in gateways.iter().enumerate() {
            let shared = &shared;
            scope.spawn(move || {
                let own = format!("only-{number}");
                let statuses: Vec<_> =
                    (0..15).map(|_| get(&gateway.public, &[("X-Api-Key", own.as_bytes())]).status).collect();
                assert_eq!(statuses, [[200; 5], [429; 5], [429; 5]].concat(), "{}", gateway.public);
                for _ in 0..3 {
                    let answer = get(&gateway.public, &[("X-Api-Key", b"everywhere")]);
                    match answer.status {
                        200 => _ = shared.fetch_add(1, Ordering::Relaxed),
                        429 => assert!(answer.header("retry-after").is_some(), "{answer:?}"),
                        _ => panic!("{answer:?}"),
                    }
                }
            });
        }
    });
    // One counter, whichever gateway asks.
    assert_eq!(shared.into_inner(), (gateways.len() * 3).min(5));
}
