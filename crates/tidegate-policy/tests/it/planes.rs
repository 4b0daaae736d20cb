//! Nodes, tables and resources: valid settings, and the messages about invalid ones.

use std::time::Duration;

use tidegate_capacity::{
    Ceilings, PartitionBy, ReadMembers, TableConfig, TableMode, WriteCheck, WriteQuorum,
};
use tidegate_core::Class;
use tidegate_overload::{
    AdaptiveLimitConfig, FleetShare, LimitAlgorithm, QueueConfig, ResourceConfig, ResourceMode, RoomUse,
    Share, SignalSource,
};
use tidegate_policy::compare;
use tidegate_policy::policy::resources::ResourcePolicy;

use crate::{assert_files, problems, settings, warnings};

const PLANES: &str = "
namespaces:
  shop:
    limits: [{ name: all, rate: 100/s }]
    tables:
      - name: orders
        partition_by: hash
        provisioned: { read: 1600, write: 400 }
        mode: static
        partitions: { min: 16 }
      - { name: users, provisioned: { read: 10, write: 1 } }
  other: { tables: [{ name: orders, provisioned: { read: 1, write: 1 } }] }
nodes: [{ name: n1, units: 8000 }, { name: n2, units: 2000 }]
resources:
  app:
    concurrency: 100
    queue: { requests: 500, bytes: 1MiB, wait: { critical: 2s, sheddable: 500ms } }
    status: 529
  plain: { concurrency: 1 }
";

#[test]
fn tables_belong_to_namespaces_and_resources_have_names() {
    let policy = settings(PLANES);
    assert_eq!(warnings(PLANES), [""; 0]);
    let shop = policy.namespace("shop").unwrap();
    let orders = &shop.tables[0];
    assert_eq!(
        (
            orders.name.as_str(),
            orders.read_units_per_second,
            orders.write_units_per_second,
            orders.partitions
        ),
        ("orders", 1600, 400, 16)
    );
    assert_eq!((shop.tables[1].partitions, policy.namespace("other").unwrap().tables.len()), (1, 1));
    let nodes: Vec<_> = policy
        .nodes
        .iter()
        .map(|node| (node.name.as_str(), node.units_per_second, node.reserve_percent))
        .collect();
    assert_eq!(nodes, [("n1", 8000, 10), ("n2", 2000, 10)]);
    let [app, plain] = &policy.resources[..] else { panic!("{:?}", policy.resources) };
    assert_eq!(
        (app.name.as_str(), app.config.in_flight_max, app.config.adaptive, app.status),
        ("app", 100, None, Some(529))
    );
    assert_eq!(app.config.waiting_max, Some(RoomUse::new(500, 1 << 20)));
    let waits = Class::ALL.map(|class| app.wait(class).as_millis());
    assert_eq!(waits, [500, 500, 2000, 2000], "from the least important class");
    assert_eq!((plain.wait(Class::CriticalPlus), plain.status), (Duration::ZERO, None));
}

#[test]
fn a_table_has_its_order_mode_burst_ceilings_and_groups() {
    let policy = settings(
        "
namespaces:
  shop:
    tables:
      - name: orders
        provisioned: { read: 4000, write: 1000 }
        partition_by: range
        key_prefix: order-
        mode: burst
        burst: 2m
        partitions: { min: 4, ceiling: { read: 2000, write: 500 } }
        replicas: 2
        reads: local
        write_check: always
        write_quorum: majority
        account: retail
      - { name: carts, provisioned: { read: 10, write: 10 }, partition_by: slot, mode: global }
nodes: [{ name: n1, units: 8000, reserve: 0.25 }, { name: n2, units: 8000, reserve: 0 }]
accounts: [{ name: retail, read: 9000 }]
",
    );
    let [orders, carts] = &policy.namespace("shop").unwrap().tables[..] else { panic!("two tables") };
    let mut expected = TableConfig::new("shop", "orders", 4000, 1000)
        .partitions(4)
        .partition_by(PartitionBy::Range)
        .mode(TableMode::Burst)
        .ceilings(Ceilings { read: 2000, write: 500 })
        .replicas(2)
        .reads(ReadMembers::Local)
        .write_check(WriteCheck::Always)
        .write_quorum(WriteQuorum::Majority)
        .account("retail");
    expected.key_prefix = b"order-".to_vec();
    expected.burst = Duration::from_mins(2);
    assert_eq!(*orders, expected);
    assert_eq!((carts.partition_by, carts.mode), (PartitionBy::Slot, TableMode::Global));
    let reserves: Vec<_> = policy.nodes.iter().map(|node| node.reserve_percent).collect();
    assert_eq!(reserves, [25, 0]);
    let [retail] = &policy.accounts[..] else { panic!("one account") };
    assert_eq!((retail.read_units_per_second, retail.write_units_per_second), (9000, 40_000));
    assert!(policy.capacity().build().is_ok());
}

