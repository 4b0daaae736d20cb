//! The reference of the configuration, a page a section, from the raw types.

mod fields;
mod markdown;

use std::sync::LazyLock;

use serde::Deserialize;

use crate::raw::authorization::GrantConfig;
use crate::raw::claims::{AccessForm, ClassForm, RequestForm};
use crate::raw::deferral::DeferForm;
use crate::raw::envoy::{EnvoyHeadersConfig, EnvoyRatelimitConfig};
use crate::raw::features::{FeatureForm, FeatureLevelForm};
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
    AdaptiveForm, DelayTargetForm, LoadLevelsForm, MinShareForm, QueueForm, ResourceConfig, SignalForm,
    WaitForm, WeightsForm,
};
use crate::raw::rlqs::RlqsConfig;
use crate::raw::service::{
    AuthorizeConfig, BoundsConfig, DecisionsForm, HttpConfig, ListenConfig, ListenerForm, LogConfig,
    MemoryConfig, MeteringConfig, TlsForm,
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
    top_level: &'static [&'static str],
    sections: Vec<Section>,
}

impl ReferencePage {
    fn new(top_level: &'static [&'static str]) -> Self {
        Self { top_level, sections: Vec::new() }
    }

    /// The page with a table of the keys of `T`.
    fn section<T: for<'de> Deserialize<'de>>(mut self, heading: &'static str) -> Self {
        let StructFields { name, fields } = fields_of::<T>();
        self.sections.push(Section { heading, definition: name, keys: fields });
        self
    }

    /// The name of its file in `docs/reference`, without `.md`: the first of its keys.
    pub fn name(&self) -> &'static str {
        self.top_level.first().unwrap_or(&INDEX)
    }

    /// The keys that it describes: at the top of a policy, and in a namespace.
    pub fn sections(&self) -> &'static [&'static str] {
        self.top_level
    }

    /// The page in Markdown, with links to other pages.
    pub fn text(&self) -> String {
        self.markdown(Links::BetweenPages)
    }
}

/// The keys of a definition of the schema in the order of the reference, if a page describes it.
pub(crate) fn keys_of(definition: &str) -> &'static [&'static str] {
    static SECTIONS: LazyLock<Vec<Section>> =
        LazyLock::new(|| reference_pages().into_iter().flat_map(|page| page.sections).collect());
    let section = SECTIONS.iter().find(|section| section.definition == definition);
    section.map_or(&[], |section| section.keys)
}

/// One table of a page: its heading, the definition it describes, and the keys in the order of the
/// type.
#[derive(Debug)]
struct Section {
    heading: &'static str,
    definition: &'static str,
    keys: &'static [&'static str],
}

