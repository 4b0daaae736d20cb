//! The crate that may have `unsafe`: its lints are its own, and otherwise those of the workspace.

/// The crate.
const PACKAGE: &str = "tidegate-clock";

/// The lint that differs, as the workspace has it and as the crate has it.
const DIFFERENCE: [&str; 2] = ["rust: unsafe_code = \"forbid\"", "rust: unsafe_code = \"deny\""];

/// Whether the crate of that name has lints of its own.
pub(crate) fn has(name: &str) -> bool {
    name == PACKAGE
}

/// How the lints in the `Cargo.toml` of the crate differ from those in that of the workspace.
pub(crate) fn differences(workspace: &str, own: &str) -> Vec<String> {
    let expected: Vec<String> = lints_in(workspace, "[workspace.lints.")
        .into_iter()
        .map(|lint| if lint == DIFFERENCE[0] { DIFFERENCE[1].to_owned() } else { lint })
        .collect();
    let own = lints_in(own, "[lints.");
    let missing = expected.iter().filter(|lint| !own.contains(lint));
    let further = own.iter().filter(|lint| !expected.contains(lint));
    missing
        .map(|lint| format!("{PACKAGE}: its Cargo.toml lacks the lint {lint}"))
        .chain(further.map(|lint| format!("{PACKAGE}: the workspace does not have its lint {lint}")))
        .collect()
}

/// The lints under headers that begin so, each with the tool that has it.
fn lints_in(manifest: &str, header: &str) -> Vec<String> {
    let mut tool = None;
    let mut lints = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            tool = line.strip_prefix(header).map(|rest| rest.trim_end_matches(']'));
        } else if let Some(tool) = tool
            && !line.is_empty()
            && !line.starts_with('#')
        {
            lints.push(format!("{tool}: {line}"));
        }
    }
    lints
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKSPACE: &str = "[workspace.lints.rust]\nmissing_docs = \"warn\"\nunsafe_code = \"forbid\"\n\n\
        [workspace.lints.clippy]\n# A reason.\npedantic = \"warn\"\n[profile.release]\nlto = \"off\"\n";
    const OWN: &str = "[lints.rust]\nmissing_docs = \"warn\"\nunsafe_code = \"deny\"\n\
        [lints.clippy]\npedantic = \"warn\"\n";

    #[test]
    fn lints_that_differ_in_more_than_unsafe_code_are_named() {
        assert_eq!(differences(WORKSPACE, OWN), [""; 0]);
        assert_eq!(
            differences(WORKSPACE, &OWN.replace("pedantic = \"warn\"", "pedantic = \"allow\"")),
            [
                "tidegate-clock: its Cargo.toml lacks the lint clippy: pedantic = \"warn\"",
                "tidegate-clock: the workspace does not have its lint clippy: pedantic = \"allow\"",
            ]
        );
        assert_eq!(
            differences(WORKSPACE, &OWN.replace("\"deny\"", "\"allow\"")),
            [
                "tidegate-clock: its Cargo.toml lacks the lint rust: unsafe_code = \"deny\"",
                "tidegate-clock: the workspace does not have its lint rust: unsafe_code = \"allow\"",
            ]
        );
    }
}
