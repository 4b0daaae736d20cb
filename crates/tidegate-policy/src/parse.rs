//! From text to checked settings, or to everything that is wrong with it.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::check;
use crate::check::document::DocumentCheck;
use crate::compare::SHOWN_KEYS;
use crate::policy::Policy;
use crate::problem::{Problem, Problems, Report};
use crate::raw::Config;
use crate::raw::json_value::Shaped;
use crate::schema;
use crate::setting_tree::settings;
use crate::shape;
use crate::tree::{self, Node, Position};

/// Settings that work, and what is probably not meant in them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Checked {
    /// The settings.
    pub policy: Policy,
    /// Valid settings that are probably mistakes, in the order of the file; at most
    /// [`crate::PROBLEMS_MAX`].
    pub warnings: Vec<Problem>,
    /// Whether the document has no `namespaces:`, not even `namespaces: {}`. A reload refuses it
    /// while namespaces are in force: a file that was emptied or cut off limits nobody by mistake.
    pub lacks_namespaces: bool,
}

/// Checks a configuration.
///
/// `name` is what the file is called in messages; `env` reads environment variables, for `${NAME}`
/// and for the default of `store.path`,
/// [`Embedded::STATE_DIRECTORY`](crate::policy::Embedded::STATE_DIRECTORY). Every problem is
/// reported at once, up to [`crate::PROBLEMS_MAX`]; only a text that is no YAML document, or
/// exceeds the bounds of [`crate::bounds`], stops at the first.
///
/// ```
/// use tidegate_policy::parse;
///
/// let text = "namespaces: { api: { limits: [{ name: reads, rate: \"${READS}\" }] } }";
/// let env = |name: &str| (name == "READS").then(|| "100/s".to_owned());
/// let checked = parse("tidegate.yaml", text, &env)?;
/// assert_eq!(checked.policy.namespaces[0].limits[0].algorithm.limit(), 100);
/// // A variable that is not set is a problem, and says where.
/// let problems = parse("tidegate.yaml", text, &|_| None).unwrap_err();
/// assert_eq!(problems.problems[0].path, "namespaces.api.limits[0].rate");
/// # Ok::<(), tidegate_policy::Problems>(())
/// ```
pub fn parse(name: &str, text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Checked, Problems> {
    let mut report = Report::new(name);
    let Some(root) = read_tree(text, &mut report) else { return Err(failed(report)) };
    report.locate_in(&root);
    let value = shape::shape(schema::compiled(), &root, env, &mut report);
    if report.is_full() {
        return Err(failed(report));
    }
    let document = value.clone();
    let config = match Config::deserialize(Shaped(value)) {
        Ok(config) => config,
        Err(error) => {
            // The schema is that of the same types, so this means that the two disagree; say so
            // rather than stop.
            report.unreadable(
                Position::START,
                format!("the configuration cannot be read: {error}"),
                "report this as a bug",
            );
            return Err(failed(report));
        }
    };
    let lacks_namespaces = config.namespaces.is_none();
    let mut policy = check::check(config, env, &mut report);
    let effective = report.take_effective();
    report.finish().map(|warnings| {
        policy.settings = settings(document, effective, &SHOWN_KEYS);
        Checked { policy, warnings, lacks_namespaces }
    })
}

/// As [`parse()`], for the bytes of a file; they must be UTF-8.
pub fn parse_bytes(
    name: &str,
    bytes: &[u8],
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Checked, Problems> {
    text_of(name, bytes).and_then(|text| parse(name, text, env))
}

/// Reads another document than a configuration by the same rules: unknown keys and wrong values are
/// problems with their place and a suggestion, and all are reported at once. `${NAME}` stands for
/// nothing here.
///
/// `schema` decides what is a problem. It must be the schema of `T`, as `schema_of` makes it with
/// the feature `schema`, and `T` must deny unknown fields. If `T` does not accept a document that
/// the schema accepts, the only problem says to report a bug.
pub fn parse_document<T: DeserializeOwned>(name: &str, bytes: &[u8], schema: &Value) -> Result<T, Problems> {
    parse_document_with(name, bytes, schema, |_, _| ()).map(|(document, ())| document)
}

/// As [`parse_document`], for a document that has parts of a configuration: `check` checks these,
/// and its problems are reported with all others.
pub fn parse_document_with<T: DeserializeOwned, U>(
    name: &str,
    bytes: &[u8],
    schema: &Value,
    check: impl FnOnce(&T, &mut DocumentCheck<'_, '_>) -> U,
) -> Result<(T, U), Problems> {
    let text = text_of(name, bytes)?;
    let mut report = Report::new(name);
    let Some(root) = read_tree(text, &mut report) else { return Err(failed(report)) };
    report.locate_in(&root);
    let value = shape::shape(schema, &root, &|_| None, &mut report);
    match T::deserialize(value) {
        Ok(document) => {
            let checked = check(&document, &mut DocumentCheck::new(&mut report));
            report.finish().map(|_| (document, checked))
        }
        Err(error) => {
            // The schema is that of the same type, so this means that the two disagree, unless
            // there are problems already.
            report.finish()?;
            let mut report = Report::new(name);
            let what = format!("the document cannot be read: {error}");
            report.unreadable(Position::START, what, "report this as a bug");
            Err(failed(report))
        }
    }
}

/// The text that `bytes` are, if they are UTF-8.
pub(crate) fn text_of<'a>(name: &str, bytes: &'a [u8]) -> Result<&'a str, Problems> {
    core::str::from_utf8(bytes).map_err(|error| {
        let before = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        let last = before.rsplit('\n').next().unwrap_or_default();
        let at = Position { line: before.split('\n').count(), column: last.chars().count() + 1 };
        let mut report = Report::new(name);
        report.unreadable(at, "the file is not UTF-8 text", "save it as UTF-8");
        failed(report)
    })
}

/// The document in `text`; what makes it none is reported.
pub(crate) fn read_tree(text: &str, report: &mut Report<'_>) -> Option<Node> {
    tree::read(text)
        .map_err(|unreadable| report.unreadable(unreadable.at, unreadable.what, unreadable.fix))
        .ok()
}

pub(crate) fn failed(report: Report<'_>) -> Problems {
    match report.finish() {
        Err(problems) => problems,
        Ok(problems) => Problems { problems, truncated: false },
    }
}
