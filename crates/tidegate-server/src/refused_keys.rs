//! The keys that are refused most within a window, counted by sketches of constant size.
//!
//! Each namespace has sketches of its own, so that a flood in one takes no counter from another.
//! Within a namespace keys are spread over [`SHARDS`] by a seeded hash, and each shard has two
//! rings of slots ([`SketchRing`]): one for windows up to a minute and one for windows up to
//! [`WINDOW_MAX`]. Of `n` refusals in a shard and window, a key and reason refused more than `n /`
//! [`SLOT_KEYS_MAX`] times is always counted, whatever else is sent. No decision reads
//! these counts.

mod sketch;

use core::time::Duration;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tidegate_core::{Plane, Reason, Refusal, RefusalDetails, Text, Timestamp};
use tidegate_wire::refused_keys::{LimitCountBody, ReasonCountBody, RefusedKeyBody, TopKeysBody};
use tidegate_wire::retry_after::millis_up;
use tidegate_wire::text::shortened;

use crate::claims::ClaimSettings;
use crate::parameters::AttributePair;

use self::sketch::{RefusalSum, RefusedName, SLOT_KEYS_MAX, SketchRing};

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

/// A refusal, as far as it is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RefusedCounter<'a> {
    /// The namespace, or the domain of a file.
    pub(crate) namespace: &'a str,
    /// The limit that bound.
    pub(crate) limit: &'a str,
    /// The attributes and values that name the counter.
    pub(crate) scope: &'a [(Text, Text)],
    /// The resource that refused it, if one with a name did.
    pub(crate) resource: Option<&'a str>,
    /// Why it was refused.
    pub(crate) reason: Reason,
}

impl<'a> From<&'a Refusal> for RefusedCounter<'a> {
    fn from(refusal: &'a Refusal) -> Self {
        let details = refusal.details.as_deref().and_then(RefusalDetails::overload);
        Self {
            namespace: &refusal.namespace,
            limit: refusal.name(),
            scope: &refusal.scope,
            resource: details.and_then(|details| details.resource.as_deref()),
            reason: refusal.reason(),
        }
    }
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

