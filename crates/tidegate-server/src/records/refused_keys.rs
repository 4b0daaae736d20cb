//! The keys that are refused most within a window, counted by sketches of constant size.
//!
//! Each namespace has sketches of its own, so that a flood in one takes no counter from another.
//! Within a namespace keys are spread over [`SHARDS`] by a seeded hash, and each shard has two
//! rings of slots ([`SketchRing`]): one for windows up to a minute and one for windows up to
//! [`WINDOW_MAX`]. Of `n` refusals in a shard and window, a key and reason refused more than `n /`
//! [`SLOT_KEYS_MAX`] times is always counted, whatever else is sent. No decision reads
//! these counts.
//!
//! Tenants have sketches of their own: the keys of a tenant are many, and those that are not
//! counted would be missing in a sum over keys.

mod sketch;
mod tenant_rows;

use core::time::Duration;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tidegate_core::{Plane, Reason, Refusal, RefusalDetails, RefusalView, ScopeView, Timestamp};
use tidegate_wire::refused_keys::{ReasonCountBody, RefusedKeyBody, TopKeysBody, WithoutTenantBody};
use tidegate_wire::retry_after::millis_up;
use tidegate_wire::text::shortened;

use crate::api::parameters::AttributePair;
use crate::claims::ClaimSettings;

use self::sketch::{KeyTenant, RefusalSum, RefusedName, SLOT_KEYS_MAX, SketchRing, WindowSum};

/// The longest window that can be asked for.
pub(crate) const WINDOW_MAX: Duration = Duration::from_hours(1);

/// The window that is answered if none is asked for.
pub(crate) const WINDOW_DEFAULT: Duration = Duration::from_mins(1);

/// The longest window of the finer slots, and their length: a window begins at most this much
/// early.
const FINE_MAX: Duration = Duration::from_mins(1);
const FINE_SLOT: Duration = Duration::from_secs(5);

/// The length of the slots that longer windows are made of.
const COARSE_SLOT: Duration = Duration::from_mins(2);

/// Shards of a namespace, each with a lock.
const SHARDS: usize = 4;

/// How many keys and reasons a namespace counts in a slot.
pub const KEYS_MAX: usize = SHARDS * SLOT_KEYS_MAX;

/// Namespaces with sketches of their own, those that refuse first. Further ones share one sketch.
const NAMESPACES_MAX: usize = 32;

/// The longest text of a key that is kept, in bytes.
const KEY_BYTES_MAX: usize = 256;

/// The names of the tenant and of the class in the scope of a refusal by the overload plane.
const TENANT: &str = "tenant";
const CLASS: &str = "class";

/// The attributes in that scope.
pub(crate) const SCOPE_OF_SHED: [&str; 2] = [CLASS, TENANT];

/// A refusal, as far as it is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RefusedCounter<'a> {
    /// The namespace, or the domain of a file.
    pub(crate) namespace: &'a str,
    /// The limit that bound.
    pub(crate) limit: &'a str,
    /// The attributes and values that name the counter.
    pub(crate) scope: &'a ScopeView<'a>,
    /// The resource that refused it, if one with a name did.
    pub(crate) resource: Option<&'a str>,
    /// Why it was refused.
    pub(crate) reason: Reason,
    tenant: KeyTenant,
}

impl<'a> RefusedCounter<'a> {
    /// A refusal in a namespace whose tenants are named as `claims` say.
    pub(crate) fn new(refusal: &'a RefusalView<'a>, claims: &ClaimSettings) -> Self {
        let details = refusal.details.and_then(RefusalDetails::overload);
        let resource = details.and_then(|details| details.resource.as_deref());
        let of = (refusal.namespace, refusal.name);
        Self { resource, ..Self::of_limits(of, &refusal.scope, refusal.reason, claims) }
    }

    /// A refusal of the counter with this scope by limits.
    pub(crate) fn of_limits(
        (namespace, limit): (&'a str, &'a str),
        scope: &'a ScopeView<'a>,
        reason: Reason,
        claims: &ClaimSettings,
    ) -> Self {
        let tenant = tenant_in(namespace, scope, reason, claims);
        Self { namespace, limit, scope, resource: None, reason, tenant }
    }

