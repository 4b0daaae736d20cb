//! Groups of callers at one resource, and the record of what each of them was served.

use std::io::Result as IoResult;
use std::net::{Shutdown, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::attack::Failure;
use crate::daemon::Daemon;
use crate::http1::{self, Http1Client};
use crate::raw::{self, RawConnection};
use crate::resp::{self, RespConnection, Value};
use crate::upstream::Service;

/// The workers of the service, and the places of the resource.
pub(super) const WORKERS: u32 = 8;
/// The time that a worker takes for a request.
pub(super) const WORK: Duration = Duration::from_millis(40);
/// How long a check waits for its turn.
const WAIT_MS: u32 = 500;
/// The pause of a caller after a refusal.
const PAUSE: Duration = Duration::from_millis(20);
/// The longest time for which a caller that leaves looks for its answer first.
const PATIENCE_MAX: Duration = Duration::from_millis(100);
/// A little less than the shortest time after which an unsettled place expires.
const JUST_IN_TIME: Duration = Duration::from_millis(900);
/// From when on each settlement comes nine times as late as before, in runs of minutes. Others lack
/// their part of the places then until these come back, once.
const LATER_FROM: [Duration; 2] = [Duration::from_secs(40), Duration::from_mins(2)];

/// Callers that do the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallerGroup {
    pub(super) namespace: &'static str,
    pub(super) class: &'static str,
    pub(super) callers: u32,
    /// The requests that all of them make in a second; 0: each makes the next one as soon as the
    /// one before has ended.
    pub(super) per_second: u32,
    pub(super) tenants: TenantNames,
    pub(super) asked_over: AskedOver,
    pub(super) headers: &'static [(&'static str, &'static str)],
    pub(super) wait_ms: u32,
    pub(super) end: RequestEnd,
}

/// Callers that do what they should, more of them than their half of the places serves.
pub(super) const QUIET: CallerGroup = CallerGroup {
    namespace: "quiet",
    class: "sheddable_plus",
    callers: 24,
    per_second: 0,
    tenants: TenantNames::Some(3),
    asked_over: AskedOver::Http,
    headers: &[],
    wait_ms: WAIT_MS,
    end: RequestEnd::Worked,
};
/// The same in the namespace that may not take from them.
pub(super) const LOUD: CallerGroup = CallerGroup { namespace: "loud", ..QUIET };

/// The tenants of the requests of a group.
#[derive(Clone, Copy, Debug)]
pub(super) enum TenantNames {
    /// So many.
    Some(u64),
    /// A new one for each request.
    New,
}

/// The listener, and the command there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AskedOver {
    /// `/v1/check`.
    Http,
    /// `/v1/reserve`, for a day. It does not wait.
    Reserve,
    /// `TG.CHECK` with `RELEASE`. Nothing that it takes is given back.
    Resp,
    /// A request to the service itself.
    Proxy,
}

/// How a request of a group ends once it is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestEnd {
    /// Its work is done and settled.
    Worked,
    /// The same, with a cost of 2^63.
    WorkedAtHugeCost,
    /// The same, after three times the time.
    WorkedLong,
    /// It is settled just before its place may expire: each time later, as what is settled late
    /// makes late settlements typical.
    JustInTime,
    /// It is settled at once, and no work is done.
    AtOnce,
    /// Its work is done and settled as failed.
    Failed,
    /// It is never settled.
    Never,
    /// Its caller leaves before or after its answer, which it does not read, by a close, a
    /// half-close or a reset.
    Left,
}

impl RequestEnd {
    /// For how long its place is kept, in terms of [`WORK`].
    pub(super) fn works(self) -> f64 {
        match self {
            Self::Worked | Self::WorkedAtHugeCost | Self::Failed => 1.0,
            Self::WorkedLong => 3.0,
            // The places of these say nothing of what is served.
            Self::JustInTime | Self::AtOnce | Self::Never | Self::Left => 0.0,
        }
    }
}

