//! A page of the reference as Markdown.

use core::fmt::{self, Write as _};

use serde_json::Value;

use super::fields::fields_of;
use super::{INDEX, Links, ReferencePage, Section, reference_pages};
use crate::raw::{Config, NamespaceConfig};
use crate::schema::{compiled, reloads};
use crate::shape::{definition, words_of};

/// Columns of a line of prose at most.
const COLUMNS: usize = 100;

/// A complete policy with a comment for each line, as the reference opens with it.
const ANNOTATED: &str = include_str!("annotated.yaml");

impl ReferencePage {
    pub(super) fn markdown(&self, links: Links) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut text, links);
        format!("{}\n", text.trim_end())
    }

    fn write(&self, out: &mut String, links: Links) -> fmt::Result {
        let is_index = self.name() == INDEX;
        let title =
            if is_index { "Configuration".to_owned() } else { format!("`{}`", self.top_level.join("`, `")) };
        writeln!(out, "# {title}\n")?;
        if links == Links::BetweenPages {
            out.push_str(
                "<!-- Generated from the types in crates/tidegate-policy by `TIDEGATE_BLESS=1 cargo test -p tidegate-policy`. -->\n\n",
            );
        }
        let introduction = self.sections.first().map(Section::text).unwrap_or_default();
        writeln!(out, "{}\n", wrapped(&introduction))?;
        if is_index {
            writeln!(out, "## An annotated policy\n\n```yaml\n{ANNOTATED}```\n")?;
        } else if links == Links::BetweenPages {
            self.write_excerpts(out)?;
        }
        for (index, section) in self.sections.iter().enumerate() {
            if is_index {
                writeln!(out, "## {}\n", section.heading)?;
            } else {
                writeln!(out, "## `{}`\n", section.heading)?;
            }
            if index > 0 {
                writeln!(out, "{}\n", wrapped(&section.text()))?;
            }
            section.write_table(out, links)?;
        }
        if is_index {
            let example = crate::Policy::example();
            writeln!(
                out,
                "## The built-in example\n\n`tidegate serve` without a policy runs this one:\n\n```yaml\n{example}```\n"
            )?;
        }
        Ok(())
    }

    fn write_excerpts(&self, out: &mut String) -> fmt::Result {
        out.push_str("From the [annotated policy](README.md#an-annotated-policy):\n\n");
        out.push_str("<!-- of the annotated policy, which is checked as one file -->\n```yaml\n");
        let of_namespace = fields_of::<NamespaceConfig>().fields;
        // The keys of a namespace have excerpts of their own.
        for key in self.top_level.iter().filter(|key| **key != "namespaces") {
            let within: &[&str] = if of_namespace.contains(key) { &["namespaces", "shop"] } else { &[] };
            out.push_str(&excerpt(&[within, &[key]].concat()));
        }
        writeln!(out, "```\n")
    }
}

impl Section {
    fn is_file(&self) -> bool {
        self.definition == fields_of::<Config>().name
    }

    pub(super) fn schema(&self) -> &'static Value {
        if self.is_file() { compiled() } else { &compiled()["$defs"][self.definition] }
    }

    fn text(&self) -> String {
        text_of(self.schema())
    }

    /// The path of one of its keys.
    fn path_of(&self, key: &str) -> String {
        match self.heading.split(',').next() {
            Some(path) if !self.is_file() => format!("{}.{key}", path.replace("[]", "")),
            _ => key.to_owned(),
        }
    }

    /// The table of the keys. Where a change of some takes a reload and of others a restart, a
    /// column says it for each, otherwise a sentence for all.
    fn write_table(&self, page: &mut String, links: Links) -> fmt::Result {
        let schema = self.schema();
        let changes: Vec<&str> = self.keys.iter().map(|key| change_of(&self.path_of(key))).collect();
        let is_mixed = changes.iter().any(|change| *change != changes[0]);
        if is_mixed {
            writeln!(page, "| key | value | default | a change takes a | |\n|---|---|---|---|---|")?;
        } else {
            let change = changes.first().unwrap_or(&"restart");
            writeln!(page, "A change of these keys takes a {change}.\n")?;
            writeln!(page, "| key | value | default | |\n|---|---|---|---|")?;
        }
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let has_links = self.is_file() && links == Links::BetweenPages;
        let named = |key: &str, shown: String| if has_links { linked(key, &shown) } else { shown };
        for (key, change) in self.keys.iter().zip(changes) {
            let is_required = required.contains(key);
            let shown = named(key, format!("`{key}`"));
            let change = is_mixed.then_some(change);
            write_row(page, &shown, &schema["properties"][key], is_required, change)?;
            // The sections of a namespace that have pages of their own.
            let inner = if self.is_file() && *key == "namespaces" {
                ["limits", "plans", "costs", "tables"].as_slice()
            } else {
                &[]
            };
            for key in inner {
                let namespace = &schema["$defs"][fields_of::<NamespaceConfig>().name];
                let shown = named(key, format!("`namespaces.NAME.{key}`"));
                write_row(page, &shown, &namespace["properties"][key], false, change)?;
            }
        }
        page.push('\n');
        Ok(())
    }
}

/// The act by which a running daemon takes over a change of the setting at `path`.
fn change_of(path: &str) -> &'static str {
    if reloads(path) { "reload" } else { "restart" }
}

/// A link to the page that describes a section.
fn linked(section: &str, shown: &str) -> String {
    let page = reference_pages().into_iter().find(|page| page.top_level.contains(&section));
    match page {
        Some(page) => format!("[{shown}]({}.md)", page.name()),
        None => shown.to_owned(),
    }
}

