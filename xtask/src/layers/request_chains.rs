//! The page that follows three requests through the code: each name in its chains is defined in the
//! source, and no chain has more stops than it may.
//!
//! A chain is a code block. A stop is a name outside of parentheses; `Type::function` stands for a
//! function of that type, trait, module or crate. The heading above a chain ends with the number of
//! its stops.

use std::collections::BTreeSet;
use std::fs;

use syn::{ImplItem, Item, TraitItem, Type};

use crate::checkout;
use crate::module_tree::{ModuleTree, name_of};
use crate::workspace::Member;

/// The page, from the root of the checkout.
const PAGE: &str = "docs/internals/three-requests.md";

/// How the heading of each request begins, and how many stops its chain has at most.
const STOPS_MAX: [(&str, usize); 3] = [("## A. ", 42), ("## B. ", 55), ("## C. ", 60)];

/// The folder of scripts in a crate, whose functions are names as well.
const SCRIPTS: &str = "src/script";

/// Every broken rule of the page.
pub(super) fn broken(members: &[Member]) -> Result<Vec<String>, String> {
    let mut names = DefinedNames::default();
    for member in members {
        names.read(member)?;
    }
    let page = fs::read_to_string(checkout::root().join(PAGE))
        .map_err(|error| format!("{PAGE} cannot be read: {error}"))?;
    Ok(broken_in(&page, &names))
}

fn broken_in(page: &str, names: &DefinedNames) -> Vec<String> {
    let mut problems = Vec::new();
    for chain in chains(page) {
        for name in chain.names.iter().filter(|name| !names.has(name)) {
            problems.push(format!("{PAGE} names `{name}`, which no crate defines"));
        }
    }
    for (start, max) in STOPS_MAX {
        let chains = chains(page);
        let Some(Chain { heading, stops, .. }) = chains.iter().find(|one| one.heading.starts_with(start))
        else {
            problems.push(format!("{PAGE} has no chain under a heading that begins with \"{start}\""));
            continue;
        };
        if *stops > max {
            problems.push(format!("{PAGE}, {heading}: {stops} stops, more than {max}"));
        }
        if !heading.ends_with(&format!(" {stops} stops")) {
            problems.push(format!("{PAGE}, {heading}: say that its chain has {stops} stops"));
        }
    }
    problems
}

/// One code block of the page.
struct Chain<'p> {
    /// The heading above it.
    heading: &'p str,
    stops: usize,
    /// All names, of stops and in parentheses.
    names: Vec<String>,
    /// Parentheses that are open at the end of the last line.
    depth: usize,
}

/// The chains of a page in their order.
fn chains(page: &str) -> Vec<Chain<'_>> {
    let (mut chains, mut heading, mut is_inside) = (Vec::new(), "", false);
    for line in page.lines() {
        if line.starts_with("```") {
            is_inside = !is_inside;
            if is_inside {
                chains.push(Chain { heading, stops: 0, names: Vec::new(), depth: 0 });
            }
        } else if is_inside && let Some(chain) = chains.last_mut() {
            chain.add(line);
        } else if line.starts_with('#') {
            heading = line;
        }
    }
    chains
}

impl Chain<'_> {
    fn add(&mut self, line: &str) {
        for part in line.split_inclusive(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | ':' | '.'))) {
            let name = part.trim_end_matches(|c: char| !(c.is_alphanumeric() || c == '_'));
            if !name.is_empty() {
                self.stops += usize::from(self.depth == 0);
                self.names.push(name.to_owned());
            }
            match part.chars().last() {
                Some('(') => self.depth += 1,
                Some(')') => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }
}

/// The names that the crates define outside of tests.
#[derive(Debug, Default)]
struct DefinedNames {
    /// Functions, types, modules and scripts.
    plain: BTreeSet<String>,
    /// Functions behind the type, trait, module, crate or script that has them.
    qualified: BTreeSet<String>,
}

impl DefinedNames {
    fn has(&self, name: &str) -> bool {
        if name.contains("::") { self.qualified.contains(name) } else { self.plain.contains(name) }
    }

    fn add(&mut self, owner: &str, function: &str) {
        self.plain.insert(function.to_owned());
        self.qualified.insert(format!("{owner}::{function}"));
    }

    /// Adds the names of a crate.
    fn read(&mut self, member: &Member) -> Result<(), String> {
        let package = member.name.replace('-', "_");
        for root in ["src/lib.rs", "src/main.rs"].map(|file| member.folder.join(file)) {
            if !root.is_file() {
                continue;
            }
            for module in ModuleTree::read(&root)?.modules {
                let name = module.path.last().unwrap_or(&package);
                self.plain.insert(name.clone());
                module.items.iter().for_each(|item| self.add_item(item, name, &package));
            }
        }
        let Ok(scripts) = fs::read_dir(member.folder.join(SCRIPTS)) else { return Ok(()) };
        for script in scripts.flatten().filter(|file| file.path().extension().is_some_and(|it| it == "lua")) {
            let text = fs::read_to_string(script.path())
                .map_err(|error| format!("{} cannot be read: {error}", script.path().display()))?;
            self.add_script(&script.file_name().to_string_lossy(), &text);
        }
        Ok(())
    }

