//! The memory of requests that wait.

use core::time::Duration;

use tidegate_core::Class;
use tidegate_engine::{Engine, NamespaceConfig, Pending, Request, RoomBounds, Step};
use tidegate_overload::{Overload, QueueConfig, ResourceConfig};

use crate::world::{NOW, config};

const QUEUED: usize = 100_000;

/// The bytes of the copy of a request without attributes, with a tenant of 8 bytes.
const REQUEST_BYTES: u64 = 200;

/// The most bytes of each waiting request beside its copy. Of the 238 that it takes 64 are its slot
/// in the room with its call, 48 its slot in the fair queue, 34 the two indexes of slots, 31 the
/// order of its sub-queue, and 56 the handle with its seat, its demand and its instants.
const BYTES_MAX: u64 = 256 + METER_BYTES;

/// Of these, for the meter: where the request counts, with how many units, and since when it waits.
const METER_BYTES: u64 = 24;

/// The bytes of each of 10 000 requests by the number of their tenants, measured at d9d498ac.
const BEFORE_BYTES: [(usize, u64); 2] = [(1, 487), (10_000, 596)];

#[test]
fn a_queued_request_takes_at_most_256_bytes_beside_its_copy_and_gives_all_back() {
    let Room { each, kept } = fill(8);
    println!("{each} bytes a queued request, {REQUEST_BYTES} of them for its copy");
    assert!(each - REQUEST_BYTES <= BYTES_MAX, "{each} bytes, {REQUEST_BYTES} of them for its copy");
    // Lists of sub-queues keep their room for the next ones.
    println!("{kept} bytes are kept");
    assert!(kept <= 2 * i64::try_from(QUEUED).unwrap(), "{kept} bytes are kept");
}

/// A refusal that is remembered while its request waits names the tenant as well.
#[test]
fn issue_39_a_queued_request_keeps_its_tenant_once() {
    let (short, long) = (fill(8).each, fill(208).each);
    println!("{short} bytes with a tenant of 8 bytes, {long} with one of 208");
    assert!(long - short <= 216, "{short} bytes with a tenant of 8 bytes, {long} with one of 208");
}

/// Before classes had parts and namespaces shares in them, a request took [`BEFORE_BYTES`].
#[test]
fn issue_39_ten_thousand_requests_of_one_tenant_and_of_as_many_take_at_most_64_bytes_more_each() {
    for (tenants, before) in BEFORE_BYTES {
        let each = fill_with(8, tenants, 10_000).each;
        println!("{each} bytes each with {tenants} tenants, {before} before");
        assert!(each <= before + 64, "{each} bytes each with {tenants} tenants, {before} before");
    }
}

/// A room full of requests.
struct Room {
    /// The bytes of each.
    each: u64,
    /// The bytes that are kept when all have left.
    kept: i64,
}

/// Fills a room with 100 000 requests of tenants with names of this length.
fn fill(tenant_bytes: usize) -> Room {
    fill_with(tenant_bytes, 1_000, QUEUED)
}

fn fill_with(tenant_bytes: usize, tenants: usize, queued: usize) -> Room {
    let overload = Overload::new(ResourceConfig::new(1).queue(QueueConfig::default()), 7).unwrap();
    let engine = Engine::builder(config()).namespace(NamespaceConfig::new("api", [])).overload(overload);
    let engine = engine.build().unwrap();
    engine.set_waiting_bounds(RoomBounds::new(1 << 20, 1 << 40));
    let _ = engine.tick(NOW);
    let request = Request::new("api", tidegate_core::Attributes::default())
        .may_wait_until(NOW.saturating_add(Duration::from_hours(1)));
    let held = engine.admit(&request, NOW).unwrap();
    let tenants: Vec<String> = (0..tenants).map(|tenant| format!("{tenant:0tenant_bytes$}")).collect();
    // The handle of a request is its driver's.
    let mut waiting: Vec<Pending> = Vec::with_capacity(queued);
    let info = allocation_counter::measure(|| {
        for index in 0..queued {
            let request = request.class(Class::ALL[index % 4]).tenant(&tenants[index % tenants.len()]);
            match engine.admit(&request, NOW).unwrap() {
                Step::Ask(pending) => waiting.push(pending),
                Step::Decided(decision) => panic!("should wait: {decision:?}"),
            }
        }
    });
    let each = info.bytes_current.cast_unsigned() / queued as u64;
    assert_eq!(engine.waiting(), queued);
    let taken = info.bytes_current;
    let info = allocation_counter::measure(|| drop((waiting, held)));
    assert_eq!(engine.waiting(), 0);
    Room { each, kept: taken + info.bytes_current }
}
