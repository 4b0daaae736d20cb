//! envoyproxy/ratelimit: its files under Tidegate, first as a shadow beside the old service and
//! then alone, with a real Envoy in front.
//!
//! A second Tidegate with the same files takes the place of the old service, as the page says.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use tidegate_test_support::{RedisServer, until};

use super::side_by_side::service;
use super::workshop::{Section, Workshop, exchanges, until_the_hour_has};
use crate::gateways::exchange::Answer;
use crate::gateways::tools::{fetched_or_skip, find_or_skip};
use crate::process::post;

/// Where the old service listens, in place of the page's example: gRPC, and HTTP for the daemon
/// that takes its place.
const OLD_GRPC: u16 = 8091;
const OLD_HTTP: u16 = 8090;

/// The head of the table of metrics.
const MAPPING: &str = "| envoyproxy/ratelimit | Tidegate, `GET /metrics` |";

/// Envoy in front of the service, with the statistics of the page. `FILTERS` and `CLUSTERS` follow.
const ENVOY: &str = "\
admin: { address: { socket_address: { address: 127.0.0.1, port_value: 9901 } } }
static_resources:
  listeners:
    - name: public
      address: { socket_address: { address: 127.0.0.1, port_value: 8000 } }
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: public
                use_remote_address: true
                route_config:
                  virtual_hosts:
                    - name: app
                      domains: [\"*\"]
                      routes:
                        - match: { prefix: / }
                          route:
                            cluster: app
                            rate_limits:
                              - actions: [{ request_headers: { header_name: x-api-key, descriptor_key: api_key } }]
                              - actions: [{ remote_address: {} }]
FILTERS
                  - name: envoy.filters.http.router
                    typed_config:
                      \"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
  clusters:
    - name: app
      type: STATIC
      load_assignment:
        cluster_name: app
        endpoints:
          - lb_endpoints: [{ endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: 3000 } } } }]
CLUSTERS";

/// The settings of a filter that asks this cluster and refuses what cannot be decided.
fn strict_filter(cluster: &str, more: &str) -> String {
    format!(
        "    typed_config:
      \"@type\": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
      domain: shop
      timeout: 20s
      failure_mode_deny: true
{more}      rate_limit_service:
        transport_api_version: V3
        grpc_service: {{ envoy_grpc: {{ cluster_name: {cluster} }} }}
"
    )
}

/// Writes the file of Envoy, with these filters before the router.
fn write_envoy(workshop: &Workshop, filters: &str) {
    let recipe = std::fs::read_to_string(workshop.file("docs/gateways/envoy/fail-closed.yaml")).unwrap();
    let (_, cluster) = recipe.split_once("    - name: tidegate\n").unwrap();
    // Tidegate may be late on a busy machine.
    let patient = cluster.replace("connect_timeout: 0.25s", "connect_timeout: 20s");
    assert_ne!(patient, cluster);
    let cluster = format!("    - name: tidegate\n{patient}");
    let old = cluster.replace("tidegate", "ratelimit").replace("8081", &OLD_GRPC.to_string());
    let filters: String = filters.lines().flat_map(|line| ["                ", line, "\n"]).collect();
    let file = ENVOY.replace("FILTERS\n", &filters).replace("CLUSTERS", &(cluster + &old));
    workshop.write("envoy.yaml", &file);
}

fn start_envoy(program: &Path, workshop: &mut Workshop) {
    let mut command = Command::new(program);
    command.args(["-c", "envoy.yaml", "--concurrency", "1", "--disable-hot-restart", "-l", "warning"]);
    workshop.start_gateway(&mut command);
}

fn ask(workshop: &Workshop, key: &str) -> Answer {
    workshop.get(8000, "/", &[("x-api-key", key)])
}

/// Has the limit of five a minute count by the hour, which does not end while a busy machine takes
/// its time.
fn count_by_the_hour(workshop: &Workshop) {
    workshop.edit("config/shop.yaml", "unit: minute", "unit: hour");
    until_the_hour_has(3);
}

/// Waits until the daemon at port 8080 of the page has taken over so many changed policies.
fn until_reloaded(workshop: &Workshop, times: u32) {
    until("the policy is taken over", || {
        let metrics = workshop.run("curl -s http://127.0.0.1:8080/metrics");
        metrics.contains(&format!("\ntidegate_policy_reloads_total {times}\n"))
    });
}

/// Carries out the steps 1 and 3: the files of the peer, checked, and served in shadow mode.
fn serve_in_shadow(page: &Section, workshop: &mut Workshop) {
    workshop.follow(&page.block("# config/shop.yaml"));
    workshop.follow(&page.block("validate ./config"));
    workshop.follow(&page.block("# tidegate.yaml"));
    workshop.follow(&page.block("serve tidegate.yaml"));
    workshop.follow(&page.block("/rlconfig"));
}

