//! The story of a table: who was throttled, when and why, what the control loops did, and where its
//! keys lay.

use core::fmt::Write as _;

use super::heat_map::heat_map;
use super::partition_map::{NODE_COLORS, partition_map};
use super::share_chart::share_chart;
use crate::capacity::design::Design;
use crate::capacity::run::{CapacityRun, DesignResult, TableResult, Victim};
use crate::kit::report::{chip, escaped, figure, share, thousands};

/// The victims that are named of each design.
const NAMED_MAX: usize = 3;

/// The plans that are told of each design.
const PLANS_MAX: usize = 12;

/// The chip of a design.
pub fn chip_of(design: Design) -> String {
    chip(design.letters(), Some(design.title()), design.letters())
}

/// The throttled share of a table over time, with a text below it if there is one.
pub fn share_figure(html: &mut String, run: &CapacityRun, table: usize, caption: Option<&str>) {
    let picture = share_chart(run, table);
    match caption {
        Some(caption) => figure(html, &picture, caption),
        None => {
            let _ = writeln!(html, "<figure>{picture}</figure>");
        }
    }
}

/// The story of one design: the partitions that were throttled most.
pub fn victims(html: &mut String, run: &CapacityRun, design: &DesignResult, result: &TableResult) {
    let name = chip_of(design.design);
    if result.throttled == 0 {
        let _ = writeln!(html, "<p>{name} throttled none of {} requests.</p>", thousands(result.offered));
        return;
    }
    let share = share(result.throttled, result.offered);
    let _ = write!(
        html,
        "<p>{name} throttled {share:.2} % of {} requests: {}.",
        thousands(result.offered),
        thousands(result.throttled)
    );
    let by_table: u64 = result.by_bound.get("table tokens").copied().unwrap_or(0);
    if by_table > 0 {
        let tables = &run.scenario.tables;
        let table = tables.iter().position(|spec| spec.name == result.table).unwrap_or(0);
        let limit = match run.scenario.growth(table) {
            Some(_) => "its limit at the time".to_owned(),
            None => format!("its {} units a second", tables[table].units_per_second),
        };
        let _ = write!(
            html,
            " Of these, {} because the whole table was asked for more than {limit}.",
            thousands(by_table)
        );
    }
    html.push_str("</p>\n");
    let named: Vec<&Victim> = result.victims.iter().filter(|victim| victim.bound != "table tokens").collect();
    if named.is_empty() {
        return;
    }
    html.push_str("<ul>\n");
    for victim in named.iter().take(NAMED_MAX) {
        let _ = writeln!(
            html,
            "<li>Partition {} on {} (keys <code>{}</code>): {} requests, in {} of the {} seconds from {} s to {} s, \
             because {}.<br><span class=\"dim\">First refusal {}.</span></li>",
            victim.partition,
            escaped(&victim.node),
            escaped(&victim.range),
            thousands(victim.requests),
            victim.seconds,
            victim.last_second - victim.first_second + 1,
            victim.first_second,
            victim.last_second + 1,
            cause(victim),
            escaped(&victim.example)
        );
    }
    if named.len() > NAMED_MAX {
        let others: u64 = named[NAMED_MAX..].iter().map(|victim| victim.requests).sum();
        let _ = writeln!(
            html,
            "<li class=\"dim\">and {} more, with {} requests together.</li>",
            named.len() - NAMED_MAX,
            thousands(others)
        );
    }
    html.push_str("</ul>\n");
}

/// Why a bucket refused, in words.
fn cause(victim: &Victim) -> String {
    let limit = victim.limit;
    match victim.bound {
        "partition share" => {
            format!("its share of {limit} units a second was used up, and this design gives it no more")
        }
        "burst credit" => "its share and its burst credit were used up".to_owned(),
        "partition ceiling" => {
            format!("more was asked of it than one partition may serve: {limit} units a second")
        }
        "node" | "replica node" => {
            format!("beyond its share it needs room on its node, whose {limit} units a second were used")
        }
        "move" => "it was being moved to another node".to_owned(),
        other => format!("the bucket \"{other}\" was short"),
    }
}

