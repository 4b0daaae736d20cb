//! Every command of the documents is one that this version takes.

use std::path::{Path, PathBuf};

use clap::Parser;

use super::Arguments;

/// Adds the Markdown files below a folder.
fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            documents(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// The words of a line of a shell up to the end of its first command.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in line.chars() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, '|' | '&' | '>' | '<' | ';' | ')') => break,
            (None, '#') if word.is_none() => break,
            (None, ' ') => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    // The number of a redirection, as in `2> log`.
    words.extend(word.filter(|word| !(word == "2" && line.contains("2>"))));
    words
}

/// The commands of the blocks of shell in a document, with their lines.
fn commands(text: &str) -> Vec<(usize, String)> {
    let mut commands: Vec<(usize, String)> = Vec::new();
    let (mut is_shell, mut is_open, mut continues) = (false, false, false);
    for (index, line) in text.lines().enumerate() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            is_open = !is_open;
            is_shell = is_open && matches!(language, "sh" | "console");
            continues = false;
            continue;
        }
        if !is_shell {
            continue;
        }
        let line = line.trim().trim_start_matches("$ ");
        let (part, goes_on) = line.strip_suffix('\\').map_or((line, false), |part| (part, true));
        if continues {
            commands.last_mut().unwrap().1.extend([" ", part]);
        } else {
            // Also as the condition or the body of a loop, or behind another command.
            let starts = ["", "do ", "until ", "; ", "$("];
            let found = starts.iter().find_map(|start| {
                let at = line.find(&format!("{start}tidegate "))?;
                (at == 0 || !start.is_empty()).then_some(at + start.len())
            });
            let Some(at) = found else { continue };
            commands.push((index + 1, part[at.min(part.len())..].to_owned()));
        }
        continues = goes_on;
    }
    commands
}

#[test]
fn every_command_in_a_document_is_one_of_this_version() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = vec![root.join("README.md")];
    for folder in ["docs", "deploy", "examples"] {
        documents(&root.join(folder), &mut paths);
    }
    let mut count = 0;
    let mut wrong = Vec::new();
    for path in paths {
        for (line, command) in commands(&std::fs::read_to_string(&path).unwrap()) {
            count += 1;
            if let Err(error) = Arguments::try_parse_from(words(
                &command.replace("$port", "8080").replace("$U", "http://127.0.0.1:8080"),
            )) && error.use_stderr()
            {
                wrong.push(format!("{}:{line}: {command}\n{error}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count} commands:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 30, "only {count} commands were found");
}

#[test]
fn words_are_those_of_a_shell() {
    let command = r#"tidegate check api "user=a b" x='#1' 2> log  # why"#;
    assert_eq!(words(command), ["tidegate", "check", "api", "user=a b", "x=#1"]);
    let text =
        "```sh\nfor i in 1 2; do tidegate check api; done\ntidegate top \\\n  api\nmytidegate x\n```\n";
    let found: Vec<String> = commands(text).into_iter().map(|(_, command)| command).collect();
    assert_eq!(found, ["tidegate check api; done", "tidegate top  api"]);
}