/// The pages of the reference. The first is the index, `README`; every other one describes the
/// sections that it names.
pub fn reference_pages() -> Vec<ReferencePage> {
    vec![
        ReferencePage::new(&[]).section::<Config>("The sections"),
        ReferencePage::new(&["listen"])
            .section::<ListenConfig>("listen")
            .section::<ListenerForm>("listen.http, listen.admin, listen.proxy, listen.grpc, listen.resp")
            .section::<TlsForm>(
                "listen.http.tls, listen.admin.tls, listen.proxy.tls, listen.grpc.tls, listen.resp.tls",
            ),
        ReferencePage::new(&["store"]).section::<StoreConfig>("store").section::<StoreTlsConfig>("store.tls"),
        ReferencePage::new(&["memory"]).section::<MemoryConfig>("memory"),
        ReferencePage::new(&["metering"]).section::<MeteringConfig>("metering"),
        ReferencePage::new(&["namespaces", "defaults", "request"])
            .section::<NamespaceConfig>("namespaces.NAME")
            .section::<DefaultsConfig>("namespaces.NAME.defaults")
            .section::<RequestForm>("namespaces.NAME.request")
            .section::<ClassForm>("namespaces.NAME.request.class, proxy.routes[].class")
            .section::<AccessForm>("namespaces.NAME.request.access, proxy.routes[].access"),
        ReferencePage::new(&["limits"])
            .section::<LimitConfig>("namespaces.NAME.limits[]")
            .section::<KeyPartForm>("namespaces.NAME.limits[].key[]")
            .section::<MatcherForm>("namespaces.NAME.limits[].match.ATTRIBUTE")
            .section::<RollingConfig>("namespaces.NAME.limits[].rolling")
            .section::<FixedConfig>("namespaces.NAME.limits[].fixed")
            .section::<CalendarConfig>("namespaces.NAME.limits[].calendar")
            .section::<ConcurrencyConfig>("namespaces.NAME.limits[].concurrency")
            .section::<OnExceedConfig>("namespaces.NAME.limits[].on_exceed")
            .section::<NumbersConfig>("namespaces.NAME.limits[].overrides[]"),
        ReferencePage::new(&["plans", "costs"])
            .section::<PlansConfig>("namespaces.NAME.plans")
            .section::<CostRowConfig>("namespaces.NAME.costs[]"),
        ReferencePage::new(&["tables", "nodes", "accounts"])
            .section::<TableForm>("namespaces.NAME.tables[]")
            .section::<ProvisionedForm>("namespaces.NAME.tables[].provisioned")
            .section::<OnDemandForm>("namespaces.NAME.tables[].on_demand")
            .section::<DirectionsForm>("namespaces.NAME.tables[].on_demand.initial, .max")
            .section::<IndexForm>("namespaces.NAME.tables[].indexes[]")
            .section::<PartitionsForm>("namespaces.NAME.tables[].partitions")
            .section::<CeilingForm>("namespaces.NAME.tables[].partitions.ceiling")
            .section::<NodeForm>("nodes[]")
            .section::<AccountForm>("accounts[]"),
        ReferencePage::new(&["resources", "signals", "features"])
            .section::<ResourceConfig>("resources.NAME")
            .section::<AdaptiveForm>("resources.NAME.concurrency")
            .section::<QueueForm>("resources.NAME.queue")
            .section::<WaitForm>("resources.NAME.queue.wait")
            .section::<WeightsForm>("resources.NAME.queue.weights")
            .section::<DelayTargetForm>("resources.NAME.queue.delay_target")
            .section::<MinShareForm>("resources.NAME.queue.min_share")
            .section::<DeferForm>("resources.NAME.defer")
            .section::<LoadLevelsForm>("resources.NAME.levels")
            .section::<SignalForm>("signals[]")
            .section::<FeatureForm>("features[]")
            .section::<FeatureLevelForm>("features[].levels[]"),
        ReferencePage::new(&["authorization"]).section::<GrantConfig>("authorization[]"),
        ReferencePage::new(&["authorize"]).section::<AuthorizeConfig>("authorize"),
        ReferencePage::new(&["proxy"])
            .section::<ProxyConfig>("proxy")
            .section::<UpstreamForm>("proxy.upstreams.NAME")
            .section::<UpstreamTlsForm>("proxy.upstreams.NAME.tls")
            .section::<HealthConfig>("proxy.upstreams.NAME.health")
            .section::<JwtConfig>("proxy.jwt")
            .section::<RouteConfig>("proxy.routes[]")
            .section::<RouteMatch>("proxy.routes[].match")
            .section::<CostForm>("proxy.routes[].cost")
            .section::<TimeoutsForm>("proxy.routes[].timeouts")
            .section::<RefusalForm>("proxy.routes[].refusal"),
        ReferencePage::new(&["envoy_ratelimit"])
            .section::<EnvoyRatelimitConfig>("envoy_ratelimit")
            .section::<EnvoyHeadersConfig>("envoy_ratelimit.headers"),
        ReferencePage::new(&["rlqs"]).section::<RlqsConfig>("rlqs"),
        ReferencePage::new(&["http"]).section::<HttpConfig>("http").section::<BoundsConfig>("http.bounds"),
        ReferencePage::new(&["log"]).section::<LogConfig>("log").section::<DecisionsForm>("log.decisions"),
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
