//! The link to the server recovers from each of its faults within five seconds of the end of the
//! fault.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::{Algorithm, Cost, Rate, error_chain};
use tidegate_store::{Batch, Key, Kind, Operation, RequestId, Store};
use tidegate_store_redis::{RedisConfig, RedisStore, Secret};
use tokio::sync::Semaphore;
use tokio::task::block_in_place;

use crate::engine::{MachineInstant, PATIENCE, Server, skip};
use crate::relay::{OldConnections, Relay, Traffic};

/// How soon a store is used again after the end of a fault, by the clock of the machine.
const RECOVERED_WITHIN: Duration = Duration::from_secs(5);

/// How many cases run at once. Each has two servers and a load of its own.
const CASES_AT_ONCE: usize = 6;

/// How long a fault lasts at least: also until its error was seen.
const FAULT: Duration = Duration::from_millis(2500);

fn check(id: u128) -> Batch {
    let algorithm = Algorithm::bucket(Rate::per_minute(1_000_000).unwrap()).unwrap();
    let key = Key::new("api", b"limit", b"ada").unwrap();
    Batch::all_or_nothing(RequestId(id), [Operation::new(key, algorithm, Kind::Check { cost: Cost::ONE })])
}

/// One fault, how it is brought about, and how it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The process is stopped; connections stay open.
    FrozenServer,
    /// Open connections pass no byte any more, and new ones work: the peer behind the address was
    /// replaced.
    HalfOpen,
    /// Open connections pass no byte any more, and new ones are accepted and read.
    FrozenPeer,
    /// Open connections freeze, and another server with the same data answers behind the address.
    Moved,
    /// Every connection is answered with bytes of another protocol.
    WrongProtocol(&'static [u8]),
    /// Every command is answered with this line.
    Reply(&'static str),
    MaxClients,
    WrongPassword,
    Replica,
    OutOfMemory,
    Away,
}

const FAULTS: &[(&str, Fault, &str)] = &[
    ("frozen server", Fault::FrozenServer, ""),
    ("half-open", Fault::HalfOpen, ""),
    ("frozen peer", Fault::FrozenPeer, ""),
    ("moved", Fault::Moved, ""),
    (
        "HTTP",
        Fault::WrongProtocol(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"),
        "got `HTTP/1.1 503 Service Unavailable",
    ),
    ("TLS alert", Fault::WrongProtocol(b"\x15\x03\x01\x00\x02\x02\x46"), "rediss://"),
    ("SSH banner", Fault::WrongProtocol(b"SSH-2.0-OpenSSH_9.6\r\n"), "got `SSH-2.0-OpenSSH_9.6"),
    ("random bytes", Fault::WrongProtocol(b"\x9f\x03\xd1\x00\xfe$*:\r\n\r\n\x07"), "expected a RESP reply"),
    ("a bulk string without a length", Fault::WrongProtocol(b"$abc\r\n"), "expected a RESP reply"),
    ("LOADING", Fault::Reply("-LOADING Redis is loading the dataset in memory"), "(LOADING)"),
    ("NOAUTH", Fault::Reply("-NOAUTH Authentication required."), "`password`"),
    ("READONLY", Fault::Reply("-READONLY You can't write against a read only replica."), "(READONLY)"),
    ("away", Fault::Away, "nothing listens there"),
    ("maxclients", Fault::MaxClients, "`maxclients`"),
    ("a changed password", Fault::WrongPassword, "password"),
    ("a replica", Fault::Replica, "(READONLY)"),
    ("out of memory", Fault::OutOfMemory, "`maxmemory`"),
];

/// The server of one case, and what stands before it.
struct Stage {
    server: Server,
    /// Where an address that has moved leads.
    other: Server,
    relay: Relay,
    /// Opened before the fault, which may keep others out.
    operator: redis::Connection,
}

impl Stage {
    fn operate(&mut self, command: &[&str]) {
        let _: redis::Value = redis::cmd(command[0]).arg(&command[1..]).query(&mut self.operator).unwrap();
    }

    fn begin(&mut self, fault: Fault) {
        let port = self.server.port();
        match fault {
            Fault::FrozenServer => self.server.signal("STOP"),
            Fault::HalfOpen => self.relay.switch(Traffic::To(port), OldConnections::Freeze),
            Fault::FrozenPeer => self.relay.switch(Traffic::Silent, OldConnections::Freeze),
            Fault::Moved => self.relay.switch(Traffic::To(self.other.port()), OldConnections::Freeze),
            Fault::WrongProtocol(bytes) => {
                self.relay.switch(Traffic::Answer(bytes.to_vec()), OldConnections::Close);
            }
            Fault::Reply(line) => self.relay.switch(Traffic::EachCommand(line), OldConnections::Close),
            Fault::Away => {
                // A port that nothing listens on: the relay closes what it accepts, so the server
                // itself goes.
                self.server.kill();
            }
            Fault::MaxClients => {
                self.operate(&["CONFIG", "SET", "maxclients", "1"]);
                self.operate(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
            }
            Fault::WrongPassword => {
                self.operate(&["CONFIG", "SET", "requirepass", "other"]);
                self.operate(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
            }
            Fault::Replica => {
                let port = self.other.port().to_string();
                self.operate(&["REPLICAOF", "127.0.0.1", &port]);
            }
            Fault::OutOfMemory => self.operate(&["CONFIG", "SET", "maxmemory", "1"]),
        }
    }

    fn end(&mut self, fault: Fault) {
        let port = self.server.port();
        match fault {
            Fault::FrozenServer => self.server.signal("CONT"),
            Fault::HalfOpen | Fault::Moved => {}
            Fault::FrozenPeer => self.relay.switch(Traffic::To(port), OldConnections::Freeze),
            Fault::WrongProtocol(_) | Fault::Reply(_) => {
                self.relay.switch(Traffic::To(port), OldConnections::Close);
            }
            Fault::Away => self.server.start_again(&[]),
            Fault::MaxClients => self.operate(&["CONFIG", "SET", "maxclients", "1000"]),
            Fault::WrongPassword => self.operate(&["CONFIG", "SET", "requirepass", "first"]),
            Fault::Replica => self.operate(&["REPLICAOF", "NO", "ONE"]),
            Fault::OutOfMemory => self.operate(&["CONFIG", "SET", "maxmemory", "0"]),
        }
    }
}

/// When the store is opened: before the fault, or while it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opened {
    Before,
    During,
}

/// Asks until the store answers, for [`RECOVERED_WITHIN`] at most; then its last error.
async fn served(store: &RedisStore, id: &mut u128) -> Result<(), String> {
    let since = MachineInstant::now();
    loop {
        *id += 1;
        let Err(error) = store.run(&check(*id)).await else { return Ok(()) };
        if since.elapsed() > RECOVERED_WITHIN {
            return Err(error_chain(&error));
        }
        // Sleeps: between two looks at the server, which announces nothing.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn recovers(name: &str, fault: Fault, says: &str, opened: Opened) -> Result<Duration, String> {
    let password: &[&str] = if fault == Fault::WrongPassword { &["--requirepass", "first"] } else { &[] };
    let servers = || (Server::start(password).unwrap(), Server::start(&[]).unwrap());
    let (server, other) = block_in_place(servers);
    let relay = Relay::start(Traffic::To(server.port())).await;
    let secret = if fault == Fault::WrongPassword { ":first@" } else { "" };
    let operator = redis::Client::open(format!("redis://{secret}127.0.0.1:{}", server.port())).unwrap();
    let operator = operator.get_connection().unwrap();
    let direct = fault == Fault::Away;
    let url = if direct { server.url() } else { relay.url() };
    let mut stage = Stage { server, other, relay, operator };
    let mut config = RedisConfig::new([url]);
    config.deadline = Duration::from_millis(300);
    config.password = (fault == Fault::WrongPassword).then(|| Secret::new("first"));
    let store = RedisStore::open(config).unwrap();
    let mut id = 0;
    if opened == Opened::Before {
        let reached = served(&store, &mut id).await;
        reached.map_err(|error| format!("{name}: not reached at first: {error}"))?;
    }
    stage.begin(fault);
    let (since, mut said) = (Instant::now(), String::new());
    while since.elapsed() < FAULT || (!said.contains(says) && since.elapsed() < PATIENCE) {
        id += 1;
        if let Err(error) = store.run(&check(id)).await
            && (said.is_empty() || !said.contains(says))
        {
            said = error_chain(&error);
        }
        // Sleeps: the fault lasts for some real time, under load.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    block_in_place(|| stage.end(fault));
    let since = MachineInstant::now();
    let used = served(&store, &mut id).await;
    let after = since.elapsed();
    match used {
        Ok(()) if said.contains(says) => Ok(after),
        Ok(()) => Err(format!("{name}: used again after {after:?}, and {said:?} does not say {says:?}")),
        Err(error) => {
            let made = stage.relay.accepted();
            Err(format!("{name}: {made} connections made; {error}"))
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_link_recovers_within_five_seconds_of_the_end_of_each_fault() {
    let name = "the_link_recovers_within_five_seconds_of_the_end_of_each_fault";
    if crate::engine::program().is_none() {
        return skip(name);
    }
    let mut cases = tokio::task::JoinSet::new();
    let places = Arc::new(Semaphore::new(CASES_AT_ONCE));
    for opened in [Opened::Before, Opened::During] {
        for (name, fault, says) in FAULTS.iter().copied() {
            let places = Arc::clone(&places);
            cases.spawn(async move {
                let _place = places.acquire().await.unwrap();
                let name = format!("{name}, opened {opened:?}");
                (recovers(&name, fault, says, opened).await, name)
            });
        }
    }
    let mut failures = Vec::new();
    for (result, name) in cases.join_all().await {
        match result {
            Ok(after) => println!("{name}: used again after {after:?}"),
            Err(text) => failures.push(text),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
