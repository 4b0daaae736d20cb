//! The descriptors of a domain as requests are matched with them.
//!
//! Key and value stay apart: the peer joins them with an underscore, so that there the key `a` with
//! the value `b_c` is the key `a_b` with the value `c`. Here it is not.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::glob;
use super::limit::Limit;
use super::metric::{self, KeyValue, MetricKey};
use super::read::{WrittenDescriptor, WrittenRule};
use crate::path::Path;
use crate::printable::shown;
use crate::problem::Report;

/// The descriptors of one domain.
#[derive(Debug)]
pub(super) struct Domain {
    pub(super) name: Box<str>,
    /// The first is the domain itself and has no key.
    nodes: Vec<DescriptorNode>,
}

/// A descriptor in its place.
#[derive(Debug, Default)]
pub(super) struct DescriptorNode {
    pub(super) key: Box<str>,
    pub(super) value: Option<Box<str>>,
    pub(super) is_wildcard: bool,
    pub(super) value_to_metric: bool,
    /// Whether all values that match are one counter.
    pub(super) shares: bool,
    pub(super) rule: Option<Rule>,
    keys: BTreeMap<Box<str>, ValueChildren>,
    /// The children that stand for more than one key, in the order of the file.
    key_patterns: Vec<usize>,
    /// Where it is written, for who writes it again.
    file: Box<str>,
    path: Path,
}

/// The children of one key.
#[derive(Debug, Default)]
struct ValueChildren {
    any: Option<usize>,
    each: BTreeMap<Box<str>, usize>,
    /// Those that stand for more than one value.
    patterns: ValuePatterns,
}

/// Children by the start of their pattern, which is the text before its first star: of many
/// patterns only those are looked at that begin as the value does.
#[derive(Debug, Default)]
struct ValuePatterns {
    /// Under each start the children in the order of the file.
    by_start: BTreeMap<Box<str>, Vec<usize>>,
    /// The lengths of the starts, in bytes.
    lengths: BTreeSet<usize>,
}

impl ValuePatterns {
    fn add(&mut self, pattern: &str, index: usize) {
        let start = pattern.split('*').next().unwrap_or_default();
        self.lengths.insert(start.len());
        self.by_start.entry(start.into()).or_default().push(index);
    }

    /// The first in the order of the file that fits.
    fn first(&self, value: &str, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let starts = self.lengths.iter().filter_map(|length| value.get(..*length));
        let children = starts.filter_map(|start| self.by_start.get(start));
        children.filter_map(|children| children.iter().copied().find(|index| fits(*index))).min()
    }
}

/// The rule for requests whose last entry matches a node.
#[derive(Debug)]
pub(super) struct Rule {
    /// Its limits; none when it is unlimited.
    pub(super) limits: Vec<Limit>,
    /// For an unlimited one: the names of the limits it takes the place of.
    pub(super) replaces: Vec<Box<str>>,
    pub(super) shadow_mode: bool,
    pub(super) quota_mode: bool,
    pub(super) detailed_metric: bool,
    pub(super) metadata: Map<String, Value>,
    /// The keys on the way to it, each with the value that it wants.
    pub(super) entries: Vec<(Box<str>, Option<Box<str>>)>,
    /// Its metrics' key without anything of a request.
    pub(super) metric_key: String,
    /// For a rule with values of requests in its metrics' key: the key of those there are too many
    /// of.
    pub(super) metric_rest: Option<String>,
}

impl Rule {
    /// Whether it lets everything through and counts nothing.
    pub(super) fn is_unlimited(&self) -> bool {
        self.limits.is_empty()
    }
}