impl KeySelection<'_> {
    fn has_namespace(&self, namespace: &str) -> bool {
        self.namespace.is_none_or(|wanted| wanted == namespace)
    }

    /// Whether an attribute names the tenants of a namespace.
    fn names_tenants(&self, namespace: &str, attribute: &str) -> bool {
        self.tenants.is_some_and(|claims| claims.tenant_attributes(namespace).any(|known| known == attribute))
    }

    /// The tenant of a key; `None` for a key that belongs to none.
    fn tenant_of<'n>(&self, name: &'n RefusedName) -> Option<&'n str> {
        let tenant = name
            .scope
            .iter()
            .find(|(attribute, _)| **attribute == *TENANT || self.names_tenants(&name.namespace, attribute));
        let none = (name.reason.plane() == Plane::Overload).then_some("");
        tenant.map(|(_, value)| &**value).or(none)
    }

    fn selects(&self, name: &RefusedName) -> bool {
        let has = |(wanted, value): &AttributePair<'_>| {
            let value = shortened(value, KEY_BYTES_MAX);
            let has = |(known, known_value): &(Box<str>, Box<str>)| {
                **known_value == *value
                    && (**known == **wanted
                        || (**known == *TENANT && self.names_tenants(&name.namespace, wanted)))
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
    namespaces: ArcSwap<NamespaceSketches>,
    /// Held while a namespace is added.
    growing: Mutex<()>,
}

/// The sketches by namespace.
#[derive(Clone, Debug)]
struct NamespaceSketches {
    own: HashMap<Box<str>, Arc<NamespaceSketch>, ahash::RandomState>,
    /// Of all namespaces beyond [`NAMESPACES_MAX`].
    others: Arc<NamespaceSketch>,
}

#[derive(Debug)]
struct NamespaceSketch([Mutex<SketchShard>; SHARDS]);

#[derive(Debug)]
struct SketchShard {
    fine: SketchRing,
    coarse: SketchRing,
}

impl RefusedKeys {
    /// Empty sketches of a daemon that starts at `now`; `seed` keeps callers from choosing keys
    /// that collide.
    pub(crate) fn new(seed: [u64; 4], now: Timestamp) -> Self {
        let [a, b, c, d] = seed;
        let hasher = ahash::RandomState::with_seeds(a, b, c, d);
        let own = HashMap::with_hasher(hasher.clone());
        let sketches = NamespaceSketches { own, others: Arc::new(NamespaceSketch::new()) };
        Self { hasher, started: now, namespaces: ArcSwap::from_pointee(sketches), growing: Mutex::new(()) }
    }

    /// Counts one refusal. A key that was counted shortly before costs no allocation.
    pub(crate) fn count<'a>(&self, refused: impl Into<RefusedCounter<'a>>, now: Timestamp) {
        let refused = refused.into();
        let RefusedCounter { namespace, limit, scope, resource, .. } = refused;
        let key_hash = self.hasher.hash_one((namespace, limit, scope, resource));
        let hash = self.hasher.hash_one((key_hash, refused.reason));
        let sketches = self.namespaces.load();
        match sketches.find(refused.namespace) {
            Some(sketch) => sketch.count(&refused, key_hash, hash, now),
            None => self.grow(refused.namespace).count(&refused, key_hash, hash, now),
        }
    }

    /// Gives a namespace a sketch of its own, if that is still possible.
    #[cold]
    fn grow(&self, namespace: &str) -> Arc<NamespaceSketch> {
        // Nothing is behind the lock that a panic could leave half done.
        let _growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sketches = NamespaceSketches::clone(&self.namespaces.load());
        if let Some(known) = sketches.find(namespace) {
            return Arc::clone(known);
        }
        let new = Arc::new(NamespaceSketch::new());
        sketches.own.insert(namespace.into(), Arc::clone(&new));
        self.namespaces.store(Arc::new(sketches));
        new
    }

    /// Whether anything was ever refused in this namespace, as far as it has a sketch of its own.
    pub(crate) fn knows(&self, namespace: &str) -> bool {
        self.namespaces.load().own.contains_key(namespace)
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
        let (mut sums, mut total, mut uncounted_max) = (HashMap::<u64, KeySum>::new(), 0, 0);
        let mut since = now;
        let sketches = self.namespaces.load();
        let own = sketches.own.iter().filter(|(name, _)| selection.has_namespace(name));
        let others = selection
            .namespace
            .is_none_or(|name| !sketches.own.contains_key(name))
            .then_some(&sketches.others);
        for sketch in own.map(|(_, sketch)| sketch).chain(others) {
            for shard in &sketch.0 {
                // Every change leaves the shard whole, so a panic elsewhere does no harm.
                let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
                let ring = if window <= FINE_MAX { &shard.fine } else { &shard.coarse };
                since = ring.since(window, now);
                let sum = ring.sum(window, now, |name| selection.selects(name));
                drop(shard);
                total += sum.total;
                uncounted_max = uncounted_max.max(sum.uncounted_max);
                for one in sum.sums.into_values() {
                    let group = match groups {
                        KeyGroups::Keys => Some(one.name.key_hash),
                        KeyGroups::Tenants => selection
                            .tenant_of(&one.name)
                            .map(|tenant| self.hasher.hash_one((&one.name.namespace, tenant))),
                    };
                    if let Some(group) = group {
                        sums.entry(group).or_default().add(one);
                    }
                }
            }
        }
        let mut sums: Vec<KeySum> = sums.into_values().collect();
        sums.sort_by_cached_key(KeySum::rank);
        let more = sums.len().saturating_sub(n);
        sums.truncate(n);
        let since = since.max(self.started).min(now);
        // A daemon that has just started has counted for at least a second, so that no rate is out
        // of all proportion.
        let span = now.saturating_since(since).max(Duration::from_secs(1));
        TopKeysBody {
            window_ms: millis_up(window),
            since: since.to_whole_millis().to_string(),
            refusals: total,
            uncounted_max,
            keys: sums
                .into_iter()
                .map(|sum| match groups {
                    KeyGroups::Keys => sum.body(span, now),
                    KeyGroups::Tenants => sum.tenant_body(selection, span, now),
                })
                .collect(),
            more,
        }
    }
}

impl NamespaceSketches {
    /// Where a namespace is counted; `None` if it may have a sketch of its own and has none yet.
    fn find(&self, namespace: &str) -> Option<&Arc<NamespaceSketch>> {
        self.own.get(namespace).or_else(|| (self.own.len() >= NAMESPACES_MAX).then_some(&self.others))
    }
}

impl NamespaceSketch {
    fn new() -> Self {
        let shard = || SketchShard {
            fine: SketchRing::new(FINE_SLOT, FINE_MAX),
            coarse: SketchRing::new(COARSE_SLOT, WINDOW_MAX),
        };
        Self(core::array::from_fn(|_| Mutex::new(shard())))
    }

