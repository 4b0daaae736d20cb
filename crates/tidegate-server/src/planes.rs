//! The tables and resources of a policy, for an engine.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error as ValueError;
use tidegate_capacity::{self as capacity, Access, ReadConsistency};
use tidegate_core::{Class, Timestamp};
use tidegate_engine::{BuildError, Engine, Request};
use tidegate_overload::{FeatureConfig, LevelThresholds};
use tidegate_policy::Policy;
use tidegate_policy::grammar::{SourceScope, ValueSource};
use tidegate_policy::nearest;
use tidegate_policy::policy::authorization::Verb;
use tidegate_policy::policy::claims::AccessParts;
use tidegate_policy::policy::resources::ResourcePolicy;
use tidegate_wire::fault::in_words_of_json;
use tidegate_wire::operation::AccessKind;
use tidegate_wire::text::shortened;
use tidegate_wire::{Fault, FaultCode};

use crate::authorization::Caller;
use crate::claims::value_of;

/// How much of a name an error shows, in bytes.
const SHOWN_BYTES: usize = 128;

/// How many names an error lists.
const NAMES_SHOWN: usize = 20;

/// The engine with the tables and resources of a policy, which keep their state by name, and the
/// shares of its namespaces.
pub(crate) fn with_planes(engine: &Engine, policy: &Policy, now: Timestamp) -> Result<Engine, BuildError> {
    let engine = engine.with_planes(policy.capacity(), policy.overload(), now)?;
    engine.set_waiting_bytes(policy.memory.waiting_bytes);
    // For each resource, also one without shares: the policy before this one may have had some.
    for resource in &policy.resources {
        let shares = resource.shares.iter().map(|(namespace, share)| (namespace.as_str(), *share));
        engine.set_namespace_shares(&resource.name, shares);
        engine.set_stream_namespaces(&resource.name, policy.stream_namespaces(&resource.name));
    }
    Ok(engine)
}

/// The tables and resources that requests may name, how they wait and how their refusals are
/// answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlaneSettings(Arc<Known>);

#[derive(Debug, Default, PartialEq)]
struct Known {
    resources: HashMap<String, ResourcePolicy>,
    /// Where the operation of a described request is found, by its resource; of the resources that
    /// say it.
    operations: HashMap<String, ValueSource>,
    /// Whether some resource sells tickets.
    defers: bool,
    /// All features, also those without levels.
    features: HashMap<String, FeatureConfig>,
    namespaces: HashSet<String>,
    /// The names of the tables of each namespace that has some.
    tables: HashMap<String, HashSet<String>>,
    /// The namespaces with tables in which the words `table`, `key`, `kind` and `size` describe an
    /// access, because their policy names no other source.
    word_tables: HashSet<String>,
}

impl PlaneSettings {
    /// The settings of a policy.
    pub(crate) fn from_policy(policy: &Policy) -> Self {
        let resources = policy.resources.iter().map(|resource| (resource.name.clone(), resource.clone()));
        let tables = policy.namespaces.iter().filter(|namespace| !namespace.tables.is_empty());
        let words = tables.clone().filter(|namespace| namespace.request.access.is_none());
        let word_tables = words.map(|namespace| namespace.name.clone()).collect();
        let tables = tables.map(|namespace| {
            let names = namespace.tables.iter().map(|table| table.name.clone());
            (namespace.name.clone(), names.collect())
        });
        let namespaces = policy.namespaces.iter().map(|namespace| namespace.name.clone());
        let operations = policy.deferrals().filter_map(|(name, deferral)| {
            let described = deferral.operation.as_ref().filter(|one| SourceScope::Described.has(one))?;
            Some((name.to_owned(), described.clone()))
        });
        let features = policy.features.iter().map(|feature| (feature.name.clone(), feature.clone()));
        Self(Arc::new(Known {
            resources: resources.collect(),
            operations: operations.collect(),
            defers: policy.deferrals().next().is_some(),
            features: features.collect(),
            namespaces: namespaces.collect(),
            tables: tables.collect(),
            word_tables,
        }))
    }