    fn add_item(&mut self, item: &Item, module: &str, package: &str) {
        match item {
            Item::Fn(function) => {
                self.add(module, &function.sig.ident.to_string());
                self.add(package, &function.sig.ident.to_string());
            }
            Item::Struct(_) | Item::Enum(_) | Item::Type(_) => {
                self.plain.extend(name_of(item).map(ToString::to_string));
            }
            Item::Trait(one) => {
                let name = one.ident.to_string();
                for item in &one.items {
                    if let TraitItem::Fn(function) = item {
                        self.add(&name, &function.sig.ident.to_string());
                    }
                }
                self.plain.insert(name);
            }
            Item::Impl(one) => {
                let of_type = match &*one.self_ty {
                    Type::Path(path) => path.path.segments.last(),
                    _ => None,
                };
                let of_trait = one.trait_.as_ref().and_then(|(path, _)| path.segments.last());
                for item in &one.items {
                    if let ImplItem::Fn(function) = item {
                        for owner in of_type.into_iter().chain(of_trait) {
                            self.add(&owner.ident.to_string(), &function.sig.ident.to_string());
                        }
                    }
                }
            }
            _ => {}
        }
    }

    /// Adds a script with its functions.
    fn add_script(&mut self, name: &str, text: &str) {
        self.plain.insert(name.to_owned());
        for line in text.lines() {
            if let Some((_, rest)) = line.split_once("function ")
                && let Some((function, _)) = rest.split_once('(')
            {
                self.add(name, function.rsplit('.').next().unwrap_or(function));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "struct RequestScope; trait Store { fn run(&self); }
        impl Store for RequestScope { fn run(&self) {} } impl RequestScope { fn begin(&self) {} } fn step() {}";

    fn names() -> DefinedNames {
        let mut names = DefinedNames::default();
        for item in syn::parse_file(SOURCE).unwrap().items {
            names.add_item(&item, "limits", "tidegate_engine");
        }
        names.add_script("main.lua", "local function counter(op)\n  function m.admits(n)\n");
        names
    }

    /// A page whose three requests have this chain and these stops.
    fn page(chain: &str, stops: usize) -> String {
        let section = |letter| format!("## {letter}. A request: {stops} stops\n\n```text\n{chain}\n```\n");
        ["A", "B", "C"].map(section).concat()
    }

    #[test]
    fn names_outside_of_parentheses_are_stops() {
        let page =
            page("RequestScope::begin (run,\n  Store::run) ⇒ main.lua → counter (admits)\n→ limits::step", 4);
        let chains = chains(&page);
        assert_eq!((chains.len(), chains[0].stops, chains[0].names.len()), (3, 4, 7));
        assert_eq!(chains[0].names[3], "main.lua");
        assert_eq!(broken_in(&page, &names()), [""; 0]);
    }

    #[test]
    fn a_name_that_is_gone_is_a_problem_and_so_is_a_function_of_another_type() {
        for gone in ["lost", "Lost::run", "RequestScope::step", "Store::begin"] {
            let problems = broken_in(&page(&format!("begin → {gone}"), 2), &names());
            assert_eq!(problems.len(), 3, "{problems:?}");
            assert!(
                problems[0].ends_with(&format!("names `{gone}`, which no crate defines")),
                "{problems:?}"
            );
        }
        for known in [
            "step",
            "limits::step",
            "tidegate_engine::step",
            "main.lua::counter",
            "RequestScope",
            "Store::run",
        ] {
            assert_eq!(broken_in(&page(known, 1), &names()), [""; 0], "{known}");
        }
    }

    #[test]
    fn a_chain_is_no_longer_than_it_may_be_and_its_heading_counts_it() {
        let max = STOPS_MAX.map(|(_, max)| max).into_iter().max().unwrap();
        let longer = page(&vec!["run"; max + 1].join(" → "), max + 1);
        let problems = broken_in(&longer, &names());
        assert!(problems.len() == 3 && problems[2].ends_with(&format!("more than {max}")), "{problems:?}");
        let problems = broken_in(&page("run → step", 3), &names());
        assert!(problems.iter().all(|one| one.ends_with("say that its chain has 2 stops")), "{problems:?}");
        assert_eq!(broken_in("## A. Nothing: 0 stops\n", &names()).len(), 3);
    }
}
