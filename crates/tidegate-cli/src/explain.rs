//! `tidegate explain`.

pub(crate) mod table;

use std::path::Path;

use tidegate_policy::{NamespacePolicy, Policy};
use tidegate_server::explain_fresh;
use tidegate_wire::explanation::{ExpectedDecision, ExplanationBody};

use crate::arguments::request::{Explain, ExplainedRequest, Question};
use crate::client::{self, ClientError, wait_for};
use crate::exit::{Exit, answer};
use crate::policy_file;
use crate::unused_attributes;

pub(crate) fn run(arguments: &Explain) -> Exit {
    let question = &arguments.question;
    if let Some(name) = question.duplicate() {
        return ClientError::Untaken(format!("duplicate attribute \"{name}\"; give it once")).complain();
    }
    let daemon = &arguments.daemon;
    let (explained, source) = if let Some(path) = &arguments.config {
        (explain_file(path, question), format!("by {}, as if nothing had been charged yet", path.display()))
    } else {
        let request = ExplainedRequest {
            feature: arguments.feature.as_deref(),
            tenant: arguments.tenant.as_deref(),
            door: arguments.door,
            wait: arguments.wait,
            ticket: arguments.ticket.as_deref(),
        };
        let explained = wait_for(client::explain(daemon, question, &arguments.target, request))
            .map(|explained| (explained, None));
        (explained, format!("by the daemon at {}", daemon.at))
    };
    let (explained, policy) = match explained {
        Ok(explained) => explained,
        Err(unanswered) => return unanswered.complain(),
    };
    let text = if arguments.json {
        let text = serde_json::to_string_pretty(&explained);
        text.expect("text and numbers always serialise") + "\n"
    } else {
        table::text(&explained, &source)
    };
    let exit = match explained.would {
        ExpectedDecision::Admit | ExpectedDecision::Wait => Exit::Done,
        ExpectedDecision::Refuse => Exit::Problems,
    };
    let exit = answer(&text, exit);
    unused_attributes::note(question, || match &policy {
        Some(policy) => policy.namespace(&question.namespace).map(limit_attributes),
        None => wait_for(client::limit_attributes(daemon, &question.namespace)).ok(),
    });
    exit
}

fn limit_attributes(namespace: &NamespacePolicy) -> Vec<String> {
    namespace.attributes().map(str::to_owned).collect()
}

/// The explanation by a file, and the policy in it.
fn explain_file(path: &Path, question: &Question) -> Result<(ExplanationBody, Option<Policy>), ClientError> {
    let checked = policy_file::read(path).map_err(|error| error.for_command(path))?;
    let explained = explain_fresh(&checked.policy, &question.namespace, &question.borrowed(), question.cost);
    let explained = explained.map_err(|fault| {
        let names: Vec<&str> = checked.policy.namespaces.iter().map(|one| one.name.as_str()).collect();
        let known = names.is_empty() || names.contains(&question.namespace.as_str());
        let there = if known { String::new() } else { format!("; there are: {}", names.join(", ")) };
        ClientError::Untaken(format!("{}{there}", fault.detail))
    })?;
    Ok((explained, Some(checked.policy)))
}