    /// How long a request of this class may wait for a place; zero: it does not wait.
    pub(crate) fn wait(&self, resource: Option<&str>, class: Class) -> Duration {
        let resource = resource.and_then(|name| self.0.resources.get(name));
        resource.map_or(Duration::ZERO, |resource| resource.wait(class))
    }

    /// How long a request of this class may wait whose route lets it wait for `own`, or zero.
    pub(crate) fn wait_at_route(&self, own: Duration, resource: Option<&str>, class: Class) -> Duration {
        let resource = resource.and_then(|name| self.0.resources.get(name));
        resource.map_or(own, |resource| resource.wait_at_route(own, class))
    }

    /// How long a request of this class waits that asks to wait for `wait`: no longer than the
    /// queue of its resource lets it. A resource without a queue adds no bound.
    pub(crate) fn bounded_wait(&self, wait: Duration, resource: Option<&str>, class: Class) -> Duration {
        let resource = resource.and_then(|name| self.0.resources.get(name));
        let with_queue = resource.filter(|resource| resource.config.queue.is_some());
        with_queue.map_or(wait, |resource| wait.min(resource.wait(class)))
    }

    /// Whether some resource sells tickets.
    pub(crate) fn defers(&self) -> bool {
        self.0.defers
    }

    /// Whether answers about a resource show its load.
    pub(crate) fn shows_load(&self, resource: &str) -> bool {
        self.0.resources.get(resource).is_some_and(|resource| resource.show_load)
    }

    /// The status of refusals by a resource, if it has one of its own.
    pub(crate) fn status(&self, resource: &str) -> Option<u16> {
        self.0.resources.get(resource)?.status
    }

