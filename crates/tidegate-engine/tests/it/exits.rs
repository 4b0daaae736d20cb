//! Each exit of a request, at each source that a request comes from, leaves everything as it would
//! be without the request.

use core::time::Duration;
use std::borrow::Cow;

use tidegate_capacity::{Access, Capacity, TableConfig};
use tidegate_core::limit::Consistency;
use tidegate_core::{Algorithm, CarriedLimit, Charging, Cost, Limit};
use tidegate_engine::{Answered, Event, NamespaceConfig, Outcome, Pending, Permit, Request, Step, Wants};
use tidegate_overload::{Overload, ResourceConfig};

use crate::features::pin;
use crate::world::{Room, Stage, USER, World, bucket, lease_config, request, stored_by};

const SECOND: Duration = Duration::from_secs(1);
const BOB: [(&str, &str); 1] = [("user", "bob")];

/// Where the request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// One request, with the limits of the policy.
    Policy,
    /// One request, with limits of its own.
    Carried,
    /// The second of two that are admitted together.
    Batch,
    /// One request that waited for a place and was called.
    Queue,
}

/// How it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exit {
    Deadline,
    /// The feature that it is for is off.
    Feature,
    Cursor,
    LocalLimit,
    Capacity,
    /// No place is free; where the end of the work is not reported, none is in pace.
    Place,
    StoreDenies,
    StoreIsAway,
    /// Its table does not exist.
    Fails,
    /// Its caller goes away while the store is asked: the driver carries it to its decision, and
    /// cancels it.
    DroppedAtStore,
    /// Its caller goes away while it waits for a lease.
    DroppedAtLease,
    /// Its caller goes away while it waits for a place.
    DroppedInLine,
    /// A reload takes its namespace away while it waits.
    Reload,
    Drain,
}

const SOURCES: [Source; 4] = [Source::Policy, Source::Carried, Source::Batch, Source::Queue];
const EXITS: [Exit; 14] = [
    Exit::Deadline,
    Exit::Feature,
    Exit::Cursor,
    Exit::LocalLimit,
    Exit::Capacity,
    Exit::Place,
    Exit::StoreDenies,
    Exit::StoreIsAway,
    Exit::Fails,
    Exit::DroppedAtStore,
    Exit::DroppedAtLease,
    Exit::DroppedInLine,
    Exit::Reload,
    Exit::Drain,
];

impl Exit {
    /// Whether a request from there can end so. Only single requests wait in a line, and those of
    /// limits that arrive with the request do not.
    fn is_possible(self, source: Source) -> bool {
        match self {
            Self::DroppedInLine | Self::Reload | Self::Drain => {
                matches!(source, Source::Policy | Source::Queue)
            }
            // Limits that arrive with a request are not leased, and a request that is called asks
            // for its leases as any other does.
            Self::DroppedAtLease => matches!(source, Source::Policy | Source::Batch),
            // A request that is called and finds no place waits on, and one whose table does not
            // exist waits for nothing.
            Self::Place | Self::Fails => source != Source::Queue,
            _ => true,
        }
    }

    /// Little room where it ends. A place is taken when there is only one.
    fn world(self, source: Source) -> World {
        let mut room = Room::WIDE;
        match self {
            Self::LocalLimit => room.local = 1,
            Self::Capacity => room.capacity = 1,
            Self::StoreDenies => room.exact = 1,
            _ => {}
        }
        let waits = matches!(self, Self::DroppedInLine | Self::Reload | Self::Drain);
        if source == Source::Queue || waits || self == Self::Place {
            room.in_flight = 1;
        }
        if self != Self::DroppedAtLease {
            return World::new(room);
        }
        let limits = ["rate", "leased"].map(|name| {
            let limit = Limit::new(name, bucket(1000, Duration::from_mins(1))).key(["user"]);
            let leased = Consistency::Leased;
            if name == "leased" { limit.consistency(leased) } else { limit }
        });
        let table = TableConfig::new("api", "orders", 1000, 1000).partitions(1).nodes(["node"]);
        let capacity = Capacity::builder().node("node", 1_000_000).table(table).build().unwrap();
        let overload = Overload::new(ResourceConfig::new(room.in_flight), 5).unwrap();
        let engine = stored_by(lease_config(), limits).capacity(capacity).overload(overload);
        World::of(engine.build().unwrap())
    }
}