    /// Its tenant; `None` for a key that is of no tenant.
    fn tenant(&self) -> Option<TenantName<'a>> {
        self.tenant.name_in(|position| self.scope.value_at(position))
    }
}

/// The requests that are counted as those of one tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TenantName<'a> {
    /// Of this tenant.
    Named(&'a str),
    /// Without a tenant.
    Without,
}

impl<'a> TenantName<'a> {
    fn named(self) -> Option<&'a str> {
        match self {
            Self::Named(name) => Some(name),
            Self::Without => None,
        }
    }
}

impl KeyTenant {
    /// The tenant of a key whose scope has these values; `None` for a key that is of no tenant.
    fn name_in<'a>(self, value_at: impl FnOnce(usize) -> Option<&'a str>) -> Option<TenantName<'a>> {
        match self {
            // A long scope is cut.
            Self::At(position) => value_at(position).map(TenantName::Named),
            Self::Without => Some(TenantName::Without),
            Self::Unknown => None,
        }
    }
}

/// The tenant of a key: the overload plane says it, and a limit counts by the attribute that names
/// the tenants of its namespace.
fn tenant_in(namespace: &str, scope: &ScopeView<'_>, reason: Reason, claims: &ClaimSettings) -> KeyTenant {
    if reason.plane() == Plane::Overload {
        let position = scope.iter().position(|(name, _)| name == TENANT);
        return position.map_or(KeyTenant::Without, KeyTenant::At);
    }
    let position = scope.iter().position(|(name, _)| claims.names_tenants(namespace, name));
    position.map_or(KeyTenant::Unknown, KeyTenant::At)
}

/// Which keys are wanted of those that are counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeySelection<'a> {
    /// Only of this namespace.
    pub(crate) namespace: Option<&'a str>,
    /// Only of this limit.
    pub(crate) limit: Option<&'a str>,
    /// Only for this reason.
    pub(crate) reason: Option<Reason>,
    /// Only keys that have all of these attributes with these values. The attribute that names the
    /// tenants of a namespace also selects the keys of that tenant in the overload plane.
    pub(crate) key: Vec<AttributePair<'a>>,
    /// Which attributes name the tenants of a namespace.
    pub(crate) tenants: Option<&'a ClaimSettings>,
}

/// The keys that are listed as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum KeyGroups {
    /// Each key, with all its reasons.
    #[default]
    Keys,
    /// All keys of a tenant in a namespace, and those that the overload plane refused without a
    /// tenant.
    Tenants,
}

impl<'a> KeySelection<'a> {
    /// The same keys of all tenants, and of requests without a tenant.
    fn of_all_tenants(&self) -> Self {
        let is_class = |(attribute, _): &&AttributePair<'a>| *attribute == CLASS;
        Self { key: self.key.iter().filter(is_class).cloned().collect(), ..self.clone() }
    }

    /// Whether it takes only some of the keys of its namespaces.
    fn is_narrow(&self) -> bool {
        self.limit.is_some() || self.reason.is_some() || !self.key.is_empty()
    }

    fn has_namespace(&self, namespace: &str) -> bool {
        self.namespace.is_none_or(|wanted| wanted == namespace)
    }

    /// Whether an attribute names the tenants of a namespace.
    fn names_tenants(&self, namespace: &str, attribute: &str) -> bool {
        self.tenants.is_some_and(|claims| claims.names_tenants(namespace, attribute))
    }

    fn selects(&self, name: &RefusedName) -> bool {
        let is_shed = name.reason.plane() == Plane::Overload;
        let has = |(wanted, value): &AttributePair<'_>| {
            let value = shortened(value, KEY_BYTES_MAX);
            let is_tenant =
                |known: &str| is_shed && known == TENANT && self.names_tenants(&name.namespace, wanted);
            let has = |(known, known_value): &(Box<str>, Box<str>)| {
                **known_value == *value && (**known == **wanted || is_tenant(known))
            };
            name.scope.iter().any(has)
        };
        self.has_namespace(&name.namespace)
            && self.limit.is_none_or(|limit| limit == &*name.limit)
            && self.reason.is_none_or(|reason| reason == name.reason)
            && self.key.iter().all(has)
    }
}

