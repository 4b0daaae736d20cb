use std::path::PathBuf;

use super::super::circles;
use super::*;
use crate::module_tree::Module;

/// A crate of modules `(path, source)`, each in a file of its own. The root has an empty path.
fn tree(modules: &[(&str, &str)]) -> ModuleTree {
    let mut tree = ModuleTree::default();
    for (file, (path, source)) in modules.iter().enumerate() {
        let items = syn::parse_file(source).unwrap().items;
        tree.files.push(PathBuf::from(if path.is_empty() { "lib" } else { path }));
        let path = path.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
        tree.modules.push(Module { path, file, items });
    }
    tree
}

/// Every use as `from -> to: names`.
fn uses(modules: &[(&str, &str)]) -> Vec<String> {
    let tree = tree(modules);
    let name = |file: usize| tree.files[file].display();
    let mut lines = Vec::new();
    for (file, used) in uses_between_files(&tree).iter().enumerate() {
        for (other, names) in used {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            lines.push(format!("{} -> {}: {}", name(file), name(*other), names.join(" ")));
        }
    }
    lines
}

fn circle_count(modules: &[(&str, &str)]) -> usize {
    circles::circles(&uses_between_files(&tree(modules))).len()
}

#[test]
fn an_import_is_a_use_of_the_file_that_defines_the_name() {
    let modules =
        [("", "mod a; mod b;"), ("a", "use crate::b::{B, c as d};"), ("b", "pub struct B; pub fn c() {}")];
    assert_eq!(uses(&modules), ["a -> b: B c"]);
}

#[test]
fn a_re_export_leads_to_the_defining_file_and_is_no_use_itself() {
    let modules = [
        ("", "mod a; mod user; pub use a::Name;"),
        ("a", "mod inner; pub use inner::Name; pub struct Parent;"),
        ("a::inner", "pub struct Name;"),
        ("user", "use crate::a::Name; use crate::Name as Again;"),
    ];
    assert_eq!(uses(&modules), ["user -> a::inner: Name"]);
}

#[test]
fn a_parent_and_a_child_that_use_each_other_are_a_circle() {
    let parent = "mod child; use child::Child; pub struct Parent(Child);";
    assert_eq!(
        circle_count(&[
            ("", "mod parent;"),
            ("parent", parent),
            ("parent::child", "use super::Parent; pub struct Child;")
        ]),
        1
    );
    assert_eq!(
        circle_count(&[("", "mod parent;"), ("parent", parent), ("parent::child", "pub struct Child;")]),
        0
    );
}

#[test]
fn paths_in_code_and_in_macro_calls_are_uses_without_an_import() {
    let modules = [
        ("", "mod a; mod b; mod c; mod d;"),
        ("a", "fn f() -> super::b::B { crate::c::c() } fn g() { assert!(crate::d::D == 1); }"),
        ("b", "pub struct B;"),
        ("c", "pub fn c() {}"),
        ("d", "pub const D: u8 = 1;"),
    ];
    assert_eq!(uses(&modules), ["a -> b: B", "a -> c: c", "a -> d: D"]);
}

#[test]
fn a_module_that_is_imported_is_used_where_one_of_its_names_is() {
    let defines = ("b", "pub fn f() {} pub enum Kind { One }");
    let used =
        [("", "mod a; mod b;"), ("a", "use crate::b; fn g() { b::f(); let _ = b::Kind::One; }"), defines];
    assert_eq!(uses(&used), ["a -> b: Kind f"]);
    let unused = [("", "mod a; mod b;"), ("a", "use crate::b;"), defines];
    assert_eq!(uses(&unused), [""; 0]);
}

#[test]
fn a_glob_is_a_use_of_the_names_that_are_taken_through_it() {
    let modules = [
        ("", "mod a; mod b;"),
        ("a", "use crate::b::*; fn g(kind: Kind) {}"),
        ("b", "mod c; pub use c::Kind; pub struct Other;"),
        ("b::c", "pub enum Kind {}"),
    ];
    assert_eq!(uses(&modules), ["a -> b::c: Kind"]);
}

#[test]
fn code_for_tests_and_other_crates_are_no_uses() {
    let modules = [
        ("", "mod a; mod b;"),
        (
            "a",
            "#[cfg(test)] use crate::b::B; #[cfg(tidegate_loom)] fn f() { crate::b::g() } use std::b::B as C;
             struct A; impl A { #[cfg(test)] fn h(_: crate::b::B) {} }",
        ),
        ("b", "pub struct B; pub fn g() {}"),
    ];
    assert_eq!(uses(&modules), [""; 0]);
    let for_both = [
        ("", "mod a; mod b;"),
        ("a", "#[cfg(any(test, feature = \"x\"))] use crate::b::B;"),
        ("b", "pub struct B;"),
    ];
    assert_eq!(uses(&for_both), ["a -> b: B"]);
}

#[test]
fn a_chain_of_imports_that_leads_to_itself_ends() {
    let modules = [
        ("", "mod a; mod b;"),
        ("a", "pub use crate::b::X; use X as Y; fn f(_: Y) {}"),
        ("b", "pub use crate::a::X;"),
    ];
    assert_eq!(uses(&modules), [""; 0]);
}

#[test]
fn a_function_and_a_module_may_share_a_name() {
    let modules = [
        ("", "mod a; mod decide;"),
        ("a", "use crate::decide::decide; use crate::decide::Step; fn f(_: Step) { decide() }"),
        ("decide", "pub fn decide() {} mod step; pub use step::Step;"),
        ("decide::step", "pub struct Step;"),
    ];
    assert_eq!(uses(&modules), ["a -> decide: decide", "a -> decide::step: Step"]);
}