/// Limits that arrive with the request: one that is decided here, and one that the store decides.
fn own_limits(algorithms: &[Algorithm; 2], cost: u64) -> [CarriedLimit<'_>; 2] {
    algorithms.each_ref().map(|algorithm| {
        let key: &[&[u8]] = &[b"k"];
        CarriedLimit { key: Cow::Borrowed(key), algorithm: Cow::Borrowed(algorithm), cost }
    })
}

/// A world in which requests from a source end by an exit.
struct Stand {
    world: World,
    source: Source,
    exit: Exit,
    own: [Algorithm; 2],
    /// The only place, while it is taken.
    held: Option<Permit>,
}

impl Stand {
    fn new(source: Source, exit: Exit) -> Self {
        let world = exit.world(source);
        let unless = |is_little: bool| if is_little { 1 } else { 1000 };
        let own = [
            bucket(unless(exit == Exit::LocalLimit), Duration::from_mins(1)),
            bucket(unless(exit == Exit::StoreDenies), Duration::from_hours(2)),
        ];
        let mut stand = Self { world, source, exit, own, held: None };
        if stand.world.stats().in_flight_max == 1 {
            let bob = Request::new("api", &BOB);
            if source == Source::Carried {
                // Work takes a second, and others have taken what this second has room for.
                let permit = stand.world.begin(&bob).admitted();
                stand.world.advance(SECOND);
                stand.world.finish(stand.world.engine.settle(permit, Outcome::Succeeded, stand.world.now()));
                let _ = stand.world.engine.tick(stand.world.now());
                while let Stage::Admitted(paced) = stand.world.begin(&bob.end_unknown()) {
                    drop(paced);
                }
            } else {
                stand.held = Some(stand.world.begin(&bob).admitted());
            }
        }
        stand
    }

    /// Takes the room away.
    fn close(&mut self) {
        let Self { world, exit, source, .. } = self;
        let now = world.now();
        match exit {
            Exit::Feature => {
                let until = now.saturating_add(60 * SECOND);
                let _note = world.engine.pin_feature(pin("off", until), now).unwrap();
            }
            Exit::Cursor => {
                let until = now.saturating_add(60 * SECOND);
                world.engine.event(Event::Pin { resource: None, level: Some(200), until }, now).unwrap();
            }
            Exit::LocalLimit | Exit::StoreDenies if *source == Source::Carried => {
                let limits = own_limits(&self.own, 1);
                let carried = world.engine.carry(&Request::new("api", ()), &limits, Charging::Always, now);
                assert!(world.carry(carried).unwrap().is_admitted);
            }
            Exit::LocalLimit | Exit::StoreDenies => {
                world.carry(world.engine.report(&Request::new("api", &USER), now)).unwrap();
            }
            Exit::Capacity => {
                let write = Access::write("orders", b"order-7", 1000);
                drop(world.begin(&Request::new("api", &BOB).access(write).end_unknown()));
            }
            Exit::StoreIsAway => world.store_is_down = true,
            _ => {}
        }
    }

