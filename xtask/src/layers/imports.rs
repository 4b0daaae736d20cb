//! Which file of a crate uses names of which other file.
//!
//! A path in the source is resolved as the compiler resolves it, as far as names alone allow:
//! through `use` items, re-exports and globs to the file that defines the item. A `mod` item and a
//! re-export are no use of a name; methods, which have no path, are not seen.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{ImplItem, Item, ItemMacro, ItemUse, Macro, Path, UseTree, Visibility};

use crate::module_tree::{ModuleTree, attributes_of, is_for_tests, name_of};

/// For each file, by position: the files it uses, each with the names that it takes from there.
pub(super) type Uses = Vec<BTreeMap<usize, BTreeSet<String>>>;

/// Longest chain of imports and re-exports that is followed: chains can lead to themselves.
const CHAIN_MAX: usize = 16;

/// The uses between the files of a crate.
pub(super) fn uses_between_files(tree: &ModuleTree) -> Uses {
    let names = Names::of(tree);
    let mut uses: Uses = vec![BTreeMap::new(); tree.files.len()];
    for (position, module) in tree.modules.iter().enumerate() {
        let mut paths = UsedPaths::default();
        module.items.iter().for_each(|item| paths.visit_item(item));
        for path in paths.found {
            if let Some(Target::Item { file, name }) = names.resolve(position, &path, CHAIN_MAX)
                && file != module.file
            {
                uses[module.file].entry(file).or_default().insert(name);
            }
        }
    }
    uses
}

/// The end of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    /// A module, by position.
    Module(usize),
    /// An item and the file that defines it.
    Item { file: usize, name: String },
}

/// The names that can be used in one module.
#[derive(Debug, Default)]
struct Scope {
    modules: HashMap<String, usize>,
    items: BTreeSet<String>,
    imports: HashMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
}

/// The scopes of all modules of a crate.
struct Names<'tree> {
    tree: &'tree ModuleTree,
    scopes: Vec<Scope>,
    by_path: HashMap<&'tree [String], usize>,
    /// Macros that are exported to the root of the crate, with their files.
    exported_macros: HashMap<String, usize>,
}

impl<'tree> Names<'tree> {
    fn of(tree: &'tree ModuleTree) -> Self {
        let by_path: HashMap<&[String], usize> = tree
            .modules
            .iter()
            .enumerate()
            .map(|(position, module)| (module.path.as_slice(), position))
            .collect();
        let mut scopes: Vec<Scope> = Vec::with_capacity(tree.modules.len());
        let mut exported_macros = HashMap::new();
        for module in &tree.modules {
            let mut scope = ScopeReader::default();
            module.items.iter().for_each(|item| scope.visit_item(item));
            scope.scope.items.extend(module.items.iter().filter_map(name_of).map(ToString::to_string));
            exported_macros.extend(scope.exported_macros.into_iter().map(|name| (name, module.file)));
            scopes.push(scope.scope);
        }
        for (position, module) in tree.modules.iter().enumerate() {
            if let Some((name, parent)) = module.path.split_last()
                && let Some(parent) = by_path.get(parent)
            {
                scopes[*parent].modules.insert(name.clone(), position);
            }
        }
        Self { tree, scopes, by_path, exported_macros }
    }

    /// The end of `path` as written in the module at `from`; `None` when it leaves the crate or
    /// names something local.
    fn resolve(&self, from: usize, path: &[String], chain: usize) -> Option<Target> {
        let chain = chain.checked_sub(1)?;
        let (first, mut rest) = path.split_first()?;
        let mut target = match first.as_str() {
            "crate" | "$crate" => Target::Module(0),
            "self" => Target::Module(from),
            "super" => self.parent_of(from)?,
            name => self.look_up(from, name, rest.is_empty(), chain)?,
        };
        while let Some((name, after)) = rest.split_first() {
            let Target::Module(module) = target else { break };
            target = match name.as_str() {
                "super" => self.parent_of(module)?,
                "self" => Target::Module(module),
                name => self.look_up(module, name, after.is_empty(), chain)?,
            };
            rest = after;
        }
        Some(target)
    }

    fn parent_of(&self, module: usize) -> Option<Target> {
        let (_, parent) = self.tree.modules[module].path.split_last()?;
        self.by_path.get(parent).copied().map(Target::Module)
    }

