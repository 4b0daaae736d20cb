//! Overrides that were set while running, as a store kept them.

use tidegate_core::Limit;
use tidegate_engine::RuntimeOverride;
use tidegate_store::{Note, NoteChange};

use crate::fleet::shared_store::kept;

/// How many overrides with other numbers are logged one by one.
const LOGGED_MAX: usize = 10;

/// The overrides in notes, and the notes of those that are to be written anew: of versions in which
/// an override kept the burst of its limit whatever its rate. `limits_of` gives the limits of a
/// namespace.
pub(crate) fn overrides_in<'l>(
    notes: &[Note],
    limits_of: impl Fn(&str) -> Vec<&'l Limit>,
) -> (Vec<RuntimeOverride>, Vec<NoteChange>) {
    let (mut overrides, mut rewritten, mut changed) = (Vec::new(), Vec::new(), 0);
    for mut one in notes.iter().filter_map(|note| kept(RuntimeOverride::from_note(note))) {
        if !one.burst_follows_rate {
            let limits = limits_of(&one.namespace);
            let is_it = |limit: &&&Limit| [Some(&limit.name), limit.was.as_ref()].contains(&Some(&one.limit));
            let following = limits.iter().find(is_it).and_then(|limit| one.following_the_rate(limit));
            if let Some(following) = following {
                changed += 1;
                if changed <= LOGGED_MAX {
                    tracing::warn!(
                        namespace = one.namespace,
                        limit = one.limit,
                        before = one.numbers_in_words(),
                        now = following.numbers_in_words(),
                        "the burst of a stored override follows its rate now"
                    );
                }
                one = following;
            }
            one.burst_follows_rate = true;
            rewritten.extend(one.to_note().map(NoteChange::Put));
        }
        overrides.push(one);
    }
    if changed > LOGGED_MAX {
        let more = changed - LOGGED_MAX;
        tracing::warn!(more, "the bursts of further stored overrides follow their rates now");
    }
    (overrides, rewritten)
}

#[cfg(test)]
mod tests {
    use tidegate_core::algorithm::Bucket;
    use tidegate_core::{Algorithm, Rate, Timestamp};

    use super::*;

    fn bucket(per_second: u64, burst: u64) -> Algorithm {
        Algorithm::Bucket(Bucket::new(Rate::per_second(per_second).unwrap(), burst).unwrap())
    }

    #[test]
    fn notes_of_versions_before_are_written_anew_once() {
        let limits = [Limit::new("per-user", bucket(10, 20)).key(["user"])];
        let limits_of = |name: &str| if name == "api" { limits.iter().collect() } else { Vec::new() };
        let of_before = |limit: &str| {
            let when = [("user".to_owned(), "ada".to_owned())];
            let mut one = RuntimeOverride::new("api", limit, when, bucket(1000, 20), Timestamp::MIN);
            one.burst_follows_rate = false;
            one.to_note().unwrap()
        };
        let (read, rewritten) = overrides_in(&[of_before("per-user"), of_before("gone")], limits_of);
        let numbers: Vec<_> = read.iter().map(|one| one.algorithm.clone()).collect();
        assert_eq!(numbers, [bucket(1000, 2000), bucket(1000, 20)]);
        let notes = rewritten.into_iter().map(|change| match change {
            NoteChange::Put(note) => note,
            other => panic!("{other:?}"),
        });
        let (again, rewritten) = overrides_in(&notes.collect::<Vec<_>>(), limits_of);
        assert_eq!((again, rewritten), (read, Vec::new()));
    }
}