    fn count(&self, refused: &RefusedCounter<'_>, key_hash: u64, hash: u64, now: Timestamp) {
        let shard = &self.0[(key_hash >> 32) as usize % SHARDS];
        // Every change leaves the shard whole, so a panic elsewhere does no harm.
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        let SketchShard { fine, coarse } = &mut *shard;
        let mut new = None;
        fine.count(hash, now, || {
            let known = coarse.name(hash, now).cloned();
            Arc::clone(new.insert(known.unwrap_or_else(|| Arc::new(refused.name(key_hash)))))
        });
        coarse.count(hash, now, || {
            new.or_else(|| fine.name(hash, now).cloned()).unwrap_or_else(|| Arc::new(refused.name(key_hash)))
        });
    }
}

impl RefusedCounter<'_> {
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
                .map(|(name, value)| (Box::from(&**name), Box::from(&*shortened(value, KEY_BYTES_MAX))))
                .collect(),
            resource: self.resource.map(Into::into),
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

    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    fn body(mut self, span: Duration, now: Timestamp) -> RefusedKeyBody {
        self.reasons.sort_unstable_by(|one, other| {
            other.refusals.cmp(&one.refusals).then_with(|| one.name.reason.cmp(&other.name.reason))
        });
        let certain = self.certain();
        let name = &self.reasons.first().expect("a key is listed for a reason").name;
        let scope = name.scope.iter().map(|(name, value)| (&**name, &**value));
        let reason = |one: &RefusalSum| ReasonCountBody {
            reason: one.name.reason.as_str().to_owned(),
            refusals: one.refusals,
            error: one.error,
        };
        RefusedKeyBody {
            namespace: name.namespace.to_string(),
            limit: name.limit.to_string(),
            key: pairs_text(scope),
            class: name.class().map(str::to_owned),
            resource: name.resource.as_deref().map(str::to_owned),
            limits: Vec::new(),
            reasons: self.reasons.iter().map(reason).collect(),
            refusals: self.refusals,
            error: self.error,
            rate_per_s: (certain as f64 / span.as_secs_f64() * 1000.0).round() / 1000.0,
            last_seen: self.last_seen.to_whole_millis().to_string(),
            last_seen_ms: millis_up(now.saturating_since(self.last_seen)),
        }
    }
}

impl KeySum {
    /// The row of a tenant: its refusals by reason, and by limit, or by mechanism, class and
    /// resource.
    fn tenant_body(self, selection: &KeySelection<'_>, span: Duration, now: Timestamp) -> RefusedKeyBody {
        let (mut limits, mut reasons) = (Vec::<LimitCountBody>::new(), Vec::<ReasonCountBody>::new());
        let mut key = String::new();
        for RefusalSum { name, refusals, error, .. } in &self.reasons {
            if let Some(tenant) = selection.tenant_of(name).filter(|tenant| !tenant.is_empty()) {
                key = pairs_text([(TENANT, tenant)].into_iter());
            }
            let is_of = |known: &&mut LimitCountBody| {
                *known.limit == *name.limit
                    && known.class.as_deref() == name.class()
                    && known.resource.as_deref() == name.resource.as_deref()
            };
            match limits.iter_mut().find(is_of) {
                Some(known) => {
                    known.refusals += refusals;
                    known.error += error;
                }
                None => limits.push(LimitCountBody {
                    limit: name.limit.to_string(),
                    class: name.class().map(str::to_owned),
                    resource: name.resource.as_deref().map(str::to_owned),
                    refusals: *refusals,
                    error: *error,
                }),
            }
            match reasons.iter_mut().find(|known| *known.reason == *name.reason.as_str()) {
                Some(known) => {
                    known.refusals += refusals;
                    known.error += error;
                }
                None => reasons.push(ReasonCountBody {
                    reason: name.reason.as_str().to_owned(),
                    refusals: *refusals,
                    error: *error,
                }),
            }
        }
        limits.sort_by(|one, other| {
            let rest = || {
                let name =
                    |one: &LimitCountBody| (one.limit.clone(), one.class.clone(), one.resource.clone());
                name(one).cmp(&name(other))
            };
            other.refusals.cmp(&one.refusals).then_with(rest)
        });
        reasons.sort_by(|one, other| {
            other.refusals.cmp(&one.refusals).then_with(|| one.reason.cmp(&other.reason))
        });
        let limit = limits.first().map(|first| first.limit.clone()).unwrap_or_default();
        let (class, resource) = (None, None);
        RefusedKeyBody { limit, key, class, resource, limits, reasons, ..self.body(span, now) }
    }
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
