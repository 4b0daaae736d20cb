//! A resource that two namespaces, or several classes, share: what one of them can take of the part
//! of another.
//!
//! The service has [`WORKERS`] workers and takes [`WORK`] for a request, 200 a second in all. The
//! callers of `/v1/check` bring it with them: each takes one of its workers once it is admitted.
//! Through the proxy it is the upstream.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::attack::{AttackContext, AttackResult, Failure, require};
use crate::daemon::Daemon;
use crate::http1::{self, Http1Connection};
use crate::upstream::{Manner, Service, Upstream};

/// The workers of the service, and the places of the resource.
pub(super) const WORKERS: u32 = 8;
/// The time that a worker takes for a request.
pub(super) const WORK: Duration = Duration::from_millis(40);
/// Requests that the service can do in a second.
const CAPACITY: u32 = 200;
/// How long callers run before they are counted.
const WARM_UP: Duration = Duration::from_secs(1);
/// The same where unsettled places expire first.
const AFTER_EXPIRY: Duration = Duration::from_secs(2);
/// The same where a limit has time to fall.
const AFTER_WINDOWS: Duration = Duration::from_secs(5);
/// How long a check waits for its turn.
const WAIT_MS: u32 = 500;
/// The pause of a caller after a refusal.
const PAUSE: Duration = Duration::from_millis(20);
/// The least part of what is its own that a namespace keeps.
const KEPT_MIN: f64 = 0.9;

/// Callers that do the same.
#[derive(Clone, Copy, Debug)]
struct Group {
    namespace: &'static str,
    class: &'static str,
    callers: u32,
    /// The requests that all of them make in a second; 0: each makes the next one as soon as the
    /// one before has ended.
    per_second: u32,
    tenants: Tenants,
    end: End,
}

/// The tenants of the requests of a group.
#[derive(Clone, Copy, Debug)]
enum Tenants {
    /// So many.
    Some(u64),
    /// A new one for each request.
    New,
}

/// How a request of a group ends once it is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Its work is done and settled.
    Worked,
    /// The same, with a cost of 2^63.
    WorkedAtHugeCost,
    /// The same, after three times the time.
    WorkedLong,
    /// It is settled at once, and no work is done.
    AtOnce,
    /// Its work is done and settled as failed.
    Failed,
    /// It is never settled.
    Never,
}

impl End {
    /// For how long its place is kept, in terms of [`WORK`].
    fn works(self) -> f64 {
        match self {
            Self::Worked | Self::WorkedAtHugeCost | Self::Failed => 1.0,
            Self::WorkedLong => 3.0,
            // The places of these say nothing of what is served.
            Self::AtOnce | Self::Never => 0.0,
        }
    }
}

/// How the callers of a run ask.
#[derive(Clone, Copy, Debug)]
struct Way {
    door: Door,
    /// Whole header lines of the last group.
    headers: &'static str,
    wait_ms: u32,
    /// How long they ask before they are counted.
    warm_up: Duration,
}

/// Where they ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    Check,
    Proxy,
}

const QUIET: Group = Group {
    namespace: "quiet",
    class: "sheddable_plus",
    callers: 24,
    per_second: 0,
    tenants: Tenants::Some(3),
    end: End::Worked,
};
const LOUD: Group = Group { namespace: "loud", ..QUIET };

/// A namespace that does what [`QUIET`] does not.
#[derive(Clone, Copy, Debug)]
struct Misconduct {
    name: &'static str,
    group: Group,
    headers: &'static str,
    concurrency: &'static str,
    wait_ms: u32,
    warm_up: Duration,
    /// Whether it can take from both, so that parts do not show it.
    judges_throughput: bool,
}

const PLAIN: Misconduct = Misconduct {
    name: "",
    group: LOUD,
    headers: "",
    concurrency: "8",
    wait_ms: WAIT_MS,
    warm_up: WARM_UP,
    judges_throughput: false,
};