#[test]
fn tables_on_demand_have_initial_and_highest_limits_and_as_many_partitions_as_these_need() {
    let policy = settings(
        "
namespaces:
  shop:
    tables:
      - { name: plain, on_demand: {} }
      - name: carts
        on_demand: { initial: { write: 2500 }, max: { read: 20000 }, growth: 30m }
        partitions: { ceiling: { write: 500 } }
      - { name: small, on_demand: { initial: { read: 10, write: 10 } }, partitions: { min: 3 } }
",
    );
    let tables = &policy.namespace("shop").unwrap().tables;
    let terms: Vec<_> = tables.iter().map(|table| table.on_demand.unwrap()).collect();
    let units = |units| tidegate_capacity::Units::whole(units);
    assert_eq!((terms[0].read.initial, terms[0].write.initial), (units(12_000), units(4_000)));
    assert_eq!((terms[0].read.max, terms[0].write.growth), (None, Duration::from_mins(1)));
    assert_eq!((terms[1].read.initial, terms[1].write.initial), (units(12_000), units(2_500)));
    assert_eq!((terms[1].read.max, terms[1].write.max), (Some(units(20_000)), None));
    assert_eq!(terms[1].read.growth, Duration::from_mins(30));
    assert!(tables.iter().all(|table| table.mode == TableMode::Global));
    // 12 000 of 3 000 and 4 000 of 1 000. Then 12 000 of 3 000 and 2 500 of 500.
    assert_eq!(tables.iter().map(|table| table.partitions).collect::<Vec<_>>(), [8, 9, 3]);
    assert!(policy.capacity().build().is_ok());
}

#[test]
fn indexes_are_tables_of_their_own_with_the_settings_of_their_table() {
    let policy = settings(
        "
namespaces:
  shop:
    tables:
      - name: orders
        provisioned: { read: 400, write: 100 }
        mode: adaptive
        replicas: 2
        account: retail
        indexes:
          - { name: by-user, provisioned: { read: 50, write: 100 }, partitions: { min: 2 } }
          - { name: by-day, partition_by: range }
      - { name: carts, on_demand: {}, indexes: [{ name: by-user }] }
nodes: [{ name: n1, units: 90000 }, { name: n2, units: 90000 }]
accounts: [{ name: retail }]
",
    );
    let tables = &policy.namespace("shop").unwrap().tables;
    let find = |name: &str| tables.iter().find(|table| table.name == name).unwrap();
    let names: Vec<_> = tables.iter().map(|table| table.name.as_str()).collect();
    assert_eq!(names, ["orders", "orders/by-user", "orders/by-day", "carts", "carts/by-user"]);
    let by_user = find("orders/by-user");
    assert_eq!(by_user.index_of.as_deref(), Some("orders"));
    assert_eq!((by_user.read_units_per_second, by_user.write_units_per_second), (50, 100));
    assert_eq!((by_user.mode, by_user.replicas, by_user.partitions), (TableMode::Adaptive, 2, 2));
    let by_day = find("orders/by-day");
    assert_eq!((by_day.partition_by, by_day.read_units_per_second), (PartitionBy::Range, 400));
    assert_eq!(by_day.account.as_deref(), Some("retail"));
    assert_eq!(find("carts/by-user").on_demand, find("carts").on_demand);
    assert!(policy.capacity().build().is_ok());
}

