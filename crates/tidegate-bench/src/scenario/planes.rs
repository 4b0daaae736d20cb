//! The engine: what joining the planes adds to the gate.

use std::hint::black_box;
use std::sync::Arc;

use tidegate_capacity::TableMode;
use tidegate_core::Limit;
use tidegate_engine::Engine;

use crate::calls::{self, HOT, Planes, access, admit_one, admit_three, check_one, check_three};
use crate::timing::Side::Ours;
use crate::timing::{Candidate, Scenario};
use crate::workload::{self, Clock, START, Visitors, table_of_words};

/// One limit, one hot key.
pub(super) fn one() -> Scenario {
    let clock = Clock::start();
    let limits = || [Limit::new("per-session", workload::endless()).key(["session"])];
    let gate = calls::gate(limits(), table_of_words(1 << 20));
    let [plain, full] = [Planes::Limits, Planes::All].map(|planes| calls::engine(limits(), planes));
    let capacity = calls::capacity();
    let global = calls::capacity_of(TableMode::Global);
    let warm = calls::warm_capacity(clock.now());
    let sampled = calls::engine_with(limits(), Some(calls::warm_capacity(clock.now())));
    let [warm_keys, keys] = [(); 2].map(|()| workload::keys(300));
    Scenario {
        title: "Engine, one limit, one hot key".to_owned(),
        admits: Some(true),
        calls: 1 << 18,
        candidates: vec![
            Candidate::each("the gate alone", Ours, move |_| check_one(&gate, black_box(HOT), clock.now())),
            Candidate::each("capacity alone", Ours, move |index| {
                let answer = capacity.admit("bench", &access(index, black_box(HOT)), clock.now());
                matches!(answer, Ok(tidegate_capacity::Admission::Admit(_)))
            })
            .within(150.0),
            Candidate::each("capacity alone, global admission", Ours, move |index| {
                let answer = global.admit("bench", &access(index, black_box(HOT)), clock.now());
                matches!(answer, Ok(tidegate_capacity::Admission::Admit(_)))
            })
            .within(300.0),
            Candidate::each("capacity alone, global admission, warm: 300 keys sampled", Ours, move |index| {
                let answer = warm.admit("bench", &access(index, &warm_keys[index % 300]), clock.now());
                matches!(answer, Ok(tidegate_capacity::Admission::Admit(_)))
            })
            .within(300.0),
            Candidate::each("engine, limits", Ours, move |index| {
                admit_one(&plain, Planes::Limits, index, black_box(HOT), clock.now())
            }),
            Candidate::each("engine, limits, capacity and overload", Ours, move |index| {
                admit_one(&full, Planes::All, index, black_box(HOT), clock.now())
            })
            .within(400.0)
            .within_by_two(650.0),
            Candidate::each("engine, all planes, warm: 300 keys sampled", Ours, move |index| {
                admit_one(&sampled, Planes::All, index, &keys[index % 300], clock.now())
            })
            .within(600.0)
            .within_by_two(900.0),
        ],
    }
}

/// Three limits, a million sessions.
pub(super) fn three() -> Scenario {
    let clock = Clock::start();
    let visitors = Arc::new(Visitors::new());
    let gate = calls::gate(workload::three_limits(), table_of_words(40 << 20));
    let [plain, full] =
        [Planes::Limits, Planes::All].map(|planes| calls::engine(workload::three_limits(), planes));
    calls::fill_three(&gate, &visitors);
    fill(&plain, &visitors);
    fill(&full, &visitors);
    let [for_gate, for_plain, for_full] = [(); 3].map(|()| Arc::clone(&visitors));
    Scenario {
        title: "Engine, three limits, 1 M sessions by Zipf's law".to_owned(),
        admits: Some(true),
        calls: 1 << 17,
        candidates: vec![
            Candidate::each("the gate alone", Ours, move |index| {
                check_three(&gate, for_gate.request(index), clock.now())
            }),
            Candidate::each("engine, limits", Ours, move |index| {
                admit_three(&plain, Planes::Limits, index, for_plain.request(index), clock.now())
            }),
            Candidate::each("engine, limits, capacity and overload", Ours, move |index| {
                admit_three(&full, Planes::All, index, for_full.request(index), clock.now())
            }),
        ],
    }
}

fn fill(engine: &Engine, visitors: &Visitors) {
    for session in 0..workload::SESSIONS {
        let keys = visitors.of_session(session);
        assert!(admit_three(engine, Planes::Limits, session, keys, START), "there is room for every session");
    }
}