/// Names of tenants, in a queue that has room and in one that they can fill.
const TENANTS: &[Misconduct] = &[
    Misconduct {
        name: "100 callers with a new tenant for each request",
        group: Group { callers: 100, tenants: Tenants::New, ..LOUD },
        ..PLAIN
    },
    Misconduct {
        name: "200 of them, more than its queue has room for",
        group: Group { callers: 200, tenants: Tenants::New, ..LOUD },
        ..PLAIN
    },
    Misconduct {
        name: "100 callers that do not wait",
        group: Group { callers: 100, tenants: Tenants::New, ..LOUD },
        wait_ms: 0,
        ..PLAIN
    },
];

/// Numbers that callers say.
const NUMBERS: &[Misconduct] = &[
    Misconduct { name: "settlements of 2^63", group: Group { end: End::WorkedAtHugeCost, ..LOUD }, ..PLAIN },
    Misconduct {
        name: "attempts called the fifth",
        group: Group { callers: 48, ..LOUD },
        headers: "tidegate-attempt: 5\r\n",
        ..PLAIN
    },
    Misconduct {
        name: "settlements at once",
        group: Group { callers: 48, end: End::AtOnce, ..LOUD },
        judges_throughput: true,
        ..PLAIN
    },
    Misconduct {
        name: "places that are never settled",
        group: Group { callers: 48, end: End::Never, ..LOUD },
        warm_up: AFTER_EXPIRY,
        judges_throughput: true,
        ..PLAIN
    },
    Misconduct {
        name: "places kept three times as long",
        group: Group { callers: 48, end: End::WorkedLong, ..LOUD },
        ..PLAIN
    },
    Misconduct {
        name: "failures, with `concurrency: auto`",
        group: Group { callers: 24, end: End::Failed, ..LOUD },
        concurrency: "{ algorithm: vegas, initial: 8, min: 1, max: 64 }",
        warm_up: AFTER_WINDOWS,
        judges_throughput: true,
        ..PLAIN
    },
];

/// Tenants that multiply, for a few seconds each.
pub(crate) fn tenants_brief(context: &AttackContext) -> AttackResult {
    beside_misconduct(context, TENANTS, BRIEF)
}

/// The same for half a minute each.
pub(crate) fn tenants_long(context: &AttackContext) -> AttackResult {
    beside_misconduct(context, TENANTS, LONG)
}

/// Numbers that lie, for a few seconds each.
pub(crate) fn numbers_brief(context: &AttackContext) -> AttackResult {
    beside_misconduct(context, NUMBERS, BRIEF)
}

/// The same for half a minute each.
pub(crate) fn numbers_long(context: &AttackContext) -> AttackResult {
    beside_misconduct(context, NUMBERS, LONG)
}

/// How long a run is counted, and what is asked of it.
#[derive(Clone, Copy, Debug)]
struct Judgement {
    within: Duration,
    /// The least part of its half of the places that the quiet namespace keeps. On a machine that
    /// others use, its own callers keep places for longer than their work.
    part_min: f64,
    /// The least that the quiet namespace keeps of what it has beside one that does as it does. On
    /// a machine that others use, both of them have less.
    throughput_min: f64,
}

const BRIEF: Judgement = Judgement { within: Duration::from_secs(2), part_min: 0.7, throughput_min: 0.0 };
const LONG: Judgement =
    Judgement { within: Duration::from_secs(30), part_min: KEPT_MIN, throughput_min: KEPT_MIN };
/// The same in a brief run where nothing but the throughput tells who has what.
const THROUGHPUT_MIN: f64 = 0.35;

