//! The builds of the gate: the test programs of the workspace, and the libraries whose lock-free
//! types are explored by loom.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cargo::{cargo, succeeds_reading};
use crate::compilers::Compiler;

/// A test program that was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TestProgram {
    /// Its package.
    pub(crate) package: String,
    /// The kind of its target: `lib`, `bin`, `test` or `example`.
    pub(crate) kind: String,
    /// The package and the target, as people read them.
    pub(crate) name: String,
    pub(crate) executable: PathBuf,
    /// The folder of its package, in which it runs.
    pub(crate) folder: PathBuf,
}

/// The outcome of a build by cargo.
#[derive(Debug)]
pub(crate) struct BuildOutcome {
    /// The test programs, in the order in which they were built.
    pub(crate) programs: Vec<TestProgram>,
    /// Whether everything was built.
    pub(crate) is_complete: bool,
    /// Targets that were built anew, and those that were there already.
    pub(crate) built: usize,
    pub(crate) unchanged: usize,
}

/// A line of `cargo --message-format=json`; null if it is something else.
fn message(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_default()
}

/// The test program of which a message of cargo tells.
fn test_program(artifact: &Value) -> Option<TestProgram> {
    let is_test = artifact["profile"]["test"].as_bool()?;
    let executable = PathBuf::from(artifact["executable"].as_str()?);
    let folder = Path::new(artifact["manifest_path"].as_str()?).parent()?.to_owned();
    let (kind, target) = (artifact["target"]["kind"][0].as_str()?, artifact["target"]["name"].as_str()?);
    // Cargo builds benchmarks as it builds tests; they are built for their lints.
    if !is_test || kind == "bench" {
        return None;
    }
    // The folder of a crate is the name of its package.
    let package = folder.file_name()?.to_string_lossy().into_owned();
    let name = match kind {
        "lib" => format!("{package}, unit tests"),
        _ => format!("{package}, {kind} {target}"),
    };
    Some(TestProgram { package, kind: kind.to_owned(), name, executable, folder })
}

/// Whether the target was there already of which a message of cargo tells.
fn is_unchanged(artifact: &Value) -> Option<bool> {
    artifact["fresh"].as_bool()
}

/// Runs `cargo` with this compiler. The linker appends its times to the file `link_times`.
pub(crate) fn build(compiler: Compiler, arguments: &[&str], link_times: Option<&Path>) -> BuildOutcome {
    let mut command = cargo(arguments);
    command.args(["--locked", "--message-format=json-render-diagnostics"]);
    if link_times.is_some() {
        command.arg("--timings");
    }
    compiler.serve(&mut command, link_times);
    let (mut programs, mut built, mut unchanged) = (Vec::new(), 0, 0);
    let is_complete = succeeds_reading(&mut command, |line| {
        let message = message(line);
        programs.extend(test_program(&message));
        match is_unchanged(&message) {
            Some(true) => unchanged += 1,
            Some(false) => built += 1,
            None => {}
        }
    });
    BuildOutcome { programs, is_complete, built, unchanged }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(kind: &str, name: &str, is_test: bool) -> Value {
        message(&format!(
            r#"{{"reason":"compiler-artifact","manifest_path":"/checkout/crates/tidegate-cli/Cargo.toml",
            "target":{{"kind":["{kind}"],"name":"{name}"}},"profile":{{"test":{is_test}}},"executable":"/deps/it-0123"}}"#
        ))
    }

    #[test]
    fn test_programs_are_named_by_package_and_target_and_others_are_left_out() {
        let integration = test_program(&artifact("test", "it", true)).unwrap();
        assert_eq!((&*integration.package, &*integration.name), ("tidegate-cli", "tidegate-cli, test it"));
        assert_eq!(integration.folder, Path::new("/checkout/crates/tidegate-cli"));
        let unit = test_program(&artifact("lib", "tidegate_cli", true)).unwrap();
        assert_eq!((&*unit.kind, &*unit.name), ("lib", "tidegate-cli, unit tests"));
        assert_eq!(test_program(&artifact("bin", "tidegate", false)), None);
        assert_eq!(test_program(&artifact("bench", "ring", true)), None);
        assert_eq!(test_program(&message("not JSON")), None);
        assert_eq!(is_unchanged(&message(r#"{"reason":"compiler-artifact","fresh":true}"#)), Some(true));
        assert_eq!(is_unchanged(&message(r#"{"reason":"compiler-artifact","fresh":false}"#)), Some(false));
        assert_eq!(is_unchanged(&message(r#"{"reason":"build-finished","success":true}"#)), None);
    }
}
