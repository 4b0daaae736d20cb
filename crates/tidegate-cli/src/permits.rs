//! `tidegate permits`.

use std::fmt::Write as _;

use tidegate_wire::display::HumanDuration;
use tidegate_wire::permits::PermitsBody;

use crate::arguments::operator_commands::Permits;
use crate::client::{self, ClientError, print, target, wait_for};
use crate::columns::Columns;
use crate::exit::Exit;

pub(crate) fn run(arguments: &Permits) -> Exit {
    print(arguments.json, wait_for(ask(arguments)), table)
}

async fn ask(arguments: &Permits) -> Result<PermitsBody, ClientError> {
    let (n, after) = (arguments.n.to_string(), arguments.after.map(|after| after.to_string()));
    let mut query = vec![("n", n.as_str())];
    query.extend(arguments.filter.query());
    query.extend(after.iter().map(|after| ("after", after.as_str())));
    client::get(&arguments.filter.daemon, &target("/v1/permits", &query)).await
}

fn table(body: &PermitsBody) -> String {
    let mut text = String::new();
    let held = if body.total == 1 { "1 permit is".to_owned() } else { format!("{} permits are", body.total) };
    let _ = writeln!(text, "{held} held, of at most {}.", body.max);
    let mut columns = Columns::new(["PERMIT", "NAMESPACE", "LIMITS", ">COST", ">HELD FOR", ">EXPIRES IN"]);
    for permit in &body.permits {
        columns.push([
            format!("{}…", permit.id),
            permit.namespace.clone(),
            permit.limits.join(", "),
            permit.cost.to_string(),
            permit.age_ms.map_or_else(
                || "before the start".to_owned(),
                |ms| HumanDuration::from_millis(ms).to_string(),
            ),
            HumanDuration::from_millis(permit.remaining_ms).to_string(),
        ]);
    }
    let columns = columns.text();
    if !columns.is_empty() {
        text.extend(["\n", &columns]);
    }
    if let Some(next) = body.next {
        let _ = writeln!(text, "There are more: --after {next}");
    }
    text
}