/// The quiet namespace beside one that does as it does, and then beside each that does not.
fn beside_misconduct(context: &AttackContext, all: &[Misconduct], judged: Judgement) -> AttackResult {
    let (mut seen, mut failed) = (Vec::new(), Vec::new());
    let mut fair = BTreeMap::new();
    for one in all {
        let policy = policy(one.concurrency, "requests: 150, wait: 500ms", None);
        let run = |groups: &[Group], headers| {
            let way = Way { door: Door::Check, headers, wait_ms: one.wait_ms, warm_up: one.warm_up };
            run(context, &policy, way, groups, judged.within)
        };
        let throughput_min = if one.judges_throughput {
            THROUGHPUT_MIN.max(judged.throughput_min)
        } else {
            judged.throughput_min
        };
        let served = run(&[QUIET, one.group], one.headers)?;
        let mut text = format!("{}: {:.0} a second beside {:.0}", one.name, served[0], served[1]);
        let mut throughput = 1.0;
        if throughput_min > 0.0 {
            let own = match fair.get(&(one.concurrency, one.wait_ms)) {
                Some(own) => *own,
                None => run(&[QUIET, LOUD], "")?[0],
            };
            fair.insert((one.concurrency, one.wait_ms), own);
            throughput = served[0] / own.max(f64::MIN_POSITIVE);
            let _ = write!(text, ", {:.0} % of what it has beside its like", throughput * 100.0);
        }
        let loud = served[1] * one.group.end.works();
        let part = 2.0 * served[0] / (served[0] + loud).max(f64::MIN_POSITIVE);
        let _ = write!(text, ", {:.0} % of half of the places", part * 100.0);
        if part < judged.part_min || throughput < throughput_min {
            failed.push(text.clone());
        }
        seen.push(text);
    }
    require(failed.is_empty(), || format!("failed: {}; of {}", failed.join("; "), seen.join("; ")))?;
    Ok(seen.join("; "))
}

/// A promise to a lower class.
#[derive(Clone, Copy, Debug)]
struct Promise {
    keys: &'static str,
    flood: &'static str,
    lower: &'static str,
    /// The requests that the lower class makes in a second.
    asked: u32,
    /// The part of the capacity that is its own then.
    part: f64,
}

const PROMISES: &[Promise] = &[
    Promise {
        keys: "min_share: { sheddable: 0.05 }",
        flood: "critical",
        lower: "sheddable",
        asked: 40,
        part: 0.05,
    },
    Promise {
        keys: "weights: { critical_plus: 1, critical: 1, sheddable_plus: 1, sheddable: 1 }",
        flood: "critical",
        lower: "sheddable",
        asked: 40,
        part: 0.2,
    },
    Promise {
        keys: "priority_share: 0.1, weights: { critical_plus: 1, critical: 8 }",
        flood: "critical_plus",
        lower: "critical",
        asked: 30,
        part: 0.15,
    },
    Promise { keys: "", flood: "critical", lower: "sheddable", asked: 60, part: 1.0 / 9.0 },
];

/// Floods of a higher class, for a few seconds each.
pub(crate) fn classes_brief(context: &AttackContext) -> AttackResult {
    let flood = Flood { door: Door::Check, concurrency: "8", tenants: 10, percent: 150 };
    let floods = PROMISES.iter().map(|promise| (*promise, flood));
    // In three seconds a promise of 10 a second is 30 requests, and 25 are as likely as 35.
    below_floods(context, floods, Duration::from_secs(3), 0.7)
}

/// Each promise under each flood, for half a minute each.
pub(crate) fn classes_long(context: &AttackContext) -> AttackResult {
    let mut all = Vec::new();
    for door in [Door::Check, Door::Proxy] {
        for concurrency in ["8", "auto"] {
            for tenants in [1, 10] {
                for percent in [105, 150] {
                    let flood = Flood { door, concurrency, tenants, percent };
                    all.extend(PROMISES.iter().map(|promise| (*promise, flood)));
                }
            }
        }
    }
    below_floods(context, all.into_iter(), Duration::from_secs(30), KEPT_MIN)
}

/// A flood of a higher class.
#[derive(Clone, Copy, Debug)]
struct Flood {
    door: Door,
    concurrency: &'static str,
    tenants: u64,
    /// The requests that it makes, in hundredths of the capacity.
    percent: u32,
}

