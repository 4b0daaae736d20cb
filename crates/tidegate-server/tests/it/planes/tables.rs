//! Indexes, splits and explanations of tables, asked over HTTP.

use super::*;

const INDEXED: &str = "
nodes: [{ name: n1, units: 1000 }]
resources: { app: { concurrency: 2 } }
namespaces:
  blog: { limits: [{ name: per-user, key: [user], rate: 5/s }] }
  shop:
    tables:
      - name: orders
        provisioned: { read: 10, write: 10 }
        mode: burst
        indexes:
          - { name: by-user, provisioned: { read: 2, write: 2 } }
          - { name: by-day, provisioned: { read: 100, write: 100 } }
";

fn write(key: &str, index_writes: &Value) -> Value {
    json!({"namespace": "shop", "attributes": {},
        "access": {"table": "orders", "key": key, "kind": "write", "index_writes": index_writes}})
}

#[tokio::test]
async fn a_write_is_charged_to_the_indexes_it_changes_and_a_refusal_names_the_index() {
    let daemon = Daemon::start(INDEXED).await;
    let left = async |table: &str| {
        let series = r#"tidegate_capacity_left_units{namespace="shop",table="TABLE",operation="write"}"#;
        daemon.series(&series.replace("TABLE", table)).await
    };
    // Without entries every index has one of the same key and size.
    let plain = json!({"namespace": "shop", "attributes": {},
        "access": {"table": "orders", "key": "7", "kind": "write", "size": 2000}});
    let admitted = daemon.post("/v1/check", &plain).await;
    assert_eq!((admitted.status, &admitted.json()["access"]), (200, &json!({"units": 2.0, "left": 8.0})));
    assert_eq!(
        (admitted.header("x-tidegate-units"), admitted.header("x-tidegate-units-left")),
        (Some("2"), Some("8"))
    );
    assert_eq!(left("orders").await, "8.0");
    assert_eq!((left("orders/by-user").await, left("orders/by-day").await), ("0.0".into(), "98.0".into()));
    let to_user = json!([{"index": "by-user", "key": "ada"}]);
    let refused = daemon.post("/v1/check", &write("7", &to_user)).await;
    let body = refused.json();
    assert_eq!((refused.status, &body["reason"]), (429, &json!("key_range_throughput_exceeded")), "{body}");
    assert_eq!((&body["limit"], &body["capacity"]["table"]), (&json!("orders/by-user"), &json!("orders")));
    assert_eq!((&body["capacity"]["index"], &body["capacity"]["burst_left"]), (&json!("by-user"), &json!(0)));
    assert_eq!(left("orders").await, "8.0", "all or nothing");
    let peek = |mut body: Value| {
        body["peek"] = json!(true);
        body
    };
    let looked = daemon.post("/v1/check", &peek(write("7", &to_user))).await;
    assert_eq!((looked.status, looked.json()["limit"].clone()), (429, json!("orders/by-user")));
    let to_day =
        json!([{"index": "by-day", "key": "monday", "size": 3000}, {"index": "by-day", "key": "friday"}]);
    assert_eq!(daemon.post("/v1/check", &write("7", &to_day)).await.status, 200);
    assert_eq!((left("orders").await, left("orders/by-day").await), ("7.0".into(), "94.0".into()));
    // An index is read by its own name.
    let read = json!({"namespace": "shop", "attributes": {},
        "access": {"table": "orders/by-day", "key": "monday", "kind": "read_strong"}});
    assert_eq!(daemon.post("/v1/check", &read).await.status, 200);
    let read_left =
        r#"tidegate_capacity_left_units{namespace="shop",table="orders/by-day",operation="read"}"#;
    assert_eq!(daemon.series(read_left).await, "99.0");
}

#[tokio::test]
async fn an_empty_list_of_entries_changes_no_index_and_an_absent_one_changes_each() {
    let daemon = Daemon::start(INDEXED).await;
    let left = async || {
        let mut left = Vec::new();
        for table in ["orders", "orders/by-user", "orders/by-day"] {
            let series = r#"tidegate_capacity_left_units{namespace="shop",table="TABLE",operation="write"}"#;
            left.push(daemon.series(&series.replace("TABLE", table)).await);
        }
        left
    };
    let none = write("7", &json!([]));
    let explained = daemon.post("/v1/explain", &none).await.json();
    assert_eq!(explained["access"].as_array().unwrap().len(), 1, "{explained}");
    assert_eq!(daemon.post("/v1/check", &none).await.status, 200);
    assert_eq!(left().await, ["9.0", "2.0", "100.0"]);
    let mut absent = none.clone();
    absent["access"].as_object_mut().unwrap().remove("index_writes");
    for each in [absent, write("7", &Value::Null)] {
        assert_eq!(daemon.post("/v1/check", &each).await.status, 200);
    }
    assert_eq!(left().await, ["7.0", "0.0", "98.0"]);
    // A look at a write that changes no index is admitted; `by-user` has nothing left.
    let mut look = none;
    look["peek"] = json!(true);
    assert_eq!(daemon.post("/v1/check", &look).await.status, 200);
}