/// The keys that are refused most.
#[derive(Debug)]
pub(crate) struct RefusedKeys {
    hasher: ahash::RandomState,
    started: Timestamp,
    sketches: NamespaceSketches,
}

/// The sketches by namespace. A namespace keeps the place that it was given first.
#[derive(Debug)]
struct NamespaceSketches {
    own: [OnceLock<Box<OwnSketch>>; NAMESPACES_MAX],
    /// Of all namespaces that found no place.
    others: Box<NamespaceSketch>,
}

/// The sketch of one namespace.
#[derive(Debug)]
struct OwnSketch {
    namespace: Box<str>,
    sketch: NamespaceSketch,
}

#[derive(Debug)]
struct NamespaceSketch {
    keys: [Mutex<SketchShard>; SHARDS],
    tenants: [Mutex<SketchShard>; SHARDS],
}

#[derive(Debug)]
struct SketchShard {
    fine: SketchRing,
    coarse: SketchRing,
}

/// The refusals of one tenant, or of requests without a tenant.
#[derive(Debug)]
struct TenantRow {
    namespace: Box<str>,
    tenant: Option<Box<str>>,
    /// Its selected keys that are counted.
    keys: Vec<RefusalSum>,
    least: u64,
    most: u64,
    last_seen: Timestamp,
}

impl RefusedKeys {
    /// Empty sketches of a daemon that starts at `now`; `seed` keeps callers from choosing keys
    /// that collide.
    pub(crate) fn new(seed: [u64; 4], now: Timestamp) -> Self {
        let [a, b, c, d] = seed;
        let hasher = ahash::RandomState::with_seeds(a, b, c, d);
        let own = [const { OnceLock::new() }; NAMESPACES_MAX];
        let sketches = NamespaceSketches { own, others: Box::new(NamespaceSketch::new()) };
        Self { hasher, started: now, sketches }
    }

    /// Counts one refusal. A key that was counted shortly before costs no allocation.
    pub(crate) fn count(&self, refused: &RefusedCounter<'_>, now: Timestamp) {
        let (place, sketch) = self.sketches.find_or_grow(refused.namespace);
        let key_hash = self.key_hash(refused, place);
        // The key is hashed already: each reason, and each way to find its tenant, which a reload
        // may change, only has to give another number.
        let hash = key_hash.wrapping_add(refused.variant().wrapping_mul(0x9e37_79b9_7f4a_7c15));
        NamespaceSketch::count(&sketch.keys, (key_hash, hash), now, || refused.name(key_hash));
        if let Some(tenant) = refused.tenant() {
            let hash = self.tenant_hash(refused.namespace, tenant);
            NamespaceSketch::count(&sketch.tenants, (hash, hash), now, || refused.tenant_name(hash));
        }
    }

    /// A number for a counter of the namespace at this place.
    fn key_hash(&self, refused: &RefusedCounter<'_>, place: Option<usize>) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        // Each text with its length, which this hasher takes in as well.
        match place {
            Some(place) => hasher.write_u64(place as u64),
            None => hasher.write(refused.namespace.as_bytes()),
        }
        hasher.write(refused.limit.as_bytes());
        for (name, value) in refused.scope.iter() {
            hasher.write(name.as_bytes());
            hasher.write(value.as_bytes());
        }
        if let Some(resource) = refused.resource {
            hasher.write(resource.as_bytes());
        }
        hasher.finish()
    }

    /// The hash of a tenant of a namespace, or of requests without one. It is that of the whole
    /// name, which a listed key may show cut.
    fn tenant_hash(&self, namespace: &str, tenant: TenantName<'_>) -> u64 {
        let shown = tenant.named().map(|tenant| shortened(tenant, KEY_BYTES_MAX));
        self.hasher.hash_one((namespace, shown.as_deref()))
    }

    /// Whether anything was ever refused in this namespace, as far as it has a sketch of its own.
    pub(crate) fn knows(&self, namespace: &str) -> bool {
        self.sketches.own().any(|own| *own.namespace == *namespace)
    }

