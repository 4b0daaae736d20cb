//! The reference of the configuration, a page a section, from the raw types.

mod fields;
mod markdown;

use serde::Deserialize;

use crate::raw::authorization::GrantConfig;
use crate::raw::claims::{AccessForm, ClassForm, RequestForm};
use crate::raw::envoy::{EnvoyHeadersConfig, EnvoyRatelimitConfig};
use crate::raw::limit::{
    CalendarConfig, ConcurrencyConfig, FixedConfig, KeyPartForm, LimitConfig, NumbersConfig, OnExceedConfig,
    RollingConfig,
};
use crate::raw::matcher::MatcherForm;
use crate::raw::planes::{AccountForm, NodeForm};
use crate::raw::plans::{CostRowConfig, DefaultsConfig, PlansConfig};
use crate::raw::proxy::{
    CostForm, HealthConfig, JwtConfig, ProxyConfig, RefusalForm, RouteConfig, RouteMatch, TimeoutsForm,
    UpstreamForm, UpstreamTlsForm,
};
use crate::raw::resources::{
    AdaptiveForm, DelayTargetForm, MinShareForm, QueueForm, ResourceConfig, SignalForm, WaitForm, WeightsForm,
};
use crate::raw::service::{
    AuthorizeConfig, BoundsConfig, DecisionsForm, HttpConfig, ListenConfig, ListenerForm, LogConfig,
    MemoryConfig, TlsForm,
};
use crate::raw::store::{StoreConfig, StoreTlsConfig};
use crate::raw::tables::{
    CeilingForm, DirectionsForm, IndexForm, OnDemandForm, PartitionsForm, ProvisionedForm, TableForm,
};
use crate::raw::{Config, NamespaceConfig};
use fields::{StructFields, fields_of};

/// The reference in Markdown, all pages one after the other: every key with its type, its default
/// and what it does.
pub fn reference() -> String {
    reference_pages().iter().map(|page| page.markdown(Links::None)).collect::<Vec<_>>().join("\n")
}

/// The page that opens the reference.
const INDEX: &str = "README";

/// Whether a page names its neighbours by links.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Links {
    None,
    BetweenPages,
}

/// One page of the reference.
#[derive(Debug)]
pub struct ReferencePage {
    name: &'static str,
    top_level: &'static [&'static str],
    /// The parts of the annotated policy that it shows, each by the keys that lead to it.
    excerpts: &'static [&'static [&'static str]],
    sections: Vec<Section>,
}

impl ReferencePage {
    /// The name of its file in `docs/reference`, without `.md`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The keys that it describes: those at the top of a policy, and those of a namespace.
    pub fn sections(&self) -> &'static [&'static str] {
        self.top_level
    }

    /// The page in Markdown, with links to other pages.
    pub fn text(&self) -> String {
        self.markdown(Links::BetweenPages)
    }
}

/// One table of a page: its heading, the definition it describes, and the keys in the order of the
/// type.
#[derive(Debug)]
struct Section {
    heading: &'static str,
    definition: &'static str,
    keys: &'static [&'static str],
}

impl Section {
    fn new<T: for<'de> Deserialize<'de>>(heading: &'static str) -> Self {
        let StructFields { name, fields } = fields_of::<T>();
        Self { heading, definition: name, keys: fields }
    }
}