impl Domain {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.into(), nodes: vec![DescriptorNode::default()] }
    }

    /// Adds the descriptors of a file; what is there already is reported.
    pub(super) fn add(&mut self, written: Vec<WrittenDescriptor>, file: &str, report: &mut Report<'_>) {
        let mut above = vec![0];
        self.add_under(&mut above, written, file, report);
    }

    fn add_under(
        &mut self,
        above: &mut Vec<usize>,
        written: Vec<WrittenDescriptor>,
        file: &str,
        report: &mut Report<'_>,
    ) {
        for one in written {
            if report.is_full() {
                return;
            }
            let parent = *above.last().expect("the domain itself is never taken out");
            let index = self.nodes.len();
            let values = self.nodes[parent].keys.entry(one.key.clone()).or_default();
            let place = match &one.value {
                None => values.any.get_or_insert(index),
                Some(value) => values.each.entry(value.clone()).or_insert(index),
            };
            let place = *place;
            if place != index && !one.key.is_empty() {
                let first = &self.nodes[place];
                let first = if *first.file == *file {
                    format!("line {}", report.line_of(&first.path))
                } else {
                    format!("{} of {}", first.path, first.file)
                };
                let what = format!("duplicate descriptor \"{}\"", shown(&one.composite()));
                let fix = format!("first defined at {first}; merge the two, or remove one");
                report.value(&one.path, what, fix);
            }
            let is_wildcard = one.is_wildcard();
            let above_it = &mut self.nodes[parent];
            match &one.value {
                _ if glob::is_pattern(&one.key) => above_it.key_patterns.push(index),
                Some(value) if is_wildcard => {
                    above_it.keys.entry(one.key.clone()).or_default().patterns.add(value, index);
                }
                _ => {}
            }
            self.nodes.push(DescriptorNode {
                is_wildcard,
                value_to_metric: one.value_to_metric,
                shares: one.share_threshold,
                file: file.into(),
                path: one.path,
                key: one.key,
                value: one.value,
                ..DescriptorNode::default()
            });
            above.push(index);
            let rule = one.rule.map(|rule| self.rule(above, rule));
            self.nodes[index].rule = rule;
            self.add_under(above, one.descriptors, file, report);
            above.pop();
        }
    }

    fn rule(&self, way: &[usize], written: WrittenRule) -> Rule {
        let nodes: Vec<&DescriptorNode> = way[1..].iter().map(|index| &self.nodes[*index]).collect();
        let WrittenRule { limits, replaces, shadow_mode, quota_mode, detailed_metric, metadata } = written;
        let metric_key =
            metric::joined(&self.name, nodes.iter().map(|node| (&*node.key, node.value.as_deref())));
        let values: Vec<(&str, KeyValue<'_>)> =
            nodes.iter().map(|node| (&*node.key, node.metric_value(detailed_metric))).collect();
        Rule {
            limits,
            replaces,
            shadow_mode,
            quota_mode,
            detailed_metric,
            metadata,
            entries: nodes.iter().map(|node| (node.key.clone(), node.value.clone())).collect(),
            metric_key,
            metric_rest: metric::rest_key(&self.name, &values),
        }
    }

    /// The nodes that the entries of a descriptor match, if the last of them has a rule.
    pub(super) fn find(&self, entries: &[(&str, &str)]) -> Option<MatchedRule<'_>> {
        let mut way = Vec::with_capacity(entries.len().min(crate::tree::DEPTH_MAX));
        let mut node = &self.nodes[0];
        for (key, value) in entries {
            node = &self.nodes[self.child(node, key, value)?];
            way.push(node);
        }
        let rule = node.rule.as_ref()?;
        Some(MatchedRule { way, rule })
    }

    /// The child that an entry matches: the very value, else the first pattern, else the key alone.
    fn child(&self, node: &DescriptorNode, key: &str, value: &str) -> Option<usize> {
        let values = node.keys.get(key);
        if let Some(exact) = values.and_then(|values| values.each.get(value)) {
            return Some(*exact);
        }
        let fits = |index: usize| self.nodes[index].fits(key, value);
        let by_value = values.and_then(|values| values.patterns.first(value, fits));
        let by_key = node.key_patterns.iter().copied().find(|index| fits(*index));
        // Children are numbered in the order of the file.
        let pattern = by_value.into_iter().chain(by_key).min();
        pattern.or_else(|| values.and_then(|values| values.any))
    }

    /// The paths from the top to a rule all of whose entries are among these attributes, each as
    /// the descriptor that takes it; `None` if there are more than `most`, or if more than
    /// [`STEPS_MAX`] lead nowhere.
    pub(super) fn paths<'a>(
        &self,
        attributes: &[(&'a str, &'a str)],
        most: usize,
    ) -> Option<Vec<Vec<(&'a str, &'a str)>>> {
        let mut search = PathSearch { attributes, most, steps: 0, above: Vec::new(), found: Vec::new() };
        self.search(&self.nodes[0], &mut search).then_some(search.found)
    }

    /// Adds the paths below `node`; false once there are too many.
    fn search(&self, node: &DescriptorNode, search: &mut PathSearch<'_, '_>) -> bool {
        search.attributes.iter().all(|&(key, value)| {
            let Some(child) = self.child(node, key, value).map(|index| &self.nodes[index]) else {
                return true;
            };
            search.steps += 1;
            search.above.push((key, value));
            if child.rule.is_some() {
                search.found.push(search.above.clone());
            }
            let is_bounded = search.found.len() <= search.most && search.steps <= STEPS_MAX;
            let is_complete = is_bounded && self.search(child, search);
            search.above.pop();
            is_complete
        })
    }

    /// Every rule, in the order of the files.
    pub(super) fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.nodes.iter().filter_map(|node| node.rule.as_ref())
    }
}

