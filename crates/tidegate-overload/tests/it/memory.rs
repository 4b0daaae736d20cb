//! The memory of requests that wait. It is measured for the whole process, since the workspace
//! forbids the unsafe code that an allocator that counts would need.

use tidegate_core::{Class, Timestamp};
use tidegate_overload::{
    Entrant, Group, Obstacle, Overload, QueueConfig, ResourceConfig, RoomBounds, WaitingRoom,
};

const QUEUED: u64 = 100_000;

/// The resident bytes of this process; `None` where the system does not say.
#[expect(clippy::disallowed_methods, reason = "the test looks at its process from outside")]
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

#[test]
fn a_queued_request_takes_at_most_256_bytes_of_the_plane() {
    let overload = Overload::new(ResourceConfig::new(1), 7).unwrap();
    let resource = overload.find(None).unwrap();
    let now = Timestamp::from_secs(1_800_000_000);
    let mut room: WaitingRoom = WaitingRoom::new(RoomBounds::new(1 << 20, 1 << 40));
    room.set_queues([(resource, QueueConfig::default())], now);
    let group = Group { namespace: 1, resource: Some(resource) };
    let Some(before) = resident_bytes() else {
        eprintln!("skipped: /proc/self/status has no VmRSS");
        return;
    };
    for index in 0..QUEUED {
        let class = Class::ALL[(index % 4) as usize];
        let entrant =
            Entrant::new(group, class, Obstacle::Place(resource)).tenant(Some(index % 10_000)).bytes(64);
        room.enter(entrant, now).unwrap();
    }
    let each = resident_bytes().unwrap().saturating_sub(before) / QUEUED;
    println!("{each} bytes a queued request");
    assert!(each <= 256, "{each} bytes");
    assert_eq!(room.count() as u64, QUEUED);
}
