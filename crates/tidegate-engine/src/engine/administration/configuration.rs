//! From limits as they are configured to an engine that decides by them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use tidegate_core::{Gate, NamespaceConfig, Timestamp};

use crate::engine::{Engine, Shared, hasher};
use crate::error::BuildError;
use crate::lent_namespaces::lent;
use crate::lineage::{Ignored, Lineage};
use crate::meter_rows::MeterRows;
use crate::overrides::{Overrides, RuntimeOverride};
use crate::planes::Planes;

impl Engine {
    /// An engine with these limits over the state there is; and which `was` it does not obey.
    pub(crate) fn from_world(
        shared: Arc<Shared>,
        planes: Planes,
        namespaces: Vec<NamespaceConfig>,
        lineage: &Lineage,
        mut overrides: Overrides,
    ) -> Result<(Self, World), BuildError> {
        let mut by_name = HashMap::with_hasher(hasher(shared.config.table.seed));
        for (index, NamespaceConfig { name, .. }) in namespaces.iter().enumerate() {
            let is_too_long = name.len() > NamespaceConfig::NAME_BYTES_MAX;
            if name.is_empty() || is_too_long || by_name.insert(name.as_str().into(), index).is_some() {
                return Err(BuildError::NamespaceName(name.clone()));
            }
        }
        let (lineage, ignored) = lineage.advance(&namespaces);
        let names = names_now(&namespaces, &lineage);
        let renamed = overrides
            .rename(|namespace, counts_as| names.get(&(namespace, counts_as)).map(|name| (*name).to_owned()));
        drop(names);
        let mut gates: SmallVec<[Arc<Gate>; 1]> = SmallVec::with_capacity(namespaces.len());
        for namespace in namespaces {
            let is_lent = shared.lent.contains(&namespace.name);
            gates.push(Arc::new(build_gate(&shared, namespace, &lineage, &overrides, is_lent)?));
        }
        shared.divide_among_namespaces();
        let metering = shared.meter.as_ref().map(|meter| {
            let (names, overload) = (gates.iter().map(|gate| gate.namespace()), planes.overload.as_deref());
            let overload = overload.map(|plane| &plane.overload);
            Arc::new(MeterRows::new(Arc::clone(meter), hasher(shared.config.table.seed), names, overload))
        });
        let names = gates.iter().map(|gate| gate.namespace());
        // The instant is for stand-ins that change their queue: with the same planes none does.
        let rehearsal = Self::rehearsal(&shared, &planes, names, Timestamp::MIN);
        let overload_is_absent = planes.overload.is_none();
        let engine = Self {
            gates,
            by_name: Arc::new(by_name),
            generation: next_generation(&shared),
            shared,
            planes,
            lineage: Arc::new(lineage),
            overrides,
            only_limits_decide: overload_is_absent,
            metering,
            rehearsal,
        };
        Ok((engine, World { ignored, renamed }))
    }

    /// Another engine over the same state and planes, with these namespaces and overrides.
    pub(crate) fn rebuilt(
        &self,
        namespaces: Vec<NamespaceConfig>,
        lineage: &Lineage,
        overrides: Overrides,
    ) -> Result<(Self, World), BuildError> {
        let (shared, planes) = (Arc::clone(&self.shared), self.planes.clone());
        let (mut engine, world) = Self::from_world(shared, planes, namespaces, lineage, overrides)?;
        if let Some(metering) = self.metering() {
            engine.set_features(metering.features());
        }
        Ok((engine, world))
    }

    /// Sets the names of the features that are counted apart.
    pub(crate) fn set_features<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        if let Some(metering) = &mut self.metering {
            *metering = Arc::new(metering.with_features(names));
        }
    }

    /// The same engine once more, of which parts are to be replaced.
    pub(crate) fn with_same_planes(&self) -> Self {
        self.with(self.planes.clone(), self.rehearsal.clone())
    }

    /// The same engine with other planes and their rehearsal beside its limits. Its generation is
    /// the same, since its gates are.
    pub(crate) fn with(&self, planes: Planes, rehearsal: Option<Arc<Self>>) -> Self {
        let overload = planes.overload.as_deref().map(|plane| &plane.overload);
        let metering = self.metering().map(|metering| Arc::new(metering.with_resources(overload)));
        Self {
            only_limits_decide: overload.is_none(),
            metering,
            gates: self.gates.clone(),
            by_name: Arc::clone(&self.by_name),
            generation: self.generation,
            shared: Arc::clone(&self.shared),
            planes,
            lineage: Arc::clone(&self.lineage),
            overrides: self.overrides.clone(),
            rehearsal,
        }
    }

    /// The same engine with other overrides set at run time, of which only those of this namespace
    /// have changed.
    pub(crate) fn with_overrides(&self, namespace: &str, overrides: Overrides) -> Result<Self, BuildError> {
        let mut gates = self.gates.clone();
        // Dormant overrides may name a namespace that is gone.
        if let Some(index) = self.by_name.get(namespace) {
            let namespace = NamespaceConfig::from(&*gates[*index]);
            let is_lent = self.shared.lent.contains(&namespace.name);
            gates[*index] =
                Arc::new(build_gate(&self.shared, namespace, &self.lineage, &overrides, is_lent)?);
        }
        let generation = next_generation(&self.shared);
        Ok(Self { gates, generation, overrides, ..self.with_same_planes() })
    }
}