#[test]
fn what_does_not_work_of_tables_on_demand_and_indexes_is_told_where_it_stands() {
    let table = |rest: &str| format!("namespaces: {{ a: {{ tables: [{{ name: t, {rest} }}] }} }}");
    let provisioned = "provisioned: { read: 9, write: 9 }";
    let many: Vec<String> = (0..26).map(|index| format!("{{ name: i{index} }}")).collect();
    for (rest, expected) in [
        (
            format!("{provisioned}, on_demand: {{}}"),
            "tables[0].on_demand: a table has either provisioned throughput or throughput on demand; remove `on_demand` or `provisioned`",
        ),
        (
            "on_demand: {}, mode: burst".to_owned(),
            "tables[0].mode: a table on demand is admitted from the throughput of the whole table; remove `mode`, or use `provisioned`",
        ),
        (
            "on_demand: { max: { write: 100 } }".to_owned(),
            "tables[0].on_demand.max.write: the highest limit of 100 units is below the initial one of 4000; raise it, or lower `initial: { write: .. }`",
        ),
        (
            "on_demand: { growth: 2h }".to_owned(),
            "tables[0].on_demand.growth: growth 2h is out of range; use 1s to 1h",
        ),
        (
            "on_demand: { initial: { read: 0 } }".to_owned(),
            "tables[0].on_demand.initial.read: 0 is out of range; use a whole number from 1 to 1000000",
        ),
        (
            format!("{provisioned}, indexes: [{{ name: a/b }}]"),
            "tables[0].indexes[0].name: the name of the index \"a/b\" has a slash; write the index's own name alone",
        ),
        (
            format!("{provisioned}, indexes: [{}]", many.join(", ")),
            "tables[0].indexes: 26 indexes; use at most 25",
        ),
        (
            format!("{provisioned}, indexes: [{{ name: i, partitions: {{ ceiling: {{ read: 3 }} }} }}]"),
            "tables[0].indexes[0].partitions.ceiling: table \"t/i\": a partition's share of read units is more than its ceiling of 3 a second; use more partitions or a higher ceiling",
        ),
    ] {
        let lines = problems(&table(&rest));
        assert!(lines.len() == 1 && lines[0].ends_with(expected), "{rest}: {lines:#?}");
    }
    let lines = problems(&table(&format!("{provisioned}, indexes: [{{ name: i }}, {{ name: i }}]")));
    assert!(lines.len() == 1 && lines[0].contains("duplicate index name \"i\""), "{lines:?}");
}

#[test]
fn a_table_that_cannot_be_laid_out_is_told_why() {
    let (prefix, nodes) =
        ("namespaces: { a: { tables: [{ name: t, provisioned: { read: 9000, write: 9 }", "units: 99999");
    for (table, rest, expected) in [
        (
            "replicas: 2",
            "",
            "tables[0].replicas: table \"t\" has groups of 2 on 1 node; use 1 to 3, and at most one for each node",
        ),
        ("replicas: 4", "", "tables[0].replicas: 4 is out of range; use a whole number from 1 to 3"),
        (
            "partitions: { min: 2, ceiling: { read: 3000 } }",
            "",
            "tables[0].partitions.ceiling: table \"t\": a partition's share of read units is more than its ceiling of 3000 a second; use more partitions or a higher ceiling",
        ),
        (
            "account: x",
            "",
            "tables[0].account: table \"t\" is of account \"x\", which does not exist; add it or correct the name",
        ),
        (
            "mode: burst, burst: 90m",
            "",
            "tables[0].burst: burst 90m is out of range; use whole seconds, 0s to 1h",
        ),
        (
            "mode: burst, burst: 1500ms",
            "",
            "tables[0].burst: burst 1500ms is out of range; use whole seconds, 0s to 1h",
        ),
        (
            "key_prefix: x",
            "",
            "tables[0].key_prefix: a prefix of keys counts for `partition_by: range` alone; remove it",
        ),
        (
            "mode: bust",
            "",
            "tables[0].mode: \"bust\" is not a value of this key; did you mean burst? It is one of static, burst, adaptive or global",
        ),
        (
            "",
            ", reserve: 0.95",
            "nodes[0].reserve: reserve \"0.95\" is not a part of a node in hundredths; write a decimal from 0 to 0.9, for example 0.1",
        ),
        (
            "",
            ", reserve: 0.105",
            "nodes[0].reserve: reserve \"0.105\" is not a part of a node in hundredths; write a decimal from 0 to 0.9, for example 0.1",
        ),
        (
            "",
            ", reserve: ten",
            "nodes[0].reserve: reserve \"ten\" is not a part of a node in hundredths; write a decimal from 0 to 0.9, for example 0.1",
        ),
    ] {
        let text = format!("{prefix}, {table} }}] }} }}\nnodes: [{{ name: n, {nodes}{rest} }}]");
        let lines = problems(&text);
        assert!(lines.len() == 1 && lines[0].ends_with(expected), "{table}{rest}: {lines:#?}");
    }
}

