//! Each recipe runs by itself, after the preparation that all recipes share.
//!
//! A recipe is a section of a page; the preparation is a section of the first page.

use std::path::Path;

use super::examples::{Part, parts, run_with};
use super::root;
use crate::gateways::tools::{fetched_or_skip, find_or_skip};

/// The first page has the preparation of all recipes.
pub(super) const PAGES: [&str; 2] = ["docs/recipes.md", "docs/recipes-overload.md"];

/// The section that all recipes share.
const PREPARATION: &str = "Prepare";

fn pages() -> [String; 2] {
    PAGES.map(|page| std::fs::read_to_string(root().join(page)).unwrap())
}

/// The headings of the sections of a page, in their order.
fn headings(page: &str) -> impl Iterator<Item = &str> {
    page.lines().filter_map(|line| line.strip_prefix("## "))
}

/// A page without the other recipes, whose lines are empty: lines keep their numbers.
fn alone(page: &str, recipe: &str) -> String {
    let mut is_kept = true;
    let mut kept = String::new();
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            is_kept = heading == PREPARATION || heading == recipe;
        }
        kept.extend([if is_kept { line } else { "" }, "\n"]);
    }
    kept
}

fn carry_out(recipe: &str, programs: &[(&str, &Path)], test: &str) {
    if find_or_skip("python3", test).is_none() {
        return;
    }
    let mut recipe_parts = Vec::new();
    for (name, page) in PAGES.iter().zip(pages()) {
        let (parts, unclear) = parts(&alone(&page, recipe), |_| false);
        assert!(unclear.is_empty(), "no test sees these blocks of {name}: {unclear:?}");
        recipe_parts.extend(parts);
    }
    let steps = recipe_parts.iter().filter(|part| matches!(part, Part::Step(_))).count();
    assert!(steps > 1, "{recipe} has no calls");
    let wrong = run_with(&recipe_parts, programs);
    assert!(wrong.is_empty(), "{recipe}, {PAGES:?}:{}", wrong.join("\n\n"));
}

macro_rules! recipes {
    ($($test:ident: $heading:literal,)*) => {
        /// The recipes that have a test.
        const TESTED: &[&str] = &[$($heading),*];

        $(
            #[test]
            fn $test() {
                carry_out($heading, &[], stringify!($test));
            }
        )*
    };
}

recipes! {
    the_recipe_of_plans_and_costs_runs_as_it_is_written: "Plans and costs",
    the_recipe_of_logins_runs_as_it_is_written: "Logins that count failures, and block",
    the_recipe_of_tokens_runs_as_it_is_written: "LLM tokens",
    the_recipe_of_time_zones_runs_as_it_is_written: "A daily quota in the customer's time zone",
    the_recipe_of_the_line_runs_as_it_is_written: "A slow service with a line",
    the_recipe_of_protection_runs_as_it_is_written: "From an unprotected service to a protected one",
    the_recipe_of_thumbnails_runs_as_it_is_written: "Switch off thumbnails before checkout slows",
    the_recipe_of_jobs_runs_as_it_is_written: "Jobs of each tenant at the same time",
    the_recipe_of_uploads_runs_as_it_is_written: "Uploads by bytes",
}

const ENVOYS: &str = "One limit over many Envoys";

#[test]
fn the_recipe_of_many_envoys_runs_as_it_is_written() {
    let test = "the_recipe_of_many_envoys_runs_as_it_is_written";
    let Some(envoy) = fetched_or_skip("envoy", "lib/*/site-packages/envoy/_bin/envoy", test) else { return };
    carry_out(ENVOYS, &[("envoy", &envoy)], test);
}

#[test]
fn every_recipe_has_a_test() {
    let pages = pages();
    let mut recipes: Vec<&str> = pages.iter().flat_map(|page| headings(page)).collect();
    recipes.retain(|heading| *heading != PREPARATION);
    let mut tested: Vec<&str> = TESTED.iter().copied().chain([ENVOYS]).collect();
    recipes.sort_unstable();
    tested.sort_unstable();
    assert_eq!(recipes, tested);
}

#[test]
fn a_recipe_is_read_with_the_preparation_and_without_its_neighbours() {
    let page = "intro\n## Prepare\na\n## One\nb\n### Part\nc\n## Two\nd\n";
    assert_eq!(alone(page, "One"), "intro\n## Prepare\na\n## One\nb\n### Part\nc\n\n\n");
    assert_eq!(headings(page).collect::<Vec<_>>(), ["Prepare", "One", "Two"]);
}
