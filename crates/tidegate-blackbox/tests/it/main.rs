//! The command, as it is started.

use std::process::{Command, Stdio};

#[test]
fn a_reader_that_has_closed_its_pipe_ends_the_command_quietly() {
    // The shell that calls the compiler drops the variable with the path, whose name has a dash.
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("tidegate-blackbox");
    for suite in ["attack", "load"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(&program);
        let child = command.args([suite, "--list"]).stdout(writer).stderr(Stdio::piped()).spawn();
        let output = child.unwrap().wait_with_output().unwrap();
        assert!(output.status.success(), "{suite}: {}", output.status);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{suite}");
    }
}
