//! The pages of `/v1/usage`, as rows.

use std::net::SocketAddr;

use serde_json::Value;

use super::comparison::{MeterCounts, MeterRows, sum_problem};
use super::ledger::{NONE, OTHER, OUTCOMES, RowKey};
use crate::attack::Failure;
use crate::http1::{Http1Client, get};

/// A reader of the pages, with what does not add up in them.
pub(super) struct UsagePages {
    client: Http1Client,
    pub(super) problems: Vec<String>,
}

impl UsagePages {
    /// Connects to the listener for operators.
    pub(super) fn open(admin: SocketAddr) -> Result<Self, Failure> {
        Ok(Self { client: Http1Client::open(admin)?, problems: Vec::new() })
    }

    /// A page; `None` where the answer is 404.
    pub(super) fn page(&mut self, path: &str) -> Result<Option<Value>, Failure> {
        let answer = self.client.ask(get(path))?;
        match answer.status {
            200 => Ok(Some(answer.json())),
            404 => Ok(None),
            status => Err(Failure::Unfinished(format!("{path} answers {status}: {}", answer.text()))),
        }
    }

    /// The page of metrics.
    pub(super) fn metrics(&mut self) -> Result<String, Failure> {
        Ok(self.client.ask(get("/metrics"))?.text())
    }

    /// All rows, with the lists of tenants of these namespaces.
    pub(super) fn rows(&mut self, namespaces: &[&str]) -> Result<MeterRows, Failure> {
        let mut rows = MeterRows::new();
        let all = self.page("/v1/usage?n=1000")?.unwrap_or_default();
        for list in ["namespaces", "features", "resources"] {
            self.read_list(list, &all[list], &mut rows);
        }
        for namespace in namespaces {
            let Some(page) = self.page(&format!("/v1/usage/{namespace}?n=1000"))? else { continue };
            let list = RowKey::tenants_of(namespace);
            self.read_list(&list, &page["tenants"], &mut rows);
            self.read_row(&list, NONE, &page["no_tenant"], &mut rows);
            self.read_row(&list, OTHER, &page["other"], &mut rows);
        }
        Ok(rows)
    }

    /// The rows of one tenant, from its own page.
    pub(super) fn tenant_rows(
        &mut self,
        namespace: &str,
        tenant: &str,
        rows: &mut MeterRows,
    ) -> Result<(), Failure> {
        if let Some(page) = self.page(&format!("/v1/usage/{namespace}/{tenant}"))? {
            self.read_row(&RowKey::tenants_of(namespace), tenant, &page["tenant"], rows);
        }
        Ok(())
    }

    fn read_list(&mut self, list: &str, page: &Value, rows: &mut MeterRows) {
        for row in page.as_array().into_iter().flatten() {
            let name = match row["row"].as_str() {
                Some("none") => NONE,
                Some("other") => OTHER,
                _ => row["name"].as_str().unwrap_or_default(),
            };
            self.read_row(list, name, row, rows);
        }
    }

    fn read_row(&mut self, list: &str, name: &str, row: &Value, rows: &mut MeterRows) {
        let total = counts(&row["total"]);
        self.problems.extend(sum_problem(&format_args!("{list}, {name}"), &total));
        let mut sum = MeterCounts::default();
        for class in row["classes"].as_array().into_iter().flatten() {
            let metered = counts(&class["usage"]);
            for (all, one) in sum.outcomes.iter_mut().zip(metered.outcomes) {
                *all = all.saturating_add(one);
            }
            sum.offered = sum.offered.saturating_add(metered.offered);
            sum.under_way = sum.under_way.saturating_add(metered.under_way);
            sum.units = sum.units.saturating_add(metered.units);
            rows.insert(RowKey::new(list, name, class["class"].as_str().unwrap_or_default()), metered);
        }
        if sum != total {
            self.problems
                .push(format!("{list}, {name}: the total is {total:?}, and its classes add up to {sum:?}"));
        }
    }
}

/// The columns of a row. A column that is absent or no whole number is `u64::MAX`, which no
/// comparison takes.
fn counts(columns: &Value) -> MeterCounts {
    let number = |value: &Value| value.as_u64().unwrap_or(u64::MAX);
    MeterCounts {
        offered: number(&columns["offered"]),
        under_way: number(&columns["under_way"]),
        outcomes: OUTCOMES.map(|outcome| number(&columns["outcomes"][outcome])),
        units: number(&columns["units"]),
    }
}