    /// Gives a request the resource that its caller names, which must be one of the policy's. All
    /// namespaces share its places, so the caller needs a verb of its own to take one.
    ///
    /// With the resource it gets the operation that it asks for there, from its attributes.
    ///
    /// A request that names none has that of its feature, if its caller may take places. For any
    /// other caller the feature has no level, and its requests are no demand for it: a caller must
    /// not move the level of others by the name of a feature.
    pub(crate) fn add_resource<'a>(
        &'a self,
        request: &mut Request<'a>,
        resource: Option<&'a str>,
        caller: &Caller,
    ) -> Result<(), Fault> {
        let Some(name) = resource else {
            let feature = request.feature.and_then(|feature| self.0.features.get(feature));
            // A feature without levels says nothing of a resource.
            let feature = feature.filter(|one| !one.levels.is_empty());
            let resource = feature.and_then(|one| one.resource.as_deref());
            let resource = resource.filter(|_| caller.may(Verb::Place, request.namespace).is_ok());
            request.resource = resource;
            self.add_operation(request);
            return Ok(());
        };
        caller.may(Verb::Place, request.namespace)?;
        self.check_resource(name)?;
        request.resource = Some(name);
        self.add_operation(request);
        Ok(())
    }

    /// Gives a request the operation that it asks for at its resource, from its attributes.
    fn add_operation<'a>(&'a self, request: &mut Request<'a>) {
        if self.0.operations.is_empty() {
            return;
        }
        let source = request.resource.and_then(|name| self.0.operations.get(name));
        request.operation = source.and_then(|source| value_of(source, |name| request.attributes.get(name)));
    }

    /// The settings of a feature, also of one without levels.
    pub(crate) fn feature(&self, name: &str) -> Option<&FeatureConfig> {
        self.0.features.get(name)
    }

    /// The thresholds of the load levels of a resource.
    pub(crate) fn levels(&self, resource: Option<&str>) -> LevelThresholds {
        let resource = resource.and_then(|name| self.0.resources.get(name));
        resource.map_or(LevelThresholds::DEFAULT, |resource| resource.config.levels)
    }

    /// The thresholds of the load levels of each resource.
    pub(crate) fn all_levels(&self) -> impl Iterator<Item = (&str, LevelThresholds)> {
        self.0.resources.iter().map(|(name, resource)| (name.as_str(), resource.config.levels))
    }

    /// Fails when the policy has no resource of this name.
    pub(crate) fn check_resource(&self, name: &str) -> Result<(), Fault> {
        if self.0.resources.contains_key(name) { Ok(()) } else { Err(self.unknown_resource(name)) }
    }

    /// The fault of a name that no resource of the policy has.
    pub(crate) fn unknown_resource(&self, name: &str) -> Fault {
        let what = format!("resource \"{}\" does not exist", shortened(name, SHOWN_BYTES));
        let fix =
            match (nearest(name, self.0.resources.keys().map(String::as_str)), &self.known_resources()[..]) {
                (Some(near), _) => format!("did you mean \"{near}\"?"),
                (None, []) => "leave `resource` out, or add it under `resources:` of the policy".to_owned(),
                (None, known) => format!("use one of {}", known.join(", ")),
            };
        Fault::new(FaultCode::UnknownResource, what).field("resource").fix(fix)
    }

    fn known_resources(&self) -> Vec<&str> {
        let mut known: Vec<&str> = self.0.resources.keys().map(String::as_str).collect();
        known.sort_unstable();
        known.truncate(NAMES_SHOWN);
        known
    }

    /// Gives a request the access that its caller names. A table of another namespace is an error
    /// of its own; for a table or a namespace that does not exist the engine has one.
    pub(crate) fn add_access<'a>(&self, request: &mut Request<'a>, access: Access<'a>) -> Result<(), Fault> {
        self.check_owner(request.namespace, access.table)?;
        request.access = Some(access);
        Ok(())
    }

    /// Fails when the table is one of other namespaces only, and the namespace exists.
    pub(crate) fn check_owner(&self, namespace: &str, table: &str) -> Result<(), Fault> {
        let has = |tables: &HashSet<String>| tables.contains(table);
        if self.0.tables.get(namespace).is_some_and(has)
            || !self.0.tables.values().any(has)
            || !self.0.namespaces.contains(namespace)
        {
            return Ok(());
        }
        let what = format!(
            "table \"{}\" is not one of namespace \"{}\"",
            shortened(table, SHOWN_BYTES),
            shortened(namespace, SHOWN_BYTES)
        );
        let fix = "ask in the namespace that the table belongs to";
        Err(Fault::new(FaultCode::ForeignTable, what).field("table").fix(fix))
    }

    /// Gives a request the resource and the access that are among its attributes, for protocols
    /// that have no members for them: `resource`, where the policy has resources, and `table`,
    /// `key`, `kind` and `size`, where the namespace has tables and does not say itself where an
    /// access is found. Elsewhere these are attributes like any other.
    pub(crate) fn add_words<'a>(
        &'a self,
        request: &mut Request<'a>,
        word: impl Fn(&str) -> Option<&'a str>,
        caller: &Caller,
    ) -> Result<(), Fault> {
        let resource = if self.0.resources.is_empty() { None } else { word("resource") };
        self.add_resource(request, resource, caller)?;
        if request.access.is_some() || !self.0.word_tables.contains(request.namespace) {
            return Ok(());
        }
        let parts =
            AccessParts { table: word("table"), key: word("key"), kind: word("kind"), size: word("size") };
        self.add_access_parts(request, parts)
    }

    /// Gives a request the access of these parts; none without a table.
    pub(crate) fn add_access_parts<'a>(
        &self,
        request: &mut Request<'a>,
        parts: AccessParts<'a>,
    ) -> Result<(), Fault> {
        let Some(table) = parts.table else { return Ok(()) };
        let kind = parts.kind.map_or(Ok(AccessKind::Read), named_kind)?;
        let size = match parts.size {
            None => 1,
            Some(size) => size.parse().map_err(|_| {
                let what =
                    format!("size \"{}\" is not a whole number of bytes", shortened(size, SHOWN_BYTES));
                malformed("size", &what)
            })?,
        };
        let key = parts.key.ok_or_else(|| {
            malformed("key", "an access to a table needs a key").fix("add `key`: it decides the partition")
        })?;
        let access = Access::new(table, key.as_bytes(), access_kind(kind), size);
        self.add_access(request, access)
    }
}