impl Shared {
    /// Divides what namespaces share among those that there have been so far.
    pub(crate) fn divide_among_namespaces(&self) {
        let owners = self.table.namespaces().owners();
        self.kept.divide(owners);
        self.refunds.divide(owners);
        self.blocks.divide(owners);
        if let Some(leases) = self.leases() {
            leases.divide(owners);
        }
    }
}

/// Side results of making an engine.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) ignored: Vec<Ignored>,
    /// Overrides whose limit has another name now.
    pub(crate) renamed: Vec<RuntimeOverride>,
}

pub(crate) fn next_generation(shared: &Shared) -> u32 {
    // Relaxed: only the number must be new. Two of four thousand million generations apart may
    // share one.
    shared.generations.fetch_add(1, Ordering::Relaxed)
}

/// The name of each limit by its namespace and the name it counts under.
fn names_now<'a>(
    namespaces: &'a [NamespaceConfig],
    lineage: &'a Lineage,
) -> BTreeMap<(&'a str, &'a str), &'a str> {
    let all = namespaces.iter().flat_map(|one| one.limits.iter().map(|limit| (one.name.as_str(), limit)));
    all.map(|(namespace, limit)| {
        let counts_as = lineage.counts_as(namespace, &limit.name).unwrap_or(&limit.name);
        ((namespace, counts_as), limit.name.as_str())
    })
    .collect()
}

/// The gate of a namespace. `is_lent` says that this process lends its limits, those that it may.
pub(crate) fn build_gate(
    shared: &Shared,
    namespace: NamespaceConfig,
    lineage: &Lineage,
    overrides: &Overrides,
    is_lent: bool,
) -> Result<Gate, BuildError> {
    let NamespaceConfig { name: namespace, mut limits, plans, costs, .. } = namespace;
    let namespace = namespace.as_str();
    let at_run_time = overrides.of(namespace);
    if is_lent {
        for limit in &mut limits {
            let counts_as = lineage.counts_as(namespace, &limit.name).unwrap_or(&limit.name);
            let set = at_run_time.iter().filter(|one| one.limit_counts_as() == counts_as);
            if let Some(lent) = lent(limit, set.map(|one| one.numbers())) {
                *limit = lent;
            }
        }
    }
    // Relaxed: whoever changes the number makes the gates anew.
    let members = shared.members.load(Ordering::Relaxed);
    let mut builder = Gate::builder(namespace).table(Arc::clone(&shared.table)).members(members).costs(costs);
    if let Some(plans) = plans {
        builder = builder.plans(plans);
    }
    if shared.config.asks_store {
        builder = builder.exact_in_store();
    }
    if shared.has_shared_store() || is_lent {
        builder = builder.leased_in_store();
    }
    let mut by_identity = HashMap::new();
    for limit in &limits {
        let counts_as = lineage.counts_as(namespace, &limit.name).unwrap_or(&limit.name);
        builder = builder.counts_as(&limit.name, counts_as);
        by_identity.insert(counts_as, limit);
    }
    for one in at_run_time {
        let Some(limit) = by_identity.get(one.limit_counts_as()) else { continue };
        let numbers = one.numbers();
        // One that its limit does not take is dormant.
        if limit.check_override(&numbers).is_ok() {
            let until = one.until.unwrap_or(Timestamp::MAX);
            builder = builder.override_at_run_time(&limit.name, numbers, until);
        }
    }
    let gate = builder.limits(limits).build();
    gate.map_err(|source| BuildError::Limits { namespace: namespace.to_owned(), source })
}