    fn request(&self) -> Request<'static> {
        let mut request = request();
        match self.exit {
            Exit::Deadline => request = request.deadline(self.world.now()),
            Exit::Feature => request = request.feature("thumbnails"),
            Exit::Fails => request = request.access(Access::write("nowhere", b"order-7", 1000)),
            _ => {}
        }
        if self.source == Source::Carried { request.end_unknown() } else { request }
    }

    fn patient(&self) -> Request<'static> {
        let patient = request().may_wait_until(self.world.now().saturating_add(10 * SECOND));
        if self.exit == Exit::Feature { patient.feature("thumbnails") } else { patient }
    }

    /// Takes the room away, and sends the request if it is `sent`.
    fn run(&mut self, is_sent: bool) {
        if self.exit.is_possible(Source::Queue)
            && (self.source == Source::Queue || !self.exit.is_possible(Source::Carried))
        {
            self.run_in_line(is_sent);
            return;
        }
        self.close();
        if !is_sent {
            return;
        }
        let Self { world, exit, .. } = &*self;
        let (now, request) = (world.now(), self.request());
        match self.source {
            Source::Carried => {
                let carried =
                    world.engine.carry(&request, &own_limits(&self.own, 1), Charging::AllOrNone, now);
                if *exit == Exit::DroppedAtStore {
                    assert!(carried.unwrap().done().is_none(), "the store is asked");
                    return;
                }
                let is_admitted = world.carry(carried).is_ok_and(|carried| carried.is_admitted);
                assert!(!is_admitted, "{exit:?}");
            }
            Source::Policy | Source::Queue => self.end(world.engine.admit(&request, now).ok()),
            Source::Batch => {
                let both = [Request::new("api", &BOB).cost(Cost::ONE).class(request.class), request];
                self.end(world.engine.admit_all(&both, now).ok());
            }
        }
    }

    /// The request that was begun ends without an admission.
    fn end(&self, begun: Option<Step>) {
        let Some(step) = begun else {
            assert_eq!(self.exit, Exit::Fails);
            return;
        };
        if self.exit == Exit::DroppedAtLease {
            let waits = matches!(&step, Step::Ask(pending) if matches!(pending.wants(), Wants::Lease(_)));
            assert!(waits, "{:?} waits for a lease", self.source);
            return;
        }
        if self.exit == Exit::DroppedAtStore {
            let asks = matches!(&step, Step::Ask(pending) if pending.batch().is_some());
            assert!(asks, "{:?} asks the store", self.source);
            let permit = self.world.go_on(step).admitted();
            self.world.finish(self.world.engine.settle(permit, Outcome::Cancelled, self.world.now()));
            return;
        }
        let is_refused = matches!(self.world.go_on(step), Stage::Refused(_));
        assert!(is_refused, "{:?} {:?} is refused", self.source, self.exit);
    }

    /// The request waits for the place that is taken, is called, and ends then.
    fn run_in_line(&mut self, is_sent: bool) {
        let waiting: Option<Pending> = is_sent.then(|| {
            let mut patient = self.patient();
            if self.exit == Exit::Deadline {
                patient = patient.deadline(self.world.now().saturating_add(SECOND));
            }
            self.world.begin(&patient).waits()
        });
        self.close();
        match self.exit {
            Exit::DroppedInLine => {
                drop(waiting);
                return;
            }
            Exit::Deadline => self.world.advance(SECOND),
            Exit::Drain => self.world.engine.drain_waiting(),
            Exit::Reload => {
                let other = NamespaceConfig::new("other", []);
                self.world.engine = self.world.engine.reconfigured(vec![other]).unwrap().0;
            }
            _ => {}
        }
        // A place comes free, and the request is called.
        let held = self.held.take().unwrap();
        self.world.finish(self.world.engine.settle(held, Outcome::Abandoned, self.world.now()));
        let Some(pending) = waiting else { return };
        let now = self.world.now();
        let step = self.world.engine.resume(pending, Answered::Turn, now);
        match step {
            // Its room comes back while it may wait: it waits on, until its caller goes away.
            Step::Ask(pending) if pending.batch().is_none() => {}
            step => self.end(Some(step)),
        }
    }

    /// Everything that a request can leave behind. One that is cancelled after it was admitted was
    /// served.
    fn left(&self) -> (String, [u64; 3]) {
        let stats = self.world.stats();
        let was_admitted = self.exit == Exit::DroppedAtStore && self.source != Source::Carried;
        let served = if was_admitted { 0 } else { stats.served };
        (format!("{:?}", self.world.state()), [stats.in_flight, served, stats.undecided()])
    }
}

#[test]
fn each_exit_at_each_source_leaves_everything_as_without_the_request() {
    let mut seen = 0;
    for exit in EXITS {
        for source in SOURCES.into_iter().filter(|source| exit.is_possible(*source)) {
            let (mut sent, mut unsent) = (Stand::new(source, exit), Stand::new(source, exit));
            sent.run(true);
            unsent.run(false);
            assert_eq!(sent.left(), unsent.left(), "{source:?} {exit:?}");
            let [with, without] = [sent.world.stats(), unsent.world.stats()];
            assert_eq!((with.undecided(), with.offered), (0, with.decided()), "{source:?} {exit:?}");
            assert!(with.offered <= without.offered + 2, "{source:?} {exit:?}: offered once each");
            assert_eq!(sent.world.engine.waiting(), 0, "{source:?} {exit:?}");
            seen += 1;
        }
    }
    assert_eq!(seen, 46);
}