/// The kind of this name, or of the request with this method.
fn named_kind(text: &str) -> Result<AccessKind, Fault> {
    match text {
        "GET" | "HEAD" | "OPTIONS" => return Ok(AccessKind::Read),
        _ if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_uppercase()) => {
            return Ok(AccessKind::Write);
        }
        _ => {}
    }
    AccessKind::deserialize(text.into_deserializer()).map_err(|error: ValueError| {
        malformed("kind", &format!("kind: {}", in_words_of_json(&error.to_string())))
    })
}

fn malformed(field: &'static str, what: &str) -> Fault {
    Fault::new(FaultCode::MalformedBody, what).field(field)
}

/// The kind of an access as the capacity plane knows it.
pub(crate) fn access_kind(kind: AccessKind) -> capacity::AccessKind {
    let read = |consistency| capacity::AccessKind::Read { consistency };
    match kind {
        AccessKind::Read => read(ReadConsistency::Eventual),
        AccessKind::ReadStrong => read(ReadConsistency::Strong),
        AccessKind::ReadTransactional => read(ReadConsistency::Transactional),
        AccessKind::Scan => capacity::AccessKind::Scan { consistency: ReadConsistency::Eventual },
        AccessKind::Write => capacity::AccessKind::Write,
        AccessKind::WriteTransactional => capacity::AccessKind::TransactionalWrite,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The resource of a request with attributes, and the operation that it asks for there.
    fn asked<'a>(
        planes: &'a PlaneSettings,
        attributes: &'a [(&'a str, &'a str)],
    ) -> (Option<&'a str>, Option<&'a str>) {
        let mut request = Request::new("api", attributes).feature("thumbnails");
        let word = |name: &str| attributes.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        planes.add_words(&mut request, word, &Caller::ANYONE).unwrap();
        (request.resource, request.operation)
    }

    #[test]
    fn the_operation_is_what_the_resource_of_the_request_says() {
        let text = "
resources:
  by-entry: { concurrency: 1, defer: { classes: [sheddable], operation: entry.op } }
  by-text: { concurrency: 1, defer: { classes: [sheddable], operation: '\"batch\"' } }
  by-header: { concurrency: 1, defer: { classes: [sheddable], operation: header.x-op } }
  by-feature: { concurrency: 1, defer: { classes: [sheddable] } }
  plain: { concurrency: 1 }
features: [{ name: thumbnails, levels: [{ name: full, cost: 1 }, { name: off, cost: 0 }], resource: by-entry }]
";
        let policy = tidegate_policy::parse("t.yaml", text, &|_| None).unwrap().policy;
        let planes = PlaneSettings::from_policy(&policy);
        assert!(planes.defers() && !PlaneSettings::default().defers());
        for (resource, operation) in [
            ("by-entry", Some("export")),
            ("by-text", Some("batch")),
            ("by-header", None),
            ("by-feature", None),
            ("plain", None),
        ] {
            let attributes = [("op", "export"), ("resource", resource)];
            assert_eq!(asked(&planes, &attributes), (Some(resource), operation));
        }
        assert_eq!(asked(&planes, &[("resource", "by-entry")]), (Some("by-entry"), None));
        // The resource of its feature.
        assert_eq!(asked(&planes, &[("op", "export")]), (Some("by-entry"), Some("export")));
    }
}
