//! nginx `limit_req`: from a shadow beside it to `auth_request` alone.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::side_by_side::{service, start_nginx};
use super::workshop::{Section, Workshop, exchanges};
use crate::gateways::stand::until;
use crate::gateways::tools::find_or_skip;

/// After this long the 21 units of a burst are back at 10 a second.
const REFILLED: Duration = Duration::from_millis(2200);

/// The bursts of each step.
const BURSTS: usize = 3;

/// How many more than on the page may be admitted in a step: on a busy machine a burst lasts longer
/// than a tenth of a second, and a unit comes back meanwhile.
const MORE_MAX: usize = 9;

/// How many requests the two may decide differently in a step: they read their clocks at different
/// instants.
const DIFFERENT_MAX: usize = 2;

/// Sends a burst by the command of the page; the answers by their status.
fn burst(workshop: &Workshop, command: &str) -> BTreeMap<u16, usize> {
    let printed = workshop.run(command);
    let counts = printed.lines().map(|line| {
        let (count, status) = line.trim().split_once(' ').unwrap();
        (status.parse().unwrap(), count.parse().unwrap())
    });
    counts.collect()
}

/// Sends the bursts of a step; how many were admitted and how many refused.
fn bursts(workshop: &Workshop, command: &str) -> (usize, usize) {
    let (mut admitted, mut refused) = (0, 0);
    for _ in 0..BURSTS {
        let answers = burst(workshop, command);
        admitted += answers.get(&200).unwrap_or(&0);
        refused += answers.get(&429).unwrap_or(&0);
        assert_eq!(answers.values().sum::<usize>(), 40, "{answers:?}");
        std::thread::sleep(REFILLED);
    }
    assert_eq!(admitted + refused, 40 * BURSTS, "there is no other answer");
    assert!((21 * BURSTS..=21 * BURSTS + MORE_MAX).contains(&admitted), "{admitted} were admitted");
    (admitted, refused)
}

/// Has nginx read its changed file, and returns when its old worker is gone.
fn reload_nginx(workshop: &Workshop, program: &Path, page: &Section) {
    page.assert_says("`nginx -s reload`");
    let log = workshop.file("logs/error.log");
    let gone = || std::fs::read_to_string(&log).unwrap().matches("exited with code 0").count();
    let before = gone();
    workshop
        .run(&format!("{} -p . -c nginx.conf -e logs/error.log -s reload 2> reload.log", program.display()));
    until("the old worker of nginx is gone", || gone() > before);
}

/// The number in the only line that the command prints.
fn number(workshop: &Workshop, command: &str) -> usize {
    let printed = workshop.run(command);
    let last = printed.trim_end().rsplit([' ', '\n']).next().unwrap();
    last.parse().unwrap_or_else(|_| panic!("$ {command}\n{printed}"))
}

#[test]
fn enforcement_moves_from_limit_req_to_tidegate_as_the_page_says() {
    let test = "enforcement_moves_from_limit_req_to_tidegate_as_the_page_says";
    let Some(program) = find_or_skip("nginx", test) else { return };
    let Some(_) = find_or_skip("curl", test) else { return };
    let page = Section::of("## From nginx limit_req and limit_conn");
    let mut workshop = Workshop::new(&[8080, 8000]);
    workshop.set_address(3000, &service());

    // Step 1: nginx enforces, and Tidegate looks.
    workshop.follow(&page.block("# tidegate.yaml"));
    workshop.follow(&page.block("sed -e"));
    workshop.adapt("tidegate.conf");
    let location = "    location / {\n";
    let limit_req = "limit_req zone=per_ip burst=20 nodelay;";
    page.assert_says(&format!("Keep `{limit_req}` in its `location /`."));
    workshop.edit("tidegate.conf", location, &format!("{location}        {limit_req}\n"));
    let before = page.block("limit_req_zone").text;
    let (zones, _) = before.split_once("\n\n").unwrap();
    start_nginx(&program, &mut workshop, &format!("{zones}\ninclude tidegate.conf;"));
    let shadow = page.block("--parallel-max").text;
    let [(curl, answers), (metrics, decisions)] = &exchanges(&shadow)[..] else { panic!("{shadow}") };
    assert_eq!(*answers, "     21 200\n     19 429\n");
    let (admitted, _) = bursts(&workshop, curl);
    let expected = decisions.replace("} 63\n", &format!("}} {admitted}\n"));
    assert_eq!(
        workshop.run(metrics),
        expected,
        "Tidegate sees what nginx admits, and would refuse nothing of it"
    );

    // Step 2: Tidegate enforces, and nginx looks.
    workshop.edit("tidegate.yaml", ", mode: shadow", "");
    page.assert_says("add `limit_req_dry_run on;` to the location");
    workshop.edit("tidegate.conf", location, &format!("{location}        limit_req_dry_run on;\n"));
    reload_nginx(&workshop, &program, &page);
    until("the policy is taken over", || {
        number(&workshop, "curl -s http://127.0.0.1:8080/metrics | grep ^tidegate_policy_reloads_total") == 1
    });
    let moved = page.block("limiting requests, dry run").text;
    let [(refusals, of_ours), (dry_run, of_nginx)] = &exchanges(&moved)[..] else { panic!("{moved}") };
    let (_, refused) = bursts(&workshop, curl);
    assert_eq!(workshop.run(refusals), of_ours.replace("} 57\n", &format!("}} {refused}\n")));
    assert_eq!(*of_nginx, "57\n");
    let would_refuse = number(&workshop, dry_run);
    assert!(would_refuse.abs_diff(refused) <= DIFFERENT_MAX, "nginx {would_refuse}, Tidegate {refused}");

    // Step 3: nginx has no limit any more.
    page.assert_says("Step 3 removes `limit_req`.");
    workshop.edit("tidegate.conf", &format!("        limit_req_dry_run on;\n        {limit_req}\n"), "");
    reload_nginx(&workshop, &program, &page);
    let answers = burst(&workshop, curl);
    assert!((21..=24).contains(&answers[&200]) && answers[&200] + answers[&429] == 40, "{answers:?}");
    assert_eq!(number(&workshop, dry_run), would_refuse, "nginx looks no longer");

    page.assert_says("The recipe answers 503 then: forty of forty in the trial.");
    workshop.kill_first_daemon();
    assert_eq!(burst(&workshop, curl), BTreeMap::from([(503, 40)]));
}
