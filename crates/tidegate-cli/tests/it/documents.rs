//! The documents as their readers use them: policies are valid, links lead somewhere.

mod curves;
mod examples;
mod recipes;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use tidegate_test_support::TemporaryFolder;

use crate::command::tidegate;

/// A block of code in a document.
#[derive(Debug)]
pub(crate) struct Block<'d> {
    /// The line of its fence, from 1.
    line: usize,
    pub(crate) language: &'d str,
    /// The line before the fence, where a comment may say something about the block.
    before: &'d str,
    pub(crate) text: String,
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// All documents by their path from the root, with their texts.
fn documents() -> BTreeMap<PathBuf, String> {
    let root = root();
    let mut documents = BTreeMap::new();
    let mut folders = ["docs", "deploy", "examples", "crates", "fuzz"].map(|name| root.join(name)).to_vec();
    let mut add = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        documents.insert(path.strip_prefix(&root).unwrap().to_owned(), text);
    };
    for entry in std::fs::read_dir(&root).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "md") {
            add(path);
        }
    }
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is_hidden = path.file_name().unwrap().to_str().unwrap().starts_with(['.', '_']);
            if path.is_dir() && !is_hidden && !path.ends_with("target") && !path.ends_with("node_modules") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                add(path);
            }
        }
    }
    documents
}

pub(crate) fn blocks(document: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    let (mut is_open, mut before) = (false, "");
    for (index, line) in document.lines().enumerate() {
        match line.trim_start().strip_prefix("```") {
            Some(_) if is_open => is_open = false,
            Some(language) => {
                is_open = true;
                blocks.push(Block { line: index + 1, language, before, text: String::new() });
            }
            None if is_open => {
                let block = blocks.last_mut().unwrap();
                block.text.extend([line, "\n"]);
            }
            None => {}
        }
        before = line;
    }
    assert!(!is_open, "a block of code is not closed: {before}");
    blocks
}

/// A document without its blocks of code and its code in lines, which have no links.
fn prose(document: &str) -> String {
    let mut is_open = false;
    let mut prose = String::new();
    for line in document.lines() {
        if line.trim_start().starts_with("```") {
            is_open = !is_open;
        } else if !is_open {
            let parts = line.split('`').enumerate();
            let outside = parts.filter(|(index, _)| index % 2 == 0).map(|(_, text)| text);
            prose.extend(outside.chain(["\n"]));
        }
    }
    prose
}

/// The anchors of a document as GitHub makes them of headings.
pub(crate) fn anchors(document: &str) -> Vec<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut is_open = false;
    let mut anchors = Vec::new();
    for line in document.lines() {
        if line.trim_start().starts_with("```") {
            is_open = !is_open;
        }
        let title = line.trim_start_matches('#');
        if is_open || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let kept = title.trim().chars().flat_map(char::to_lowercase);
        let kept = kept.filter(|one| one.is_alphanumeric() || matches!(one, ' ' | '-' | '_'));
        let anchor: String = kept.map(|one| if one == ' ' { '-' } else { one }).collect();
        let count = seen.entry(anchor.clone()).or_default();
        anchors.push(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
        *count += 1;
    }
    anchors
}

