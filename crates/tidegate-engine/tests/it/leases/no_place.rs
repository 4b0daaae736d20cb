//! Requests for which no place is free, on engines that lease: a request that can spend no lease is
//! refused without charging anything first.

use proptest::prelude::*;
use tidegate_capacity::{Access, Capacity, TableConfig, TableMode};
use tidegate_overload::{Overload, ResourceConfig};

use super::*;
use crate::world::{Room, Stage, World, lease_config};

const USERS: [&str; 3] = ["ada", "bob", "cyd"];

/// The namespaces and tables that are leased.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Leased {
    /// A limit and a table of another namespace.
    Elsewhere,
    /// A limit of the namespace that no request meets.
    Unmet,
    /// A limit of the namespace that every request meets, with room for all of them.
    Met,
    /// The table of the accesses, with room for all of them.
    Table,
}

impl Leased {
    const ALL: [Self; 4] = [Self::Elsewhere, Self::Unmet, Self::Met, Self::Table];

    fn limits(self, room: Room) -> Vec<Limit> {
        let local = Limit::new("rate", bucket(room.local, Duration::from_hours(1))).key(["user"]);
        let wide = leased("wide", per_second(1_000_000));
        match self {
            Self::Elsewhere | Self::Table => vec![local],
            Self::Unmet => vec![local, wide.key(["account"])],
            Self::Met => vec![local, wide],
        }
    }

    fn more(self, builder: EngineBuilder, room: Room) -> EngineBuilder {
        let table = |namespace, mode, rate| {
            TableConfig::new(namespace, "orders", rate, rate).partitions(1).nodes(["node"]).mode(mode)
        };
        let of_requests = match self {
            Self::Table => table("api", TableMode::Global, 2_000),
            _ => table("api", TableMode::Static, room.capacity),
        };
        let mut capacity = Capacity::builder().node("node", 100_000).table(of_requests);
        let mut builder = builder;
        if self == Self::Elsewhere {
            builder = builder.namespace(NamespaceConfig::new("other", [leased("other", per_second(10))]));
            capacity = capacity.table(table("other", TableMode::Global, 2_000));
        }
        let overload = Overload::new(ResourceConfig::new(room.in_flight), 5).unwrap();
        builder.capacity(capacity.build().unwrap()).overload(overload)
    }

    fn fleet(self, room: Room) -> Fleet {
        Fleet::built(1, &self.limits(room), |_| {}, |builder| self.more(builder, room))
    }

    /// Why a request of a new key is refused that finds neither a place nor room for its key. A
    /// request that is charged before it lacks a place finds that its key has no room.
    fn reason_without_room(self, access: Option<Access<'_>>) -> Reason {
        let room = Room { in_flight: 1, ..Room::WIDE };
        let mut config = lease_config();
        config.table.bytes = tidegate_core::TableConfig::BYTES_MIN;
        let namespace = NamespaceConfig::new("api", self.limits(room));
        let world = World::of(self.more(Engine::builder(config).namespace(namespace), room).build().unwrap());
        let ask = |user: u32, access| {
            let name = user.to_string();
            let pairs = [("user", name.as_str())];
            let mut request = Request::new("api", &pairs);
            request.access = access;
            world.begin(&request)
        };
        let mut user = 0;
        let full = loop {
            user += 1;
            match ask(user, None) {
                Stage::Admitted(permit) => drop(permit),
                Stage::Refused(refused) => break refused,
                Stage::Waits(pending) => panic!("{pending:?}"),
            }
        };
        assert_eq!(full.reason(), Reason::TableFull);
        // A key that has its counter takes the only place.
        let held = ask(1, None).admitted();
        let refusal = ask(user, access).refused();
        drop(held);
        refusal.reason()
    }
}

#[test]
fn a_request_that_can_spend_no_lease_is_refused_before_anything_is_charged() {
    let access = Some(Access::write("orders", b"order-7", 1));
    for (leased, access, expected) in [
        (Leased::Elsewhere, None, Reason::OverloadShed),
        (Leased::Elsewhere, access, Reason::OverloadShed),
        (Leased::Table, None, Reason::OverloadShed),
        (Leased::Table, access, Reason::TableFull),
        (Leased::Unmet, None, Reason::TableFull),
    ] {
        assert_eq!(leased.reason_without_room(access), expected, "{leased:?}, {access:?}");
    }
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Ask { user: usize, units: u64, is_write: bool, attempt: u32 },
    End { which: usize },
    Pass { ms: u64 },
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0..USERS.len(), 1..4_u64, any::<bool>(), 0..2_u32)
            .prop_map(|(user, units, is_write, attempt)| Act::Ask { user, units, is_write, attempt }),
        2 => (0..3_usize).prop_map(|which| Act::End { which }),
        1 => (0..400_u64).prop_map(|ms| Act::Pass { ms }),
    ]
}

/// The refusals of these requests in order, and what the resource has counted.
fn outcomes(leased: Leased, room: Room, acts: &[Act]) -> (Vec<Option<Refusal>>, String) {
    let mut fleet = leased.fleet(room);
    let (mut decided, mut held) = (Vec::new(), Vec::new());
    for act in acts {
        match *act {
            Act::Ask { user, units, is_write, attempt } => {
                let pairs = [("user", USERS[user])];
                let mut request = Request::new("api", &pairs).cost(Cost::new(units).unwrap());
                request.access = is_write.then(|| Access::write("orders", b"order-7", 1));
                request.attempt = attempt;
                decided.push(match fleet.decide(0, &request) {
                    Decision::Admit(permit) => {
                        held.push(permit);
                        None
                    }
                    Decision::Refuse(refused) => Some(refused.into_refusal()),
                });
            }
            Act::End { which } if which < held.len() => drop(held.swap_remove(which)),
            Act::End { .. } => {}
            Act::Pass { ms } => fleet.pass(Duration::from_millis(ms)),
        }
    }
    let stats: Vec<_> = fleet.members[0].resource_stats(fleet.now()).collect();
    (decided, format!("{stats:?}"))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(40) })]

    #[test]
    fn refusals_and_counts_are_the_same_whether_or_not_something_was_charged_first(
        acts in prop::collection::vec(act(), 1..120),
        capacity in prop_oneof![Just(3_u64), Just(1000)],
    ) {
        let room = Room { local: 9, capacity, in_flight: 2, ..Room::WIDE };
        let expected = outcomes(Leased::Elsewhere, room, &acts);
        // The leased table has room of its own.
        let others = Leased::ALL.into_iter().skip(1).filter(|one| capacity == 1000 || *one != Leased::Table);
        for leased in others {
            prop_assert_eq!(&outcomes(leased, room, &acts), &expected, "{:?}", leased);
        }
    }
}
