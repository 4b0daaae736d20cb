//! The rows of the meter that the requests of an engine count in.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_core::Timestamp;
use tidegate_overload::{Overload, ResourceId};

use crate::meter::{
    FeatureRow, MeterAccount, MeterConfig, MeteredRows, NamespaceRow, Offer, OpenMeterAccount, ResourceRow,
    UsageMeter,
};
use crate::permit::IssuingGate;
use crate::request::Request;

/// The meter of an engine, with the rows of the names that its policy has.
#[derive(Clone, Debug)]
pub(crate) struct MeterRows {
    pub(crate) meter: Arc<UsageMeter>,
    /// By the position of the gate.
    namespaces: Box<[NamespaceRow]>,
    features: Arc<HashMap<Box<str>, FeatureRow, ahash::RandomState>>,
    /// By the number of the resource.
    resources: Box<[ResourceRow]>,
}

/// A request as it is offered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offered<'r, 'a> {
    pub(crate) request: &'r Request<'a>,
    /// The gate of its namespace; [`IssuingGate::NOWHERE`] for a request that brings its limits.
    pub(crate) issuer: IssuingGate,
    /// Its resource, if the overload plane has one for it.
    pub(crate) resource: Option<ResourceId>,
    pub(crate) now: Timestamp,
}

impl Offered<'_, '_> {
    #[inline]
    const fn offer(&self) -> Offer {
        Offer { is_repeated: self.request.attempt > 0 }
    }
}

impl MeterRows {
    /// The meter with rows for these namespaces, in the order of their gates, and for the resources
    /// of this plane.
    pub(crate) fn new<'a>(
        meter: Arc<UsageMeter>,
        hasher: ahash::RandomState,
        namespaces: impl Iterator<Item = &'a str>,
        overload: Option<&Overload>,
    ) -> Self {
        let namespaces = namespaces.map(|name| meter.namespace(name, meter.latest())).collect();
        let features = Arc::new(HashMap::with_hasher(hasher));
        let resources = resource_rows(&meter, overload);
        Self { meter, namespaces, features, resources }
    }

    /// The same with rows for these features, the first [`MeterConfig::FEATURES_MAX`] of them.
    pub(crate) fn with_features<'a>(&self, names: impl Iterator<Item = &'a str>) -> Self {
        let mut features = HashMap::with_hasher(self.features.hasher().clone());
        let names = names.take(MeterConfig::FEATURES_MAX);
        features.extend(names.map(|name| (name.into(), self.meter.feature(name, self.meter.latest()))));
        Self { features: Arc::new(features), ..self.clone() }
    }

    /// The same with rows for the resources of this plane.
    pub(crate) fn with_resources(&self, overload: Option<&Overload>) -> Self {
        Self { resources: resource_rows(&self.meter, overload), ..self.clone() }
    }

    /// The names of the features that have rows.
    pub(crate) fn features(&self) -> impl Iterator<Item = &str> {
        self.features.keys().map(|name| &**name)
    }

    /// The account of a request that is decided at once; its outcome is still to be counted.
    #[inline]
    pub(crate) fn account(&self, of: &Offered<'_, '_>) -> MeterAccount {
        self.meter.account(&self.subject(of), of.offer(), of.now)
    }

    /// The account of a request that has to wait.
    pub(crate) fn offered(&self, of: &Offered<'_, '_>) -> OpenMeterAccount {
        let units = of.request.cost.units();
        self.meter.offered(&self.subject(of), of.offer(), of.now).with_units(units)
    }

    /// The rows of a request.
    pub(crate) fn subject<'s>(&self, of: &Offered<'s, '_>) -> MeteredRows<'s> {
        let request = of.request;
        let namespace = self.namespaces.get(of.issuer.namespace as usize).copied();
        MeteredRows {
            namespace: namespace.unwrap_or_else(|| self.meter.known_namespace(request.namespace)),
            tenant: request.tenant,
            class: request.class,
            feature: match request.feature {
                None => FeatureRow::NONE,
                Some(name) => self.features.get(name).copied().unwrap_or(FeatureRow::OTHER),
            },
            resource: of.resource.map_or(ResourceRow::NONE, |resource| self.resources[resource.index()]),
        }
    }
}

fn resource_rows(meter: &UsageMeter, overload: Option<&Overload>) -> Box<[ResourceRow]> {
    let resources = overload.into_iter().flat_map(Overload::resources);
    resources.map(|(_, name)| meter.resource(name, meter.latest())).collect()
}