/// The targets of the links and pictures of a text.
fn targets(prose: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    for (at, _) in prose.match_indices("](") {
        targets.extend(prose[at + 2..].split_once(')').map(|(target, _)| target));
    }
    for attribute in ["src=\"", "srcset=\"", "href=\""] {
        for (at, _) in prose.match_indices(attribute) {
            targets.extend(prose[at + attribute.len()..].split_once('"').map(|(target, _)| target));
        }
    }
    targets
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let documents = documents();
    let root = root();
    let mut broken = Vec::new();
    let mut count = 0;
    for (path, text) in &documents {
        for target in targets(&prose(text)) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            count += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let at = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            let Ok(found) = root.join(&at).canonicalize() else {
                broken.push(format!("{}: {target}: no such file", path.display()));
                continue;
            };
            let Ok(found) = found.strip_prefix(&root) else {
                broken.push(format!("{}: {target}: outside of the repository", path.display()));
                continue;
            };
            let has_anchor = || match documents.get(found) {
                Some(text) => anchors(text).iter().any(|known| known == anchor),
                None => false,
            };
            if !anchor.is_empty() && !has_anchor() {
                broken.push(format!("{}: {target}: no such heading", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{} broken links:\n{}", broken.len(), broken.join("\n"));
    assert!(count > 100, "only {count} links were found");
}

/// The words of a page that a reader can be asked to read at a time.
const WORDS_MAX: usize = 4000;

#[test]
fn no_page_that_is_written_by_hand_is_longer_than_a_reader_reads() {
    // A log of changes and a reference for contributors: readers search them.
    let is_exempt = |path: &Path, text: &str| {
        path == Path::new("CHANGELOG.md")
            || path == Path::new("ARCHITECTURE.md")
            || text.contains("<!-- Generated ")
    };
    let long: Vec<String> = documents()
        .iter()
        .filter(|(path, text)| !is_exempt(path, text))
        .map(|(path, text)| (path, text.split_whitespace().count()))
        .filter(|(_, words)| *words > WORDS_MAX)
        .map(|(path, words)| format!("{}: {words} words", path.display()))
        .collect();
    assert!(long.is_empty(), "split these pages by the questions of their readers:\n{}", long.join("\n"));
}

#[test]
fn the_index_of_the_documents_names_every_page() {
    let documents = documents();
    let index = &documents[Path::new("docs/README.md")];
    let named: Vec<&str> = targets(index).iter().filter_map(|target| target.split('#').next()).collect();
    let mut missing = Vec::new();
    for path in documents.keys() {
        let Ok(page) = path.strip_prefix("docs") else { continue };
        // Pages below these folders have an index of their own; a pointer is no page.
        let has_other_index = page.starts_with("gateways") || page.starts_with("reference");
        let is_index = ["README.md", "gateways/README.md", "reference/README.md"]
            .iter()
            .any(|own| page == Path::new(own));
        let is_named = named.iter().any(|name| page == Path::new(name));
        if !is_named
            && page != Path::new("README.md")
            && page != Path::new("configuration.md")
            && (is_index || !has_other_index)
        {
            missing.push(page.display().to_string());
        }
    }
    assert!(missing.is_empty(), "docs/README.md does not name {missing:?}");
}

/// Added to a block that shows one section of a policy, which has no namespace of its own.
const NAMESPACE: &str = "namespaces: { api: { limits: [{ name: all, rate: 10/s }] } }\n";

/// Blocks of other configurations are marked, in the line before, as `<!-- of NAME -->` or `<!-- of
/// NAME, file: FILE -->`.
#[test]
fn every_policy_in_a_document_is_valid_and_has_no_warning() {
    let folder = TemporaryFolder::new();
    std::fs::create_dir(folder.path().join("config")).unwrap();
    let rules =
        "domain: edge\ndescriptors: [{ key: user, rate_limit: { unit: minute, requests_per_unit: 5 } }]\n";
    std::fs::write(folder.path().join("config/edge.yaml"), rules).unwrap();
    let hash = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let mut count = 0;
    let mut wrong = Vec::new();
    // Fixtures have the policies of the versions that wrote them.
    for (path, text) in
        documents().into_iter().filter(|(path, _)| !path.iter().any(|part| part == "fixtures"))
    {
        for Block { line, text: policy, .. } in
            blocks(&text).iter().filter(|one| one.language == "yaml" && !one.before.starts_with("<!-- of "))
        {
            count += 1;
            let file = folder.path().join(format!("{count}.yaml"));
            let is_section = !policy.lines().any(|line| line.starts_with("namespaces:"));
            std::fs::write(&file, format!("{policy}{}", if is_section { NAMESPACE } else { "" })).unwrap();
            let mut command = tidegate();
            command.args(["validate", "--deny-warnings", file.to_str().unwrap()]);
            let output = command.current_dir(folder.path()).env("OPERATORS_TOKEN", hash).output().unwrap();
            if !output.status.success() {
                let told = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
                wrong.push(format!("{}:{line}:\n{}", path.display(), told.concat()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count} policies:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 10, "only {count} policies were found");
}

#[test]
fn links_and_anchors_are_found_as_readers_see_them() {
    let document = "# A `b` c!\n[x](y.md#z) `[no](link)`\n```sh\n# no heading\n[no](link)\n```\n## A b c\n<img src=\"p.svg\">\n";
    assert_eq!(anchors(document), ["a-b-c", "a-b-c-1"]);
    assert_eq!(targets(&prose(document)), ["y.md#z", "p.svg"]);
}

#[test]
fn every_term_of_the_concepts_page_is_in_the_glossary() {
    let read = |name: &str| std::fs::read_to_string(root().join(name)).unwrap();
    let (concepts, architecture) = (read("docs/concepts.md"), read("ARCHITECTURE.md"));
    let (_, glossary) = architecture.split_once("## Glossary").unwrap();
    let known: Vec<&str> = glossary
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next())
        .flat_map(|cell| cell.split('*').skip(1).step_by(2))
        .collect();
    // The first cell of a row has the term in bold.
    let first_cells = concepts.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let terms: Vec<&str> = first_cells
        .filter_map(|cell| cell.strip_prefix("**")?.split_once("**"))
        .map(|(term, _)| term)
        .collect();
    assert!(terms.len() > 12, "{terms:?}");
    let missing: Vec<_> = terms.iter().filter(|term| !known.contains(term)).collect();
    assert!(missing.is_empty(), "{missing:?} are not in the glossary, which has {known:?}");
}
