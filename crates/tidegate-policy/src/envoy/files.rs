//! The files together: every domain there is.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use tidegate_core::Algorithm;

use super::answer;
use super::request::{DESCRIPTORS_MAX, Descriptor, RequestError};
use super::resolve::Resolved;
use super::tree::{Domain, Rule};
use super::{Settings, difference, glob, read};
use crate::parse::{failed, text_of};
use crate::path::Path;
use crate::printable::shown;
use crate::problem::{Problem, Problems, Report};
use crate::tree::{self, Content, DOCUMENT_BYTES_MAX, Node};

/// A file as it is read.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    /// The name of the file in messages.
    pub name: &'a str,
    /// The content of the file.
    pub bytes: &'a [u8],
}

/// Files that work, and what is to be said of them.
#[derive(Debug)]
#[non_exhaustive]
pub struct Read {
    /// The files.
    pub files: Files,
    /// Valid settings that are probably mistakes; at most [`PROBLEMS_MAX`](crate::PROBLEMS_MAX) for
    /// each file.
    pub warnings: Vec<Problem>,
    /// Where an answer is not the peer's under the semantics in force; at most
    /// [`PROBLEMS_MAX`](crate::PROBLEMS_MAX) for each file.
    pub differences: Vec<Problem>,
}

/// The files of envoyproxy/ratelimit, checked and ready to be matched with requests.
#[derive(Debug)]
pub struct Files {
    domains: BTreeMap<Box<str>, Domain>,
    settings: Settings,
}

/// A rule of a domain.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FileRule<'a> {
    /// Its name: the domain and the keys and values on the way to it, joined by dots.
    pub name: &'a str,
    /// The keys on the way to it, each with the value that it wants; `None` for any. Both may be
    /// patterns with `*`.
    pub entries: Vec<(&'a str, Option<&'a str>)>,
    /// Whether it only says what it would refuse: because of its own `shadow_mode`, or because all
    /// rules are in shadow mode.
    pub is_shadow: bool,
    /// Its limits; none if it lets everything through.
    pub limits: Vec<&'a Algorithm>,
}

impl<'a> FileRule<'a> {
    /// The first of its entries that these attributes do not have: its key, the value that they
    /// have instead, and the value that it wants. `None` if they have all.
    pub fn unmet<'v>(
        &self,
        attributes: &[(&str, &'v str)],
    ) -> Option<(&'a str, Option<&'v str>, Option<&'a str>)> {
        self.entries.iter().find_map(|&(key, wants)| {
            let mut values =
                attributes.iter().filter(|(name, _)| glob::matches(key, name)).map(|(_, value)| *value);
            let first = values.clone().next();
            let is_met = values.any(|value| wants.is_none_or(|wants| glob::matches(wants, value)));
            (!is_met).then_some((key, first, wants))
        })
    }
}

impl Files {
    /// Reads files, all or none of them.
    ///
    /// The order counts: where several speak of one domain and [`Settings::merge_domains`] allows
    /// it, the patterns of an earlier one are tried first. Without any file there is no domain, and
    /// every request passes. The error has the problems of all files, at most
    /// [`PROBLEMS_MAX`](crate::PROBLEMS_MAX) of each.
    pub fn read(texts: &[Text<'_>], settings: Settings) -> Result<Read, Problems> {
        let mut read = Read {
            files: Self { domains: BTreeMap::new(), settings },
            warnings: Vec::new(),
            differences: Vec::new(),
        };
        let mut found = Problems { problems: Vec::new(), truncated: false };
        for text in texts {
            if let Err(problems) = read.add(text) {
                found.problems.extend(problems.problems);
                found.truncated |= problems.truncated;
            }
        }
        if found.problems.is_empty() { Ok(read) } else { Err(found) }
    }

    /// How they are taken.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The names of the domains, in alphabetical order.
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        self.domains.keys().map(|name| &**name)
    }

    /// Whether a file speaks of this domain.
    pub fn has_domain(&self, name: &str) -> bool {
        self.domains.contains_key(name)
    }

    /// The domains in alphabetical order, each with the names of its rules: the domain and the keys
    /// and values on the way to the rule, joined by dots.
    pub fn rules(&self) -> impl Iterator<Item = (&str, impl Iterator<Item = &str>)> {
        self.domains
            .values()
            .map(|domain| (&*domain.name, domain.rules().map(|rule| rule.metric_key.as_str())))
    }

    /// The rules of a domain in the order of its files; `None` if no file speaks of it.
    pub fn rules_of(&self, domain: &str) -> Option<impl Iterator<Item = FileRule<'_>>> {
        let domain = self.domains.get(domain)?;
        Some(domain.rules().map(|rule| FileRule {
            name: &rule.metric_key,
            entries: rule.entries.iter().map(|(key, value)| (&**key, value.as_deref())).collect(),
            is_shadow: rule.shadow_mode || self.settings.shadow,
            limits: rule.limits.iter().map(|limit| &limit.algorithm).collect(),
        }))
    }