fn write_row(
    page: &mut String,
    key: &str,
    property: &Value,
    is_required: bool,
    change: Option<&str>,
) -> fmt::Result {
    let own = text_of(property);
    let text = if own.is_empty() { resolved(property).map(text_of).unwrap_or_default() } else { own };
    let (text, default) = split_default(&text);
    let default = match default {
        Some(default) => default,
        None if is_required => "required".to_owned(),
        None => String::new(),
    };
    let change = change.map_or_else(String::new, |change| format!("{change} | "));
    writeln!(
        page,
        "| {key} | {} | {} | {change}{}{} |",
        cell(&kind_of(property)),
        cell(&default),
        cell(&text),
        cell(&words_text(property))
    )
}

/// The lines of the annotated policy under these keys, below the lines of the keys that lead there.
fn excerpt(keys: &[&str]) -> String {
    let mut shown = String::new();
    let mut lines = ANNOTATED.lines().peekable();
    for (depth, key) in keys.iter().enumerate() {
        let start = format!("{}{key}:", "  ".repeat(depth));
        shown.extend(
            lines.by_ref().find(|line| line.starts_with(&start)).into_iter().flat_map(|line| [line, "\n"]),
        );
    }
    let inner = "  ".repeat(keys.len());
    while let Some(line) = lines.next_if(|line| line.is_empty() || line.starts_with(&inner)) {
        shown.extend([line, "\n"]);
    }
    format!("{}\n", shown.trim_end())
}

fn text_of(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or_default().replace("\n\n", " ")
}

/// Takes the sentence "Default: `x`." out of a description; the rest of that sentence belongs to
/// the default.
fn split_default(text: &str) -> (String, Option<String>) {
    let Some(start) = text.find("Default: ") else { return (text.to_owned(), None) };
    let after = &text[start + "Default: ".len()..];
    // A sentence ends with a full stop that does not stand between backticks.
    let mut code = false;
    let end = after.char_indices().find_map(|(at, c)| {
        code ^= c == '`';
        let ends = c == '.' && !code && after[at + 1..].chars().next().is_none_or(|next| next == ' ');
        ends.then_some(at)
    });
    let end = end.unwrap_or(after.len());
    let rest = format!("{} {}", text[..start].trim_end(), after[end..].trim_start_matches('.').trim_start());
    (rest.trim().to_owned(), Some(after[..end].to_owned()))
}

fn resolved(schema: &Value) -> Option<&'static Value> {
    definition(compiled(), schema["$ref"].as_str()?)
}

/// The accepted values, in a few words.
fn kind_of(schema: &Value) -> String {
    if let Some(definition) = resolved(schema) {
        return kind_of(definition);
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let mut kinds: Vec<String> = choices.iter().map(kind_of).collect();
        kinds.dedup();
        return kinds.join(" or ");
    }
    if words_of(schema).next().is_some() {
        return words_of(schema).map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    }
    match schema["type"].as_str() {
        Some("string") => "text".to_owned(),
        Some("integer") => "whole number".to_owned(),
        Some("number") => "number".to_owned(),
        Some("boolean") => "`true`, `false`".to_owned(),
        Some("array") => {
            let of = kind_of(&schema["items"]);
            if of == "mapping" || of.contains(" or ") {
                format!("list of ({of})")
            } else {
                format!("list of {of}")
            }
        }
        Some("object") => "mapping".to_owned(),
        _ => String::new(),
    }
}

/// The meaning of each word, where the words have descriptions.
fn words_text(schema: &Value) -> String {
    let schema = resolved(schema).unwrap_or(schema);
    let schema =
        if schema["type"] == "array" { resolved(&schema["items"]).unwrap_or(schema) } else { schema };
    let described = schema["oneOf"].as_array().into_iter().flatten();
    described.filter_map(|one| Some((one["const"].as_str()?, one["description"].as_str()?))).fold(
        String::new(),
        |mut all, (word, text)| {
            let _ = write!(all, "<br>`{word}`: {text}");
            all
        },
    )
}

/// Prose in lines of at most [`COLUMNS`] columns; code and links stay in one line.
fn wrapped(prose: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let (mut word, mut in_code, mut in_link) = (String::new(), false, false);
    for letter in prose.chars().chain([' ']) {
        let is_break = letter.is_whitespace() && !in_code && !in_link;
        if !is_break {
            match letter {
                '`' => in_code = !in_code,
                '[' if !in_code => in_link = true,
                ')' if !in_code => in_link = false,
                _ => {}
            }
            word.push(if letter.is_whitespace() { ' ' } else { letter });
        } else if !word.is_empty() {
            let word = std::mem::take(&mut word);
            match lines.last_mut() {
                Some(line) if line.chars().count() + 1 + word.chars().count() <= COLUMNS => {
                    line.extend([" ", &word]);
                }
                _ => lines.push(word),
            }
        }
    }
    // A bracket that is not closed.
    lines.extend((!word.is_empty()).then(|| word.trim_end().to_owned()));
    lines.join("\n")
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_broken_at_blanks_outside_of_code_and_links() {
        // 95 columns.
        let words = "word ".repeat(19);
        assert_eq!(wrapped(&format!("{words}fives more")), format!("{words}fives\nmore"));
        assert_eq!(wrapped(&format!("{words}sixths")), format!("{}\nsixths", words.trim_end()));
        for whole in ["`a b c d`", "[a b](c.md)", "[`a b` c](d.md),"] {
            assert_eq!(wrapped(&format!("{words}{whole} e")), format!("{}\n{whole} e", words.trim_end()));
        }
        assert_eq!(wrapped("a\nb [c"), "a b\n[c");
    }
}
