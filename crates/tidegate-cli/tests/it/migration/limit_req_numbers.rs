//! nginx `limit_req` and `limit_conn`: the tables of the page, nginx and the proxy of Tidegate side
//! by side.

use std::time::{Duration, Instant};

use super::side_by_side::{Answers, at_once, nginx, proxy};
use super::workshop::{Section, Workshop};
use crate::gateways::tools::find_or_skip;

/// The requests of a burst on the page.
const BURST: usize = 40;

/// How much faster than on the page the last answer may come: the end of a wait is rounded.
const FASTER_MAX: Duration = Duration::from_millis(300);

/// How much slower than on the page units come back to requests that wait for them, so that none
/// comes back while a busy machine takes the requests of a burst.
const SLOWER: u32 = 5;

/// The number behind the word in a text such as `burst: 21`.
fn value<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(&format!("`{word}: "))?;
    rest.split_once('`').map(|(value, _)| value)
}

/// The wait of the page, as much longer as units come back slower.
fn slower_wait(wait: &str) -> String {
    let millis: u32 = wait.strip_suffix("ms").unwrap().parse().unwrap();
    format!("{}ms", millis * SLOWER)
}

/// The policy of the page with the numbers of a row, and its units come back slower: at the rate of
/// [`SLOWER`] where requests wait, and else not while the burst lasts.
fn with_numbers(policy: &str, row: &str) -> String {
    let mut policy = policy.to_owned();
    let mut replace = |from: &str, to: &str| {
        assert!(policy.contains(from), "{from:?} is not in {policy}");
        policy = policy.replace(from, to);
    };
    if let Some(burst) = value(row, "burst") {
        replace("burst: 9", &format!("burst: {burst}"));
        if let Some(wait) = value(row, "wait") {
            replace("wait: 1200ms", &format!("wait: {}", slower_wait(wait)));
            replace("rate: 10/s", &format!("rate: 10/{SLOWER}s"));
        } else {
            replace(", wait: 1200ms", "");
            replace("rate: 10/s", "rate: 1/m");
        }
        if let Some(waiting) = value(row, "waiting") {
            replace("waiting: 12", &format!("waiting: {waiting}"));
        }
    } else {
        assert_eq!(value(row, "concurrency"), Some("{ limit: 2 }"), "{row}");
    }
    policy
}

/// The answers to a burst are those of a cell such as `21, 19, 2.0 s`, whose time is as many times
/// longer as units come back slower.
fn assert_as_in_the_cell(side: &str, cell: &str, slower: u32, answers: &Answers) {
    let numbers: Vec<&str> = cell.trim_end_matches(" s").split(", ").collect();
    let [admitted, refused, seconds] = numbers[..] else { panic!("{cell}") };
    let expected: (usize, usize) = (admitted.parse().unwrap(), refused.parse().unwrap());
    assert_eq!((answers.admitted(), answers.count(429)), expected, "{side}: {answers:?}");
    let on_the_page = Duration::from_secs_f64(seconds.parse().unwrap());
    let least = on_the_page.saturating_sub(FASTER_MAX) * slower;
    assert!(answers.took >= least, "{side}: {cell}, {slower} times slower: {answers:?}");
}

#[test]
fn of_forty_at_once_nginx_and_the_proxy_admit_the_numbers_of_the_page() {
    let test = "of_forty_at_once_nginx_and_the_proxy_admit_the_numbers_of_the_page";
    let Some(program) = find_or_skip("nginx", test) else { return };
    let page = Section::of("## From nginx limit_req and limit_conn");
    let before = page.block("limit_req_zone").text;
    let policy = page.block("# proxy.yaml").text;
    let rows = page.rows("| nginx | admitted, refused, time |");
    assert_eq!(rows.len(), 4, "{rows:?}");
    for row in rows {
        let [theirs, their_numbers, ours, our_numbers] = row[..] else { panic!("{row:?}") };
        let directive = theirs.trim_matches('`');
        let is_download = directive.starts_with("limit_conn");
        let path = if is_download { "/download/file" } else { "/" };
        let waits = value(ours, "wait").is_some();
        let slower = if waits { SLOWER } else { 1 };
        let http = if is_download {
            assert!(before.contains(directive), "{before}");
            before.clone()
        } else {
            assert!(before.contains("rate=10r/s"), "{before}");
            let rate = if waits { format!("rate={}r/m", 600 / SLOWER) } else { "rate=1r/m".to_owned() };
            let http = before.replace("rate=10r/s", &rate);
            http.replace("zone=per_ip burst=20 nodelay;", &format!("zone=per_ip {directive};"))
        };
        let policy = with_numbers(&policy, ours);
        // Most of the time of a row is waiting, for which the two sides need no processor.
        let their_side = nginx(&program, &http);
        let our_side = proxy(&policy);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let answers = at_once(&their_side, BURST, path, "");
                assert_as_in_the_cell(theirs, their_numbers, slower, &answers);
            });
            let answers = at_once(&our_side, BURST, path, "");
            assert_as_in_the_cell(ours, our_numbers, slower, &answers);
        });
    }
}