/// The pages of the reference. The first is the index, `README`; every other one describes the
/// sections that it names.
#[expect(clippy::too_many_lines, reason = "one list, in the order of the pages")]
pub fn reference_pages() -> Vec<ReferencePage> {
    vec![
        ReferencePage {
            name: INDEX,
            top_level: &[],
            excerpts: &[],
            sections: vec![Section::new::<Config>("The sections")],
        },
        ReferencePage {
            name: "listen",
            top_level: &["listen"],
            excerpts: &[&["listen"]],
            sections: vec![
                Section::new::<ListenConfig>("listen"),
                Section::new::<ListenerForm>(
                    "listen.http, listen.admin, listen.proxy, listen.grpc, listen.resp",
                ),
                Section::new::<TlsForm>(
                    "listen.http.tls, listen.admin.tls, listen.proxy.tls, listen.grpc.tls, listen.resp.tls",
                ),
            ],
        },
        ReferencePage {
            name: "store",
            top_level: &["store"],
            excerpts: &[&["store"]],
            sections: vec![Section::new::<StoreConfig>("store"), Section::new::<StoreTlsConfig>("store.tls")],
        },
        ReferencePage {
            name: "memory",
            top_level: &["memory"],
            excerpts: &[&["memory"]],
            sections: vec![Section::new::<MemoryConfig>("memory")],
        },
        ReferencePage {
            name: "namespaces",
            top_level: &["namespaces", "defaults", "request"],
            excerpts: &[&["namespaces", "shop", "defaults"], &["namespaces", "shop", "request"]],
            sections: vec![
                Section::new::<NamespaceConfig>("namespaces.NAME"),
                Section::new::<DefaultsConfig>("namespaces.NAME.defaults"),
                Section::new::<RequestForm>("namespaces.NAME.request"),
                Section::new::<ClassForm>("namespaces.NAME.request.class, proxy.routes[].class"),
                Section::new::<AccessForm>("namespaces.NAME.request.access, proxy.routes[].access"),
            ],
        },
        ReferencePage {
            name: "limits",
            top_level: &["limits"],
            excerpts: &[&["namespaces", "shop", "limits"]],
            sections: vec![
                Section::new::<LimitConfig>("namespaces.NAME.limits[]"),
                Section::new::<KeyPartForm>("namespaces.NAME.limits[].key[]"),
                Section::new::<MatcherForm>("namespaces.NAME.limits[].match.ATTRIBUTE"),
                Section::new::<RollingConfig>("namespaces.NAME.limits[].rolling"),
                Section::new::<FixedConfig>("namespaces.NAME.limits[].fixed"),
                Section::new::<CalendarConfig>("namespaces.NAME.limits[].calendar"),
                Section::new::<ConcurrencyConfig>("namespaces.NAME.limits[].concurrency"),
                Section::new::<OnExceedConfig>("namespaces.NAME.limits[].on_exceed"),
                Section::new::<NumbersConfig>("namespaces.NAME.limits[].overrides[]"),
            ],
        },
        ReferencePage {
            name: "plans",
            top_level: &["plans", "costs"],
            excerpts: &[&["namespaces", "shop", "plans"], &["namespaces", "shop", "costs"]],
            sections: vec![
                Section::new::<PlansConfig>("namespaces.NAME.plans"),
                Section::new::<CostRowConfig>("namespaces.NAME.costs[]"),
            ],
        },
        ReferencePage {
            name: "tables",
            top_level: &["tables", "nodes", "accounts"],
            excerpts: &[&["namespaces", "shop", "tables"], &["nodes"], &["accounts"]],
            sections: vec![
                Section::new::<TableForm>("namespaces.NAME.tables[]"),
                Section::new::<ProvisionedForm>("namespaces.NAME.tables[].provisioned"),
                Section::new::<OnDemandForm>("namespaces.NAME.tables[].on_demand"),
                Section::new::<DirectionsForm>("namespaces.NAME.tables[].on_demand.initial, .max"),
                Section::new::<IndexForm>("namespaces.NAME.tables[].indexes[]"),
                Section::new::<PartitionsForm>("namespaces.NAME.tables[].partitions"),
                Section::new::<CeilingForm>("namespaces.NAME.tables[].partitions.ceiling"),
                Section::new::<NodeForm>("nodes[]"),
                Section::new::<AccountForm>("accounts[]"),
            ],
        },
        ReferencePage {
            name: "resources",
            top_level: &["resources", "signals"],
            excerpts: &[&["resources"], &["signals"]],
            sections: vec![
                Section::new::<ResourceConfig>("resources.NAME"),
                Section::new::<AdaptiveForm>("resources.NAME.concurrency"),
                Section::new::<QueueForm>("resources.NAME.queue"),
                Section::new::<WaitForm>("resources.NAME.queue.wait"),
                Section::new::<WeightsForm>("resources.NAME.queue.weights"),
                Section::new::<DelayTargetForm>("resources.NAME.queue.delay_target"),
                Section::new::<MinShareForm>("resources.NAME.queue.min_share"),
                Section::new::<SignalForm>("signals[]"),
            ],
        },
        ReferencePage {
            name: "authorization",
            top_level: &["authorization"],
            excerpts: &[&["authorization"]],
            sections: vec![Section::new::<GrantConfig>("authorization[]")],
        },
        ReferencePage {
            name: "authorize",
            top_level: &["authorize"],
            excerpts: &[&["authorize"]],
            sections: vec![Section::new::<AuthorizeConfig>("authorize")],
        },
        ReferencePage {
            name: "proxy",
            top_level: &["proxy"],
            excerpts: &[&["proxy"]],
            sections: vec![
                Section::new::<ProxyConfig>("proxy"),
                Section::new::<UpstreamForm>("proxy.upstreams.NAME"),
                Section::new::<UpstreamTlsForm>("proxy.upstreams.NAME.tls"),
                Section::new::<HealthConfig>("proxy.upstreams.NAME.health"),
                Section::new::<JwtConfig>("proxy.jwt"),
                Section::new::<RouteConfig>("proxy.routes[]"),
                Section::new::<RouteMatch>("proxy.routes[].match"),
                Section::new::<CostForm>("proxy.routes[].cost"),
                Section::new::<TimeoutsForm>("proxy.routes[].timeouts"),
                Section::new::<RefusalForm>("proxy.routes[].refusal"),
            ],
        },
        ReferencePage {
            name: "envoy_ratelimit",
            top_level: &["envoy_ratelimit"],
            excerpts: &[&["envoy_ratelimit"]],
            sections: vec![
                Section::new::<EnvoyRatelimitConfig>("envoy_ratelimit"),
                Section::new::<EnvoyHeadersConfig>("envoy_ratelimit.headers"),
            ],
        },
        ReferencePage {
            name: "http",
            top_level: &["http"],
            excerpts: &[&["http"]],
            sections: vec![Section::new::<HttpConfig>("http"), Section::new::<BoundsConfig>("http.bounds")],
        },
        ReferencePage {
            name: "log",
            top_level: &["log"],
            excerpts: &[&["log"]],
            sections: vec![Section::new::<LogConfig>("log"), Section::new::<DecisionsForm>("log.decisions")],
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_describes_the_keys_of_its_definition() {
        for section in reference_pages().iter().flat_map(|page| &page.sections) {
            let described = section.schema()["properties"].as_object();
            let mut described: Vec<&str> = described.into_iter().flatten().map(|(key, _)| &**key).collect();
            let mut keys = section.keys.to_vec();
            described.sort_unstable();
            keys.sort_unstable();
            assert!(!keys.is_empty(), "{}", section.definition);
            assert_eq!(described, keys, "{}", section.definition);
        }
    }
}