    /// The selected keys, at most `n`, those with the most certain refusals first.
    pub(crate) fn top(
        &self,
        selection: &KeySelection<'_>,
        groups: KeyGroups,
        window: Duration,
        n: usize,
        now: Timestamp,
    ) -> TopKeysBody {
        let window = window.min(WINDOW_MAX);
        let sketches = &self.sketches;
        let ring = |shard: &SketchShard| shard.ring(window).since(window, now);
        let since = ring(&sketches.others.keys[0].lock().unwrap_or_else(PoisonError::into_inner));
        let since = since.max(self.started).min(now);
        // A daemon that has just started has counted for at least a second, so that no rate is out
        // of all proportion.
        let span = now.saturating_since(since).max(Duration::from_secs(1));
        let (mut refusals, mut uncounted_max) = (0, 0);
        let (keys, more) = match groups {
            KeyGroups::Keys => {
                let mut sums = HashMap::<u64, KeySum>::new();
                for sketch in sketches.selected(selection) {
                    for sum in
                        NamespaceSketch::sums(&sketch.keys, window, now, |name| selection.selects(name))
                    {
                        refusals += sum.total;
                        uncounted_max = uncounted_max.max(sum.uncounted_max);
                        for one in sum.sums.into_values() {
                            sums.entry(one.name.key_hash).or_default().add(one);
                        }
                    }
                }
                let mut sums: Vec<KeySum> = sums.into_values().collect();
                sums.sort_by_cached_key(KeySum::rank);
                let more = sums.len().saturating_sub(n);
                (sums.into_iter().take(n).map(|sum| sum.body(span, now)).collect(), more)
            }
            KeyGroups::Tenants => {
                let rows = self.tenant_rows(sketches, selection, window, now);
                (refusals, uncounted_max) = (rows.refusals, rows.uncounted_max);
                let more = rows.rows.len().saturating_sub(n);
                (rows.rows.into_iter().take(n).map(|row| row.body(span, now)).collect(), more)
            }
        };
        let window_ms = millis_up(window);
        let since = since.to_whole_millis().to_string();
        TopKeysBody { window_ms, since, refusals, uncounted_max, keys, more, without_tenant: None }
    }

    /// The refusals of requests without a tenant among those that are selected but for the
    /// attributes; `None` without any.
    pub(crate) fn without_tenant(
        &self,
        selection: &KeySelection<'_>,
        window: Duration,
        because: String,
        now: Timestamp,
    ) -> Option<WithoutTenantBody> {
        let window = window.min(WINDOW_MAX);
        let rows = self.tenant_rows(&self.sketches, &selection.of_all_tenants(), window, now);
        let row = rows.rows.into_iter().find(TenantRow::is_without_tenant)?;
        let row = row.body(window, now);
        let RefusedKeyBody { refusals, error, limits, .. } = row;
        Some(WithoutTenantBody { refusals, error, limits, because })
    }
}

impl NamespaceSketches {
    /// Where a namespace is counted: the place and the sketch of its own, if that is still
    /// possible.
    fn find_or_grow(&self, namespace: &str) -> (Option<usize>, &NamespaceSketch) {
        // Any number that differs among names of a kind: at most all places are looked at.
        let last = namespace.as_bytes().last().copied().map_or(0, usize::from);
        let first = namespace.len() * 7 + last;
        for place in (first..first + NAMESPACES_MAX).map(|place| place % NAMESPACES_MAX) {
            let own = self.own[place].get_or_init(|| Box::new(OwnSketch::new(namespace)));
            if *own.namespace == *namespace {
                return (Some(place), &own.sketch);
            }
        }
        (None, &self.others)
    }

    fn own(&self) -> impl Iterator<Item = &OwnSketch> {
        self.own.iter().filter_map(|place| place.get().map(|own| &**own))
    }

