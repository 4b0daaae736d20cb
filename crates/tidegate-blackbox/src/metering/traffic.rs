//! The requests of the run: drawn, and written for each protocol.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use serde_json::{Value, json};
use tidegate_test_support::SplitMix64;
use tidegate_wire::envoy::rate_limit_descriptor::{Entry, RateLimitOverride};
use tidegate_wire::envoy::{RateLimitDescriptor, RateLimitRequest, RateLimitUnit};

use super::ledger::{LedgerEntry, NONE, OTHER, RowKey};
use super::policy::{FEATURES, GUEST, NAMESPACES, RESOURCES, STRANGERS, TENANT_CLASSES};
use crate::http1::with_body;
use crate::resp::command;

/// The classes, the most important first.
const CLASSES: [&str; 4] = ["critical_plus", "critical", "sheddable_plus", "sheddable"];
/// The class of requests that claim none.
const CLASS_DEFAULT: usize = 2;
/// Tenants without a class of their own.
const TENANTS: u64 = 18;
/// A cost that no limit ever admits.
const COST_TOO_LARGE: u64 = 10_000_000;

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Protocol {
    Http,
    Rls,
    Resp,
    Proxy,
}

impl Protocol {
    pub(super) const ALL: [Self; 4] = [Self::Http, Self::Rls, Self::Resp, Self::Proxy];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Http => "HTTP",
            Self::Rls => "RLS",
            Self::Resp => "RESP",
            Self::Proxy => "proxy",
        }
    }
}

/// A request that the meter counts.
#[derive(Clone, Debug)]
pub(super) struct MeteredRequest {
    pub(super) namespace: &'static str,
    tenant: Option<String>,
    feature: Option<&'static str>,
    /// The position in [`CLASSES`] of the class that it claims.
    class: Option<usize>,
    pub(super) resource: Option<&'static str>,
    /// The attribute by which some limits match.
    op: Option<&'static str>,
    signature: Option<u64>,
    has_access: bool,
    pub(super) cost: u64,
    wait_ms: Option<u64>,
    deadline_ms: Option<u64>,
    /// Over the proxy: with a body.
    has_body: bool,
}

impl MeteredRequest {
    /// A request over this protocol.
    pub(super) fn drawn(protocol: Protocol, random: &mut SplitMix64) -> Self {
        let mut one_of = |many: u64| random.below(many) == 0;
        let is_proxied = protocol == Protocol::Proxy;
        let names_resource = !is_proxied && one_of(2);
        let (waits, hurries, has_body) = (one_of(3), one_of(10), one_of(3));
        let (has_access, is_costly, claims, is_strange) = (one_of(4), one_of(50), one_of(2), one_of(20));
        let namespace = match protocol {
            Protocol::Proxy => *random.choose(&NAMESPACES[..2]),
            Protocol::Rls if is_strange => STRANGERS,
            _ => *random.choose(&NAMESPACES),
        };
        let own = random.below(TENANTS + 4);
        let tenant = match own {
            0 => None,
            1 | 2 => Some(TENANT_CLASSES[own as usize - 1].0.to_owned()),
            _ => Some(format!("tenant {own}")),
        };
        let feature = match random.below(6) {
            0 => None,
            1 => Some("unlisted"),
            _ => Some(*random.choose(&FEATURES)),
        };
        let is_shop = namespace == "shop";
        let op = match random.below(12) {
            0 | 1 => Some("job"),
            2 => Some("login"),
            3 => Some("sign"),
            _ => None,
        };
        Self {
            namespace,
            tenant,
            feature,
            class: claims.then(|| random.below(4) as usize),
            resource: names_resource.then(|| *random.choose(&RESOURCES)).filter(|_| namespace != STRANGERS),
            op: op.filter(|_| is_shop),
            signature: (random.below(2) == 0).then(|| random.below(100)),
            has_access: has_access && is_shop && !is_proxied,
            cost: if is_costly { COST_TOO_LARGE } else { 1 + random.below(4) },
            wait_ms: (waits && namespace != STRANGERS).then(|| 1 + random.below(200)),
            deadline_ms: hurries.then(|| random.below(60)),
            has_body: is_proxied && has_body,
        }
    }

    /// Whether it may be part of a batch, of which all requests have the outcome of the one that is
    /// refused: by a limit, since only those refuse it.
    pub(super) fn may_be_batched(&self) -> bool {
        let is_alone = self.resource.is_some()
            || self.has_access
            || self.wait_ms.is_some()
            || self.deadline_ms.is_some()
            || self.namespace == STRANGERS;
        !is_alone
    }

