//! The meter against a model that does everything at once, in plain maps of wide numbers.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use tidegate_core::{Class, RequestOutcome, Timestamp};
use tidegate_test_support::SplitMix64;

use super::super::{
    FeatureRow, MeteredRows, NamespaceRow, Offer, OpenMeterAccount, PermitAccount, ResourceRow, RowName,
    Usage, UsageMeter,
};
use super::{START, meter};

const NAMESPACES: usize = 40;
const NAMES: u64 = 20_000;
const TENANTS_MAX: u32 = 500;

/// The most admitted requests in hand. Every reader visits all rows: with a number that grew, the
/// time of a run would grow with the square of its operations.
const ADMITTED_MAX: usize = 2_000;

/// The outcomes whose units are refused units.
const REFUSALS: [RequestOutcome; 7] = [
    RequestOutcome::Denied,
    RequestOutcome::Throttled,
    RequestOutcome::Shed,
    RequestOutcome::Deferred,
    RequestOutcome::Disabled,
    RequestOutcome::Expired,
    RequestOutcome::Unavailable,
];

/// As much of a name as is shown.
fn cut(name: &str) -> &str {
    &name[..name.floor_char_boundary(128)]
}

/// The columns of a row; what is shown of them is in `shown`.
#[derive(Clone, Copy, Debug, Default)]
struct WideRow {
    outcomes: [i128; 10],
    under_way: i128,
    repeated: i128,
    units: i128,
    refused: i128,
    undone: i128,
    true_units: i128,
    place: i128,
    wait: i128,
    reported: i128,
    refunded: i128,
    more: i128,
    less: i128,
    envoys_admitted: i128,
    envoys_denied: i128,
}

impl WideRow {
    fn add(&mut self, other: &Self) {
        for (sum, more) in self.outcomes.iter_mut().zip(other.outcomes) {
            *sum += more;
        }
        self.under_way += other.under_way;
        self.repeated += other.repeated;
        self.units += other.units;
        self.refused += other.refused;
        self.undone += other.undone;
        self.true_units += other.true_units;
        self.place += other.place;
        self.wait += other.wait;
        self.reported += other.reported;
        self.refunded += other.refunded;
        self.more += other.more;
        self.less += other.less;
        self.envoys_admitted += other.envoys_admitted;
        self.envoys_denied += other.envoys_denied;
    }

    fn shown(&self) -> Usage {
        let end = i128::from(u64::MAX);
        let cap = |amount: i128| u64::try_from(amount.clamp(0, end)).unwrap();
        let amounts = [
            self.units,
            self.undone,
            self.refused,
            self.true_units,
            self.place,
            self.wait,
            self.reported,
            self.refunded,
            self.more,
            self.less,
            self.envoys_admitted,
            self.envoys_denied,
        ];
        Usage {
            outcomes: self.outcomes.map(|count| u64::try_from(count).unwrap()),
            under_way: u64::try_from(self.under_way).unwrap(),
            repeated: u64::try_from(self.repeated).unwrap(),
            units: if self.units >= end { u64::MAX } else { cap(self.units - self.undone.min(end)) },
            refused_units: cap(self.refused),
            true_units: cap(self.true_units),
            place_time: Duration::from_nanos(cap(self.place)),
            waited: Duration::from_nanos(cap(self.wait)),
            reported: cap(self.reported),
            refunded: cap(self.refunded),
            settled_more: cap(self.more),
            settled_less: cap(self.less),
            reported_admitted: cap(self.envoys_admitted),
            reported_denied: cap(self.envoys_denied),
            is_saturated: amounts.iter().any(|amount| *amount >= end),
        }
    }
}

type ByClass = BTreeMap<Class, WideRow>;

fn shown(rows: &ByClass) -> [Usage; 4] {
    Class::ALL.map(|class| rows.get(&class).copied().unwrap_or_default().shown())
}

/// A request as the model knows it: where it counts.
#[derive(Clone, Copy, Debug)]
struct Request {
    namespace: usize,
    /// `None` without a tenant; else the number of its row.
    row: Option<u64>,
    class: Class,
    feature: usize,
    resource: usize,
}

#[derive(Debug)]
struct TrackedRow {
    namespace: usize,
    name: String,
    since: Timestamp,
    /// The turn of the clock in which it was used last.
    used: u64,
    columns: ByClass,
}