    /// The sketches in which the selected namespaces are counted.
    fn selected(&self, selection: &KeySelection<'_>) -> impl Iterator<Item = &NamespaceSketch> {
        let own = self.own().filter(|own| selection.has_namespace(&own.namespace));
        let has_own = |name: &str| self.own().any(|own| *own.namespace == *name);
        let is_in_store = selection.namespace.is_none_or(|name| !has_own(name));
        own.map(|own| &own.sketch).chain(is_in_store.then_some(&*self.others))
    }
}

impl SketchShard {
    fn new() -> Self {
        Self { fine: SketchRing::new(FINE_SLOT, FINE_MAX), coarse: SketchRing::new(COARSE_SLOT, WINDOW_MAX) }
    }

    /// The ring for windows of this length.
    fn ring(&self, window: Duration) -> &SketchRing {
        if window <= FINE_MAX { &self.fine } else { &self.coarse }
    }
}

impl OwnSketch {
    #[cold]
    fn new(namespace: &str) -> Self {
        Self { namespace: namespace.into(), sketch: NamespaceSketch::new() }
    }
}

impl NamespaceSketch {
    fn new() -> Self {
        let shards = || core::array::from_fn(|_| Mutex::new(SketchShard::new()));
        Self { keys: shards(), tenants: shards() }
    }

    /// Where a hash is counted.
    fn shard_of(hash: u64) -> usize {
        (hash >> 32) as usize % SHARDS
    }

    /// Counts a name by its hash, in the shard of `shard_hash`.
    fn count(
        shards: &[Mutex<SketchShard>; SHARDS],
        (shard_hash, hash): (u64, u64),
        now: Timestamp,
        name: impl Fn() -> RefusedName,
    ) {
        // Every change leaves the shard whole, so a panic elsewhere does no harm.
        let mut shard = shards[Self::shard_of(shard_hash)].lock().unwrap_or_else(PoisonError::into_inner);
        let SketchShard { fine, coarse } = &mut *shard;
        let mut new = None;
        fine.count(hash, now, || {
            let known = coarse.name(hash, now).cloned();
            Arc::clone(new.insert(known.unwrap_or_else(|| Arc::new(name()))))
        });
        coarse.count(hash, now, || {
            new.or_else(|| fine.name(hash, now).cloned()).unwrap_or_else(|| Arc::new(name()))
        });
    }

    /// The sums of each shard.
    fn sums(
        shards: &[Mutex<SketchShard>; SHARDS],
        window: Duration,
        now: Timestamp,
        is_wanted: impl Fn(&RefusedName) -> bool,
    ) -> [WindowSum; SHARDS] {
        core::array::from_fn(|position| {
            // Every change leaves the shard whole, so a panic elsewhere does no harm.
            let shard = shards[position].lock().unwrap_or_else(PoisonError::into_inner);
            shard.ring(window).sum(window, now, &is_wanted)
        })
    }
}

impl RefusedCounter<'_> {
    /// A number for its reason and for the way to its tenant, another for each pair of them.
    fn variant(&self) -> u64 {
        let tenant = match self.tenant {
            KeyTenant::Unknown => 0,
            KeyTenant::Without => 1,
            KeyTenant::At(position) => 2 + position as u64,
        };
        1 + self.reason as u64 + tenant * Reason::ALL.len() as u64
    }

    fn name(&self, key_hash: u64) -> RefusedName {
        let mut bytes = 0;
        let within = self.scope.iter().take_while(|(name, value)| {
            let has_room = bytes <= KEY_BYTES_MAX;
            bytes += name.len() + value.len();
            has_room
        });
        RefusedName {
            key_hash,
            namespace: self.namespace.into(),
            limit: self.limit.into(),
            scope: within
                .map(|(name, value)| (Box::from(name), Box::from(&*shortened(value, KEY_BYTES_MAX))))
                .collect(),
            resource: self.resource.map(Into::into),
            reason: self.reason,
            tenant: self.tenant,
        }
    }

    /// The name by which its tenant is counted.
    fn tenant_name(&self, hash: u64) -> RefusedName {
        let value = self.tenant().and_then(TenantName::named);
        let scope = value.map(|value| (Box::from(TENANT), Box::from(&*shortened(value, KEY_BYTES_MAX))));
        RefusedName {
            key_hash: hash,
            namespace: self.namespace.into(),
            limit: Box::default(),
            tenant: if scope.is_some() { KeyTenant::At(0) } else { KeyTenant::Without },
            scope: scope.into_iter().collect(),
            resource: None,
            reason: self.reason,
        }
    }
}