/// A search for the paths to rules.
struct PathSearch<'a, 's> {
    attributes: &'s [(&'a str, &'a str)],
    /// The most paths.
    most: usize,
    /// The nodes that were met, with a rule or without.
    steps: usize,
    /// The entries that lead to the node that is looked at.
    above: Vec<(&'a str, &'a str)>,
    found: Vec<Vec<(&'a str, &'a str)>>,
}

/// The nodes of the paths of one request together. An attribute may stand on a path several times:
/// 64 of them would meet 64^3 nodes below three keys of `*`.
const STEPS_MAX: usize = 8192;

/// The nodes from the top to a rule.
#[derive(Debug)]
pub(super) struct MatchedRule<'a> {
    /// One for each entry of the descriptor.
    pub(super) way: Vec<&'a DescriptorNode>,
    pub(super) rule: &'a Rule,
}

impl<'a> MatchedRule<'a> {
    /// The key of the metrics of a descriptor with these entries.
    pub(super) fn metric_key(&self, domain: &str, entries: &[(&str, &str)]) -> MetricKey<'a> {
        let rule = self.rule;
        let Some(rest) = &rule.metric_rest else {
            return MetricKey { bounded: Cow::Borrowed(&rule.metric_key), exact: None };
        };
        let values = self.way.iter().zip(entries).map(|(node, &(key, value))| {
            match node.metric_value(rule.detailed_metric) {
                // The request's key replaces a key with a `*` only where its value is used too.
                KeyValue::OfRequest => (key, Some(value)),
                KeyValue::OfRule(value) => (&*node.key, value),
            }
        });
        MetricKey { bounded: Cow::Borrowed(rest), exact: Some(metric::joined(domain, values)) }
    }
}

impl DescriptorNode {
    /// The value of this node in the key of a rule's metrics.
    fn metric_value(&self, is_detailed: bool) -> KeyValue<'_> {
        let is_open = self.is_wildcard || self.value.is_none();
        if is_open && !self.shares && (is_detailed || self.value_to_metric) {
            KeyValue::OfRequest
        } else {
            KeyValue::OfRule(self.value.as_deref())
        }
    }

    /// Whether an entry is as its patterns say.
    fn fits(&self, key: &str, value: &str) -> bool {
        glob::matches(&self.key, key) && self.value.as_deref().is_none_or(|own| glob::matches(own, value))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written((key, value): &(String, Option<String>)) -> WrittenDescriptor {
        WrittenDescriptor {
            path: Path::default(),
            key: key.as_str().into(),
            value: value.as_deref().map(Into::into),
            rule: None,
            descriptors: Vec::new(),
            value_to_metric: false,
            share_threshold: false,
        }
    }

    /// Looks at one after the other: the very value, else the first pattern, else the key alone.
    fn one_by_one(all: &[(String, Option<String>)], key: &str, value: &str) -> Option<usize> {
        let is_pattern = |one: &(String, Option<String>)| {
            one.0.contains('*') || one.1.as_ref().is_some_and(|own| own.contains('*'))
        };
        let fits = |(own_key, own): &(String, Option<String>)| {
            glob::matches(own_key, key) && own.as_ref().is_none_or(|own| glob::matches(own, value))
        };
        let exact = all.iter().position(|(own_key, own)| own_key == key && own.as_deref() == Some(value));
        let pattern = || all.iter().position(|one| is_pattern(one) && fits(one));
        let any = || all.iter().position(|(own_key, own)| own_key == key && own.is_none());
        exact.or_else(pattern).or_else(any)
    }

    proptest! {
        /// Many patterns are looked up by their start, and the same one is found.
        #[test]
        fn a_pattern_is_found_as_if_all_were_looked_at(
            all in prop::collection::btree_map(("[ab]|a\\*|\\*", prop::option::of("[abé*]{0,4}")), Just(()), 0..24),
            asked in prop::collection::vec(("[abc]", "[abé*]{0,4}"), 1..40),
            seed in any::<u64>(),
        ) {
            // An empty value is the same as none, and no two may be the same.
            let mut all: Vec<(String, Option<String>)> =
                all.into_keys().filter(|(_, value)| value.as_deref() != Some("")).collect();
            let turn = if all.is_empty() { 0 } else { seed as usize % all.len() };
            all.rotate_left(turn);
            let mut domain = Domain::new("api");
            let mut report = Report::new("t.yaml");
            domain.add(all.iter().map(written).collect(), "t.yaml", &mut report);
            for (key, value) in asked {
                // The first node is the domain itself.
                let found = domain.child(&domain.nodes[0], &key, &value).map(|index| index - 1);
                prop_assert_eq!(found, one_by_one(&all, &key, &value), "{} {} {:?}", key, value, all);
            }
        }
    }
}