    /// The same as a request of another, with whose namespace and cost it is batched.
    pub(super) fn batched_with(self, first: &Self) -> Self {
        let op = self.op.filter(|_| first.namespace == "shop");
        Self { namespace: first.namespace, cost: first.cost, op, ..self }
    }

    /// Whether it may wait over Envoy's service, where a request waits at a resource without being
    /// told to.
    pub(super) fn may_wait_over_rls(&self) -> bool {
        self.wait_ms.is_some() || self.resource == Some("press")
    }

    /// When the proxy gives it up.
    pub(super) fn proxied_deadline(&self, protocol: Protocol) -> Option<Duration> {
        self.deadline_ms.filter(|_| protocol == Protocol::Proxy).map(Duration::from_millis)
    }

    /// Whether its namespace may be away.
    pub(super) fn may_be_unknown(&self) -> bool {
        self.namespace == GUEST
    }

    /// How much of a proxied request is a body, behind which it may be decided already.
    pub(super) fn body_bytes(&self) -> usize {
        if self.has_body { BODY.len() } else { 0 }
    }

    /// Its class as the meter counts it: the one that it claims, or that of its tenant; no higher
    /// than that of its tenant.
    fn counted_class(&self) -> &'static str {
        let own = TENANT_CLASSES.iter().find(|(tenant, _)| self.tenant.as_deref() == Some(*tenant));
        let own = own.filter(|_| self.namespace == "shop");
        let own = own.and_then(|(_, class)| CLASSES.iter().position(|known| known == class));
        let claimed = self.class.or(own).unwrap_or(CLASS_DEFAULT);
        CLASSES[own.map_or(claimed, |own| claimed.max(own))]
    }

    /// Its rows and units.
    pub(super) fn entry(&self, protocol: Protocol) -> LedgerEntry {
        let class = self.counted_class();
        let feature = match self.feature {
            Some(feature) if FEATURES.contains(&feature) => feature,
            Some(_) => OTHER,
            None => NONE,
        };
        let resource = if protocol == Protocol::Proxy { "app" } else { self.resource.unwrap_or(NONE) };
        let mut rows =
            vec![RowKey::new("features", feature, class), RowKey::new("resources", resource, class)];
        if self.namespace == STRANGERS {
            rows.push(RowKey::new("namespaces", NONE, class));
        } else {
            rows.push(RowKey::new("namespaces", self.namespace, class));
            let tenant = self.tenant.as_deref().unwrap_or(NONE);
            rows.push(RowKey::new(&RowKey::tenants_of(self.namespace), tenant, class));
        }
        LedgerEntry { rows, units: self.cost }
    }

    /// Its attributes, without those that a body or a header has a place for.
    fn attributes(&self) -> Vec<(&'static str, String)> {
        let [tenant, class] =
            if self.namespace == "shop" { ["account", "level"] } else { ["tenant", "tidegate-class"] };
        let mut attributes = Vec::new();
        attributes.extend(self.tenant.clone().map(|name| (tenant, name)));
        attributes.extend(self.class.map(|at| (class, CLASSES[at].to_owned())));
        attributes.extend(self.op.map(|op| ("op", op.to_owned())));
        attributes.extend(self.signature.map(|signature| ("signature", signature.to_string())));
        attributes
    }

    /// All that a protocol without bodies says in attributes.
    fn words(&self) -> Vec<(&'static str, String)> {
        let mut words = self.attributes();
        let feature = if self.namespace == "shop" { "part" } else { "feature" };
        words.extend(self.feature.map(|name| (feature, name.to_owned())));
        words.extend(self.resource.map(|name| ("resource", name.to_owned())));
        if self.has_access {
            words.extend(
                [("table", "orders"), ("key", "k"), ("kind", "read"), ("size", "1")]
                    .map(|(name, value)| (name, value.to_owned())),
            );
        }
        words.extend(self.wait_ms.map(|wait| ("tidegate-wait-ms", wait.to_string())));
        words.extend(self.deadline_ms.map(|deadline| ("tidegate-deadline-ms", deadline.to_string())));
        words
    }

    /// The request to `/v1/check`, or to another route that takes the same body.
    pub(super) fn http(&self, route: &str) -> Request<Bytes> {
        let attributes: Value = self
            .attributes()
            .into_iter()
            .map(|(name, value)| (name.to_owned(), Value::from(value)))
            .collect();
        let mut body = json!({ "namespace": self.namespace, "attributes": attributes, "cost": self.cost });
        if let Some(feature) = self.feature {
            body["feature"] = feature.into();
        }
        if let Some(resource) = self.resource {
            body["resource"] = resource.into();
        }
        if self.has_access {
            body["access"] = json!({ "table": "orders", "key": "k", "kind": "read", "size": 1 });
        }
        if let Some(wait) = self.wait_ms.filter(|_| route == "/v1/check") {
            body["wait_ms"] = wait.into();
        }
        let deadline = self.deadline_ms.map(|deadline| deadline.to_string());
        let headers: Vec<(&str, &str)> =
            deadline.iter().map(|deadline| ("tidegate-deadline-ms", deadline.as_str())).collect();
        with_body("POST", route, &headers, body.to_string())
    }

    /// The request through the proxy.
    pub(super) fn proxied(&self) -> Request<Bytes> {
        let mut headers = vec![("x-cost", self.cost.to_string())];
        headers.extend(self.tenant.clone().map(|name| ("x-tenant", name)));
        headers.extend(self.feature.map(|name| ("x-feature", name.to_owned())));
        headers.extend(self.class.map(|at| ("x-class", CLASSES[at].to_owned())));
        headers.extend(self.op.map(|op| ("x-op", op.to_owned())));
        headers.extend(self.signature.map(|signature| ("x-signature", signature.to_string())));
        headers.extend(self.deadline_ms.map(|deadline| ("tidegate-deadline-ms", deadline.to_string())));
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let (method, body) = if self.has_body { ("POST", BODY) } else { ("GET", "") };
        with_body(method, &format!("/{}/page", self.namespace), &headers, body)
    }

    /// The command `TG.CHECK`. A place is taken, so that its end is known.
    pub(super) fn resp(&self) -> Vec<u8> {
        let cost = self.cost.to_string();
        let words = self.words();
        let mut command_words = vec!["TG.CHECK", self.namespace, "COST", &cost];
        if self.resource.is_some() {
            command_words.push("RELEASE");
        }
        command_words.extend(words.iter().flat_map(|(name, value)| [*name, value.as_str()]));
        command(&command_words)
    }

    /// The call of these requests, which have one namespace and one cost.
    pub(super) fn rls(batch: &[Self]) -> RateLimitRequest {
        let descriptor = |request: &Self| RateLimitDescriptor {
            entries: request
                .words()
                .into_iter()
                .map(|(key, value)| Entry { key: key.to_owned(), value })
                // A descriptor has at least one entry.
                .chain([Entry { key: "from".to_owned(), value: "rls".to_owned() }])
                .collect(),
            limit: (request.namespace == STRANGERS)
                .then(|| RateLimitOverride { requests_per_unit: 3, unit: RateLimitUnit::Second.into() }),
            ..RateLimitDescriptor::default()
        };
        let first = &batch[0];
        RateLimitRequest {
            domain: first.namespace.to_owned(),
            descriptors: batch.iter().map(descriptor).collect(),
            hits_addend: u32::try_from(first.cost).unwrap_or(u32::MAX),
        }
    }
}