#[test]
fn envoy_moves_from_the_old_service_to_tidegate_as_the_page_says() {
    let test = "envoy_moves_from_the_old_service_to_tidegate_as_the_page_says";
    let Some(envoy) = fetched_or_skip("envoy", "lib/*/site-packages/envoy/_bin/envoy", test) else { return };
    let Some(_) = find_or_skip("curl", test) else { return };
    let page = Section::of("## From envoyproxy/ratelimit");
    page.assert_says(
        "In this trial a second Tidegate with the same files took the place of the old service.",
    );
    let mut workshop = Workshop::new(&[8080, 8081, 9901, 8000, OLD_HTTP, OLD_GRPC]);
    workshop.set_address(3000, &service());
    serve_in_shadow(&page, &mut workshop);
    count_by_the_hour(&workshop);
    until_reloaded(&workshop, 1);
    workshop.write(
        "old.yaml",
        "listen: { http: 127.0.0.1:8090, grpc: 127.0.0.1:8091 }\n\
         store: { kind: memory }\n\
         envoy_ratelimit: { path: ./config, semantics: strict }\n",
    );
    workshop.serve("old.yaml");

    // Steps 4 and 5: Envoy asks both.
    let filters = page.block("name: tidegate-shadow").text;
    assert!(filters.contains("timeout: 0.25s"), "{filters}");
    let filters = filters.replace("timeout: 0.25s", "timeout: 20s");
    write_envoy(&workshop, &(filters + &strict_filter("ratelimit", "")));
    start_envoy(&envoy, &mut workshop);
    let statuses: Vec<u16> = (0..8).map(|_| ask(&workshop, "ada").status).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429, 429, 429]);
    assert_eq!(ask(&workshop, "partner").status, 200);
    workshop.follow(&page.block("curl -s http://127.0.0.1:9901/stats"));
    assert_has_mapped_metrics(&page, &workshop.get(8080, "/metrics", &[]).text());
    page.assert_says("`tidegate explain --at http://127.0.0.1:8080 shop api_key=ada`");
    let explained = workshop.run("tidegate explain --at http://127.0.0.1:8080 shop api_key=ada");
    assert!(explained.contains("0 of 5 left") && explained.contains("shop.api_key"), "{explained}");

    // Step 6: Tidegate enforces, and Envoy asks the old service no more.
    page.assert_says("Set `shadow: false` and `headers: { enabled: true }`");
    workshop.edit("tidegate.yaml", "shadow: true", "shadow: false\n  headers: { enabled: true }");
    until_reloaded(&workshop, 2);
    page.assert_says("`status_on_error: { code: ServiceUnavailable }`");
    let name = "  - name: envoy.filters.http.ratelimit\n";
    let status_on_error = "      status_on_error: { code: ServiceUnavailable }\n";
    write_envoy(&workshop, &format!("http_filters:\n{name}{}", strict_filter("tidegate", status_on_error)));
    start_envoy(&envoy, &mut workshop);
    let refused = page.block("curl -si").text;
    let [(command, shown)] = &exchanges(&refused)[..] else { panic!("{refused}") };
    let answer = workshop.run(command);
    let lines: BTreeSet<&str> = answer.lines().map(str::trim_end).collect();
    for line in shown.lines() {
        let is_there = match line.strip_prefix("ratelimit-reset: ") {
            Some(_) => lines.iter().any(|line| is_reset(line)),
            None => lines.contains(line),
        };
        assert!(is_there, "{line} is not in {answer}");
    }
    page.assert_says("Refusals under these files carry no `Retry-After` through Envoy");
    assert!(!answer.to_ascii_lowercase().contains("retry-after"), "{answer}");
    page.assert_says("`headers: { retry_after: true }` adds it");
    workshop.edit(
        "tidegate.yaml",
        "headers: { enabled: true }",
        "headers: { enabled: true, retry_after: true }",
    );
    until("refusals carry Retry-After", || ask(&workshop, "ada").header("retry-after").is_some());

    // Tidegate, which was started first, is stopped.
    workshop.kill_first_daemon();
    assert_eq!(ask(&workshop, "grace").status, 503);
    page.assert_says("Without `status_on_error` Envoy answers 500 while Tidegate is stopped.");
    write_envoy(&workshop, &format!("http_filters:\n{name}{}", strict_filter("tidegate", "")));
    start_envoy(&envoy, &mut workshop);
    assert_eq!(ask(&workshop, "grace").status, 500);
}

/// Whether the line is `ratelimit-reset` with seconds of an hour.
fn is_reset(line: &str) -> bool {
    let seconds = line.strip_prefix("ratelimit-reset: ").and_then(|value| value.parse::<u32>().ok());
    seconds.is_some_and(|seconds| (1..=3600).contains(&seconds))
}