    /// `name` in the scope of `module`. A module and a function may share a name: `is_last` says
    /// whether an item or the way to one is wanted.
    fn look_up(&self, module: usize, name: &str, is_last: bool, chain: usize) -> Option<Target> {
        let scope = &self.scopes[module];
        let child = || scope.modules.get(name).copied().map(Target::Module);
        let item = || {
            let file = if scope.items.contains(name) {
                self.tree.modules[module].file
            } else {
                *self.exported_macros.get(name).filter(|_| module == 0)?
            };
            Some(Target::Item { file, name: name.to_owned() })
        };
        let own = if is_last { item().or_else(child) } else { child().or_else(item) };
        let imported = || self.resolve(module, scope.imports.get(name)?, chain);
        let through_globs = || {
            scope.globs.iter().find_map(|glob| {
                let Target::Module(source) = self.resolve(module, glob, chain)? else { return None };
                if source == module {
                    return None;
                }
                self.look_up(source, name, is_last, chain.checked_sub(1)?)
            })
        };
        own.or_else(imported).or_else(through_globs)
    }
}

/// Collects the imports of a module, those inside its functions included.
#[derive(Default)]
struct ScopeReader {
    scope: Scope,
    exported_macros: Vec<String>,
}

impl<'ast> Visit<'ast> for ScopeReader {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_for_tests(attributes_of(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if item.leading_colon.is_none() {
            for_each_import(&item.tree, &mut Vec::new(), &mut |path, name| match name {
                Some(name) => {
                    self.scope.imports.insert(name, path.to_vec());
                }
                None => self.scope.globs.push(path.to_vec()),
            });
        }
    }

    fn visit_item_macro(&mut self, item: &'ast ItemMacro) {
        let is_exported = item.attrs.iter().any(|attribute| attribute.path().is_ident("macro_export"));
        if let Some(name) = item.ident.as_ref().filter(|_| is_exported) {
            self.exported_macros.push(name.to_string());
        }
        // Items that a macro takes, such as those of `pin_project!`, are defined here.
        if let Ok(file) = item.mac.parse_body::<syn::File>() {
            self.scope.items.extend(file.items.iter().filter_map(name_of).map(ToString::to_string));
        }
    }
}

/// Calls `each` with every path of a `use` item and the name it gets here; a glob has none.
fn for_each_import(tree: &UseTree, path: &mut Vec<String>, each: &mut impl FnMut(&[String], Option<String>)) {
    match tree {
        UseTree::Path(part) => {
            path.push(part.ident.to_string());
            for_each_import(&part.tree, path, each);
            path.pop();
        }
        UseTree::Name(leaf) if leaf.ident == "self" => {
            let name = path.last().cloned();
            each(path, name);
        }
        UseTree::Name(leaf) => {
            path.push(leaf.ident.to_string());
            each(path, path.last().cloned());
            path.pop();
        }
        UseTree::Rename(leaf) => {
            let is_self = leaf.ident == "self";
            if !is_self {
                path.push(leaf.ident.to_string());
            }
            each(path, Some(leaf.rename.to_string()));
            if !is_self {
                path.pop();
            }
        }
        UseTree::Glob(_) => each(path, None),
        UseTree::Group(group) => {
            for tree in &group.items {
                for_each_import(tree, path, each);
            }
        }
    }
}

/// Collects every path that code uses: private imports, paths of types, expressions, patterns and
/// attributes, and paths among the tokens of macro calls.
#[derive(Default)]
struct UsedPaths {
    found: BTreeSet<Vec<String>>,
}

impl<'ast> Visit<'ast> for UsedPaths {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_for_tests(attributes_of(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let attributes = match item {
            ImplItem::Const(item) => item.attrs.as_slice(),
            ImplItem::Fn(item) => &item.attrs,
            ImplItem::Macro(item) => &item.attrs,
            ImplItem::Type(item) => &item.attrs,
            _ => &[],
        };
        if !is_for_tests(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if matches!(item.vis, Visibility::Inherited) && item.leading_colon.is_none() {
            for_each_import(&item.tree, &mut Vec::new(), &mut |path, name| {
                // A name from a glob counts where the code uses it.
                if name.is_some() {
                    self.found.insert(path.to_vec());
                }
            });
        }
    }

    fn visit_path(&mut self, path: &'ast Path) {
        if path.leading_colon.is_none() {
            self.found.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        visit::visit_macro(self, call);
        self.add_paths_in(call.tokens.clone());
    }
}

impl UsedPaths {
    /// Adds every run of the form `name::name::name`, single names included.
    fn add_paths_in(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(mark) if mark.as_char() == ':' && !path.is_empty() => {
                    colons += 1;
                    continue;
                }
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.finish(&mut path);
                    }
                    path.push(name.to_string());
                }
                TokenTree::Group(group) => {
                    self.finish(&mut path);
                    self.add_paths_in(group.stream());
                }
                _ => self.finish(&mut path),
            }
            colons = 0;
        }
        self.finish(&mut path);
    }

    fn finish(&mut self, path: &mut Vec<String>) {
        if !path.is_empty() {
            self.found.insert(std::mem::take(path));
        }
    }
}

#[cfg(test)]
mod tests;