#[tokio::test]
async fn an_access_larger_than_its_table_allows_is_told_the_bound_at_every_door() {
    let small = INDEXED.replace("mode: burst", "mode: burst\n        max_access: { write: 2KiB }");
    let daemon = Daemon::start(&small).await;
    let write = [("table", "orders"), ("key", "7"), ("kind", "write"), ("size", "2049")];
    for protocol in PROTOCOLS {
        let answer = daemon.ask(protocol, &write).await.expect(protocol);
        let expected = "a write of 2049 bytes is larger than table \\\"orders\\\" allows".replace('\\', "");
        assert!(answer.replace('\\', "").contains(&expected), "{protocol}: {answer}");
        assert!(answer.contains("send at most 2048 bytes at a time"), "{protocol}: {answer}");
        assert!(answer.contains("raise `max_access: { write: .. }` of the table"), "{protocol}: {answer}");
        assert!(!answer.contains("name a table"), "{protocol}: {answer}");
    }
    let body = |size: u64| {
        json!({"namespace": "shop", "attributes": {},
            "access": {"table": "orders", "key": "7", "kind": "write", "size": size}})
    };
    let answer = daemon.post("/v1/check", &body(2049)).await;
    assert_eq!((answer.status, answer.json()["field"].clone()), (400, json!("size")), "{}", answer.body);
    assert_eq!(daemon.post("/v1/check", &body(2048)).await.status, 200);
    assert_eq!(daemon.reload(INDEXED).await, None);
    let answer = daemon.post("/v1/check", &body(409_601)).await;
    assert!(answer.body.contains("send at most 409600 bytes"), "{}", answer.body);
}

#[tokio::test]
async fn a_fresh_daemon_takes_the_warm_throughput_of_a_table_at_once() {
    let cold = HOT.replace(
        "provisioned: { read: 100, write: 100 }",
        "on_demand: { initial: { read: 100, write: 100 } }",
    );
    let cold = cold.replace("partition_by: range", "partition_by: hash");
    let cold = cold.replace("ceiling: { read: 100, write: 100 }", "ceiling: { read: 3000, write: 1000 }");
    let cold = cold.replace("units: 1000", "units: 10000");
    let warm = cold.replace("mode: global", "mode: global\n        warm: { write: 2000 }");
    // The refusals of 1 600 units a second for 4 s, from the first moment on.
    let refusals = async |policy: &str| {
        let daemon = Daemon::start(policy).await;
        let mut client = daemon.client().await;
        let mut refused = 0;
        for number in 0..800 {
            let body = json!({"namespace": "shop", "attributes": {},
                "access": {"table": "orders", "key": format!("order-{number}"), "kind": "write", "size": 8 << 10}});
            refused += u32::from(client.post("/v1/check", &body.to_string()).await.status != 200);
            daemon.clock.advance(Duration::from_millis(5));
        }
        refused
    };
    assert_eq!(refusals(&warm).await, 0);
    let refused = refusals(&cold).await;
    assert!(refused > 400, "without it the table grows from 100 units a second: {refused}");
}

#[tokio::test]
async fn entries_of_indexes_that_do_not_exist_or_are_too_many_are_errors() {
    let daemon = Daemon::start(INDEXED).await;
    let many: Vec<Value> = (0..65).map(|_| json!({"index": "by-day", "key": "x"})).collect();
    let mut read = write("7", &json!([{"index": "by-day", "key": "x"}]));
    read["access"]["kind"] = json!("read");
    let long = "x".repeat(3073);
    for (body, expected) in [
        (write("7", &json!([{"index": "by-month", "key": "x"}])), "orders/by-month"),
        (write("7", &json!(many)), "index_writes has 65 entries"),
        (read, "a read changes no entry of an index"),
        (write("7", &json!([{"index": "by-day", "key": long}])), "3073 bytes"),
        (write("7", &json!([{"index": "by-day", "key": "x", "size": 409_601}])), "409601 bytes"),
        (write("7", &json!([{"index": "by-day"}])), "key"),
    ] {
        for route in ["/v1/check", "/v1/reserve", "/v1/explain"] {
            let answer = daemon.post(route, &body).await;
            assert_eq!(answer.status, 400, "{route} {expected}: {}", answer.body);
            assert!(answer.body.contains(expected), "{route}: {}", answer.body);
        }
    }
    let full = r#"tidegate_capacity_left_units{namespace="shop",table="orders",operation="write"}"#;
    assert_eq!(daemon.series(full).await, "10.0");
}

#[tokio::test]
async fn an_explanation_shows_the_partitions_of_an_access_and_charges_nothing() {
    let daemon = Daemon::start(INDEXED).await;
    let body = write("7", &json!([{"index": "by-user", "key": "ada", "size": 3000}]));
    for _ in 0..2 {
        let explained = daemon.post("/v1/explain", &body).await.json();
        let [orders, index] = &explained["access"].as_array().unwrap()[..] else { panic!("{explained}") };
        assert_eq!((&orders["table"], &orders["index"]), (&json!("orders"), &Value::Null));
        assert_eq!(
            (&orders["units"], &orders["left"], &orders["rate"]),
            (&json!(1.0), &json!(10.0), &json!(10.0))
        );
        assert_eq!((&orders["mode"], &orders["burst_left"]), (&json!("burst"), &json!(0.0)));
        assert_eq!((&orders["partition"], &orders["node"]), (&json!(0), &json!("n1")));
        assert_eq!(orders["key_range"], "0000000000000000-ffffffffffffffff");
        assert_eq!((&index["index"], &index["units"]), (&json!("by-user"), &json!(3.0)));
        assert_eq!((&index["would"], &explained["would"]), (&json!("admit"), &json!("admit")), "{explained}");
    }
}