    /// The descriptors of a request that has attributes instead: one for every path of the domain's
    /// tree from its root to a rule, all of whose entries are among the attributes. None if the
    /// domain is not known.
    ///
    /// The error is for the sender: there are more than [`DESCRIPTORS_MAX`].
    pub fn descriptors<'a>(
        &self,
        domain: &str,
        attributes: &[(&'a str, &'a str)],
    ) -> Result<Vec<Descriptor<'a>>, RequestError> {
        let Some(domain) = self.domains.get(domain) else { return Ok(Vec::new()) };
        let paths = domain.paths(attributes, DESCRIPTORS_MAX).ok_or(RequestError::TooManyDescriptors)?;
        Ok(paths.into_iter().map(Descriptor::new).collect())
    }

    /// How many limits there are, unlimited ones included.
    pub fn count(&self) -> usize {
        self.domains.values().flat_map(Domain::rules).map(|rule| rule.limits.len().max(1)).sum()
    }

    /// The quotas, each by the key of its metrics: limits over an hour or longer, which a store
    /// keeps where there is one.
    ///
    /// Limits that requests bring are not among them.
    pub fn quotas(&self) -> impl Iterator<Item = &str> {
        let is_quota = |rule: &&Rule| rule.limits.iter().any(|limit| limit.algorithm.is_quota());
        self.domains.values().flat_map(Domain::rules).filter(is_quota).map(|rule| rule.metric_key.as_str())
    }

    /// Finds the limits of a request. `hits` is the request's own number, 0 if it has none, and
    /// holds for descriptors that bring none; a descriptor without any counts as 1.
    ///
    /// The error is for the sender. A domain that no file defines, or a descriptor that matches
    /// nothing, is not an error: no limit applies.
    pub fn resolve<'a>(
        &'a self,
        domain: &'a str,
        descriptors: &'a [Descriptor<'a>],
        hits: u32,
    ) -> Result<Resolved<'a>, RequestError> {
        if domain.is_empty() {
            return Err(RequestError::NoDomain);
        }
        if descriptors.is_empty() {
            return Err(RequestError::NoDescriptors);
        }
        Ok(Resolved::new(&self.settings, self.domains.get(domain), domain, descriptors, hits))
    }

    /// Every limit in a line of its own, in the form in which the peer prints them.
    pub fn dump(&self) -> String {
        let mut out = String::new();
        for rule in self.domains.values().flat_map(Domain::rules) {
            let of_unlimited = rule.is_unlimited().then_some((0, "UNKNOWN".to_owned()));
            let of_limits =
                rule.limits.iter().map(|limit| (limit.requests_per_unit, answer::unit_name(limit.unit)));
            for (requests, unit) in of_limits.chain(of_unlimited) {
                // Writing to a string does not fail.
                let _ = writeln!(
                    out,
                    "{}: unit={unit} requests_per_unit={requests}, shadow_mode: {}",
                    rule.metric_key, rule.shadow_mode
                );
            }
        }
        out
    }
}

impl Read {
    fn add(&mut self, text: &Text<'_>) -> Result<(), Problems> {
        let root = root_of(text)?;
        let mut report = Report::new(text.name);
        report.locate_in(&root);
        let mut document = read::read(&root, &mut report);
        let mut notes = Report::new(text.name);
        notes.locate_in(&root);
        difference::note(&document, self.files.settings.semantics, &mut notes);
        let is_known = self.files.domains.contains_key(&document.domain);
        if is_known && !document.domain.is_empty() && !self.files.settings.merge_domains {
            let what =
                format!("duplicate domain \"{}\": another file defines it too", shown(&document.domain));
            report.value(
                &Path::default().key("domain"),
                what,
                "put both into one file, or set `merge_domains: true` under `envoy_ratelimit:`",
            );
        }
        let domains = &mut self.files.domains;
        let domain = domains.entry(document.domain.clone()).or_insert_with(|| Domain::new(&document.domain));
        domain.add(core::mem::take(&mut document.descriptors), text.name, &mut report);
        self.warnings.extend(report.finish()?);
        self.differences.extend(notes.finish()?);
        Ok(())
    }
}

fn root_of(text: &Text<'_>) -> Result<Node, Problems> {
    tree::read(text_of(text.name, text.bytes)?).map_err(|unreadable| {
        let fix = if text.bytes.len() > DOCUMENT_BYTES_MAX {
            "split it, and set `merge_domains: true` under `envoy_ratelimit:`".to_owned()
        } else if unreadable.what == tree::EMPTY {
            "start with `domain:`".to_owned()
        } else {
            unreadable.fix
        };
        let mut report = Report::new(text.name);
        report.unreadable(unreadable.at, unreadable.what, fix);
        failed(report)
    })
}

/// Whether `bytes` are a file of envoyproxy/ratelimit rather than a policy: a mapping with `domain`
/// at its top.
///
/// Text that is not YAML is neither.
pub fn is_such_a_file(bytes: &[u8]) -> bool {
    let root = core::str::from_utf8(bytes).ok().and_then(|text| tree::read(text).ok());
    let Some(Node { content: Content::Mapping(entries), .. }) = root else { return false };
    entries.iter().any(|entry| &*entry.key == "domain")
}
