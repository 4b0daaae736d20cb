//! The rows of the meter that the requests of an engine count in.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_core::{RequestOutcome, Timestamp};
use tidegate_overload::{Overload, ResourceId};

use crate::meter::{
    DecidedRequest, FeatureRow, MeterAccount, MeterConfig, MeteredRows, NamespaceRow, Offer,
    OpenMeterAccount, OwnCombination, RequestNames, ResourceRow, RowsKey, RowsLink, UsageMeter,
    next_list_number,
};
use crate::permit::IssuingGate;
use crate::request::Request;

/// The meter of an engine, with the rows of the names that its policy has.
#[derive(Debug)]
pub(crate) struct MeterRows {
    pub(crate) meter: Arc<UsageMeter>,
    /// Of these rows; see [`next_list_number`].
    number: u64,
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
    const fn offer(&self) -> Offer {
        Offer { is_repeated: self.request.attempt > 0 }
    }

    #[inline]
    const fn names(&self) -> RequestNames<'_> {
        RequestNames { tenant: self.request.tenant, feature: self.request.feature }
    }
}

impl DecidedRequest {
    /// A request that is admitted.
    #[inline]
    const fn admitted(request: &Request<'_>) -> Self {
        Self {
            outcome: RequestOutcome::Admitted,
            units: request.cost.units(),
            is_repeated: request.attempt > 0,
        }
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
        Self { meter, number: next_list_number(), namespaces, features, resources }
    }

