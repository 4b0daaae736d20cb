//! The pages of a checkout, each with its readers.

use std::fs;
use std::path::Path;

use crate::checkout;
use crate::markdown;

/// A page by its path from the root of a checkout.
pub(super) struct Page {
    pub(super) path: String,
    pub(super) text: String,
}

impl Page {
    pub(super) fn words(&self) -> usize {
        self.text.split_whitespace().count()
    }

    /// Whether it is one of the pages for users, which the README leads to.
    pub(super) fn is_for_users(&self) -> bool {
        self.path
            .strip_prefix("docs/")
            .is_some_and(|page| page.starts_with("gateways/") || !page.contains('/'))
    }

    pub(super) fn is_about_inside(&self) -> bool {
        self.path.starts_with("docs/internals/")
    }

    pub(super) fn wide_lines(&self) -> usize {
        markdown::lines(&self.text).iter().filter(|line| line.is_too_wide()).count()
    }
}

/// The pages of a checkout that people write or that are generated, without the changelog.
pub(super) fn pages(root: &Path) -> Result<Vec<Page>, String> {
    let mut pages = Vec::new();
    for file in checkout::files_below(root)? {
        let path = file.strip_prefix(root).unwrap_or(&file).to_string_lossy().into_owned();
        let is_page = file.extension().is_some_and(|extension| extension == "md");
        if is_page && path != "CHANGELOG.md" && !path.contains("/fixtures/") {
            let text = fs::read_to_string(&file).map_err(|error| format!("{path}: {error}"))?;
            pages.push(Page { path, text });
        }
    }
    Ok(pages)
}
