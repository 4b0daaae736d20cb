//! Metering, live: the rows of `/v1/usage` against the counts of clients.
//!
//! Clients over HTTP, Envoy's service, RESP and the proxy count the outcomes that their answers
//! name, and cut some of their connections. The policy changes each second, and one namespace goes
//! and comes back. Each answered request must be in the outcome that its answer named, in every row
//! that it belongs to; requests that were never answered are at most those that were cut.
//!
//! - `traffic`: requests, drawn and written; `callers`, `rls_callers`: those that send them
//! - `policy`: the policies; `service`: the service behind the proxy
//! - `ledger`: the counts of clients; `usage_pages`: the rows of the meter; `comparison`: of both

mod callers;
mod comparison;
mod ledger;
mod policy;
mod rls_callers;
mod service;
mod traffic;
mod usage_pages;

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use tidegate_test_support::SplitMix64;

use self::callers::CallerScope;
use self::comparison::{MeterRows, at_rest, list_problems, meanwhile, metric_rows};
use self::ledger::{Ledger, NONE, OTHER, OUTCOMES, RowKey};
use self::policy::{NAMESPACES, policy};
use self::traffic::Protocol;
use self::usage_pages::UsagePages;
use crate::attack::{Failure, RunContext};
use crate::daemon::Daemon;
use crate::report::{machine, show};

/// Callers of each protocol.
const CALLERS: usize = 6;
/// How often the policy changes.
const RELOAD_EVERY: Duration = Duration::from_secs(1);
/// How often rows are read meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How many problems of one look are kept.
const PROBLEMS_OF_LOOK: usize = 4;
/// How many problems are printed.
const PROBLEMS_SHOWN: usize = 100;
/// How long it may take at the end until nothing is under way.
const REST_MAX: Duration = Duration::from_secs(10);
/// A run that is shorter need not have every outcome.
const SECONDS_OF_EVERY_OUTCOME: f64 = 20.0;
/// The outcomes that such a run has.
const EXPECTED: [&str; 5] = ["admitted", "denied", "throttled", "shed", "expired"];

/// The options of the run.
#[derive(Debug, Args)]
pub struct MeteringArguments {
    /// The daemon's binary.
    #[arg(long, value_name = "PATH")]
    binary: PathBuf,
    /// How long clients send requests.
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    seconds: f64,
    /// The seed of all draws.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
}

/// The observations beside the counts of clients.
#[derive(Debug, Default)]
struct Observations {
    /// Relaxed, as they order nothing: the numbers are read once the threads have ended.
    policies: AtomicU64,
    pages: AtomicU64,
    under_way_max: AtomicU64,
    failures: Mutex<Vec<Failure>>,
}

impl Observations {
    fn note(&self, result: Result<(), Failure>) {
        if let Err(failure) = result {
            self.failures.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
        }
    }
}

/// Runs clients for a while and compares their counts with the rows of the meter; whether these
/// agree.
pub fn run(arguments: &MeteringArguments) -> Result<bool, Failure> {
    let context = RunContext::of_binary(&arguments.binary).map_err(Failure::Unfinished)?;
    let (seconds, seed) = (arguments.seconds, arguments.seed);
    show(format_args!("metering, {seconds} s, seed {seed}, on {}", machine()))?;
    let mut random = SplitMix64::new(seed);
    let upstream = format!("http://{}", service::start_service(random.next_u64())?);
    let daemon = Daemon::start(&context, &policy(0, &upstream))?;
    let (ledger, observed) = (Ledger::default(), Observations::default());
    let (is_over, is_drained) = (AtomicBool::new(false), AtomicBool::new(false));
    let addresses = Protocol::ALL.map(|protocol| match protocol {
        Protocol::Http => daemon.http(),
        Protocol::Rls => daemon.grpc(),
        Protocol::Resp => daemon.resp(),
        Protocol::Proxy => daemon.proxy(),
    });
    thread::scope(|scope| {
        let mut callers = Vec::new();
        for (protocol, address) in Protocol::ALL.into_iter().zip(addresses) {
            let address = address?;
            for _ in 0..CALLERS {
                let (scope_of_caller, seed) = (
                    CallerScope { protocol, address, ledger: &ledger, is_over: &is_over },
                    random.next_u64(),
                );
                callers.push(scope.spawn(move || match protocol {
                    Protocol::Rls => rls_callers::call(scope_of_caller, seed),
                    _ => callers::call(scope_of_caller, seed),
                }));
            }
        }
        scope.spawn(|| observed.note(reload(&daemon, &upstream, &observed, &is_over)));
        scope.spawn(|| observed.note(look(&daemon, &ledger, &observed, &is_drained)));
        thread::sleep(Duration::from_secs_f64(seconds));
        is_over.store(true, Ordering::Relaxed);
        for caller in callers {
            observed.note(caller.join().expect("a caller does not panic").map_err(Failure::from));
        }
        is_drained.store(true, Ordering::Relaxed);
        Ok::<_, Failure>(())
    })?;
    let failures = observed.failures.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(failure) = failures.first() {
        return Err(Failure::Unfinished(format!("{} threads failed: {failure}", failures.len())));
    }
    let mut problems = compare(&daemon, &ledger)?;
    problems.extend(missing(&daemon, &ledger, &observed, seconds)?);
    report(&ledger, &observed)?;
    for problem in problems.iter().take(PROBLEMS_SHOWN) {
        show(format_args!("FAIL  {problem}"))?;
    }
    let verdict = if problems.is_empty() { "all rows agree" } else { "rows do not agree" };
    show(format_args!("{verdict}; {} problems", problems.len()))?;
    Ok(problems.is_empty())
}

