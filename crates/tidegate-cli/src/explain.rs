//! `tidegate explain`.

mod table;

use std::path::Path;

use tidegate_server::explain_fresh;
use tidegate_wire::explanation::{ExplanationBody, Would};

use crate::arguments::asking::{Explain, Question};
use crate::door::{self, Unanswered, wait_for};
use crate::exit::{Exit, answer};
use crate::policy_file::{self, NoPolicy};

pub(crate) fn run(arguments: &Explain) -> Exit {
    let question = &arguments.question;
    if let Some(name) = question.duplicate() {
        return Unanswered::Untaken(format!("duplicate attribute \"{name}\"; give it once")).complain();
    }
    let (explained, source) = if let Some(path) = &arguments.config {
        let source = format!("by {}, as if nothing had been charged yet", path.display());
        (of_file(path, question), source)
    } else {
        let daemon = &arguments.daemon;
        (wait_for(door::explain(daemon, question)), format!("by the daemon at {}", daemon.at))
    };
    let explained = match explained {
        Ok(explained) => explained,
        Err(unanswered) => return unanswered.complain(),
    };
    let text = if arguments.json {
        let text = serde_json::to_string_pretty(&explained);
        text.expect("text and numbers always serialise") + "\n"
    } else {
        table::of(&explained, &source)
    };
    let exit = match explained.would {
        Would::Admit => Exit::Done,
        Would::Refuse => Exit::Problems,
    };
    answer(&text, exit)
}

fn of_file(path: &Path, question: &Question) -> Result<ExplanationBody, Unanswered> {
    let checked = policy_file::read(path).map_err(|error| match error {
        NoPolicy::Unreadable(error) => Unanswered::File(format!("cannot read {}: {error}", path.display())),
        NoPolicy::Problems(problems) => {
            Unanswered::Untaken(format!("the configuration has problems\n{problems}"))
        }
    })?;
    let explained = explain_fresh(&checked.policy, &question.namespace, &question.borrowed(), question.cost);
    explained.map_err(|fault| {
        let names: Vec<&str> = checked.policy.namespaces.iter().map(|one| one.name.as_str()).collect();
        let known = names.contains(&question.namespace.as_str());
        let there = if known { String::new() } else { format!("; there are: {}", names.join(", ")) };
        Unanswered::Untaken(format!("{}{there}", fault.detail))
    })
}