/// A request that was served.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServedRequest {
    /// Since callers are counted, when it was asked for.
    pub(super) asked_at: Duration,
    /// Until its answer.
    pub(super) waited: Duration,
}

/// The requests of each group that were served while callers were counted, and for how long that
/// was: while `counted` runs, after the warm-up.
pub(super) fn serve_groups(
    daemon: &Daemon<'_>,
    groups: &[CallerGroup],
    warm_up: Duration,
    counted: impl FnOnce(&[Mutex<Vec<ServedRequest>>]),
) -> Result<(Vec<Vec<ServedRequest>>, Duration), Failure> {
    let is_proxied = groups.iter().any(|group| group.asked_over == AskedOver::Proxy);
    let addresses = SharedListeners {
        http: daemon.http()?,
        resp: daemon.resp()?,
        proxy: if is_proxied { Some(daemon.proxy()?) } else { None },
    };
    let service = Service::new(WORKERS, WORK);
    let is_over = AtomicBool::new(false);
    let counted_from = Instant::now() + warm_up;
    let served: Vec<Mutex<Vec<ServedRequest>>> = groups.iter().map(|_| Mutex::default()).collect();
    let number = AtomicU64::new(0);
    let took = thread::scope(|scope| {
        for (group, served) in groups.iter().zip(&served) {
            for number_in_group in 0..group.callers {
                let (service, number, is_over) = (&service, &number, &is_over);
                let caller = RunningCaller {
                    addresses,
                    group: *group,
                    number_in_group,
                    service,
                    number,
                    counted_from,
                    is_over,
                    served,
                };
                scope.spawn(move || caller.run());
            }
        }
        thread::sleep(warm_up);
        counted(&served);
        // Relaxed: the callers only have to see it some time, and joining orders the rest.
        is_over.store(true, Ordering::Relaxed);
        counted_from.elapsed()
    });
    let each = served.into_iter().map(|one| one.into_inner().unwrap_or_else(PoisonError::into_inner));
    Ok((each.collect(), took))
}

/// The requests of each group that are served in a second.
pub(super) fn served_per_second(
    daemon: &Daemon<'_>,
    groups: &[CallerGroup],
    warm_up: Duration,
    within: Duration,
) -> Result<Vec<f64>, Failure> {
    let (served, took) = serve_groups(daemon, groups, warm_up, |_| thread::sleep(within))?;
    Ok(served.into_iter().map(|one| f64::from(one.len() as u32) / took.as_secs_f64()).collect())
}

/// The same by requests rather than by the clock: callers are counted once the first group is
/// served and requests of all groups have been, and over enough of them. The harm that one group
/// does to another shows, and ends, sooner or later by how quick the machine is.
pub(super) fn served_per_second_of_enough(
    daemon: &Daemon<'_>,
    groups: &[CallerGroup],
    warm_up: Duration,
    within: Duration,
) -> Result<Vec<f64>, Failure> {
    let mut before = Duration::ZERO;
    let (served, took) = serve_groups(daemon, groups, warm_up, |served| {
        let count = |one: &Mutex<Vec<_>>| one.lock().unwrap_or_else(PoisonError::into_inner).len();
        let all = || served.iter().map(count).sum::<usize>();
        let began = Instant::now();
        let mut last = 0;
        loop {
            thread::sleep(LOOK_INTERVAL);
            let now = count(&served[0]);
            let is_served = now - last >= SERVED_MIN && all() >= WARM_UP_REQUESTS;
            if is_served || began.elapsed() > ENOUGH_WITHIN {
                break;
            }
            last = now;
        }
        before = began.elapsed();
        let counted_before = all();
        thread::sleep(within);
        while all() - counted_before < COUNTED_REQUESTS && began.elapsed() < before + ENOUGH_WITHIN {
            thread::sleep(LOOK_INTERVAL);
        }
    })?;
    let took = took.saturating_sub(before).as_secs_f64();
    let counted = |one: &Vec<ServedRequest>| one.iter().filter(|request| request.asked_at >= before).count();
    Ok(served.iter().map(|one| f64::from(counted(one) as u32) / took).collect())
}

