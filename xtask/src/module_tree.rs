//! The modules of one crate, read from its root file by following `mod` items.
//!
//! Code for tests is left out: items under `#[cfg(test)]` or `#[cfg(tidegate_loom)]`, and files
//! called `tests.rs` or `loom.rs`.

use std::fs;
use std::path::{Path, PathBuf};

use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprLit, Ident, Item, ItemMod, Lit, Meta, Token};

/// The modules below one `lib.rs` or `main.rs`, the root first.
#[derive(Default)]
pub(crate) struct ModuleTree {
    /// Every file that was read.
    pub(crate) files: Vec<PathBuf>,
    /// Every module, inline ones included.
    pub(crate) modules: Vec<Module>,
}

/// A module: a whole file, or an inline module of one.
pub(crate) struct Module {
    /// Names from the root of the crate down to this module; empty for the root.
    pub(crate) path: Vec<String>,
    /// The position of its file in [`ModuleTree::files`].
    pub(crate) file: usize,
    /// Its items, without modules and without code for tests.
    pub(crate) items: Vec<Item>,
}

impl ModuleTree {
    /// Reads the crate whose root is the file `root`.
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let mut tree = Self::default();
        let folder = root.parent().ok_or_else(|| format!("{} lies in no folder", root.display()))?;
        tree.read_file(root, folder, &[])?;
        Ok(tree)
    }

    /// Reads `file` as the module `path`. Files of its child modules are in `folder`.
    fn read_file(&mut self, file: &Path, folder: &Path, path: &[String]) -> Result<(), String> {
        let text = fs::read_to_string(file)
            .map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
        let parsed = syn::parse_file(&text)
            .map_err(|error| format!("{} cannot be parsed: {error}", file.display()))?;
        self.files.push(file.to_owned());
        let position = self.files.len() - 1;
        self.add(parsed.items, position, folder, path)
    }

    fn add(&mut self, items: Vec<Item>, file: usize, folder: &Path, path: &[String]) -> Result<(), String> {
        let (children, items): (Vec<Item>, Vec<Item>) = items
            .into_iter()
            .filter(|item| !is_for_tests(attributes_of(item)))
            .partition(|item| matches!(item, Item::Mod(_)));
        self.modules.push(Module { path: path.to_owned(), file, items });
        for child in children {
            let Item::Mod(child) = child else { continue };
            let name = child.ident.to_string();
            if matches!(name.as_str(), "tests" | "loom") {
                continue;
            }
            let inner_folder = folder.join(&name);
            let child_path = [path, &[name]].concat();
            if let Some((_, items)) = child.content {
                self.add(items, file, &inner_folder, &child_path)?;
            } else {
                let source = self.file_of(&child, file, folder)?;
                self.read_file(&source, &inner_folder, &child_path)?;
            }
        }
        Ok(())
    }

    /// The file of a module that is declared in `file` without a body.
    fn file_of(&self, module: &ItemMod, file: usize, folder: &Path) -> Result<PathBuf, String> {
        let declared_in = &self.files[file];
        if let Some(path) = module.attrs.iter().find_map(path_attribute) {
            return Ok(declared_in.with_file_name(path));
        }
        let name = module.ident.to_string();
        [folder.join(format!("{name}.rs")), folder.join(&name).join("mod.rs")]
            .into_iter()
            .find(|candidate| candidate.is_file())
            .ok_or_else(|| format!("{}: module {name} has no file", declared_in.display()))
    }
}

/// The file that `#[path = "..."]` names.
fn path_attribute(attribute: &Attribute) -> Option<String> {
    match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(path), .. }) => Some(path.value()),
            _ => None,
        },
        _ => None,
    }
}

/// Whether the attributes leave the item out of every build but those of tests and loom models.
pub(crate) fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("cfg"))
        .any(|attribute| attribute.parse_args::<Meta>().is_ok_and(|condition| needs_test(&condition)))
}

/// Whether the condition of a `cfg` is false wherever neither tests nor loom models are built.
pub(crate) fn needs_test(condition: &Meta) -> bool {
    let parts = |list: &syn::MetaList| {
        list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).unwrap_or_default()
    };
    match condition {
        Meta::Path(path) => path.is_ident("test") || path.is_ident("tidegate_loom"),
        Meta::List(list) if list.path.is_ident("all") => parts(list).iter().any(needs_test),
        Meta::List(list) if list.path.is_ident("any") => {
            let parts = parts(list);
            !parts.is_empty() && parts.iter().all(needs_test)
        }
        _ => false,
    }
}

/// The attributes of an item of any kind.
pub(crate) fn attributes_of(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The name that an item defines.
pub(crate) fn name_of(item: &Item) -> Option<&Ident> {
    Some(match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    })
}
