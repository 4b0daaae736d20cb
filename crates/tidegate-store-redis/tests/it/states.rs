//! Every other state of a server: what the error says, that only the batch to blame fails, and that
//! the store is used again within a second of the end of the state.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tidegate_core::{Algorithm, Cost, Rate, error_chain};
use tidegate_store::{Batch, FleetStore as _, Key, Kind, Operation, RequestId, Store, StoreError};
use tidegate_store_redis::{Circuit, OpenError, RedisConfig, RedisStore, Secret};

use crate::cluster::Cluster;
use crate::engine::{
    FOUND_WITHIN, PATIENCE, PROBE_EVERY, Server, is_found_within_a_second, patient, skip, within,
};

fn check(id: u128, name: &str) -> Batch {
    let algorithm = Algorithm::bucket(Rate::per_minute(1000).unwrap()).unwrap();
    let key = Key::new("api", b"limit", name.as_bytes()).unwrap();
    Batch::all_or_nothing(RequestId(id), [Operation::new(key, algorithm, Kind::Check { cost: Cost::ONE })])
}

/// A configuration under which a call fails for what the server says, and not for being late.
fn config(url: String) -> RedisConfig {
    patient(RedisConfig::new([url]))
}

fn ask(server: &Server, command: &[&str]) {
    let mut arguments = redis::cmd(command[0]);
    arguments.arg(&command[1..]);
    let _: redis::Value = arguments.query(&mut server.client()).unwrap();
}

/// Asks until an answer is an error, which is to say what is wrong and that nothing was charged.
async fn fails(store: &RedisStore, says: &str) {
    let mut id = 1_000_000;
    let error = within(PATIENCE, async || {
        id += 1;
        match store.run(&check(id, "ada")).await {
            // While the breaker is open the error says what the last call met.
            Err(error) if error_chain(&error).contains(says) => Ok(error),
            Err(error) => Err(error_chain(&error)),
            Ok(_) => Err("nothing fails".to_owned()),
        }
    })
    .await;
    let StoreError::Unavailable { sent, .. } = &error else { panic!("{}", error_chain(&error)) };
    assert!(error.is_transient() && !sent, "{}", error_chain(&error));
    keeps_failing(store, |_| true).await;
}