/// How often the served requests are looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// The requests of a group that is served, from one look to the next: a fifth of what half of the
/// service can do.
const SERVED_MIN: usize = 5;
/// The requests of all groups before they are counted.
const WARM_UP_REQUESTS: usize = 40;
/// The requests that are counted at least.
const COUNTED_REQUESTS: usize = 100;
/// How long each of the two may take.
const ENOUGH_WITHIN: Duration = Duration::from_secs(10);

/// The listeners that the callers ask.
#[derive(Clone, Copy, Debug)]
struct SharedListeners {
    http: SocketAddr,
    resp: SocketAddr,
    proxy: Option<SocketAddr>,
}

/// One caller, until the run is over.
struct RunningCaller<'run> {
    addresses: SharedListeners,
    group: CallerGroup,
    number_in_group: u32,
    service: &'run Arc<Service>,
    number: &'run AtomicU64,
    counted_from: Instant,
    is_over: &'run AtomicBool,
    served: &'run Mutex<Vec<ServedRequest>>,
}

/// The connections that a caller keeps from one request to the next.
#[derive(Default)]
struct KeptConnections {
    http: Option<Http1Client>,
    resp: Option<RespConnection>,
}

impl RunningCaller<'_> {
    fn run(&self) {
        let every = Duration::from_secs(self.group.callers.into());
        let interval = every.checked_div(self.group.per_second).unwrap_or_default();
        let began = Instant::now();
        let mut due = interval * self.number_in_group / self.group.callers.max(1);
        let mut connections = KeptConnections::default();
        while !self.is_over.load(Ordering::Relaxed) {
            thread::sleep(due.saturating_sub(began.elapsed()));
            due += interval;
            let asked = Instant::now();
            // A connection that ends is opened again: who is served is what counts.
            let waited = self.ask(&mut connections).unwrap_or_else(|_| {
                connections = KeptConnections::default();
                None
            });
            if let Some(waited) = waited {
                self.note(asked, waited);
            } else if interval.is_zero() {
                thread::sleep(PAUSE);
            }
        }
    }

    fn note(&self, asked: Instant, waited: Duration) {
        let Some(asked_at) = asked.checked_duration_since(self.counted_from) else { return };
        if !self.is_over.load(Ordering::Relaxed) {
            let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
            served.push(ServedRequest { asked_at, waited });
        }
    }

    /// Asks once. The time until its answer, if it was served.
    fn ask(&self, connections: &mut KeptConnections) -> IoResult<Option<Duration>> {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let tenant = match self.group.tenants {
            TenantNames::Some(count) => number % count,
            TenantNames::New => number,
        };
        let tenant = format!("c{tenant}");
        match self.group.asked_over {
            AskedOver::Resp => self.ask_over_resp(connections, &tenant),
            AskedOver::Proxy => self.ask_through_proxy(connections, &tenant),
            AskedOver::Http | AskedOver::Reserve => self.ask_over_http(connections, &tenant, number),
        }
    }

    fn ask_through_proxy(
        &self,
        connections: &mut KeptConnections,
        tenant: &str,
    ) -> IoResult<Option<Duration>> {
        let proxy = self.addresses.proxy.expect("looked up when a group asks there");
        let connection = kept(&mut connections.http, || Http1Client::open(proxy))?;
        let headers = [("x-customer", tenant), ("x-class", self.group.class)];
        let asked = Instant::now();
        let answer = connection.ask(http1::get_with("/", &headers))?;
        Ok((answer.status == 200).then(|| asked.elapsed()))
    }

    fn ask_over_resp(&self, connections: &mut KeptConnections, tenant: &str) -> IoResult<Option<Duration>> {
        let connection = kept(&mut connections.resp, || RespConnection::open(self.addresses.resp))?;
        let words = ["TG.CHECK", self.group.namespace, "RELEASE", "resource", "app", "customer", tenant];
        let asked = Instant::now();
        let Value::Array(answer) = connection.ask(&words)? else { return Ok(None) };
        let is_admitted = answer.get(1).and_then(resp::text) == Some("admit");
        Ok(is_admitted.then(|| asked.elapsed()))
    }

    fn ask_over_http(
        &self,
        connections: &mut KeptConnections,
        tenant: &str,
        number: u64,
    ) -> IoResult<Option<Duration>> {
        let CallerGroup { namespace, class, headers, wait_ms, asked_over, end, .. } = self.group;
        let (path, more) = match asked_over {
            AskedOver::Reserve => ("/v1/reserve", r#""expires_ms":86400000"#.to_owned()),
            _ => ("/v1/check", format!(r#""wait_ms":{wait_ms}"#)),
        };
        let body = format!(
            r#"{{"namespace":"{namespace}","class":"{class}","attributes":{{"customer":"{tenant}"}},"resource":"app",{more}}}"#
        );
        let request = http1::with_body("POST", path, headers, body);
        if end == RequestEnd::Left {
            let mut connection = RawConnection::open(self.addresses.http)?;
            // Some leave before their turn and some after their answer; the numbers only have to
            // differ from one request to the next.
            let patience = PATIENCE_MAX * (number % 50 + 1) as u32 / 50;
            connection.set_read_timeout(patience)?;
            connection.send(&raw::encoded(&request))?;
            let is_answered = connection.peek().is_ok_and(|bytes| bytes > 0);
            if number.is_multiple_of(3) {
                // A peer that is gone already has nothing to end.
                let _ = connection.shutdown(Shutdown::Write);
            }
            // The close is a reset where an answer was not read.
            drop(connection);
            return Ok(is_answered.then_some(patience));
        }
        let connection = kept(&mut connections.http, || Http1Client::open(self.addresses.http))?;
        let asked = Instant::now();
        let answer = connection.ask(request)?;
        let waited = asked.elapsed();
        let permit = answer.member("permit");
        if permit.is_empty() {
            return Ok(None);
        }
        match end {
            RequestEnd::AtOnce | RequestEnd::Left => {}
            RequestEnd::Never => return Ok(Some(waited)),
            RequestEnd::JustInTime => self.keep_just_in_time(),
            RequestEnd::WorkedLong => (0..3).for_each(|_| self.service.work()),
            RequestEnd::Worked | RequestEnd::WorkedAtHugeCost | RequestEnd::Failed => self.service.work(),
        }
        let end = match end {
            RequestEnd::WorkedAtHugeCost => r#","outcome":"succeeded","cost":9223372036854775808"#,
            RequestEnd::Failed => r#","outcome":"failed","status":503"#,
            _ => r#","outcome":"succeeded""#,
        };
        let settle = http1::post("/v1/settle", format!(r#"{{"permit":"{permit}"{end}}}"#));
        Ok((connection.ask(settle)?.status == 200).then_some(waited))
    }
}

impl RunningCaller<'_> {
    /// Keeps a place for as long as this namespace may by now, without work.
    fn keep_just_in_time(&self) {
        let kept_from = Instant::now();
        let into_run = kept_from.saturating_duration_since(self.counted_from);
        let later = LATER_FROM.iter().filter(|from| into_run >= **from).count();
        let span = JUST_IN_TIME * 9_u32.pow(later as u32);
        while kept_from.elapsed() < span && !self.is_over.load(Ordering::Relaxed) {
            thread::sleep(PAUSE);
        }
    }
}

/// The connection that is kept, or a new one.
fn kept<T>(connection: &mut Option<T>, open: impl FnOnce() -> IoResult<T>) -> IoResult<&mut T> {
    match connection {
        Some(connection) => Ok(connection),
        None => Ok(connection.insert(open()?)),
    }
}