fn below_floods(
    context: &AttackContext,
    floods: impl Iterator<Item = (Promise, Flood)>,
    within: Duration,
    kept_min: f64,
) -> AttackResult {
    let (mut seen, mut failed) = (Vec::new(), Vec::new());
    for (promise, flood) in floods {
        let queue = format!("requests: 1000, wait: 500ms, {}", promise.keys);
        let upstream = Upstream::start(Manner::Works(Service::new(WORKERS, WORK)))?;
        let policy = policy(flood.concurrency, &queue, Some(&upstream));
        let warm_up = if flood.concurrency == "auto" { AFTER_WINDOWS } else { WARM_UP };
        let group = |class, per_second: u32, tenants| Group {
            namespace: "quiet",
            class,
            // Each request waits for half a second at most, and works.
            callers: per_second * 7 / 10,
            per_second,
            tenants: Tenants::Some(tenants),
            end: End::Worked,
        };
        let groups = [
            group(promise.lower, promise.asked, 1),
            group(promise.flood, CAPACITY * flood.percent / 100, flood.tenants),
        ];
        let way = Way { door: flood.door, headers: "", wait_ms: WAIT_MS, warm_up };
        let run = run(context, &policy, way, &groups, within)?;
        let served = run[0] + run[1];
        let own = (promise.part * served).min(f64::from(promise.asked));
        let text = format!(
            "{} under {:?} with {}, {} tenants, {} %: {:.1} of {own:.1} a second, {served:.0} in all",
            if promise.keys.is_empty() { "default" } else { promise.keys },
            flood.door,
            flood.concurrency,
            flood.tenants,
            flood.percent,
            run[0],
        );
        if run[0] < kept_min * own {
            failed.push(text.clone());
        }
        seen.push(text);
    }
    require(failed.is_empty(), || format!("failed: {}; of {}", failed.join("; "), seen.join("; ")))?;
    Ok(seen.join("; "))
}

/// A policy with one resource, and a proxy if it is to be behind one.
fn policy(concurrency: &str, queue: &str, upstream: Option<&Upstream>) -> String {
    let proxy = upstream.map_or_else(String::new, |upstream| {
        format!(
            "proxy:\n  trusted: ['127.0.0.1/32']\n  upstreams: {{ app: ['{}'] }}\n  routes:\n    \
             - {{ upstream: app, namespace: quiet, tenant: customer, attributes: {{ customer: header.x-customer }}, \
             class: {{ from: header.x-class, default: sheddable_plus, ceiling: critical_plus }} }}\n",
            upstream.url()
        )
    });
    let listen = if upstream.is_some() { ", proxy: '127.0.0.1:0'" } else { "" };
    format!(
        "listen: {{ http: '127.0.0.1:0'{listen} }}\n\
         namespaces:\n  quiet: {{ request: {{ tenant: entry.customer }} }}\n  \
         loud: {{ request: {{ tenant: entry.customer }} }}\n\
         resources:\n  app: {{ concurrency: {concurrency}, queue: {{ {queue} }} }}\n{proxy}"
    )
}

