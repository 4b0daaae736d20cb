//! The refusals of each tenant: a bound by the sketch of tenants, and a breakdown by that of keys.
//!
//! A refusal that the counters of keys attribute with certainty belongs to its key, and so to the
//! tenant of that key. Every other refusal may be one of any tenant, also of a key that has no
//! counter. Therefore a tenant was refused at least as often as its keys were with certainty, and
//! at most as often as its own counter says, or as its keys were with certainty and all uncertain
//! refusals together.

use core::cmp::Reverse;
use core::time::Duration;
use std::collections::HashMap;

use tidegate_core::{Plane, Timestamp};
use tidegate_wire::refused_keys::{LimitCountBody, ReasonCountBody, RefusedKeyBody};
use tidegate_wire::retry_after::millis_up;

use super::sketch::RefusalSum;
use super::{
    KeySelection, NamespaceSketch, NamespaceSketches, RefusedKeys, RefusedName, TENANT, TenantName,
    TenantRow, pairs_text, rate_per_s,
};

/// The tenants that were refused.
#[derive(Debug, Default)]
pub(super) struct TenantRows {
    /// Those with the most certain refusals first.
    pub(super) rows: Vec<TenantRow>,
    /// All refusals of the selected namespaces.
    pub(super) refusals: u64,
    /// A tenant without a row was refused at most so often.
    pub(super) uncounted_max: u64,
}

impl RefusedKeys {
    /// The selected refusals by tenant.
    pub(super) fn tenant_rows(
        &self,
        sketches: &NamespaceSketches,
        selection: &KeySelection<'_>,
        window: Duration,
        now: Timestamp,
    ) -> TenantRows {
        let mut all = TenantRows::default();
        for sketch in sketches.selected(selection) {
            self.add_rows(&mut all, sketch, selection, window, now);
        }
        all.rows.sort_by_cached_key(|row| {
            let name = (row.namespace.clone(), row.tenant.clone());
            (Reverse(row.least), Reverse(row.most), name)
        });
        all
    }

    fn add_rows(
        &self,
        all: &mut TenantRows,
        sketch: &NamespaceSketch,
        selection: &KeySelection<'_>,
        window: Duration,
        now: Timestamp,
    ) {
        let is_of_namespace = |name: &RefusedName| selection.has_namespace(&name.namespace);
        let tenants = NamespaceSketch::sums(&sketch.tenants, window, now, is_of_namespace);
        let (mut keys, mut uncertain) = (HashMap::<u64, Vec<RefusalSum>>::new(), 0);
        for sum in NamespaceSketch::sums(&sketch.keys, window, now, |name| selection.selects(name)) {
            all.refusals += sum.total;
            uncertain += sum.uncertain;
            for one in sum.sums.into_values() {
                if let Some(tenant) = one.name.tenant() {
                    let hash = self.tenant_hash(&one.name.namespace, tenant);
                    keys.entry(hash).or_default().push(one);
                }
            }
        }
        if !selection.is_narrow() {
            let counted = tenants.iter().flat_map(|sum| sum.sums.keys());
            for hash in counted {
                keys.entry(*hash).or_default();
            }
        }
        let uncounted = tenants.iter().map(|sum| sum.uncounted_max).max().unwrap_or(0);
        let uncounted = if selection.is_narrow() {
            let counted = tenants.iter().flat_map(|sum| sum.sums.values().map(|one| one.refusals));
            counted.max().unwrap_or(0).max(uncounted).min(uncertain)
        } else {
            uncounted
        };
        all.uncounted_max = all.uncounted_max.max(uncounted);
        all.rows.extend(keys.into_iter().filter_map(|(hash, keys)| {
            let of_shard = &tenants[NamespaceSketch::shard_of(hash)];
            let own = of_shard.sums.get(&hash);
            let name = own.or(keys.first())?.name.clone();
            let last_seen = keys.iter().map(|one| one.last_seen);
            let certain = keys.iter().map(certain).sum::<u64>();
            let (least, last_seen) = match own.filter(|_| !selection.is_narrow()) {
                Some(own) => (certain.max(self::certain(own)), last_seen.chain([own.last_seen]).max()),
                None => (certain, last_seen.max()),
            };
            let most = own.map_or(of_shard.uncounted_max, |own| own.refusals);
            Some(TenantRow {
                namespace: name.namespace.clone(),
                tenant: name.tenant().and_then(TenantName::named).map(Into::into),
                keys,
                least,
                most: most.min(certain + uncertain).max(least),
                last_seen: last_seen.unwrap_or_default(),
            })
        }));
    }
}

fn certain(one: &RefusalSum) -> u64 {
    one.refusals - one.error
}

impl TenantRow {
    pub(super) fn is_without_tenant(&self) -> bool {
        self.tenant.is_none()
    }

    /// The row, with its refusals by reason, and by limit, or by mechanism, class and resource.
    pub(super) fn body(self, span: Duration, now: Timestamp) -> RefusedKeyBody {
        let known: u64 = self.keys.iter().map(certain).sum();
        // Any of its limits, counted or not, may have refused these.
        let rest = self.most - known;
        let (mut limits, mut reasons) = (Vec::<LimitCountBody>::new(), Vec::<ReasonCountBody>::new());
        for one in &self.keys {
            let (name, certain) = (&one.name, certain(one));
            let is_of = |known: &&mut LimitCountBody| {
                *known.limit == *name.limit
                    && known.class.as_deref() == name.class()
                    && known.resource.as_deref() == name.resource.as_deref()
            };
            // The overload plane has one key for a tenant, class, mechanism and resource, and a
            // limit may have several, of which some are not counted.
            let is_whole = name.reason.plane() == Plane::Overload;
            let error = if is_whole { one.error.min(rest) } else { rest };
            match limits.iter_mut().find(is_of) {
                Some(known) => known.refusals += certain,
                None => limits.push(LimitCountBody {
                    limit: name.limit.to_string(),
                    class: name.class().map(str::to_owned),
                    resource: name.resource.as_deref().map(str::to_owned),
                    refusals: certain + error,
                    error,
                }),
            }
            match reasons.iter_mut().find(|known| *known.reason == *name.reason.as_str()) {
                Some(known) => known.refusals += certain,
                None => reasons.push(ReasonCountBody {
                    reason: name.reason.as_str().to_owned(),
                    refusals: certain + rest,
                    error: rest,
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
        let tenant = self.tenant.map(String::from);
        RefusedKeyBody {
            namespace: self.namespace.into(),
            limit: limits.first().map(|first| first.limit.clone()).unwrap_or_default(),
            key: pairs_text(tenant.iter().map(|tenant| (TENANT, tenant.as_str()))),
            tenant,
            class: None,
            resource: None,
            limits,
            reasons,
            refusals: self.most,
            error: self.most - self.least,
            rate_per_s: rate_per_s(self.least, span),
            last_seen: self.last_seen.to_whole_millis().to_string(),
            last_seen_ms: millis_up(now.saturating_since(self.last_seen)),
        }
    }
}