impl RefusedName {
    /// The class of the requests, if the overload plane refused them.
    fn class(&self) -> Option<&str> {
        let class = || self.scope.iter().find(|(attribute, _)| **attribute == *CLASS);
        let class = (self.reason.plane() == Plane::Overload).then(class).flatten();
        class.map(|(_, value)| &**value)
    }

    /// Its tenant; `None` for a key that is of no tenant.
    fn tenant(&self) -> Option<TenantName<'_>> {
        self.tenant.name_in(|position| self.scope.get(position).map(|(_, value)| &**value))
    }
}

/// One key with all its reasons.
#[derive(Debug, Default)]
struct KeySum {
    refusals: u64,
    error: u64,
    last_seen: Timestamp,
    reasons: Vec<RefusalSum>,
}

impl KeySum {
    fn add(&mut self, one: RefusalSum) {
        self.refusals += one.refusals;
        self.error += one.error;
        self.last_seen = self.last_seen.max(one.last_seen);
        self.reasons.push(one);
    }

    fn certain(&self) -> u64 {
        self.refusals - self.error
    }

    /// The most certain refusals first, and then an order that does not depend on hashes.
    fn rank(&self) -> impl Ord + use<> {
        use core::cmp::Reverse;
        let name = self.reasons.first().map(|one| Arc::clone(&one.name));
        let text = name.map(|name| {
            (name.namespace.clone(), name.limit.clone(), name.scope.clone(), name.resource.clone())
        });
        (Reverse(self.certain()), Reverse(self.refusals), text)
    }

    fn body(mut self, span: Duration, now: Timestamp) -> RefusedKeyBody {
        self.reasons.sort_unstable_by(|one, other| {
            other.refusals.cmp(&one.refusals).then_with(|| one.name.reason.cmp(&other.name.reason))
        });
        let certain = self.certain();
        let name = &self.reasons.first().expect("a key is listed for a reason").name;
        let scope = name.scope.iter().map(|(name, value)| (&**name, &**value));
        let is_shed = name.reason.plane() == Plane::Overload;
        let reason = |one: &RefusalSum| ReasonCountBody {
            reason: one.name.reason.as_str().to_owned(),
            refusals: one.refusals,
            error: one.error,
        };
        RefusedKeyBody {
            namespace: name.namespace.to_string(),
            limit: name.limit.to_string(),
            key: pairs_text(scope),
            tenant: name.tenant().filter(|_| is_shed).and_then(TenantName::named).map(str::to_owned),
            class: name.class().map(str::to_owned),
            resource: name.resource.as_deref().map(str::to_owned),
            limits: Vec::new(),
            reasons: self.reasons.iter().map(reason).collect(),
            refusals: self.refusals,
            error: self.error,
            rate_per_s: rate_per_s(certain, span),
            last_seen: self.last_seen.to_whole_millis().to_string(),
            last_seen_ms: millis_up(now.saturating_since(self.last_seen)),
        }
    }
}

/// Refusals a second, to three digits.
#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn rate_per_s(refusals: u64, span: Duration) -> f64 {
    (refusals as f64 / span.as_secs_f64() * 1000.0).round() / 1000.0
}

/// The scope of a refusal as `user=ada, app=x`, cut after [`KEY_BYTES_MAX`].
pub(crate) fn key_text(refusal: &Refusal) -> String {
    pairs_text(refusal.scope.iter().map(|(name, value)| (&**name, &**value)))
}

fn pairs_text<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        if text.len() > KEY_BYTES_MAX {
            break;
        }
        let separator = if text.is_empty() { "" } else { ", " };
        text.extend([separator, name, "=", &shortened(value, KEY_BYTES_MAX)]);
    }
    shortened(&text, KEY_BYTES_MAX).into_owned()
}

#[cfg(test)]
mod tests;
