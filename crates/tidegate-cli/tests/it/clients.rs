//! The clients of `examples/clients` pass their own tests, which wait for nothing.

use std::io::Write;
use std::path::Path;
use std::process::Command;

/// Runs the tests of one client, or says that its language is not installed.
fn run(test: &str, folder: &str, program: &str, arguments: &[&str]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/clients").join(folder);
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env_remove("NODE_OPTIONS")
        .output();
    let Ok(output) = output else {
        let _ = writeln!(std::io::stdout(), "skipped: {test}: {program} is not installed");
        return;
    };
    let told =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success(), "{program} {arguments:?}: {told}");
    // A runner that finds no test is a success of nothing.
    assert!(told.contains("Ran 20 tests") || told.contains("tests 20"), "{told}");
}

#[test]
fn the_client_in_python_passes_its_tests() {
    run("the_client_in_python_passes_its_tests", "python", "python3", &["-m", "unittest", "test_client"]);
}

#[test]
fn the_client_in_node_passes_its_tests() {
    run("the_client_in_node_passes_its_tests", "node", "node", &["--test"]);
}