/// The body of a proxied request.
const BODY: &str = "a body that the proxy passes on";

#[cfg(test)]
mod tests {
    use super::*;

    fn request(namespace: &'static str, tenant: Option<&str>, class: Option<usize>) -> MeteredRequest {
        let mut request = MeteredRequest::drawn(Protocol::Http, &mut SplitMix64::new(1));
        (request.namespace, request.tenant, request.class) = (namespace, tenant.map(str::to_owned), class);
        request
    }

    #[test]
    fn the_class_of_a_tenant_is_the_default_and_the_bound_of_its_claims() {
        for (namespace, tenant, claimed, counted) in [
            ("shop", "gold", None, "critical_plus"),
            ("shop", "gold", Some(3), "sheddable"),
            ("shop", "batch", None, "sheddable"),
            ("shop", "batch", Some(0), "sheddable"),
            ("media", "batch", Some(0), "critical_plus"),
            ("shop", "tenant 3", None, "sheddable_plus"),
        ] {
            assert_eq!(request(namespace, Some(tenant), claimed).counted_class(), counted, "{tenant}");
        }
    }

    #[test]
    fn a_request_counts_in_one_row_of_each_list() {
        let mut random = SplitMix64::new(7);
        for protocol in Protocol::ALL {
            for _ in 0..200 {
                let request = MeteredRequest::drawn(protocol, &mut random);
                let lists: Vec<String> =
                    request.entry(protocol).rows.into_iter().map(|row| row.list).collect();
                let tenants = RowKey::tenants_of(request.namespace);
                let all = ["features", "resources", "namespaces", &tenants];
                let has_tenants = request.namespace != STRANGERS;
                assert_eq!(lists, all[..3 + usize::from(has_tenants)], "{request:?}");
            }
        }
    }
}
