//! The keys of tickets that are valid, as the model knows them.

use tidegate_engine::TicketKeys;

/// The keys that are valid.
#[derive(Clone, Debug)]
pub(crate) struct KnownKeys {
    /// The one that signs, and the one that is valid beside it.
    pub(crate) keys: Vec<[u8; 32]>,
    /// Whether the second one was given, and did not stay from before.
    is_second_given: bool,
}

impl KnownKeys {
    pub(crate) fn new() -> Self {
        Self { keys: vec![[1; 32]], is_second_given: false }
    }

    pub(crate) fn signing(&self) -> [u8; 32] {
        self.keys[0]
    }

    /// The keys that a start of the member reads.
    pub(crate) fn restart(&mut self) -> TicketKeys {
        if !self.is_second_given {
            self.keys.truncate(1);
        }
        let keys = keys_of(self.keys[0]);
        self.keys.get(1).map_or(keys.clone(), |second| keys.beside(second).unwrap())
    }

    /// Two keys are given, of which the second one signed before. They count as they are.
    pub(crate) fn give_two(&mut self, new: [u8; 32]) -> TicketKeys {
        let current = self.signing();
        if new == current {
            return self.give_one(new);
        }
        (self.keys, self.is_second_given) = (vec![new, current], true);
        keys_of(new).beside(&current).unwrap()
    }

    /// One key is given. That which signed before stays beside a new one; the same one again
    /// retires a second one that was given.
    pub(crate) fn give_one(&mut self, new: [u8; 32]) -> TicketKeys {
        let current = self.signing();
        if new != current {
            self.keys = vec![new, current];
        } else if self.is_second_given {
            self.keys.truncate(1);
        }
        self.is_second_given = false;
        keys_of(new)
    }
}

fn keys_of(one: [u8; 32]) -> TicketKeys {
    TicketKeys::new(&one).unwrap()
}