#[test]
fn the_largest_access_is_1_mib_and_400_kib_unless_a_table_says_otherwise() {
    let policy = settings(
        "
namespaces:
  shop:
    tables:
      - { name: plain, provisioned: { read: 9, write: 9 } }
      - name: images
        provisioned: { read: 9, write: 9 }
        max_access: { read: 6400KiB, write: 800KiB }
        indexes: [{ name: by-user }]
      - { name: notes, provisioned: { read: 9, write: 9 }, max_access: { write: 1B } }
",
    );
    let tables = &policy.namespace("shop").unwrap().tables;
    let sizes: Vec<_> = tables.iter().map(|table| (table.read_bytes_max, table.write_bytes_max)).collect();
    let [usual, large] = [(1 << 20, 400 << 10), (6400 << 10, 800 << 10)];
    assert_eq!(sizes, [usual, large, large, (1 << 20, 1)]);
    assert!(policy.capacity().build().is_ok());
    for (max_access, expected) in [
        ("{ write: 0 }", "max_access.write: write \"0\" is too small; use a size from 1B to 800KiB"),
        (
            "{ write: 801KiB }",
            "max_access.write: write \"801KiB\" is too large; use a size from 1B to 800KiB",
        ),
        ("{ read: 7MiB }", "max_access.read: read \"7MiB\" is too large; use a size from 1B to 6400KiB"),
        (
            "{ read: lots }",
            "max_access.read: read \"lots\" is not a size; write a whole number with B, KiB, MiB, GiB or TiB, for example 256MiB",
        ),
        ("{ reads: 1KiB }", "unknown key \"reads\"; did you mean `read`?"),
    ] {
        let lines = problems(&format!(
            "namespaces: {{ a: {{ tables: [{{ name: t, provisioned: {{ read: 9, write: 9 }}, max_access: {max_access} }}] }} }}"
        ));
        assert!(lines.len() == 1 && lines[0].ends_with(expected), "{max_access}: {lines:#?}");
    }
}

#[test]
fn warm_throughput_is_of_tables_on_demand_and_with_global_admission() {
    let policy = settings(
        "
namespaces:
  shop:
    tables:
      - name: carts
        on_demand: { initial: { read: 300, write: 100 }, max: { write: 2000 } }
        warm: { write: 2000 }
        indexes: [{ name: by-user }, { name: by-day, provisioned: { read: 10, write: 100 } }]
      - { name: orders, provisioned: { read: 9, write: 9 }, mode: global, warm: { read: 6000, write: 9 } }
      - { name: plain, on_demand: {} }
",
    );
    let tables = &policy.namespace("shop").unwrap().tables;
    let warm: Vec<_> = tables.iter().map(|table| table.warm.map(|warm| (warm.read, warm.write))).collect();
    // The index of throughput of its own is not warm with its table.
    assert_eq!(warm, [Some((300, 2000)), Some((300, 2000)), None, Some((6000, 9)), None]);
    let capacity = policy.capacity().build().unwrap();
    let write = tidegate_capacity::AccessOperation::Write;
    let rate = |table| capacity.token_rate("shop", table, write).unwrap().whole_left();
    assert_eq!([rate("carts"), rate("orders"), rate("plain")], [2000, 9, 4000]);
    let table = |rest: &str| format!("namespaces: {{ a: {{ tables: [{{ name: t, {rest} }}] }} }}");
    for (rest, expected) in [
        (
            "provisioned: { read: 9, write: 9 }, warm: { read: 9 }",
            "tables[0].warm: partitions made for warm throughput would divide the shares of this mode; use `mode: global`, or remove `warm`",
        ),
        (
            "on_demand: { max: { read: 20000 } }, warm: { read: 20001 }",
            "tables[0].warm.read: warm throughput of 20001 units is above the highest limit of 20000; lower it, or raise `on_demand: { max: { read: .. } }`",
        ),
        (
            "on_demand: {}, warm: { write: 0 }",
            "tables[0].warm.write: 0 is out of range; use a whole number from 1 to 1000000",
        ),
        (
            "on_demand: {}, warm: { write: 1000001 }",
            "tables[0].warm.write: 1000001 is out of range; use a whole number from 1 to 1000000",
        ),
    ] {
        let lines = problems(&table(rest));
        assert!(lines.len() == 1 && lines[0].ends_with(expected), "{rest}: {lines:#?}");
    }
}