/// A row of the directive table, and what it is tried with.
///
/// Where the rate is not the claim of the row, a unit comes back once a minute: none does while the
/// requests come.
struct Row {
    /// Its first two cells.
    cells: [&'static str; 2],
    zones: &'static str,
    location: &'static str,
    limits: &'static str,
    /// The time in which a unit comes back.
    unit: Duration,
    /// The status of a refusal.
    refused_with: u16,
    bursts: &'static [Burst],
}

/// Requests that come at once, and how many of them both sides admit.
struct Burst {
    /// How long after the answers to the burst before.
    after: Duration,
    /// The user that they name, if any.
    user: &'static str,
    count: usize,
    admitted: usize,
}

const fn burst(user: &'static str, admitted: usize) -> Burst {
    Burst { after: Duration::ZERO, user, count: BURST, admitted }
}

const MINUTE: Duration = Duration::from_mins(1);

const ROWS: &[Row] = &[
    Row {
        cells: ["no `burst`", "`burst: 1`"],
        zones: "limit_req_zone $binary_remote_addr zone=per_ip:10m rate=1r/m; limit_req_status 429;",
        location: "limit_req zone=per_ip;",
        limits: "{ name: per-ip, key: [{ attribute: ip, ipv6_prefix: 128 }], missing: refuse, rate: 1/m, burst: 1 }",
        unit: MINUTE,
        refused_with: 429,
        bursts: &[burst("", 1)],
    },
    Row {
        cells: ["`rate=10r/s`, `rate=30r/m`", "`rate: 10/s`, `rate: 30/m`"],
        zones: "limit_req_zone $binary_remote_addr zone=per_ip:10m rate=30r/m; limit_req_status 429;",
        location: "limit_req zone=per_ip burst=4 nodelay;",
        limits: "{ name: per-ip, key: [{ attribute: ip, ipv6_prefix: 128 }], missing: refuse, rate: 30/m, burst: 5 }",
        unit: Duration::from_secs(2),
        refused_with: 429,
        bursts: &[
            burst("", 5),
            Burst { after: Duration::from_millis(2200), user: "", count: 3, admitted: 1 },
        ],
    },
    Row {
        cells: ["`limit_req_dry_run on`", "`mode: shadow`"],
        zones: "limit_req_zone $binary_remote_addr zone=per_ip:10m rate=1r/m; limit_req_dry_run on;",
        location: "limit_req zone=per_ip burst=20 nodelay;",
        limits: "{ name: per-ip, key: [{ attribute: ip, ipv6_prefix: 128 }], missing: refuse, rate: 1/m, burst: 21, mode: shadow }",
        unit: MINUTE,
        refused_with: 429,
        bursts: &[burst("", BURST)],
    },
    Row {
        cells: ["`limit_req_status 503` (nginx's default)", "`status: 503`"],
        zones: "limit_req_zone $binary_remote_addr zone=per_ip:10m rate=1r/m;",
        location: "limit_req zone=per_ip burst=20 nodelay;",
        limits: "{ name: per-ip, key: [{ attribute: ip, ipv6_prefix: 128 }], missing: refuse, rate: 1/m, burst: 21, status: 503 }",
        unit: MINUTE,
        refused_with: 503,
        bursts: &[burst("", 21)],
    },
    // A request without the header is not counted.
    Row {
        cells: ["`limit_req_zone KEY`", "`key: [attribute]` of a limit"],
        zones: "limit_req_zone $http_x_user zone=per_user:10m rate=1r/m; limit_req_status 429;",
        location: "limit_req zone=per_user burst=4 nodelay;",
        limits: "{ name: per-user, key: [user], missing: skip, rate: 1/m, burst: 5 }",
        unit: MINUTE,
        refused_with: 429,
        bursts: &[burst("ada", 5), burst("", BURST), burst("bob", 5), burst("ada", 0)],
    },
    // The requests that a user's own limit refuses take nothing from the limit of the address.
    Row {
        cells: ["several `limit_req`", "several limits of one namespace"],
        zones: "limit_req_zone $binary_remote_addr zone=per_ip:10m rate=1r/m; limit_req_status 429;\n\
                limit_req_zone $http_x_user zone=per_user:10m rate=1r/m;",
        location: "limit_req zone=per_ip burst=20 nodelay; limit_req zone=per_user burst=4 nodelay;",
        limits: "{ name: per-ip, key: [{ attribute: ip, ipv6_prefix: 128 }], missing: refuse, rate: 1/m, burst: 21 },\n\
                 { name: per-user, key: [user], missing: skip, rate: 1/m, burst: 5 }",
        unit: MINUTE,
        refused_with: 429,
        bursts: &[burst("ada", 5), burst("bob", 5), burst("carol", 5), burst("dave", 5), burst("eve", 1)],
    },
];

impl Row {
    fn nginx(&self) -> String {
        let Self { zones, location, .. } = self;
        format!(
            "{zones}\nserver {{ listen 127.0.0.1:8000; location / {{ {location} proxy_pass http://app; }} }}"
        )
    }

