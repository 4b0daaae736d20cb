//! nginx `limit_req`: from a shadow beside it to `auth_request` alone.

use std::collections::BTreeMap;
use std::path::Path;

use tidegate_test_support::until;

use super::side_by_side::{service, start_nginx};
use super::workshop::{Section, Workshop, exchanges};
use crate::gateways::tools::find_or_skip;

/// The bursts of each step.
const BURSTS: usize = 3;

/// The command of the page that sends a burst. Each burst comes from an address of its own, which
/// has the whole burst, and no unit comes back meanwhile.
struct BurstCommand<'p> {
    text: &'p str,
    sent: u8,
}

impl BurstCommand<'_> {
    /// Sends a burst; the answers by their status.
    fn send(&mut self, workshop: &Workshop) -> BTreeMap<u16, usize> {
        self.sent += 1;
        let command = self.text.replacen("curl ", &format!("curl --interface 127.0.1.{} ", self.sent), 1);
        let printed = workshop.run(&command);
        let counts = printed.lines().map(|line| {
            let (count, status) = line.trim().split_once(' ').unwrap();
            (status.parse().unwrap(), count.parse().unwrap())
        });
        counts.collect()
    }

    /// Sends the bursts of a step. The answers to each are those of the page.
    fn send_step(&mut self, workshop: &Workshop) {
        for _ in 0..BURSTS {
            assert_eq!(self.send(workshop), BTreeMap::from([(200, 21), (429, 19)]));
        }
    }
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
    workshop.edit("tidegate.yaml", "rate: 10/s", "rate: 1/m");
    workshop.follow(&page.block("sed -e"));
    workshop.adapt("tidegate.conf");
    // Tidegate may be late on a busy machine.
    workshop.edit("tidegate.conf", "proxy_connect_timeout 250ms", "proxy_connect_timeout 20s");
    workshop.edit("tidegate.conf", "proxy_read_timeout 1s", "proxy_read_timeout 20s");
    let location = "    location / {\n";
    let limit_req = "limit_req zone=per_ip burst=20 nodelay;";
    page.assert_says(&format!("Keep `{limit_req}` in its `location /`."));
    workshop.edit("tidegate.conf", location, &format!("{location}        {limit_req}\n"));
    let before = page.block("limit_req_zone").text;
    let (zones, _) = before.split_once("\n\n").unwrap();
    assert!(zones.contains("rate=10r/s"), "{zones}");
    let zones = zones.replace("rate=10r/s", "rate=1r/m");
    start_nginx(&program, &mut workshop, &format!("{zones}\ninclude tidegate.conf;"));
    let shadow = page.block("--parallel-max").text;
    let [(curl, answers), (metrics, decisions)] = &exchanges(&shadow)[..] else { panic!("{shadow}") };
    assert_eq!(*answers, "     21 200\n     19 429\n");
    let mut curl = BurstCommand { text: curl, sent: 0 };
    curl.send_step(&workshop);
    assert_eq!(
        workshop.run(metrics),
        *decisions,
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
    curl.send_step(&workshop);
    assert_eq!(workshop.run(refusals), *of_ours);
    assert_eq!(workshop.run(dry_run), *of_nginx);

    // Step 3: nginx has no limit any more.
    page.assert_says("Step 3 removes `limit_req`.");
    workshop.edit("tidegate.conf", &format!("        limit_req_dry_run on;\n        {limit_req}\n"), "");
    reload_nginx(&workshop, &program, &page);
    assert_eq!(curl.send(&workshop), BTreeMap::from([(200, 21), (429, 19)]));
    assert_eq!(workshop.run(dry_run), *of_nginx, "nginx looks no longer");

    page.assert_says("The recipe answers 503 then: forty of forty in the trial.");
    workshop.kill_first_daemon();
    assert_eq!(curl.send(&workshop), BTreeMap::from([(503, 40)]));
}