    /// The same with rows for these features, the first [`MeterConfig::FEATURES_MAX`] of them.
    pub(crate) fn with_features<'a>(&self, names: impl Iterator<Item = &'a str>) -> Self {
        let mut features = HashMap::with_hasher(self.features.hasher().clone());
        let names = names.take(MeterConfig::FEATURES_MAX);
        features.extend(names.map(|name| (name.into(), self.meter.feature(name, self.meter.latest()))));
        Self { features: Arc::new(features), ..self.copy() }
    }

    /// The same with rows for the resources of this plane.
    pub(crate) fn with_resources(&self, overload: Option<&Overload>) -> Self {
        Self { resources: resource_rows(&self.meter, overload), ..self.copy() }
    }

    /// The same rows as a list of their own.
    fn copy(&self) -> Self {
        Self {
            meter: Arc::clone(&self.meter),
            number: next_list_number(),
            namespaces: self.namespaces.clone(),
            features: Arc::clone(&self.features),
            resources: self.resources.clone(),
        }
    }

    /// The names of the features that have rows.
    pub(crate) fn features(&self) -> impl Iterator<Item = &str> {
        self.features.keys().map(|name| &**name)
    }

    /// Counts a request without names that only limits have admitted; the key of its rows.
    #[inline(never)]
    pub(crate) fn admitted_without_names(&self, request: &Request<'_>, namespace: u32) -> RowsKey {
        let key = self.key_by_limits(request, namespace);
        if self.meter.count_lately_used(key, DecidedRequest::admitted(request)) {
            return key;
        }
        self.first_without_names(request, key)
    }

    /// [`Self::admitted_without_names`] where the thread has not used the rows lately.
    #[cold]
    fn first_without_names(&self, request: &Request<'_>, key: RowsKey) -> RowsKey {
        self.meter.with_base(key, |rows| rows.count_decided(DecidedRequest::admitted(request)));
        key
    }

    /// Counts a request with names that only limits have admitted; the link to its rows.
    #[inline(never)]
    pub(crate) fn admitted_with_names(
        &self,
        request: &Request<'_>,
        namespace: u32,
        now: Timestamp,
    ) -> RowsLink {
        let rows = self.key_by_limits(request, namespace);
        let names = RequestNames { tenant: request.tenant, feature: request.feature };
        let key = self.meter.names_key(self.number, rows, &names);
        let decided = DecidedRequest::admitted(request);
        let count = |rows: &OwnCombination| rows.count_small(decided).then(|| rows.link());
        match self.meter.with_names(key, now, count) {
            Some(Some(link)) => link,
            _ => self.first_with_names(request, namespace, now),
        }
    }

    /// [`Self::admitted_with_names`] where the thread has not used the rows lately.
    #[cold]
    fn first_with_names(&self, request: &Request<'_>, namespace: u32, now: Timestamp) -> RowsLink {
        let issuer = IssuingGate { namespace, ..IssuingGate::NOWHERE };
        let of = Offered { request, issuer, resource: None, now };
        let rows = self.key_by_limits(request, namespace);
        self.with_names(rows, &of, |found| {
            found.count_decided(DecidedRequest::admitted(request));
            found.link()
        })
    }

    /// The key of rows, but for names, of a request of the gate at this position that needs no
    /// resource.
    #[inline]
    fn key_by_limits(&self, request: &Request<'_>, namespace: u32) -> RowsKey {
        let row = self.namespaces.get(namespace as usize).copied().unwrap_or(NamespaceRow::NONE);
        RowsKey::new(row, request.class, ResourceRow::NONE)
    }

    /// Counts a request that only limits have refused.
    #[inline(never)]
    pub(crate) fn refused_by_limits(
        &self,
        request: &Request<'_>,
        namespace: u32,
        outcome: RequestOutcome,
        now: Timestamp,
    ) {
        let decided = DecidedRequest { outcome, ..DecidedRequest::admitted(request) };
        let is_counted = request.has_no_names()
            && self.meter.count_lately_used(self.key_by_limits(request, namespace), decided);
        if !is_counted {
            drop(self.decided_by_limits(request, namespace, outcome, now));
        }
    }

    /// [`Self::decided`] of a request of the gate at this position, without a resource.
    #[inline(never)]
    pub(crate) fn decided_by_limits(
        &self,
        request: &Request<'_>,
        namespace: u32,
        outcome: RequestOutcome,
        now: Timestamp,
    ) -> MeterAccount {
        let issuer = IssuingGate { namespace, ..IssuingGate::NOWHERE };
        self.decided(&Offered { request, issuer, resource: None, now }, outcome)
    }

    /// Counts a request that is decided at once, by its outcome.
    pub(crate) fn decided(&self, of: &Offered<'_, '_>, outcome: RequestOutcome) -> MeterAccount {
        let decided = DecidedRequest { outcome, ..DecidedRequest::admitted(of.request) };
        let Some(rows) = self.key(of) else {
            return self.meter.decided(&self.subject(of), decided, of.now);
        };
        if of.request.has_no_names() {
            return self.meter.decided_base(rows, decided);
        }
        self.with_names(rows, of, |found| {
            found.count_decided(decided);
            MeterAccount::of_rows(Arc::clone(found.shared()))
        })
    }

    /// Lets `act` have the rows of a request with names, whose key but for these is `rows`.
    fn with_names<T>(&self, rows: RowsKey, of: &Offered<'_, '_>, act: impl Fn(&OwnCombination) -> T) -> T {
        let key = self.meter.names_key(self.number, rows, &of.names());
        if let Some(done) = self.meter.with_names(key, of.now, &act) {
            return done;
        }
        let subject = self.subject(of);
        if subject.feature == FeatureRow::OTHER {
            // Callers may pick any name: it is not kept.
            return self.meter.with_rows(&subject, of.now, |_, found| act(found));
        }
        act(&self.meter.make_names(key, &subject, of.now))
    }

    /// The key of the rows of a request but for its names; `None` if no policy has its namespace.
    #[inline]
    fn key(&self, of: &Offered<'_, '_>) -> Option<RowsKey> {
        let namespace = *self.namespaces.get(of.issuer.namespace as usize)?;
        Some(RowsKey::new(namespace, of.request.class, self.resource_row(of)))
    }

    #[inline]
    fn resource_row(&self, of: &Offered<'_, '_>) -> ResourceRow {
        of.resource.map_or(ResourceRow::NONE, |resource| self.resources[resource.index()])
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
            resource: self.resource_row(of),
        }
    }
}

fn resource_rows(meter: &UsageMeter, overload: Option<&Overload>) -> Box<[ResourceRow]> {
    let resources = overload.into_iter().flat_map(Overload::resources);
    resources.map(|(_, name)| meter.resource(name, meter.latest())).collect()
}
