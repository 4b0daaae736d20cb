use redis::Script;
use tidegate_test_support::{RedisServer, skip};

use super::{TEXT, VALUE_LAYOUTS};
use crate::call_format::CALL_FORMAT;

#[test]
fn a_call_of_another_format_is_an_error_and_writes_nothing() {
    let Some(server) = RedisServer::start(&[]) else {
        return skip("a_call_of_another_format_is_an_error_and_writes_nothing");
    };
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let mut run = |format: u8| {
        let mut header = vec![0_u8; 57];
        header[0] = format;
        let script = Script::new(TEXT);
        let mut call = script.prepare_invoke();
        call.key("marker").arg(header).arg("").arg("life");
        let reply = call.invoke::<redis::Value>(&mut connection);
        (reply, redis::cmd("DBSIZE").query::<u64>(&mut connection).unwrap())
    };
    let (reply, keys) = run(CALL_FORMAT + 1);
    let error = reply.unwrap_err().to_string();
    let expected = format!("call format {} is not {CALL_FORMAT}, which this script reads", CALL_FORMAT + 1);
    assert!(error.contains(&expected), "{error}");
    assert_eq!(keys, 0);
    let (reply, keys) = run(CALL_FORMAT);
    assert!(reply.is_ok(), "{reply:?}");
    assert_eq!(keys, 1, "the marker");
}

#[test]
fn the_layouts_that_are_told_are_those_of_the_script() {
    let line = TEXT.lines().find_map(|line| line.strip_prefix("local LAYOUT, BLOCKED_LAYOUT = "));
    assert_eq!(line.unwrap(), VALUE_LAYOUTS.map(|layout| layout.to_string()).join(", "));
}
