//! The policies of the run: a new one each second.

/// The namespaces. The last one is in two of three policies.
pub(super) const NAMESPACES: [&str; 3] = ["shop", "media", GUEST];
/// The namespace that goes and comes back.
pub(super) const GUEST: &str = "guest";
/// A domain that no policy has; its requests bring their limit.
pub(super) const STRANGERS: &str = "strangers";
/// The listed features.
pub(super) const FEATURES: [&str; 3] = ["search", "thumbnails", "export"];
/// Tenants of `shop` with a class of their own.
pub(super) const TENANT_CLASSES: [(&str, &str); 2] = [("gold", "critical_plus"), ("batch", "sheddable")];
/// The resources that requests name; the one of the proxy is `app`.
pub(super) const RESOURCES: [&str; 2] = ["press", "bare"];

/// How long requests wait for a place of `press` at most, in milliseconds.
const PRESS_WAIT_MS: u64 = 150;
/// How long they wait for the upstream of the proxy.
const PROXY_WAIT_MS: u64 = 120;

/// The policy with this number, from 0.
pub(super) fn policy(number: u64, upstream: &str) -> String {
    let rate = 12 + number % 4 * 6;
    let places = 2 + number % 3;
    let features = FEATURES.join(", ");
    let [tenant, other] = TENANT_CLASSES.map(|(tenant, class)| format!("{tenant}: {class}"));
    let guest = if number % 3 == 2 {
        String::new()
    } else {
        format!(
            "  {GUEST}:\n    limits:\n      - {{ name: all, rate: 100000/s }}\n      \
             - {{ name: per-tenant, key: [tenant], rate: {rate}/s }}\n"
        )
    };
    format!(
        "listen: {{ http: '127.0.0.1:0', admin: '127.0.0.1:0', grpc: '127.0.0.1:0', resp: '127.0.0.1:0', \
         proxy: '127.0.0.1:0' }}
log: {{ refusals: off, level: warn }}
features: [{features}]
namespaces:
  shop:
    limits:
      - {{ name: all, rate: 100000/s }}
      - {{ name: per-account, key: [account], rate: {rate}/s }}
      - {{ name: jobs, key: [account], match: {{ op: job }}, concurrency: {{ limit: 2, hold: 2s }} }}
      - {{ name: logins, key: [account], match: {{ op: login }}, rate: 5/s, on_exceed: {{ block: 300ms }} }}
      - {{ name: signed, key: [signature], match: {{ op: sign }}, missing: refuse, rate: 100000/s }}
    request:
      tenant: entry.account
      feature: entry.part
      class: {{ from: entry.level, default: sheddable_plus }}
      tenants: {{ {tenant}, {other} }}
    tables:
      - {{ name: orders, provisioned: {{ read: 10, write: 10 }}, burst: 0s }}
  media:
    limits:
      - {{ name: all, rate: 100000/s }}
      - {{ name: per-tenant, key: [tenant], rate: {rate}/s, burst: 60 }}
{guest}resources:
  app: {{ concurrency: 3, queue: {{ requests: 4, wait: {PROXY_WAIT_MS}ms }} }}
  press: {{ concurrency: {places}, queue: {{ requests: 4, wait: {PRESS_WAIT_MS}ms }} }}
  bare: {{ concurrency: 2 }}
proxy:
  upstreams: {{ app: ['{upstream}'] }}
  routes:
    - match: {{ path: '/shop/*' }}
      upstream: app
      namespace: shop
      attributes: {{ account: header.x-tenant, op: header.x-op, signature: header.x-signature }}
      tenant: account
      feature: header.x-feature
      class: {{ from: header.x-class, default: sheddable_plus, ceiling: critical_plus }}
      cost: {{ from: header.x-cost }}
      wait: {PROXY_WAIT_MS}ms
    - match: {{ path: '/media/*' }}
      upstream: app
      namespace: media
      attributes: {{ tenant: header.x-tenant }}
      tenant: tenant
      feature: header.x-feature
      class: {{ from: header.x-class, default: sheddable_plus, ceiling: critical_plus }}
      cost: {{ from: header.x-cost }}
"
    )
}
