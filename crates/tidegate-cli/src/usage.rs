//! `tidegate usage`.

mod sum;

use std::fmt::Write as _;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidegate_wire::text::shortened;
use tidegate_wire::usage::{
    NamespaceUsageBody, TenantUsageBody, UsageBody, UsageColumn, UsageColumns, UsageRow, UsageRowKind,
};

use self::sum::{MemberUsage, UsageAnswer, UsageSum};
use crate::arguments::operator_commands::Usage;
use crate::client::{self, ClientError, encoded, print, target, wait_for};
use crate::columns::{Columns, one_line};
use crate::exit::Exit;

/// How much of a name is shown, in bytes.
const SHOWN_BYTES: usize = 40;

/// The most rows of each list that a daemon answers. Several members are asked for all of them,
/// since the largest of the sum need not be the largest of each.
const ROWS_MAX: u32 = 1000;

pub(crate) fn run(arguments: &Usage) -> Exit {
    match (&arguments.namespace, &arguments.tenant) {
        (None, _) => answer(arguments, "/v1/usage", words_of_all),
        (Some(namespace), None) => {
            answer(arguments, &format!("/v1/usage/{}", encoded(namespace)), words_of_namespace)
        }
        (Some(namespace), Some(tenant)) => {
            let path = format!("/v1/usage/{}/{}", encoded(namespace), encoded(tenant));
            answer(arguments, &path, words_of_tenant)
        }
    }
}

fn answer<T: UsageAnswer + Serialize + DeserializeOwned>(
    arguments: &Usage,
    path: &str,
    words: fn(&T, UsageColumn) -> String,
) -> Exit {
    let summed = wait_for(ask::<T>(arguments, path));
    match summed {
        Ok(UsageSum { sum, members }) if arguments.daemons.at.len() == 1 => {
            print(arguments.json, Ok(sum), |sum| heading(&members) + &words(sum, arguments.by))
        }
        summed => print(arguments.json, summed, |summed: &UsageSum<T>| {
            heading(&summed.members) + &words(&summed.sum, arguments.by)
        }),
    }
}

/// Asks each member and adds up what they have counted. One that does not answer is an error that
/// says what the others have answered: a sum without it would be of something else.
async fn ask<T: UsageAnswer + DeserializeOwned>(
    arguments: &Usage,
    path: &str,
) -> Result<UsageSum<T>, ClientError> {
    let is_one = arguments.daemons.at.len() == 1;
    let n = if is_one { arguments.n } else { ROWS_MAX };
    let (n, by) = (n.to_string(), arguments.by.as_str());
    let query: &[(&str, &str)] = if T::IS_LIST { &[("n", n.as_str()), ("by", by)] } else { &[] };
    let path = target(path, query);
    let mut sum: Option<UsageSum<T>> = None;
    let mut failed: Option<ClientError> = None;
    let mut untracked: Option<ClientError> = None;
    for daemon in arguments.daemons.each() {
        match client::get::<T>(&daemon, &path).await {
            Ok(body) => {
                let member = MemberUsage {
                    at: daemon.at.to_string(),
                    member: body.member().to_owned(),
                    since: body.since().to_owned(),
                };
                if let Some(sum) = &mut sum {
                    if sum.members.iter().any(|known| known.member == member.member) {
                        let MemberUsage { at, member, .. } = member;
                        let why =
                            format!("{at} is member {member}, which is asked already; name each member once");
                        return Err(ClientError::Untaken(why));
                    }
                    sum.sum.add(&body);
                    sum.members.push(member);
                } else {
                    sum = Some(UsageSum { members: vec![member], sum: body });
                }
            }
            Err(error) if is_one => return Err(error),
            // A member without a row of the tenant has nothing to add.
            Err(error @ ClientError::Untracked(_)) => untracked = Some(error.named_by(&daemon.at)),
            Err(error) => {
                failed.get_or_insert_with(|| error.named_by(&daemon.at));
            }
        }
    }
    if let Some(error) = failed {
        let others = sum.iter().flat_map(|sum| &sum.members);
        let others: Vec<&str> = others.map(|member| member.at.as_str()).collect();
        return Err(error.followed_by(&match &others[..] {
            [] => "no other member answered".to_owned(),
            others => format!(
                "{} answered, and their sum would lack a member; leave it out of --at for that sum",
                others.join(", ")
            ),
        }));
    }
    let mut sum = match (sum, untracked) {
        (Some(sum), _) => sum,
        (None, Some(error)) => return Err(error),
        (None, None) => return Err(ClientError::Untaken("no daemon is named; give --at URL".to_owned())),
    };
    if !is_one {
        sum.sum.keep_largest(arguments.n as usize, arguments.by);
    }
    Ok(sum)
}