#[test]
fn burst_of_a_static_table_is_warned_about() {
    let warned = warnings(
        "namespaces: { a: { tables: [{ name: t, provisioned: { read: 9, write: 9 }, burst: 1m }] } }",
    );
    assert!(warned.len() == 1 && warned[0].contains("`burst` has no effect"), "{warned:?}");
}

#[test]
fn keys_and_values_of_later_versions_are_named() {
    let unavailable = |rest: &str, named: &str| {
        let lines = problems(&format!(
            "namespaces: {{ a: {{ tables: [{{ name: t, provisioned: {{ read: 9, write: 9 }} }}] }} }}\n{rest}"
        ));
        assert!(
            lines.len() == 1 && lines[0].contains(named) && lines[0].contains("not available"),
            "{rest}: {lines:?}"
        );
    };
    unavailable("prices: {}", "\"prices\"");
    unavailable("resources: { app: { concurrency: 1, scale: { soft: 0.7 } } }", "\"scale\"");
    unavailable("signals: [{ name: cpu, source: cgroup.cpu, target: 0.85 }]", "\"cgroup.cpu\"");
    unavailable("signals: [{ name: lag, source: prometheus, target: 9 }]", "use in_flight, queue_delay");
}

#[test]
fn a_resource_in_shadow_mode_says_so_and_others_enforce() {
    let policy = settings(
        "resources: { app: { concurrency: 1, mode: shadow }, db: { concurrency: 1, mode: enforce }, web: { concurrency: 1 } }",
    );
    let modes: Vec<_> = policy.resources.iter().map(|resource| resource.config.mode).collect();
    assert_eq!(modes, [ResourceMode::Shadow, ResourceMode::Enforce, ResourceMode::Enforce]);
    let problems = problems("resources: { app: { concurrency: 1, mode: shadwo } }");
    assert!(problems[0].contains("mode") && problems[0].contains("shadow"), "{problems:?}");
}

#[test]
fn a_resource_has_an_adaptive_limit_and_its_queue_an_order() {
    let policy = settings(
        "
resources:
  app:
    concurrency: auto
    share: auto
    reserve: 0.1
    show_load: true
    queue:
      wait: { critical: 250ms }
      weights: { critical: 4, sheddable: 2 }
      delay_target: { critical: off, sheddable: 50ms }
      min_share: { sheddable_plus: 0.05, sheddable: 0 }
      priority_share: 1
      lifo: [critical, critical_plus]
  bounded: { concurrency: { algorithm: aimd, max: 10, ceiling: 200ms } }
  high: { concurrency: { algorithm: gradient, min: 2000 } }
  plain: { concurrency: 1, queue: { wait: { critical: 1s } } }
",
    );
    let [app, bounded, high, plain] = &policy.resources[..] else { panic!("{:?}", policy.resources) };
    assert_eq!(app.config.adaptive, Some(AdaptiveLimitConfig::default()));
    let facts =
        |resource: &ResourcePolicy| (resource.config.share, resource.config.reserve, resource.show_load);
    assert_eq!(facts(app), (FleetShare::Queue, 10, true));
    let queue = app.config.queue.unwrap();
    assert_eq!(queue.weights, [2, 4, 4, 16]);
    let ms = Duration::from_millis;
    assert_eq!(queue.delay_targets, [Some(ms(50)), Some(ms(20)), None, Some(ms(5))]);
    let percent = Share::percent;
    assert_eq!(queue.min_shares, [Some(percent(0)), Some(percent(5)), None, None]);
    assert_eq!((queue.reserve_share, queue.lifo), (percent(100), [false, false, true, true]));
    let numbers = |resource: &ResourcePolicy| {
        let one = resource.config.adaptive.unwrap();
        assert_eq!(resource.config.in_flight_max, u64::from(one.max));
        (one.algorithm, one.min, one.initial, one.max, one.ceiling)
    };
    assert_eq!(numbers(bounded), (LimitAlgorithm::Aimd, 4, 10, 10, Some(ms(200))));
    assert_eq!(numbers(high), (LimitAlgorithm::Gradient, 2000, 2000, 2000, None));
    assert_eq!(plain.config.queue, Some(QueueConfig::default()));
    assert_eq!(facts(plain), (FleetShare::None, 5, false));
    assert_eq!(plain.config.queue(QueueConfig::default()), plain.config);
    let divided = settings("resources: { app: { concurrency: 8, share: auto } }");
    assert_eq!(divided.resources[0].config, ResourceConfig::new(8).share(FleetShare::PlacesAndQueue));
}