/// Asserts that every metric of the mapping table is there.
fn assert_has_mapped_metrics(page: &Section, metrics: &str) {
    let table = page.rows(MAPPING);
    let code = table.iter().flat_map(|row| row[1].split('`').skip(1).step_by(2));
    let names: BTreeSet<_> = code
        .filter(|code| code.starts_with("tidegate_"))
        .map(|code| code.split(['{', ' ']).next().unwrap())
        .collect();
    assert!(names.len() >= 6, "{names:?}");
    let has = |name: &str| metrics.contains(&format!("\n# TYPE {} ", name.trim_end_matches("_total")));
    let missing: Vec<_> = names.iter().filter(|name| !has(name)).collect();
    assert!(missing.is_empty(), "{missing:?} are not in\n{metrics}");
}

/// The names of `kind` in the mapping table, and `total`.
const KINDS: [&str; 8] = [
    "total",
    "over_limit",
    "near_limit",
    "within_limit",
    "shadow_mode",
    "given_back",
    "domain_not_found",
    "global_shadow_mode",
];

#[test]
fn every_kind_of_hits_of_the_mapping_table_is_counted() {
    let page = Section::of("## From envoyproxy/ratelimit");
    let mut workshop = Workshop::new(&[8080, 8081]);
    workshop.write(
        "config/shadow.yaml",
        "domain: mail\ndescriptors: [{ key: to, rate_limit: { unit: hour, requests_per_unit: 1 }, shadow_mode: true }]\n",
    );
    workshop.follow(&page.block("# config/shop.yaml"));
    count_by_the_hour(&workshop);
    workshop.follow(&page.block("# tidegate.yaml"));
    workshop.follow(&page.block("serve tidegate.yaml"));
    let table = page.rows(MAPPING);
    let entry = |key: &str, more: &str| format!(r#"[{{"entries":[{{"key":"{key}","value":"ada"}}]{more}}}]"#);
    for (domain, descriptors, times) in [
        ("shop", entry("api_key", ""), 6),
        ("shop", entry("api_key", r#","hitsAddend":"1","isNegativeHits":true"#), 1),
        ("mail", entry("to", ""), 2),
        ("nowhere", entry("to", ""), 1),
    ] {
        for _ in 0..times {
            let body = format!(r#"{{"domain":"{domain}","descriptors":{descriptors}}}"#);
            let (status, answer) = post(workshop.address(8080), "/json", &body);
            assert_eq!(status, 200, "{body}: {answer}");
        }
    }
    let metrics = workshop.get(8080, "/metrics", &[]).text();
    for kind in KINDS {
        let is_named = table.iter().flatten().any(|cell| cell.contains(kind));
        assert!(is_named, "the table does not name {kind}");
        let sample = format!("kind=\"{kind}\"}} ");
        let is_there = metrics
            .lines()
            .any(|line| line.starts_with("tidegate_envoy_hits_total{") && line.contains(&sample));
        assert!(is_there, "{sample} is not in\n{metrics}");
    }
}

#[test]
fn two_daemons_on_one_redis_admit_together_what_the_file_allows() {
    let test = "two_daemons_on_one_redis_admit_together_what_the_file_allows";
    let Some(_) = find_or_skip("redis-cli", test) else { return };
    let Some(redis) = RedisServer::start(&[]) else { return tidegate_test_support::skip(test) };
    let page = Section::of("## From envoyproxy/ratelimit");
    page.assert_says("all keys of Tidegate begin with `tidegate:`");
    let store = "store: { kind: redis, urls: [..], members: N }";
    page.assert_says(&format!("`{store}`"));
    let store = store.replace("..", &redis.url()).replace('N', "2, deadline: 10s");
    let mut workshop = Workshop::new(&[8080, 8081, OLD_HTTP, OLD_GRPC]);
    workshop.follow(&page.block("# config/shop.yaml"));
    count_by_the_hour(&workshop);
    for (name, http, grpc) in [("one.yaml", 8080, 8081), ("two.yaml", OLD_HTTP, OLD_GRPC)] {
        let policy = format!(
            "listen: {{ http: 127.0.0.1:{http}, grpc: 127.0.0.1:{grpc} }}\n{store}\n\
             envoy_ratelimit: {{ path: ./config, semantics: strict }}\n"
        );
        workshop.write(name, &policy);
        workshop.serve(name);
        until("it has the store", || workshop.get(http, "/readyz", &[]).status == 200);
    }
    let statuses: Vec<u16> = (0..20)
        .map(|number| {
            let address = workshop.address(if number % 2 == 0 { 8080 } else { OLD_HTTP });
            post(address, "/v1/check", r#"{"namespace":"shop","attributes":{"api_key":"ada"}}"#).0
        })
        .collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 5, "{statuses:?}");
    let keys = workshop.run(&format!("redis-cli -p {} KEYS '*'", redis.port()));
    let are_ours = keys.lines().all(|line| line.contains(") \"tidegate:"));
    assert!(are_ours && keys.lines().count() > 1, "{keys}");
}