/// Which member has counted since when.
fn heading(members: &[MemberUsage]) -> String {
    if let [one] = members {
        return format!("Counted by {} since {}.\n", one_line(&one.member), one_line(&one.since));
    }
    let mut text = format!("The sum of {} members:\n", members.len());
    for MemberUsage { at, member, since } in members {
        let _ = writeln!(text, "  {} ({}) since {}", one_line(member), one_line(at), one_line(since));
    }
    text
}

fn words_of_all(body: &UsageBody, by: UsageColumn) -> String {
    let mut text = String::new();
    for (heading, kind, rows, more) in [
        ("NAMESPACE", "namespace", &body.namespaces, body.more_namespaces),
        ("FEATURE", "feature", &body.features, body.more_features),
        ("RESOURCE", "resource", &body.resources, body.more_resources),
    ] {
        text.push('\n');
        let rows = rows
            .iter()
            .filter(|row| row.row == UsageRowKind::Named || row.total.offered > 0 || is_reported(&row.total));
        let rows: Vec<Row<'_>> = rows.map(|row| (name(row, kind), row)).collect();
        text.push_str(&table(heading, &rows, by));
        if more > 0 {
            let _ = writeln!(text, "and {more} more; list them with -n");
        }
    }
    if body.total.saturated {
        text.push_str(SATURATED);
    }
    text
}

fn words_of_namespace(body: &NamespaceUsageBody, by: UsageColumn) -> String {
    let mut rows = vec![("(all)".to_owned(), &body.namespace)];
    rows.push(("(no tenant)".to_owned(), &body.no_tenant));
    rows.push(("(other tenants)".to_owned(), &body.other));
    rows.extend(body.tenants.iter().map(|row| (name(row, "tenant"), row)));
    let tenants = if body.tracked == 1 { "tenant is" } else { "tenants are" };
    let of = body.namespace.name.as_deref().unwrap_or("(none)");
    let mut text = format!("Namespace {}: {} {tenants} tracked.\n\n", one_line(&shown(of)), body.tracked);
    text.push_str(&table("TENANT", &rows, by));
    if body.more > 0 {
        let _ = writeln!(text, "and {} more; list them with -n, or name a TENANT", body.more);
    }
    text.push('\n');
    text.push_str(&classes(&body.namespace, by));
    text.push_str(&units(&body.namespace.total));
    text
}

fn words_of_tenant(body: &TenantUsageBody, by: UsageColumn) -> String {
    let name = name(&body.tenant, "tenant");
    let mut text =
        format!("Tenant {} of namespace {}.\n\n", one_line(&name), one_line(&shown(&body.namespace)));
    text.push_str(&classes(&body.tenant, by));
    text.push_str(&units(&body.tenant.total));
    text
}

/// A row with the name that is shown.
type Row<'a> = (String, &'a UsageRow);

fn name(row: &UsageRow, kind: &str) -> String {
    match (row.row, row.name.as_deref()) {
        (UsageRowKind::None, _) => format!("(no {kind})"),
        (UsageRowKind::Other, _) => "(other)".to_owned(),
        (UsageRowKind::Named, Some("")) => "\"\"".to_owned(),
        (UsageRowKind::Named, name) => {
            let text = shown(name.unwrap_or_default());
            if row.is_cut && !text.ends_with('…') { text + "…" } else { text }
        }
    }
}

fn shown(name: &str) -> String {
    shortened(name, SHOWN_BYTES).into_owned()
}

/// The columns of every table after the name. The one that is sorted by is among them.
fn cells(usage: &UsageColumns, by: UsageColumn) -> [String; 10] {
    let outcomes = &usage.outcomes;
    let refused = usage.offered - usage.under_way.min(usage.offered);
    let refused = refused - outcomes.admitted.min(refused);
    let sorted = match by {
        UsageColumn::Outcome(outcome) => outcomes.count(outcome).to_string(),
        UsageColumn::RefusedUnits => usage.refused_units.to_string(),
        _ => usage.repeated.to_string(),
    };
    [
        usage.offered.to_string(),
        outcomes.admitted.to_string(),
        refused.to_string(),
        sorted,
        usage.under_way.to_string(),
        usage.units.to_string(),
        seconds(usage.place_time_seconds),
        seconds(usage.wait_seconds),
        usage.reported_admitted.to_string(),
        usage.reported_denied.to_string(),
    ]
}

fn seconds(seconds: f64) -> String {
    format!("{seconds:.1}")
}