#[test]
fn signals_have_a_source_a_target_and_a_freshness() {
    let policy = settings(
        "
resources: { app: { concurrency: 4 } }
signals:
  - { name: lag, source: push, target: 1000, unit: messages, resource: app }
  - { name: slow, source: slow_answers, slower_than: 200ms }
  - { name: use, source: in_flight, target: 0.8, smoothing: 2s }
  - { name: delay, source: queue_delay }
",
    );
    let signals = policy.signals.iter();
    let sources: Vec<_> = signals.map(|signal| (signal.source, signal.ttl, signal.target)).collect();
    let slow = SignalSource::SlowAnswers { slower_than: Duration::from_millis(200) };
    assert_eq!(
        sources,
        [
            (SignalSource::Pushed, Some(Duration::from_secs(10)), 1000.0),
            (slow, None, 0.1),
            (SignalSource::InFlight, None, 0.8),
            (SignalSource::QueueDelay, None, 20.0)
        ]
    );
    let lag = &policy.signals[0];
    assert_eq!((lag.resource.as_deref(), lag.unit.as_str()), (Some("app"), "messages"));
    assert_eq!(policy.signals[2].smoothing, Duration::from_secs(2));
}

#[test]
fn what_does_not_work_is_told_where_it_stands() {
    let table = |name, units| format!("{{ name: {name}, provisioned: {{ read: {units}, write: 1 }} }}");
    let (t, u) = (table("t", 9), table("u", 1_000_000));
    assert_files(&[
        (
            &format!("namespaces: {{ a: {{ tables: [{t}, {t}] }} }}"),
            &[
                "t.yaml:1:86: namespaces.a.tables[1].name: duplicate table name \"t\"; first defined at line 1; rename one of them",
            ],
        ),
        (
            &format!("namespaces: {{ a: {{ tables: [{t}, {u}] }} }}"),
            &[
                "t.yaml:1:13: namespaces: all tables are promised 1000011 units a second, more than one node can do; add nodes under `nodes:`",
            ],
        ),
        (
            &format!("namespaces: {{ a: {{ tables: [{t}] }} }}\nnodes: [{{ name: n, units: 9 }}]"),
            &[
                "t.yaml:2:27: nodes[0].units: node \"n\" can do 9 units a second and reserves 10 %, but its partitions are promised 10; raise its units, add a node, or lower what tables are provisioned",
            ],
        ),
        (
            "namespaces: { a: { tables: [{ name: t }] } }",
            &[
                "t.yaml:1:29: namespaces.a.tables[0].provisioned: `provisioned` is missing; add `provisioned:`, or `on_demand: {}`",
            ],
        ),
        (
            "namespaces: { a: { tables: [{ name: '', provisioned: { read: 0, write: 1000001 } }] } }",
            &[
                "t.yaml:1:37: namespaces.a.tables[0].name: the name of the table is empty; give it one",
                "t.yaml:1:62: namespaces.a.tables[0].provisioned.read: 0 is out of range; use a whole number from 1 to 1000000",
                "t.yaml:1:72: namespaces.a.tables[0].provisioned.write: 1000001 is out of range; use a whole number from 1 to 1000000",
            ],
        ),
        (
            "resources: { app: { concurrency: 0, status: 200 }, b: { queue: {} } }",
            &[
                "t.yaml:1:34: resources.app.concurrency: 0 is out of range; use a whole number from 1 to 1000000, or auto",
                "t.yaml:1:45: resources.app.status: 200 is out of range; use a whole number from 400 to 599",
                "t.yaml:1:55: resources.b.concurrency: `concurrency` is missing; add `concurrency:`, the most requests in flight at once, 1 to 1000000",
            ],
        ),
        (
            "resources: { a: { concurrency: fast, reserve: 0.6 }, b: { concurrency: { min: 9, max: 3, initial: 5 } } }",
            &[
                "t.yaml:1:32: resources.a.concurrency: expected a whole number, found \"fast\"; use a whole number from 1 to 1000000, or auto",
                "t.yaml:1:47: resources.a.reserve: reserve \"0.6\" is not a part from 0 to 0.5; write a decimal with at most two places, for example 0.05",
                "t.yaml:1:79: resources.b.concurrency.min: min 9 is above max 3; use at most 3, or raise `max`",
            ][..],
        ),
        (
            "resources: { a: { concurrency: 1, queue: { weights: { critical: 0 }, min_share: { sheddable: 0.5 }, lifo: [critical, critical], delay_target: { critical: 0s } } } }",
            &[
                "t.yaml:1:65: resources.a.queue.weights.critical: weight 0 of class critical is out of range; use 1 to 10000, or `min_share: { critical: 0 }` for a class that is served only when no other waits",
                "t.yaml:1:94: resources.a.queue.min_share.sheddable: min_share \"0.5\" is not a part from 0 to 0.05; write a decimal with at most two places, for example 0.05",
                "t.yaml:1:118: resources.a.queue.lifo[1]: class critical is listed twice; remove one of them",
                "t.yaml:1:155: resources.a.queue.delay_target.critical: critical \"0s\" is out of range; use a span from 1ms to 1h",
            ][..],
        ),
        (
            "signals: [{ name: a, source: push, target: -1, ttl: 1ms }, { name: a, source: slow_answers, resource: x }, { name: c, source: push, slower_than: 1s, target: NaN }]",
            &[
                "t.yaml:1:44: signals[0].target: target \"-1\" is not a number above 0; write a decimal, for example 0.9 or 1000",
                "t.yaml:1:53: signals[0].ttl: ttl \"1ms\" is out of range; use a span from 100ms to 1h",
                "t.yaml:1:60: signals[1]: `source: slow_answers` needs `slower_than`; add `slower_than: 200ms`, the latency above which an answer is slow",
                "t.yaml:1:68: signals[1].name: duplicate signal name \"a\"; first defined at line 1; rename one of them",
                "t.yaml:1:103: signals[1].resource: resource \"x\" does not exist; add it under `resources:`, or remove `resource`",
                "t.yaml:1:146: signals[2].slower_than: only `source: slow_answers` has `slower_than`; remove it",
                "t.yaml:1:158: signals[2].target: target \"NaN\" is not a number above 0; write a decimal, for example 0.9 or 1000",
            ][..],
        ),
        (
            "resources: { a: { concurrency: 1, queue: { bytes: 1KiB, wait: { critical: 2h, sheddable: 0s, critical_plus: soon, vital: 1s } } } }",
            &[
                "t.yaml:1:51: resources.a.queue.bytes: bytes \"1KiB\" is too small; use a size from 64KiB to 64GiB",
                "t.yaml:1:75: resources.a.queue.wait.critical: a wait of 2h is out of range; use 1ms to 1h, or `off` for a class that does not wait",
                "t.yaml:1:90: resources.a.queue.wait.sheddable: a wait of 0s is out of range; use 1ms to 1h, or `off` for a class that does not wait",
                "t.yaml:1:109: resources.a.queue.wait.critical_plus: wait \"soon\" is not a span of time; write a whole number with ns, us, ms, s, m, h, d or w, for example 10m, 1h30m or 7d",
                "t.yaml:1:115: resources.a.queue.wait.vital: unknown key \"vital\"; use one of critical, critical_plus, sheddable or sheddable_plus",
            ],
        ),
    ]);
}

#[test]
fn changed_tables_nodes_and_resources_need_no_restart() {
    let other = PLANES
        .replace("units: 8000", "units: 9000")
        .replace("concurrency: 100", "concurrency: 50")
        .replace("read: 1600", "read: 1800");
    let comparison = compare(&settings(PLANES), &settings(&other));
    let changed: Vec<String> = comparison
        .settings
        .iter()
        .map(|one| format!("{}: {} -> {} {}", one.path, one.old, one.new, one.needs_restart))
        .collect();
    assert_eq!(
        changed,
        [
            "namespaces.shop.tables.orders.provisioned.read: 1600 -> 1800 false",
            "nodes.n1.units: 8000 -> 9000 false",
            "resources.app.concurrency: 100 -> 50 false",
        ]
    );
}