#[derive(Debug, Default)]
struct World {
    known: BTreeSet<usize>,
    total: BTreeMap<usize, ByClass>,
    no_tenant: BTreeMap<usize, ByClass>,
    other: BTreeMap<usize, ByClass>,
    features: BTreeMap<usize, ByClass>,
    resources: BTreeMap<usize, ByClass>,
    /// By the number of the row, which says when it was made.
    tracked: BTreeMap<u64, TrackedRow>,
    by_name: BTreeMap<(usize, String), u64>,
    /// The rows of each namespace.
    held: BTreeMap<usize, u64>,
    made: u64,
    second: u64,
    turn: u64,
    evictions: u64,
}

impl World {
    fn count(&mut self, request: Request, change: &WideRow) {
        let Request { namespace, row, class, feature, resource } = request;
        let add = |rows: &mut ByClass| rows.entry(class).or_default().add(change);
        add(self.total.entry(namespace).or_default());
        add(self.features.entry(feature).or_default());
        add(self.resources.entry(resource).or_default());
        match row {
            None => add(self.no_tenant.entry(namespace).or_default()),
            Some(row) => match self.tracked.get_mut(&row) {
                Some(tracked) => add(&mut tracked.columns),
                None => add(self.other.entry(namespace).or_default()),
            },
        }
    }

    /// The row of a tenant that makes a request now.
    fn row(&mut self, namespace: usize, name: &str, now: Timestamp) -> u64 {
        let second = now.as_secs();
        if second != self.second && second + 1 != self.second {
            self.second = second;
            self.turn += 1;
        }
        let row = self.by_name.get(&(namespace, name.to_owned())).copied();
        let row = row.unwrap_or_else(|| self.make(namespace, name, now));
        self.tracked.get_mut(&row).unwrap().used = self.turn;
        row
    }

    fn make(&mut self, namespace: usize, name: &str, now: Timestamp) -> u64 {
        let max = u64::from(TENANTS_MAX);
        let share = if self.known.len() < 2 { 0 } else { max / 2 / self.known.len() as u64 };
        let pool = if share == 0 { max } else { max - max / 2 };
        let own = self.held.get(&namespace).copied().unwrap_or_default();
        let borrowed: u64 = self.held.values().map(|held| held.saturating_sub(share)).sum();
        let has_room = (own < share || borrowed < pool) && (self.tracked.len() as u64) < max;
        if !has_room {
            let above = self.tracked.iter().filter(|(_, row)| self.held[&row.namespace] > share);
            let (_, number) = above.map(|(number, row)| (row.used, *number)).min().unwrap();
            let evicted = self.tracked.remove(&number).unwrap();
            self.evictions += 1;
            *self.held.get_mut(&evicted.namespace).unwrap() -= 1;
            for (class, columns) in &evicted.columns {
                let other = self.other.entry(evicted.namespace).or_default();
                other.entry(*class).or_default().add(columns);
            }
            self.by_name.remove(&(evicted.namespace, evicted.name)).unwrap();
        }
        *self.held.entry(namespace).or_default() += 1;
        self.made += 1;
        let row = TrackedRow {
            namespace,
            name: name.to_owned(),
            since: now,
            used: self.turn,
            columns: ByClass::new(),
        };
        self.tracked.insert(self.made, row);
        self.by_name.insert((namespace, name.to_owned()), self.made);
        self.made
    }
}

/// A meter, its model, and the requests that both have in hand.
struct Pair {
    meter: UsageMeter,
    world: World,
    rows: Vec<NamespaceRow>,
    features: Vec<FeatureRow>,
    resources: Vec<ResourceRow>,
    /// Each with the units that it was offered with.
    open: Vec<(OpenMeterAccount, Request, u64)>,
    admitted: Vec<(PermitAccount, Request, u64)>,
    now: Timestamp,
    random: SplitMix64,
}

fn namespace_name(number: usize) -> String {
    format!("namespace-{number}")
}

/// Names of all kinds: long ones that begin alike, control characters, and an empty one.
fn tenant_name(number: u64) -> String {
    match number {
        0 => String::new(),
        _ if number.is_multiple_of(97) => "é".repeat(1_000) + &number.to_string(),
        _ if number.is_multiple_of(89) => format!("\u{0}\n\u{7f}{number}"),
        _ => format!("tenant-{number}"),
    }
}