/// Asks for long enough that the breaker has opened where it does. Every answer is an error, and
/// the expected one.
async fn keeps_failing(store: &RedisStore, is_expected: impl Fn(&StoreError) -> bool) {
    let since = Instant::now();
    let mut id = 3_000_000;
    while since.elapsed() < Duration::from_millis(700) {
        id += 1;
        let error = store.run(&check(id, "ada")).await.unwrap_err();
        assert!(is_expected(&error), "{}", error_chain(&error));
        // Sleeps: the breaker opens, cools down and tries again in real time.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Asks until the store answers, which takes no longer than a second.
async fn is_used_again(store: &RedisStore) {
    let since = Instant::now();
    let mut id = 2_000_000;
    within(FOUND_WITHIN, async || {
        id += 1;
        let answer = store.run(&check(id, "ada")).await;
        answer.map(drop).map_err(|error| error_chain(&error))
    })
    .await;
    println!("used again after {:?}", since.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_out_of_memory_says_so_and_serves_again_when_it_has_more() {
    let name = "a_server_out_of_memory_says_so_and_serves_again_when_it_has_more";
    let Some(server) = Server::start(&["--maxmemory-policy", "noeviction"]) else { return skip(name) };
    let store = RedisStore::open(config(server.url())).unwrap();
    store.run(&check(1, "ada")).await.unwrap();
    ask(&server, &["CONFIG", "SET", "maxmemory", "1"]);
    fails(&store, "out of memory (OOM)").await;
    ask(&server, &["CONFIG", "SET", "maxmemory", "0"]);
    is_used_again(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_becomes_a_replica_says_so_and_serves_again_when_it_is_promoted() {
    let name = "a_primary_that_becomes_a_replica_says_so_and_serves_again_when_it_is_promoted";
    let (Some(primary), Some(server)) = (Server::start(&[]), Server::start(&[])) else { return skip(name) };
    let store = RedisStore::open(config(server.url())).unwrap();
    store.run(&check(1, "ada")).await.unwrap();
    ask(&server, &["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
    fails(&store, "it is a replica (READONLY)").await;
    ask(&server, &["REPLICAOF", "NO", "ONE"]);
    is_used_again(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cannot_save_says_so_and_serves_again_when_it_may_write() {
    let name = "a_server_that_cannot_save_says_so_and_serves_again_when_it_may_write";
    let Some(server) = Server::start(&["--dbfilename", "taken.rdb"]) else { return skip(name) };
    let store = RedisStore::open(config(server.url())).unwrap();
    store.run(&check(1, "ada")).await.unwrap();
    // A dump cannot be written over a directory.
    std::fs::create_dir_all(server.folder().join("taken.rdb").join("full")).unwrap();
    ask(&server, &["CONFIG", "SET", "save", "3600 1"]);
    ask(&server, &["BGSAVE"]);
    fails(&store, "could not save its data (MISCONF)").await;
    ask(&server, &["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"]);
    is_used_again(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_was_changed_says_so_and_the_store_is_used_again_when_it_is_as_before() {
    let name = "a_password_that_was_changed_says_so_and_the_store_is_used_again_when_it_is_as_before";
    let Some(server) = Server::start(&["--requirepass", "first"]) else { return skip(name) };
    let mut config = config(server.url());
    config.password = Some(Secret::new("first"));
    let store = RedisStore::open(config).unwrap();
    store.run(&check(1, "ada")).await.unwrap();
    let mut operator = redis::Client::open(format!("redis://:first@127.0.0.1:{}", server.port()))
        .unwrap()
        .get_connection()
        .unwrap();
    let mut set = |password: &str| {
        let _: () = redis::cmd("CONFIG").arg(&["SET", "requirepass", password]).query(&mut operator).unwrap();
        let _: i64 = redis::cmd("CLIENT").arg(&["KILL", "TYPE", "normal"]).query(&mut operator).unwrap();
    };
    set("second");
    fails(&store, "does not take the user and password").await;
    set("first");
    is_used_again(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_too_many_clients_says_so_and_serves_again_when_there_is_room() {
    let name = "a_server_with_too_many_clients_says_so_and_serves_again_when_there_is_room";
    let Some(server) = Server::start(&[]) else { return skip(name) };
    let mut operator = server.client();
    let _: () = redis::cmd("CONFIG").arg(&["SET", "maxclients", "1"]).query(&mut operator).unwrap();
    let store = RedisStore::open(config(server.url())).unwrap();
    // The server closes the connection, and what it says before may be lost with it.
    keeps_failing(&store, |error| error.is_transient() && error_chain(error).contains("`maxclients`")).await;
    let _: () = redis::cmd("CONFIG").arg(&["SET", "maxclients", "100"]).query(&mut operator).unwrap();
    is_used_again(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_without_a_node_for_a_slot_says_so_and_serves_when_there_is_one() {
    let name = "a_cluster_without_a_node_for_a_slot_says_so_and_serves_when_there_is_one";
    let Some(server) = Server::start(&["--cluster-enabled", "yes"]) else { return skip(name) };
    ask(&server, &["CLUSTER", "ADDSLOTSRANGE", "0", "16382"]);
    // A node of a cluster that is named as one server.
    let store = RedisStore::open(config(server.url())).unwrap();
    let error = store.run(&check(1, "ada")).await.unwrap_err();
    let text = error_chain(&error);
    let says = ["(CLUSTERDOWN)", "set `cluster: true`"].iter().any(|part| text.contains(part));
    assert!(says && !error.is_outcome_unknown(), "{text}");
    let mut config = config(server.url());
    config.cluster = true;
    // A call that the client library holds back is given up, and the next one tries again.
    config.deadline = Duration::from_millis(500);
    let store = RedisStore::open(config).unwrap();
    within(PATIENCE, async || {
        let error = store.run(&check(1, "ada")).await.unwrap_err();
        let text = error_chain(&error);
        assert!(error.is_transient(), "{text}");
        if text.contains("no primary for the slot (CLUSTERDOWN)") { Ok(()) } else { Err(text) }
    })
    .await;
    ask(&server, &["CLUSTER", "ADDSLOTS", "16383"]);
    // The cluster itself takes a moment to say that its state is ok.
    within(PATIENCE, async || {
        let info: String = redis::cmd("CLUSTER").arg("INFO").query(&mut server.client()).unwrap();
        if info.contains("cluster_state:ok") { Ok(()) } else { Err(info) }
    })
    .await;
    is_used_again(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_that_the_server_forgets_under_load_fail_no_batch() {
    let name = "scripts_that_the_server_forgets_under_load_fail_no_batch";
    let Some(server) = Server::start(&[]) else { return skip(name) };
    let store = RedisStore::open(server.config()).unwrap();
    for id in 0..200 {
        if id % 10 == 0 {
            ask(&server, &["SCRIPT", "FLUSH"]);
        }
        store.run(&check(id, "ada")).await.unwrap();
    }
    assert_eq!((store.stats().failed, store.stats().circuit), (0, Circuit::Closed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_another_type_fails_its_own_batches_and_none_that_share_a_call_with_them() {
    let name = "a_key_of_another_type_fails_its_own_batches_and_none_that_share_a_call_with_them";
    let Some(server) = Server::start(&[]) else { return skip(name) };
    let mut config = server.config();
    // Everything that waits goes in one call.
    config.calls = 1;
    let store = RedisStore::open(config).unwrap();
    store.run(&check(1, "planted")).await.unwrap();
    let mut client = server.client();
    let names: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*c:*").query(&mut client).unwrap();
    let _: () = redis::cmd("DEL").arg(&names[0]).query(&mut client).unwrap();
    let _: () = redis::cmd("RPUSH").arg(&names[0]).arg("stranger").query(&mut client).unwrap();
    // One task asks all of them before it waits, so that they wait together for the first call.
    let callers = (0..200_u128).map(|id| {
        let store = &store;
        let name = if id % 50 == 7 { "planted".to_owned() } else { format!("user {}", id % 20) };
        async move { (name.clone(), store.run(&check(100 + id, &name)).await) }
    });
    for (name, answer) in join_all(callers).await {
        match answer {
            Ok(_) => assert_ne!(name, "planted"),
            Err(error) => {
                assert_eq!(name, "planted", "{}", error_chain(&error));
                assert!(error_chain(&error).contains("(WRONGTYPE)"), "{}", error_chain(&error));
            }
        }
    }
    let stats = store.stats();
    assert_eq!((stats.failed, stats.circuit), (0, Circuit::Closed), "{stats:?}");
    // Each alone would take 201.
    assert!(stats.calls < 150, "{stats:?}");
}

#[tokio::test(flavor = "current_thread")]
async fn an_eviction_policy_is_told_and_a_user_who_may_not_ask_gets_an_error() {
    let name = "an_eviction_policy_is_told_and_a_user_who_may_not_ask_gets_an_error";
    let Some(server) = Server::start(&["--maxmemory-policy", "allkeys-lru"]) else { return skip(name) };
    let store = RedisStore::open(server.config()).unwrap();
    assert_eq!(store.eviction_policy().await.unwrap(), "allkeys-lru");
    ask(&server, &["ACL", "SETUSER", "member", "on", ">secret", "~tidegate:*", "-@all", "+evalsha", "+eval"]);
    let mut config = server.config();
    (config.username, config.password) = (Some("member".to_owned()), Some(Secret::new("secret")));
    let error = RedisStore::open(config).unwrap().eviction_policy().await.unwrap_err();
    assert!(error_chain(&error).contains("the user may not"), "{}", error_chain(&error));
}

#[tokio::test(flavor = "current_thread")]
async fn sentinel_is_said_to_be_unsupported() {
    for url in
        ["redis-sentinel://host:26379/mymaster", "redis+sentinel://ada:secret@host:26379", "sentinel://host"]
    {
        let error = RedisStore::open(RedisConfig::new([url])).unwrap_err();
        assert!(
            matches!(error, OpenError::Sentinel { .. }) && !error.to_string().contains("secret"),
            "{error}"
        );
        assert!(error.to_string().contains("is not supported; name the primary"), "{error}");
    }
    // A Sentinel knows no scripts.
    let stub = Stub::start("-ERR unknown command 'EVALSHA', with args beginning with: ");
    let error = RedisStore::open(config(stub.url())).unwrap().run(&check(1, "ada")).await.unwrap_err();
    assert!(error_chain(&error).contains("Sentinel is not supported"), "{}", error_chain(&error));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_loads_its_data_or_is_busy_says_so_and_is_used_again() {
    let name = "a_server_that_loads_its_data_or_is_busy_says_so_and_is_used_again";
    let Some(server) = Server::start(&[]) else { return skip(name) };
    for (reply, says) in [
        ("-LOADING Redis is loading the dataset in memory", "reading its data from disk (LOADING)"),
        (
            "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
            "(BUSY); SCRIPT KILL",
        ),
    ] {
        let stub = Stub::before(&server, reply);
        let store = RedisStore::open(config(stub.url())).unwrap();
        fails(&store, says).await;
        stub.lets_through();
        is_used_again(&store).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_from_which_nothing_comes_back_is_found_again_over_another_connection() {
    let name = "a_server_from_which_nothing_comes_back_is_found_again_over_another_connection";
    let Some(server) = Server::start(&[]) else { return skip(name) };
    // The first connection swallows everything for ever, as one whose packets are dropped.
    let stub = Stub::before(&server, "");
    let mut config = config(stub.url());
    // Less than a probe waits for its answer, and much more than an answer takes.
    config.deadline = Duration::from_millis(200);
    let store = RedisStore::open(config).unwrap();
    for id in 0..10 {
        assert!(store.run(&check(id, "ada")).await.is_err());
    }
    // Another connection was tried, and swallows everything as well.
    within(PATIENCE, async || {
        let (_, connections) = stub.counts();
        if connections >= 2 { Ok(()) } else { Err(format!("{connections} connections")) }
    })
    .await;
    stub.lets_through();
    is_found_within_a_second(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_and_started_again_is_found_within_a_second_without_traffic() {
    let name = "a_server_that_is_killed_and_started_again_is_found_within_a_second_without_traffic";
    let Some(server) = Server::start(&[]) else { return skip(name) };
    let port = server.port();
    let store = RedisStore::open(config(server.url())).unwrap();
    store.now().await.unwrap();
    drop(server);
    // One request meets the silence, and none comes after it.
    let since = Instant::now();
    assert!(store.run(&check(1, "ada")).await.is_err());
    let calls = store.stats().calls;
    // Nothing listens there, so that each probe fails at once.
    let probes = within(Duration::from_secs(3), async || {
        let probes = store.stats().calls - calls;
        if probes >= 8 { Ok(probes) } else { Err(format!("{probes} probes")) }
    })
    .await;
    let quarters = since.elapsed().as_millis() / PROBE_EVERY.as_millis();
    assert!(u128::from(probes) <= quarters + 1, "{probes} probes in {quarters} quarters of a second");
    assert!(matches!(store.stats().circuit, Circuit::Open { .. } | Circuit::HalfOpen), "{:?}", store.stats());
    let _server = Server::start_on(port, &[]).unwrap();
    let calls = store.stats().calls;
    is_found_within_a_second(&store).await;
    // One probe may have been under way. The next one finds the server, and that it is another one.
    let more = store.stats().calls - calls;
    assert!(more <= 4, "{more} calls until the server was found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_is_killed_and_started_again_is_found_within_a_second_of_its_return() {
    let name = "a_cluster_that_is_killed_and_started_again_is_found_within_a_second_of_its_return";
    let Some(mut cluster) = Cluster::start() else { return skip(name) };
    let mut config = cluster.config();
    config.deadline = Duration::from_millis(200);
    let store = RedisStore::open(config).unwrap();
    let since = Instant::now();
    while store.run(&check(1, "ada")).await.is_err() {
        assert!(since.elapsed() < PATIENCE, "{:?}", store.stats());
    }
    cluster.stop();
    for id in 2..8 {
        assert!(store.run(&check(id, "ada")).await.is_err());
    }
    // Eight probes, one each quarter of a second, meet nobody.
    let calls = store.stats().calls;
    within(PATIENCE, async || {
        let probes = store.stats().calls - calls;
        if probes >= 8 { Ok(()) } else { Err(format!("{probes} probes")) }
    })
    .await;
    cluster.start_again();
    is_used_again(&store).await;
}

/// Stands before a server: answers every command with the same error, or not at all, until it lets
/// everything through.
pub(crate) struct Stub {
    port: u16,
    lets_through: Arc<AtomicBool>,
    commands: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
}

impl Stub {
    fn start(reply: &str) -> Self {
        Self::to(None, reply)
    }

    /// `{port}` in the reply is the port of the stub.
    pub(crate) fn before(server: &Server, reply: &str) -> Self {
        Self::to(Some(server.port()), reply)
    }

    fn to(server: Option<u16>, reply: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let lets_through = Arc::new(AtomicBool::new(false));
        let (commands, connections) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (open, counted, made) =
            (Arc::clone(&lets_through), Arc::clone(&commands), Arc::clone(&connections));
        let reply = reply.replace("{port}", &port.to_string());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (open, reply) = (Arc::clone(&open), reply.clone());
                let (counted, made) = (Arc::clone(&counted), Arc::clone(&made));
                std::thread::spawn(move || serve(stream, server, &reply, &open, &counted, &made));
            }
        });
        Self { port, lets_through, commands, connections }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// How many commands it was sent over how many connections.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.commands.load(Ordering::Relaxed), self.connections.load(Ordering::Relaxed))
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn lets_through(&self) {
        // Read by threads that have nothing else from here.
        self.lets_through.store(true, Ordering::Relaxed);
    }
}

/// Serves one connection to its end.
fn serve(
    stream: TcpStream,
    server: Option<u16>,
    reply: &str,
    open: &AtomicBool,
    counted: &AtomicUsize,
    made: &AtomicUsize,
) {
    let is_silent = reply.is_empty();
    let began_silent = is_silent && !open.load(Ordering::Relaxed);
    // Only now, so that letting everything through changes nothing for a connection that counts.
    made.fetch_add(1, Ordering::Relaxed);
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    let mut upstream = None;
    while let Some(command) = command(&mut reader) {
        counted.fetch_add(1, Ordering::Relaxed);
        if began_silent {
            continue;
        }
        let is_script = [&b"EVALSHA"[..], b"EVAL"].iter().any(|name| contains(&command, name));
        if is_script && !is_silent && !open.load(Ordering::Relaxed) {
            if stream.write_all(format!("{reply}\r\n").as_bytes()).is_err() {
                return;
            }
            continue;
        }
        let Some(port) = server else {
            let _ = stream.write_all(b"+OK\r\n");
            continue;
        };
        let upstream = upstream.get_or_insert_with(|| {
            let upstream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let (mut back, mut to) = (upstream.try_clone().unwrap(), stream.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut back, &mut to));
            upstream
        });
        if upstream.write_all(&command).is_err() {
            return;
        }
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).take(64).any(|window| window == part)
}

/// The bytes of the next command; none at the end of the connection.
fn command(reader: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let count = |bytes: &[u8]| -> usize { String::from_utf8_lossy(&bytes[1..]).trim().parse().unwrap_or(0) };
    if reader.read_until(b'\n', &mut bytes).ok()? == 0 {
        return None;
    }
    for _ in 0..count(&bytes) {
        let from = bytes.len();
        reader.read_until(b'\n', &mut bytes).ok()?;
        let length = count(&bytes[from..]);
        let from = bytes.len();
        bytes.resize(from + length + 2, 0);
        reader.read_exact(&mut bytes[from..]).ok()?;
    }
    Some(bytes)
}