const HOT: &str = "
nodes: [{ name: n1, units: 1000 }]
resources: { app: { concurrency: 2 } }
namespaces:
  blog: { limits: [{ name: per-user, key: [user], rate: 5/s }] }
  shop:
    tables:
      - name: orders
        provisioned: { read: 100, write: 100 }
        mode: global
        partition_by: range
        partitions: { ceiling: { read: 100, write: 100 } }
";

#[tokio::test]
async fn a_partition_beyond_its_ceiling_is_split_while_the_daemon_runs() {
    // 32 writes a second to one of two partitions, which serves 20 of the table's 40.
    let hot = HOT
        .replace("provisioned: { read: 100, write: 100 }", "provisioned: { read: 100, write: 40 }")
        .replace("ceiling: { read: 100, write: 100 }", "min: 2, ceiling: { read: 100, write: 20 }");
    let daemon = Daemon::start(&hot).await;
    let mut client = daemon.client().await;
    let partitions = r#"tidegate_capacity_partitions{namespace="shop",table="orders"}"#;
    let mut seconds = 0;
    while daemon.series(partitions).await == "2" {
        assert!(seconds < 120, "it is split within two minutes");
        for number in 0..32 {
            let key = format!("order-{}", (number * 7 + seconds) % 50);
            let body = json!({"namespace": "shop", "attributes": {},
                "access": {"table": "orders", "key": key, "kind": "write"}});
            let answer = client.post("/v1/check", &body.to_string()).await;
            assert!([200, 429].contains(&answer.status), "{}", answer.body);
            daemon.clock.advance(Duration::from_micros(31_250));
        }
        // The task of the ticks has its turn.
        tokio::task::yield_now().await;
        seconds += 1;
    }
    assert!(seconds >= 20, "three windows have passed: {seconds}");
    assert_eq!(
        daemon.series(r#"tidegate_capacity_splits_total{namespace="shop",table="orders"}"#).await,
        "1"
    );
    let tables = daemon.get("/v1/tables?namespace=shop&table=orders").await.json();
    let table = &tables["tables"][0];
    assert_eq!(
        (&table["mode"], &table["splits"], &table["merges"]),
        (&json!("global"), &json!(1), &json!(0))
    );
    let numbers: Vec<u64> = table["partitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["partition"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers.len(), 3);
    assert!(numbers.iter().filter(|number| **number >= 2).count() == 2, "new numbers: {numbers:?}");
    let placement =
        |number: u64| json!({"namespace": "shop", "table": "orders", "partition": number, "node": "n1"});
    let new = *numbers.iter().max().unwrap();
    let placed = daemon.post("/v1/placements", &placement(new)).await;
    assert_eq!((placed.status, placed.json()["partition"].clone()), (200, json!(new)));
    // Both halves are written at once now: 32 a second.
    let mut refused = 0;
    for second in 0..3 {
        for number in 0..32 {
            let key = format!("order-{}", (number * 7) % 50);
            let body = json!({"namespace": "shop", "attributes": {},
                "access": {"table": "orders", "key": key, "kind": "write"}});
            let is_refused = client.post("/v1/check", &body.to_string()).await.status == 429;
            refused += u32::from(is_refused && second > 0);
            daemon.clock.advance(Duration::from_micros(31_250));
        }
    }
    assert!(refused <= 8, "{refused} of 64");
}

#[tokio::test]
async fn a_table_changes_its_mode_over_reloads_and_keeps_its_levels() {
    let daemon = Daemon::start(HOT).await;
    let body = json!({"namespace": "shop", "attributes": {},
        "access": {"table": "orders", "key": "7", "kind": "write", "size": 30 << 10}});
    assert_eq!(daemon.post("/v1/check", &body).await.status, 200);
    let left = r#"tidegate_capacity_left_units{namespace="shop",table="orders",operation="write"}"#;
    for mode in ["adaptive", "static", "burst", "global"] {
        assert_eq!(daemon.reload(&HOT.replace("mode: global", &format!("mode: {mode}"))).await, None);
        assert_eq!(daemon.series(left).await, "70.0", "{mode}");
        let tables = daemon.get("/v1/tables").await.json();
        assert_eq!(tables["tables"][0]["mode"], mode);
    }
    let on_demand = HOT.replace(
        "provisioned: { read: 100, write: 100 }",
        "on_demand: { initial: { read: 100, write: 100 } }",
    );
    assert_eq!(daemon.reload(&on_demand).await, None);
    assert_eq!(daemon.series(left).await, "70.0");
}
