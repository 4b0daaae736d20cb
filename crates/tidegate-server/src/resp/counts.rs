//! Counters of commands. Labels are names of known commands, and words of closed lists.

use std::sync::OnceLock;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use super::command::Command;
use crate::metrics::{LimitSeries, Metrics};

/// The number of commands, and one for all unknown ones.
const KINDS: usize = Command::ALL.len() + 1;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CommandLabels {
    command: &'static str,
    answer: &'static str,
}

/// The counters of all commands.
#[derive(Debug, Default)]
pub(crate) struct RespMetrics {
    commands: Family<CommandLabels, Counter>,
    usual: [[OnceLock<Counter>; 2]; KINDS],
    /// The decisions of `CL.THROTTLE`.
    pub(super) throttled: OnceLock<LimitSeries>,
}

impl RespMetrics {
    /// The counters, which are put on the page of `metrics`.
    pub(crate) fn registered(metrics: &mut Metrics) -> Self {
        let own = Self::default();
        metrics.register(|registry, help| {
            registry.register("tidegate_resp_commands", help("tidegate_resp_commands"), own.commands.clone());
        });
        own
    }
}

/// The commands of one turn, counted together when it ends.
#[derive(Debug)]
pub(super) struct CommandTally([[u32; 2]; KINDS]);

impl CommandTally {
    pub(super) const fn new() -> Self {
        Self([[0; 2]; KINDS])
    }

    /// Counts a command; `None` for an unknown one.
    pub(super) fn count(&mut self, command: Option<Command>, is_error: bool) {
        let kind = command.map_or(KINDS - 1, |command| command as usize);
        self.0[kind][usize::from(is_error)] += 1;
    }

    /// Adds all to the page's.
    pub(super) fn add_to(&self, metrics: &RespMetrics) {
        for (kind, counts) in self.0.iter().enumerate() {
            for (answer, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                let counter = metrics.usual[kind][answer].get_or_init(|| {
                    let command = Command::ALL.get(kind).map_or("other", |command| command.about().name);
                    let answer = if answer == 0 { "reply" } else { "error" };
                    metrics.commands.get_or_create(&CommandLabels { command, answer }).clone()
                });
                counter.inc_by(u64::from(*count));
            }
        }
    }
}