    fn policy(&self) -> String {
        format!(
            "listen: {{ http: 127.0.0.1:8080, proxy: 127.0.0.1:8000 }}\n\
             namespaces: {{ pages: {{ limits: [{}] }} }}\n\
             proxy:\n  \
               upstreams: {{ app: [\"http://127.0.0.1:3000\"] }}\n  \
               routes: [{{ upstream: app, namespace: pages, attributes: {{ ip: client_ip, user: header.x-user }} }}]\n",
            self.limits
        )
    }

    /// The units that come back in this time.
    fn units(&self, time: Duration) -> usize {
        (time.as_nanos() / self.unit.as_nanos()) as usize
    }

    /// Sends the bursts to a side, and asserts what it admits and refuses.
    fn assert_answers(&self, name: &str, side: &Workshop) {
        let (began, mut slept) = (Instant::now(), Duration::ZERO);
        for burst in self.bursts {
            // Sleeps: nginx counts in real time, which this test compares.
            std::thread::sleep(burst.after);
            slept += burst.after;
            let header =
                if burst.user.is_empty() { String::new() } else { format!("x-user: {}", burst.user) };
            let answers = at_once(side, burst.count, "/", &header);
            // Units that came back because the bursts lasted longer than the sleeps.
            let more = self.units(began.elapsed()) - self.units(slept);
            let (admitted, refused) = (answers.admitted(), answers.count(self.refused_with));
            assert!(
                (burst.admitted..=burst.admitted + more).contains(&admitted)
                    && admitted + refused == burst.count,
                "{name}: {:?}: {answers:?}, of which {} or up to {more} more are admitted",
                self.cells,
                burst.admitted
            );
        }
    }
}

#[test]
fn a_directive_and_its_counterpart_admit_the_same_requests() {
    let test = "a_directive_and_its_counterpart_admit_the_same_requests";
    let Some(program) = find_or_skip("nginx", test) else { return };
    let page = Section::of("## From nginx limit_req and limit_conn");
    let table = page.rows("| nginx | Tidegate | note |");
    for row in ROWS {
        let is_on_the_page = table.iter().any(|cells| cells[..2] == row.cells);
        assert!(is_on_the_page, "the page has no row of {:?}", row.cells);
        row.assert_answers("nginx", &nginx(&program, &row.nginx()));
        row.assert_answers("Tidegate", &proxy(&row.policy()));
    }
}