/// Replaces the policy each second.
fn reload(
    daemon: &Daemon<'_>,
    upstream: &str,
    observed: &Observations,
    is_over: &AtomicBool,
) -> Result<(), Failure> {
    let began = Instant::now();
    for number in 1_u32.. {
        let at = RELOAD_EVERY * number;
        while began.elapsed() < at {
            if is_over.load(Ordering::Relaxed) {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(20));
        }
        daemon.rewrite_policy(&policy(number.into(), upstream))?;
        daemon.look_at_policy();
        observed.policies.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Reads rows while requests are under way.
fn look(
    daemon: &Daemon<'_>,
    ledger: &Ledger,
    observed: &Observations,
    is_drained: &AtomicBool,
) -> Result<(), Failure> {
    let mut pages = UsagePages::open(daemon.admin()?)?;
    while !is_drained.load(Ordering::Relaxed) {
        let before = ledger.rows();
        let rows = pages.rows(&NAMESPACES)?;
        let after = ledger.rows();
        let problems = meanwhile(&before, &rows, &after);
        // One fault shows in many rows, and must leave room for others.
        let shown = problems.into_iter().take(PROBLEMS_OF_LOOK);
        shown.chain(pages.problems.drain(..)).for_each(|problem| ledger.problem(problem));
        let under_way = rows.iter().filter(|(row, _)| row.list == "namespaces").map(|(_, row)| row.under_way);
        observed.under_way_max.fetch_max(under_way.sum(), Ordering::Relaxed);
        observed.pages.fetch_add(1, Ordering::Relaxed);
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Waits until nothing is under way, and compares all rows: in the lists, on the page of each
/// tenant, and in the metrics.
fn compare(daemon: &Daemon<'_>, ledger: &Ledger) -> Result<Vec<String>, Failure> {
    let mut pages = UsagePages::open(daemon.admin()?)?;
    let began = Instant::now();
    let mut rows = pages.rows(&NAMESPACES)?;
    // At rest, two looks that see nothing under way are the same.
    loop {
        thread::sleep(LOOK_EVERY);
        let next = pages.rows(&NAMESPACES)?;
        let is_at_rest = next == rows && next.values().all(|row| row.under_way == 0);
        rows = next;
        if is_at_rest || began.elapsed() > REST_MAX {
            break;
        }
    }
    let clients = ledger.rows();
    let mut problems = ledger.problems();
    problems.append(&mut pages.problems);
    problems.extend(at_rest(&clients, &rows));
    problems.extend(list_problems(&rows));

    let mut by_page = MeterRows::new();
    for namespace in NAMESPACES {
        let list = RowKey::tenants_of(namespace);
        let mut names: Vec<&str> =
            clients.keys().filter(|row| row.list == list).map(|row| &*row.name).collect();
        names.dedup();
        for name in names.into_iter().filter(|name| ![NONE, OTHER].contains(name)) {
            pages.tenant_rows(namespace, &name.replace(' ', "%20"), &mut by_page)?;
        }
    }
    let listed = |row: &RowKey| row.list.starts_with("tenants") && ![NONE, OTHER].contains(&&*row.name);
    let by_page: MeterRows = by_page
        .into_iter()
        .map(|(row, counts)| (RowKey { name: row.name.replace("%20", " "), ..row }, counts))
        .collect();
    problems.extend(differences("the pages of tenants", &by_page, &only(&rows, listed)));

    let mut metrics = metric_rows(&pages.metrics()?);
    metrics.retain(|_, counts| counts.offered > 0);
    let mut not_of_tenants = only(&rows, |row| !row.list.starts_with("tenants"));
    not_of_tenants.retain(|_, counts| counts.offered > 0);
    problems.extend(differences("the metrics", &metrics, &not_of_tenants));
    problems.extend(pages.problems);
    Ok(problems)
}

fn only(rows: &MeterRows, is_meant: impl Fn(&RowKey) -> bool) -> MeterRows {
    rows.iter().filter(|(row, _)| is_meant(row)).map(|(row, counts)| (row.clone(), counts.clone())).collect()
}

/// Rows of one page that are not those of the lists.
fn differences(page: &str, rows: &MeterRows, lists: &MeterRows) -> Vec<String> {
    let different = rows.keys().chain(lists.keys()).filter(|row| rows.get(row) != lists.get(row));
    let mut texts: Vec<String> = different
        .map(|row| format!("{row}: {page} say {:?}, and the lists {:?}", rows.get(row), lists.get(row)))
        .collect();
    texts.dedup();
    texts
}

/// The parts of the plan that the run has not seen.
fn missing(
    daemon: &Daemon<'_>,
    ledger: &Ledger,
    observed: &Observations,
    seconds: f64,
) -> Result<Vec<String>, Failure> {
    let mut missing = Vec::new();
    let written = observed.policies.load(Ordering::Relaxed);
    let reloads = daemon.metric("tidegate_policy_reloads_total")?;
    let refused = daemon.metric("tidegate_policy_reload_failures_total")?;
    // A policy may be read together with the one before.
    if refused > 0 || reloads < written * 9 / 10 {
        missing.push(format!("{written} policies were written, {reloads} taken over and {refused} refused"));
    }
    let endings = ledger.endings();
    let count = |wanted: &str| -> u64 {
        endings.iter().filter(|((_, ending), _)| *ending == wanted).map(|(_, count)| count).sum()
    };
    if seconds >= SECONDS_OF_EVERY_OUTCOME {
        let wanted = EXPECTED.into_iter().chain(["cut", "cut before its end", "no namespace"]);
        missing.extend(wanted.filter(|one| count(one) == 0).map(|one| format!("no request was {one}")));
    }
    Ok(missing)
}

/// Prints what became of requests, by protocol.
fn report(ledger: &Ledger, observed: &Observations) -> Result<(), Failure> {
    let endings = ledger.endings();
    let protocols: Vec<&str> = Protocol::ALL.iter().map(|protocol| protocol.name()).collect();
    let heads: Vec<String> = protocols.iter().map(|protocol| format!("{protocol:>9}")).collect();
    show(format_args!("{:<22}{}", "", heads.concat()))?;
    let others = ["cut", "cut before its end", "no namespace", "unknown", "strange"];
    for ending in OUTCOMES.into_iter().chain(others) {
        let counts = protocols.iter().map(|protocol| endings.get(&(*protocol, ending)).copied().unwrap_or(0));
        let counts: Vec<u64> = counts.collect();
        if counts.iter().any(|count| *count > 0) {
            let counts: Vec<String> = counts.iter().map(|count| format!("{count:>9}")).collect();
            show(format_args!("{ending:<22}{}", counts.concat()))?;
        }
    }
    let settled = |word| endings.get(&("settlements", word)).copied().unwrap_or(0);
    show(format_args!(
        "{} admissions undone by their clients, {} too late; {} policies; {} looks at all rows, at most {} under way",
        settled("undone"),
        settled("too late"),
        observed.policies.load(Ordering::Relaxed),
        observed.pages.load(Ordering::Relaxed),
        observed.under_way_max.load(Ordering::Relaxed),
    ))
}
