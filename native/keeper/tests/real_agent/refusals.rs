//! Requests that the keeper rejects: the errors, and the state of their connections.

use std::io::Read;

use serde_json::{Value, json};

use crate::support::{Stream, Vm};

/// Sends a request over an open connection.
fn ask(connection: &mut Stream, request: &Value) -> Value {
    let mut line = json!({ "v": 1, "id": "a" });
    for (key, value) in request.as_object().unwrap() {
        line[key] = value.clone();
    }
    connection.send(&line);
    let answer = connection.line();
    assert_eq!(answer["id"], "a", "{request} is answered with {answer}");
    answer
}

#[test]
fn a_request_that_makes_no_sense_is_answered_and_its_connection_goes_on() {
    let vm = Vm::with_agent("refused-requests", json!({}));
    let (stale, fence) = (vm.attach(), vm.attach());
    vm.start(fence, "k", "sleep 60", json!({}));
    let mut connection = Stream::connect(&vm.dir);
    for (request, code, message) in [
        (json!({ "op": 7 }), "api/bad-request", "op is missing"),
        (
            json!({ "op": "exec.stort" }),
            "api/bad-request",
            r#"op "exec.stort" is unknown"#,
        ),
        (
            json!({ "op": "ready" }),
            "api/bad-request",
            "ready: missing field `timeoutMs`",
        ),
        (
            json!({ "op": "ready", "timeoutMs": "soon" }),
            "api/bad-request",
            r#"ready: invalid type: string "soon", expected u64"#,
        ),
        (
            json!({ "op": "exec.wait", "execKey": 1 }),
            "api/bad-request",
            "exec.wait: invalid type: integer `1`, expected a string",
        ),
        // The fence is checked before the arguments.
        (
            json!({ "op": "exec.start" }),
            "api/bad-request",
            "exec.start needs a fence: attach first",
        ),
        (
            json!({ "op": "exec.start", "fence": stale }),
            "fence/stale",
            "fence 1 is below the granted 2: another client has attached",
        ),
        (
            json!({ "op": "exec.start", "fence": fence }),
            "api/bad-request",
            "exec.start: missing field `execKey`",
        ),
        (
            json!({ "op": "renew", "fence": fence + 1 }),
            "api/bad-request",
            "fence 3 was never granted, the last one is 2",
        ),
        (
            json!({ "op": "exec.signal", "fence": fence, "execKey": "k", "signal": "SIGFOO" }),
            "api/bad-request",
            r#"signal "SIGFOO" is unknown, expected SIGTERM, SIGKILL, …"#,
        ),
        (
            json!({ "op": "exec.ack", "fence": fence, "execKey": "other" }),
            "exec/unknown",
            r#"exec "other" was never started here"#,
        ),
    ] {
        let answer = ask(&mut connection, &request);
        let expected = json!({ "code": code, "message": message });
        assert_eq!(answer["error"], expected, "{request}");
    }
    // A later client may send fields that this keeper does not know.
    let answer = ask(&mut connection, &json!({ "op": "status", "more": [1] }));
    assert_eq!(answer["ok"]["fence"], fence);
    let answer = ask(
        &mut connection,
        &json!({ "op": "renew", "fence": fence, "more": 1 }),
    );
    assert!(answer["ok"]["leaseLeftMs"].is_u64(), "{answer}");
}

#[test]
fn a_stream_that_makes_no_sense_is_answered_and_its_connection_ends() {
    let vm = Vm::with_agent("refused-streams", json!({}));
    let fence = vm.attach();
    vm.start(fence, "k", "true", json!({}));
    for (op, fields, message) in [
        (
            "file.get",
            json!({ "fence": fence }),
            "file.get: missing field `path`",
        ),
        (
            "tar.put",
            json!({ "path": "/tmp/x" }),
            "tar.put needs a fence: attach first",
        ),
        (
            "exec.output",
            json!({ "execKey": "k", "stream": "log", "offset": 0 }),
            r#"stream is "log", expected "stdout" or "stderr""#,
        ),
        (
            "exec.output",
            json!({ "execKey": "k", "stream": "stdout", "offset": 9 }),
            "offset 9 is beyond the 0 bytes that are there",
        ),
        (
            "exec.stdin",
            json!({ "fence": fence, "execKey": "k", "offset": 0 }),
            "exec k has no standard input",
        ),
    ] {
        let mut stream = vm.stream(op, fields);
        let expected = json!({ "code": "api/bad-request", "message": message });
        assert_eq!(stream.head["error"], expected, "{op}");
        assert_eq!(stream.socket.read(&mut [0]).unwrap(), 0, "{op} goes on");
    }
}

#[test]
fn a_vm_whose_run_directory_was_removed_is_lost() {
    let vm = Vm::with_agent("removed", json!({}));
    vm.attach();
    let mut connection = Stream::connect(&vm.dir);
    std::fs::remove_dir_all(&vm.dir).unwrap();
    let answer = ask(&mut connection, &json!({ "op": "attach" }));
    assert_eq!(answer["error"]["code"], "vm/lost", "{answer}");
}
