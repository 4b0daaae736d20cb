//! Type names: each is given to one type of a crate only, private types included.

use std::collections::BTreeMap;
use std::path::Path;

use syn::visit::{self, Visit};
use syn::{Item, ItemMacro};

use crate::module_tree::{ModuleTree, attributes_of, is_for_tests, name_of};

/// Type names of the crate that more than one type has, each with the places of those types.
///
/// A crate may have a library and a binary: `trees` holds the modules of both.
pub(super) fn duplicates(trees: &[ModuleTree], root: &Path) -> Vec<String> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for tree in trees {
        for module in &tree.modules {
            let mut types = DefinedTypes::default();
            module.items.iter().for_each(|item| types.visit_item(item));
            let file = &tree.files[module.file];
            let file = file.strip_prefix(root).unwrap_or(file).display();
            for (name, line) in types.found {
                places.entry(name).or_default().push(format!("{file}:{line}"));
            }
        }
    }
    places
        .into_iter()
        .filter(|(_, places)| places.len() > 1)
        .map(|(name, places)| format!("{name}: {}", places.join(", ")))
        .collect()
}

/// Names of types with their lines, in the order of the source.
#[derive(Default)]
struct DefinedTypes {
    found: Vec<(String, usize)>,
}

impl<'ast> Visit<'ast> for DefinedTypes {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_for_tests(attributes_of(item)) {
            return;
        }
        let is_type = matches!(
            item,
            Item::Struct(_)
                | Item::Enum(_)
                | Item::Union(_)
                | Item::Type(_)
                | Item::Trait(_)
                | Item::TraitAlias(_)
        );
        if let Some(name) = name_of(item).filter(|_| is_type) {
            self.found.push((name.to_string(), name.span().start().line));
        }
        visit::visit_item(self, item);
    }

    fn visit_item_macro(&mut self, item: &'ast ItemMacro) {
        // `pin_project! { struct .. }` and its like take items; other macros do not parse as items.
        if let Ok(file) = item.mac.parse_body::<syn::File>() {
            for item in &file.items {
                self.visit_item(item);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::module_tree::Module;

    /// Duplicates in a crate of files `a.rs`, `b.rs` and so on with these sources.
    fn duplicates_in(sources: &[&str]) -> Vec<String> {
        let mut tree = ModuleTree::default();
        for (file, source) in sources.iter().enumerate() {
            tree.files.push(PathBuf::from(["/c/a.rs", "/c/b.rs", "/c/c.rs"][file]));
            let items = syn::parse_file(source).unwrap().items;
            tree.modules.push(Module { path: vec![file.to_string()], file, items });
        }
        duplicates(&[tree], Path::new("/c"))
    }

    #[test]
    fn a_name_of_two_types_of_any_kind_is_named_with_both_places() {
        for second in ["enum Name {}", "union Name { a: u8 }", "trait Name {}", "type Name = u8;"] {
            let source = format!("\n{second}");
            assert_eq!(duplicates_in(&["struct Name;", &source]), ["Name: a.rs:1, b.rs:2"], "{second}");
        }
    }

    #[test]
    fn types_in_functions_and_in_macro_calls_are_types_of_the_crate() {
        let in_function = "fn f() { struct Name; }";
        let in_macro = "pin_project! { struct Name { #[pin] inner: u8 } }";
        assert_eq!(duplicates_in(&[in_function, in_macro]), ["Name: a.rs:1, b.rs:1"]);
    }

    #[test]
    fn associated_types_types_of_tests_and_functions_may_share_a_name() {
        let others = "trait T { type Name; } impl T for u8 { type Name = u8; }
            #[cfg(test)] struct Name;
            #[cfg(all(test, feature = \"x\"))] struct Name;
            fn Name() {}";
        assert_eq!(duplicates_in(&["struct Name;", others]), [""; 0]);
    }
}