impl Pair {
    fn new(seed: u64) -> Self {
        let meter = meter(TENANTS_MAX);
        let features = ["search", "export", "import"].map(|name| meter.feature(name, START));
        let features = [FeatureRow::NONE, FeatureRow::OTHER].into_iter().chain(features).collect();
        let resources = ["db", "cpu"].map(|name| meter.resource(Some(name), START));
        let resources = [meter.resource(None, START)].into_iter().chain(resources).collect();
        let world = World { second: START.as_secs(), ..World::default() };
        let random = SplitMix64::new(seed);
        let (rows, open, admitted) = Default::default();
        let mut pair = Self { meter, world, rows, features, resources, open, admitted, now: START, random };
        (0..5).for_each(|_| pair.learn_namespace());
        pair
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random.next_u64() % end
    }

    fn is_one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    /// A namespace that a reload brings, or brings back.
    fn learn_namespace(&mut self) {
        let number = self.rows.len().min(NAMESPACES - 1);
        let row = self.meter.namespace(&namespace_name(number), self.now);
        if self.rows.len() <= number {
            self.rows.push(row);
            self.world.known.insert(number);
        }
        assert_eq!(self.rows[number], row);
    }

    /// Draws a request and hands it to both: the meter counts it with `count`.
    fn request<T>(
        &mut self,
        count: impl FnOnce(&UsageMeter, &MeteredRows<'_>, Timestamp) -> T,
    ) -> (T, Request) {
        // Most requests are of few namespaces; the last ones have few tenants, within their shares.
        let namespaces = if self.is_one_in(3) { self.rows.len() as u64 } else { 3 };
        let namespace = self.below(namespaces) as usize;
        let names = if namespace < NAMESPACES / 2 { NAMES } else { 5 };
        // A tenth names no tenant. Some tenants are frequent; some come back after a while with the
        // same request, which the cache of the thread may know with a row that was evicted.
        let (tenant, is_alike) = match self.below(30) {
            0..3 => (None, false),
            3..10 => (Some(self.below(60.min(names))), false),
            10..20 => (Some(self.below(900.min(names))), true),
            _ => (Some(self.below(names)), false),
        };
        let name = tenant.map(tenant_name);
        let mut shape = [4, self.features.len() as u64, self.resources.len() as u64];
        for end in &mut shape {
            *end = if is_alike { 1 } else { self.below(*end) };
        }
        let (class, feature, resource) =
            (Class::ALL[shape[0] as usize], shape[1] as usize, shape[2] as usize);
        let subject = MeteredRows {
            namespace: self.rows[namespace],
            tenant: name.as_deref(),
            class,
            feature: self.features[feature],
            resource: self.resources[resource],
        };
        let counted = count(&self.meter, &subject, self.now);
        let row = name.map(|name| self.world.row(namespace, &name, self.now));
        (counted, Request { namespace, row, class, feature, resource })
    }

    fn units(&mut self) -> u64 {
        match self.below(1_000) {
            0 => 1 << 45,
            1 => 0,
            _ => self.below(100) + 1,
        }
    }

    fn outcome(&mut self) -> RequestOutcome {
        let index = self.below(30) as usize;
        RequestOutcome::ALL.get(index).copied().unwrap_or(RequestOutcome::Admitted)
    }

    fn step(&mut self, may_saturate: bool) {
        self.now = self.now.saturating_add(Duration::from_millis(self.random.next_u64() % 40));
        match self.below(4_000) {
            0 => self.now = self.now.saturating_add(Duration::from_hours(1)),
            1 => self.now = self.now.saturating_sub(Duration::from_hours(1)),
            2..12 => self.now = self.now.saturating_sub(Duration::from_secs(1)),
            12..40 => self.learn_namespace(),
            // A drain, and answers of a store that is lost.
            40 => {
                for (account, request, _) in std::mem::take(&mut self.open) {
                    drop(account);
                    self.end(request, RequestOutcome::Cancelled, 0, 0);
                }
            }
            _ => {}
        }
        match self.below(100) {
            0..45 => self.decided(),
            45..58 => self.offered(),
            58..70 => self.decide(),
            70..72 => self.cancel(),
            72..84 => self.settle(may_saturate),
            84..92 => self.serve(),
            92..95 => self.undo(),
            _ => self.aside(),
        }
    }

    fn decided(&mut self) {
        let (outcome, units) = (self.outcome(), self.units());
        let offer = Offer { is_repeated: self.is_one_in(7) };
        let is_by_limits = self.is_one_in(2);
        let (account, request) = self.request(|meter, subject, now| {
            if is_by_limits && subject.resource == ResourceRow::NONE {
                meter.decide_by_limits(subject, offer, outcome, units, now)
            } else {
                meter.decide(subject, offer, outcome, units, now).into()
            }
        });
        let mut change = WideRow { repeated: offer.is_repeated.into(), ..WideRow::default() };
        change.outcomes[outcome.index()] = 1;
        if REFUSALS.contains(&outcome) {
            change.refused = units.into();
        }
        if outcome == RequestOutcome::Admitted {
            change.units = units.into();
            self.keep(account, request, units);
        }
        self.world.count(request, &change);
    }

    /// Keeps an admitted request for later facts. Beyond the most, an earlier one ends with none.
    fn keep(&mut self, account: PermitAccount, request: Request, units: u64) {
        if self.admitted.len() == ADMITTED_MAX {
            let chosen = self.below(ADMITTED_MAX as u64) as usize;
            self.admitted.swap_remove(chosen);
        }
        self.admitted.push((account, request, units));
    }

    fn offered(&mut self) {
        let offer = Offer { is_repeated: self.is_one_in(7) };
        let (account, request) = self.request(|meter, subject, now| meter.offered(subject, offer, now));
        let change = WideRow { under_way: 1, repeated: offer.is_repeated.into(), ..WideRow::default() };
        self.world.count(request, &change);
        let units = self.units();
        self.open.push((account.with_units(units), request, units));
    }

    fn end(&mut self, request: Request, outcome: RequestOutcome, units: u64, wait: u64) {
        let mut change = WideRow { under_way: -1, wait: wait.into(), ..WideRow::default() };
        change.outcomes[outcome.index()] = 1;
        if REFUSALS.contains(&outcome) {
            change.refused = units.into();
        }
        if outcome == RequestOutcome::Admitted {
            change.units = units.into();
        }
        self.world.count(request, &change);
    }

    fn decide(&mut self) {
        let Some((mut account, request, offered)) = self.take_open() else { return };
        let (outcome, units, wait) = (self.outcome(), self.units(), self.below(1 << 33));
        let account = account.decide(outcome, units, Duration::from_nanos(wait)).unwrap();
        // A refused request counts with the units that it was offered with.
        let counted = if REFUSALS.contains(&outcome) { offered } else { units };
        self.end(request, outcome, counted, wait);
        if outcome == RequestOutcome::Admitted {
            self.keep(account.into(), request, units);
        }
    }

    fn cancel(&mut self) {
        let Some((account, request, _)) = self.take_open() else { return };
        drop(account);
        self.end(request, RequestOutcome::Cancelled, 0, 0);
    }

    fn settle(&mut self, may_saturate: bool) {
        if self.admitted.is_empty() {
            return;
        }
        let chosen = self.below(self.admitted.len() as u64) as usize;
        let true_units = match self.below(100) {
            0 if may_saturate => Some(1 << 63),
            0..40 => None,
            _ => Some(self.below(200)),
        };
        let place = self.below(1 << 41);
        let (account, request, charged) = &self.admitted[chosen];
        self.meter.settle(account, (true_units, *charged), Duration::from_nanos(place));
        let (took, charged) = (i128::from(true_units.unwrap_or(*charged)), i128::from(*charged));
        let (more, less) = ((took - charged).max(0), (charged - took).max(0));
        let change = WideRow { true_units: took, more, less, place: place.into(), ..WideRow::default() };
        self.world.count(*request, &change);
        if self.is_one_in(2) {
            self.admitted.swap_remove(chosen);
        }
    }

    fn serve(&mut self) {
        if self.admitted.is_empty() {
            return;
        }
        let chosen = self.below(self.admitted.len() as u64) as usize;
        let place = self.below(1 << 41);
        let (account, request, _) = &self.admitted[chosen];
        let PermitAccount::Account(account) = account else { return };
        if request.resource == 0 {
            // It holds no place.
            return;
        }
        account.served(Duration::from_nanos(place));
        self.world.count(*request, &WideRow { place: place.into(), ..WideRow::default() });
    }

    fn undo(&mut self) {
        if self.admitted.is_empty() {
            return;
        }
        let chosen = self.below(self.admitted.len() as u64) as usize;
        let (account, request, units) = self.admitted.swap_remove(chosen);
        self.meter.undo(&account, units);
        let mut change = WideRow { undone: units.into(), ..WideRow::default() };
        change.outcomes[RequestOutcome::Admitted.index()] = -1;
        change.outcomes[RequestOutcome::Cancelled.index()] = 1;
        self.world.count(request, &change);
    }

    fn aside(&mut self) {
        let units = self.units();
        let change = match self.below(4) {
            0 => {
                let counts = (units, self.units());
                let ((), request) =
                    self.request(|meter, subject, now| meter.report_decided(subject, counts, now));
                let [envoys_admitted, envoys_denied] = [counts.0, counts.1].map(i128::from);
                (request, WideRow { envoys_admitted, envoys_denied, ..WideRow::default() })
            }
            1 => {
                let ((), request) = self.request(|meter, subject, now| meter.report(subject, units, now));
                (request, WideRow { reported: units.into(), ..WideRow::default() })
            }
            _ => {
                let ((), request) = self.request(|meter, subject, now| meter.refund(subject, units, now));
                (request, WideRow { refunded: units.into(), ..WideRow::default() })
            }
        };
        self.world.count(change.0, &change.1);
    }

    fn take_open(&mut self) -> Option<(OpenMeterAccount, Request, u64)> {
        if self.open.is_empty() {
            return None;
        }
        let chosen = self.below(self.open.len() as u64) as usize;
        Some(self.open.swap_remove(chosen))
    }

    /// Compares every row, and what they add up to.
    fn compare(&self) {
        let zeros = ByClass::new();
        for number in 0..self.rows.len() {
            let (usage, mut tenants) = self.meter.tenants_usage(&namespace_name(number)).unwrap();
            let of = |rows: &BTreeMap<usize, ByClass>| shown(rows.get(&number).unwrap_or(&zeros));
            assert_eq!(usage.classes, of(&self.world.total), "total of {number}");
            assert_eq!(usage.no_tenant, of(&self.world.no_tenant), "no tenant of {number}");
            assert_eq!(usage.other, of(&self.world.other), "other of {number}");
            let expected = self.world.tracked.values().filter(|row| row.namespace == number);
            let mut expected: Vec<_> = expected.collect();
            assert_eq!(usage.tenants, expected.len(), "tenants of {number}");
            // Long names are shown alike, so that rows are told apart by all that they are.
            let debug = |classes: &[Usage; 4]| format!("{classes:?}");
            tenants.sort_by(|one, other| {
                let by_name = one.name.cmp(&other.name).then(one.since.cmp(&other.since));
                by_name.then_with(|| debug(&one.classes).cmp(&debug(&other.classes)))
            });
            expected.sort_by(|one, other| {
                let by_name = cut(&one.name).cmp(cut(&other.name)).then(one.since.cmp(&other.since));
                by_name.then_with(|| debug(&shown(&one.columns)).cmp(&debug(&shown(&other.columns))))
            });
            for (row, expected) in tenants.iter().zip(expected) {
                assert_eq!(&*row.name, cut(&expected.name));
                assert_eq!(row.is_cut, expected.name.len() > 128);
                assert_eq!(row.since, expected.since, "{:?} of {number}", row.name);
                assert_eq!(row.classes, shown(&expected.columns), "{:?} of {number}", row.name);
            }
        }
        let rows = [
            (self.meter.features_usage(), &self.world.features, ["search", "export", "import"].as_slice()),
            (self.meter.resources_usage(), &self.world.resources, &["db", "cpu"]),
        ];
        for (usages, expected, names) in rows {
            for row in usages {
                let place = match &row.name {
                    RowName::None => Some(0),
                    RowName::Other if names.len() == 2 => None,
                    RowName::Other => Some(1),
                    RowName::Named(name) => {
                        let place = names.iter().position(|known| *known == &**name).unwrap();
                        Some(place + if names.len() == 2 { 1 } else { 2 })
                    }
                };
                let expected = place.and_then(|place| expected.get(&place)).unwrap_or(&zeros);
                assert_eq!(row.classes, shown(expected), "{:?}", row.name);
            }
        }
    }
}

/// Makes random operations and compares all rows after each thousand.
pub(super) fn agree(seed: u64, operations: u64) {
    let mut pair = Pair::new(seed);
    for operation in 1..=operations {
        pair.step(operation > operations / 10 * 9);
        if operation % 1_000 == 0 {
            pair.compare();
        }
    }
    assert!(operations < 50_000 || pair.world.evictions > operations / 10, "few rows were evicted");
    assert!(operations < 50_000 || pair.rows.len() == NAMESPACES, "few namespaces came");
    while let Some((account, request, _)) = pair.take_open() {
        drop(account);
        pair.end(request, RequestOutcome::Cancelled, 0, 0);
    }
    pair.compare();
}

/// With another number of operations where the test is built with `TIDEGATE_METER_OPERATIONS`.
#[test]
fn the_meter_agrees_with_the_model_in_every_row_after_100_000_operations() {
    let operations = option_env!("TIDEGATE_METER_OPERATIONS");
    agree(44, operations.map_or(100_000, |text| text.parse().unwrap()));
}
