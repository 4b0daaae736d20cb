//! The state of the table of an access, as explanations show it.

use tidegate_capacity::TokensStatus;
use tidegate_capacity::split::SplitVerdict;
use tidegate_engine::{AccessCharge, AccessReport};
use tidegate_wire::access_explanation::{AccessExplanation, TokensExplanation};
use tidegate_wire::answer::AccessUnits;
use tidegate_wire::explanation::ExpectedDecision;

pub(crate) fn explain_access(report: &AccessReport) -> AccessExplanation {
    let direction = &report.direction;
    AccessExplanation {
        table: report.table.clone(),
        index: report.index.clone(),
        operation: report.operation.as_str().to_owned(),
        mode: report.mode.as_str().to_owned(),
        units: report.units.as_f64(),
        would: if report.is_admitted { ExpectedDecision::Admit } else { ExpectedDecision::Refuse },
        partition: report.partition,
        key_range: report.key_range.clone(),
        node: report.node.clone(),
        node_left: report.node_left.as_f64(),
        rate: direction.rate.as_f64(),
        left: direction.left.as_f64(),
        ceiling: direction.ceiling.as_f64(),
        burst_left: report.mode.spends_burst().then(|| direction.burst_left.as_f64()),
        consumed: direction.consumed.as_f64(),
        tokens: report.tokens.map(tokens),
        account_tokens: report.account_tokens.map(tokens),
        verdict: report.verdict.as_ref().map(|verdict| verdict_word(verdict).to_owned()),
    }
}

/// The units of an admitted access, as answers show them.
pub(crate) fn access_units(charge: AccessCharge) -> AccessUnits {
    AccessUnits { units: charge.units.as_f64(), left: charge.left.as_f64() }
}

fn tokens(status: TokensStatus) -> TokensExplanation {
    TokensExplanation { rate: status.rate.as_f64(), left: status.left.as_f64(), leased: status.is_leased }
}

/// The verdict in one word.
const fn verdict_word(verdict: &SplitVerdict) -> &'static str {
    match verdict {
        SplitVerdict::Split(_) => "split",
        SplitVerdict::HotKey { .. } => "hot_key",
        SplitVerdict::Sequential => "sequential",
        SplitVerdict::Moving => "moving",
        SplitVerdict::Scan => "scan",
        SplitVerdict::Useless => "useless",
        _ => "wait",
    }
}