/// The changes of partitions that control loops made, and the verdicts against cuts.
pub fn plans(html: &mut String, run: &CapacityRun, table: usize) {
    let results = || run.designs.iter().map(|design| (design.design, &design.tables[table]));
    if results().all(|(_, result)| result.plans.is_empty() && result.verdicts.is_empty()) {
        return;
    }
    html.push_str("<h3>What the control loops did</h3>\n");
    for (design, result) in results() {
        if result.plans.is_empty() && result.verdicts.is_empty() {
            continue;
        }
        let _ = write!(html, "<p>{}</p><ul>", chip_of(design));
        for plan in result.plans.iter().take(PLANS_MAX) {
            let benefit = if plan.benefit > 0.0 {
                format!("; predicted to let {:.0} units a second more through", plan.benefit)
            } else {
                String::new()
            };
            let _ = writeln!(
                html,
                "<li>At {} s {}: {}{benefit}.</li>",
                plan.second,
                escaped(&plan.what),
                escaped(plan.reason)
            );
        }
        if result.plans.len() > PLANS_MAX {
            let _ = writeln!(html, "<li class=\"dim\">and {} more.</li>", result.plans.len() - PLANS_MAX);
        }
        for verdict in &result.verdicts {
            let _ = writeln!(
                html,
                "<li>At {} s partition {} was found to be {}: {}.</li>",
                verdict.second,
                verdict.partition,
                verdict.verdict,
                verdict_meaning(verdict.verdict)
            );
        }
        html.push_str("</ul>\n");
    }
}

/// The reason for which a verdict stands against a cut.
fn verdict_meaning(verdict: &str) -> &'static str {
    match verdict {
        "HOT_KEY" => "one key alone is asked for more than the ceiling, and no cut parts a key",
        "SEQUENTIAL" => "requests move on to ever higher keys, and a cut would always be behind them",
        "MOVING" => "the load moves, and a cut would come too late",
        "SCAN" => "most requests read ranges, which a cut would part",
        _ => "no cut would lessen the refusals by a fifth",
    }
}

/// Heat maps of what was asked for and what was throttled, and the partitions over time.
pub fn maps(html: &mut String, run: &CapacityRun, table: usize) {
    let seconds = run.scenario.seconds;
    let asked = &run.offered[table];
    html.push_str("<h3>Keys over time</h3>\n<div class=\"grid2\">\n");
    let per_second = |count: u32| f64::from(count) / f64::from(asked.seconds_per_column());
    let caption = format!(
        "Asked for: each cell is a 64th of the key order. Darkest: {:.0} requests a second.",
        per_second(asked.most())
    );
    figure(html, &heat_map(asked, seconds, asked.most(), "ask", "Requests by time and key"), &caption);
    let most = run.designs.iter().map(|design| design.tables[table].heat.most()).max().unwrap_or(0);
    let throttled = run.designs.iter().filter(|design| design.tables[table].throttled > 0);
    for (heat, designs) in alike(throttled, |design| &design.tables[table].heat) {
        let caption = format!(
            "{designs} throttled. Darkest: {:.0} requests a second, in all of these maps.",
            per_second(most)
        );
        figure(html, &heat_map(heat, seconds, most, "hot", "Throttled requests by time and key"), &caption);
    }
    for (spans, designs) in alike(run.designs.iter(), |design| &design.tables[table].spans) {
        let caption = format!(
            "Partitions under {designs} by node; each range that there ever was has the same height.{}",
            nodes(run)
        );
        figure(html, &partition_map(spans, seconds), &caption);
    }
    html.push_str("</div>\n");
}

/// The values that designs have, each once, with the chips of the designs that have it.
fn alike<'a, V: PartialEq>(
    designs: impl Iterator<Item = &'a DesignResult>,
    value: impl Fn(&'a DesignResult) -> &'a V,
) -> Vec<(&'a V, String)> {
    let mut shown: Vec<(&V, String)> = Vec::new();
    for design in designs {
        let (value, name) = (value(design), chip_of(design.design));
        match shown.iter_mut().find(|(other, _)| *other == value) {
            Some((_, names)) => *names = format!("{names} {name}"),
            None => shown.push((value, name)),
        }
    }
    shown
}

/// The legend of the nodes.
fn nodes(run: &CapacityRun) -> String {
    let boxes = run.scenario.nodes.iter().enumerate().take(2 * NODE_COLORS).map(|(index, node)| {
        format!("<i class=\"box n{}\"></i>{}", index % NODE_COLORS, escaped(&node.name))
    });
    boxes.collect()
}