/// The heading of the column for the outcome that is sorted by, otherwise of repeated attempts.
fn sorted_heading(by: UsageColumn) -> &'static str {
    use tidegate_core::RequestOutcome as Outcome;
    match by {
        UsageColumn::Outcome(Outcome::Denied) => ">DENIED",
        UsageColumn::Outcome(Outcome::Throttled) => ">THROTTLED",
        UsageColumn::Outcome(Outcome::Shed) => ">SHED",
        UsageColumn::Outcome(Outcome::Deferred) => ">DEFERRED",
        UsageColumn::Outcome(Outcome::Disabled) => ">DISABLED",
        UsageColumn::Outcome(Outcome::Expired) => ">EXPIRED",
        UsageColumn::Outcome(Outcome::Unavailable) => ">UNAVAILABLE",
        UsageColumn::Outcome(Outcome::Failed) => ">FAILED",
        UsageColumn::Outcome(Outcome::Cancelled) => ">CANCELLED",
        UsageColumn::Outcome(Outcome::Admitted)
        | UsageColumn::Offered
        | UsageColumn::Units
        | UsageColumn::PlaceTime
        | UsageColumn::ReportedAdmitted
        | UsageColumn::ReportedDenied => ">REPEATED",
        UsageColumn::RefusedUnits => ">REFUSED UNITS",
    }
}

fn table(heading: &'static str, rows: &[Row<'_>], by: UsageColumn) -> String {
    let rows: Vec<_> = rows.iter().map(|(name, row)| (name.as_str(), &row.total)).collect();
    table_of(heading, &rows, by)
}

/// The classes of a row, and how their requests ended.
fn classes(row: &UsageRow, by: UsageColumn) -> String {
    let mut rows: Vec<_> = row.classes.iter().map(|one| (one.class.as_str(), &one.usage)).collect();
    rows.push(("(all)", &row.total));
    let mut text = table_of("CLASS", &rows, by);
    let outcomes = tidegate_core::RequestOutcome::ALL.into_iter();
    let outcomes = outcomes.map(|outcome| (outcome, row.total.outcomes.count(outcome)));
    let counted = outcomes.filter(|(_, count)| *count > 0);
    let counted: Vec<String> = counted.map(|(outcome, count)| format!("{outcome} {count}")).collect();
    if !counted.is_empty() {
        let _ = writeln!(text, "\nOutcomes: {}.", counted.join(", "));
    }
    text
}

/// `admitted` has a column in any case.
fn without_admitted(by: UsageColumn) -> UsageColumn {
    match by {
        UsageColumn::Outcome(tidegate_core::RequestOutcome::Admitted) => UsageColumn::Offered,
        by => by,
    }
}

/// A table of these rows; with the requests that Envoys decided if there are any.
fn table_of(heading: &'static str, rows: &[(&str, &UsageColumns)], by: UsageColumn) -> String {
    let by = without_admitted(by);
    if rows.iter().any(|(_, usage)| is_reported(usage)) {
        lines::<11>(heading, rows, by)
    } else {
        lines::<9>(heading, rows, by)
    }
}

/// Whether Envoys have decided some of its requests.
fn is_reported(usage: &UsageColumns) -> bool {
    usage.reported_admitted > 0 || usage.reported_denied > 0
}

/// The lines of a table with the first `N` columns.
fn lines<const N: usize>(heading: &'static str, rows: &[(&str, &UsageColumns)], by: UsageColumn) -> String {
    let headings = [
        heading,
        ">OFFERED",
        ">ADMITTED",
        ">REFUSED",
        sorted_heading(by),
        ">UNDER WAY",
        ">UNITS",
        ">PLACE S",
        ">WAIT S",
        ">REP. ADMITTED",
        ">REP. DENIED",
    ];
    let mut columns = Columns::<N>::new(core::array::from_fn(|column| headings[column]));
    for (name, usage) in rows {
        let mut cells = cells(usage, by).into_iter();
        columns.push(core::array::from_fn(|column| {
            if column == 0 { (*name).to_owned() } else { cells.next().unwrap_or_default() }
        }));
    }
    columns.lines().concat()
}

/// The columns of units, as a sentence.
fn units(usage: &UsageColumns) -> String {
    let UsageColumns {
        units, refused_units, true_units, reported, refunded, settled_more, settled_less, ..
    } = usage;
    let mut text = format!(
        "Units: {units} at admission, {refused_units} refused, {true_units} true, {reported} reported, \
         {refunded} refunded; settlements added {settled_more} and gave back {settled_less}.\n"
    );
    if is_reported(usage) {
        let UsageColumns { reported_admitted, reported_denied, .. } = usage;
        let _ = writeln!(
            text,
            "Envoys report {reported_admitted} admitted and {reported_denied} denied requests, which are in no other number."
        );
    }
    if usage.saturated {
        text.push_str(SATURATED);
    }
    text
}

const SATURATED: &str = "A number has reached 2^64 - 1 and grows no more.\n";

#[cfg(test)]
mod tests;