/// The requests of each group that are served in a second.
fn run(
    context: &AttackContext,
    policy: &str,
    way: Way,
    groups: &[Group],
    within: Duration,
) -> Result<Vec<f64>, Failure> {
    let daemon = Daemon::start(context, policy)?;
    let address = if way.door == Door::Proxy { daemon.proxy()? } else { daemon.http()? };
    let service = Service::new(WORKERS, WORK);
    let (is_counted, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    let served: Vec<AtomicU32> = groups.iter().map(|_| AtomicU32::new(0)).collect();
    let number = AtomicU64::new(0);
    let took = thread::scope(|scope| {
        for (index, group) in groups.iter().enumerate() {
            let headers = if index + 1 == groups.len() { way.headers } else { "" };
            for caller in 0..group.callers {
                let run = CallerRun {
                    address,
                    way: Way { headers, ..way },
                    group: *group,
                    caller,
                    service: &service,
                    number: &number,
                    is_counted: &is_counted,
                    is_over: &is_over,
                    served: &served[index],
                };
                scope.spawn(move || run.run());
            }
        }
        thread::sleep(way.warm_up);
        let began = Instant::now();
        // Relaxed: the callers only have to see it some time, and joining orders the rest.
        is_counted.store(true, Ordering::Relaxed);
        thread::sleep(within);
        is_over.store(true, Ordering::Relaxed);
        began.elapsed()
    });
    let per_second = |served: AtomicU32| f64::from(served.into_inner()) / took.as_secs_f64();
    Ok(served.into_iter().map(per_second).collect())
}

/// One caller, until the run is over.
struct CallerRun<'run> {
    address: SocketAddr,
    way: Way,
    group: Group,
    caller: u32,
    service: &'run Arc<Service>,
    number: &'run AtomicU64,
    is_counted: &'run AtomicBool,
    is_over: &'run AtomicBool,
    served: &'run AtomicU32,
}

impl CallerRun<'_> {
    fn run(&self) {
        let every = Duration::from_secs(self.group.callers.into());
        let interval = every.checked_div(self.group.per_second).unwrap_or_default();
        let began = Instant::now();
        let mut due = interval * self.caller / self.group.callers.max(1);
        let mut connection = None;
        while !self.is_over.load(Ordering::Relaxed) {
            thread::sleep(due.saturating_sub(began.elapsed()));
            due += interval;
            // A connection that ends is opened again: who is served is what counts.
            let is_served = self.ask(&mut connection).unwrap_or_else(|_| {
                connection = None;
                false
            });
            if is_served && self.is_counted.load(Ordering::Relaxed) && !self.is_over.load(Ordering::Relaxed) {
                self.served.fetch_add(1, Ordering::Relaxed);
            } else if !is_served && interval.is_zero() {
                thread::sleep(PAUSE);
            }
        }
    }

    fn ask(&self, connection: &mut Option<Http1Connection>) -> std::io::Result<bool> {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let tenant = match self.group.tenants {
            Tenants::Some(count) => number % count,
            Tenants::New => number,
        };
        let connection = match connection {
            Some(connection) => connection,
            None => connection.insert(Http1Connection::open(self.address)?),
        };
        let (namespace, class) = (self.group.namespace, self.group.class);
        if self.way.door == Door::Proxy {
            let head = format!(
                "GET / HTTP/1.1\r\nhost: localhost\r\nx-customer: c{tenant}\r\nx-class: {class}\r\n\r\n"
            );
            return Ok(connection.ask(head.as_bytes())?.status == 200);
        }
        let body = format!(
            r#"{{"namespace":"{namespace}","class":"{class}","attributes":{{"customer":"c{tenant}"}},"resource":"app","wait_ms":{}}}"#,
            self.way.wait_ms
        );
        let answer = connection.ask(&http1::with_body("POST", "/v1/check", self.way.headers, &body))?;
        let permit = answer.member("permit");
        if permit.is_empty() {
            return Ok(false);
        }
        match self.group.end {
            End::AtOnce => {}
            End::Never => return Ok(true),
            End::WorkedLong => (0..3).for_each(|_| self.service.work()),
            End::Worked | End::WorkedAtHugeCost | End::Failed => self.service.work(),
        }
        let end = match self.group.end {
            End::WorkedAtHugeCost => r#","outcome":"succeeded","cost":9223372036854775808"#,
            End::Failed => r#","outcome":"failed""#,
            _ => r#","outcome":"succeeded""#,
        };
        let settle = http1::post("/v1/settle", &format!(r#"{{"permit":"{permit}"{end}}}"#));
        Ok(connection.ask(&settle)?.status == 200)
    }
}
