//! What arrives on standard input that is no message.

use serde_json::{Value, json};

use crate::client::{Bridge, Setting, resident_kib};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

fn assert_pong(bridge: &mut Bridge) {
    assert_eq!(
        bridge.next(),
        json!({"jsonrpc": "2.0", "id": 1, "result": {}})
    );
}

#[test]
fn garbage_is_answered_with_a_parse_error_and_the_session_goes_on() {
    let setting = Setting::new();
    let mut bridge = setting.bridge();
    for garbage in [
        "hello",
        "{",
        "{\"jsonrpc\":\"2.0\",\"id\":1,",
        "}{",
        "\u{0}",
        "{}{}",
        "\u{1b}[2J",
    ] {
        bridge.send(garbage);
        let answer = bridge.next();
        assert_eq!(answer["error"]["code"], -32700, "{garbage:?}");
        assert_eq!(answer["id"], Value::Null);
    }
    bridge.send(PING);
    assert_pong(&mut bridge);
}

#[test]
fn blank_lines_are_ignored_and_crlf_and_a_byte_order_mark_are_taken_off() {
    let setting = Setting::new();
    let mut bridge = setting.bridge();
    bridge.send_bytes(b"\xef\xbb\xbf");
    bridge.send_bytes(format!("{PING}\r\n\r\n\n   \n\t\r\n").as_bytes());
    assert_pong(&mut bridge);
    bridge.send_bytes(format!("\u{feff}  {PING}  \n").as_bytes());
    assert_pong(&mut bridge);
    bridge.assert_silent();
}

#[test]
fn invalid_utf8_is_answered_by_its_id() {
    let setting = Setting::new();
    let mut bridge = setting.bridge();
    bridge.send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\",\"params\":{\"name\":\"\xc3\x28\"}}\n");
    let answer = bridge.answer(&json!(5));
    assert_eq!(answer["error"]["code"], -32700);
    bridge.send_bytes(b"\xff\xfe\n");
    assert_eq!(bridge.next()["id"], Value::Null);
    bridge.send(PING);
    assert_pong(&mut bridge);
}

#[test]
fn a_line_of_20_mb_is_answered_by_its_id_and_not_kept() {
    let setting = Setting::new();
    let mut bridge = setting.bridge();
    bridge.send(PING);
    assert_pong(&mut bridge);
    let before = resident_kib(bridge.pid());
    // The id comes last, as the TypeScript SDK writes it.
    bridge.send_bytes(br#"{"method":"tools/call","params":{"name":"echo","arguments":{"x":""#);
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..20 {
        bridge.send_bytes(&piece);
    }
    let held = resident_kib(bridge.pid());
    bridge.send("\"}},\"jsonrpc\":\"2.0\",\"id\":8}");
    let answer = bridge.answer(&json!(8));
    assert_eq!(answer["error"]["code"], -32600);
    assert!(
        answer["error"]["message"]
            .as_str()
            .unwrap()
            .contains("1048576"),
        "{answer}"
    );
    assert!(held < before + 4096, "grew from {before} to {held} KiB");
    bridge.send(PING);
    assert_pong(&mut bridge);
}

#[test]
fn a_line_in_pieces_is_one_message() {
    let setting = Setting::new();
    let mut bridge = setting.bridge();
    for byte in PING.as_bytes() {
        bridge.send_bytes(&[*byte]);
    }
    bridge.send("");
    assert_pong(&mut bridge);
}

#[test]
fn half_a_line_at_the_end_is_an_error_and_a_whole_one_counts() {
    let setting = Setting::new();
    let mut bridge = setting.bridge();
    bridge.send_bytes(&PING.as_bytes()[..20]);
    assert!(bridge.end().success());
    let rest = bridge.rest();
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0]["error"]["code"], -32700);

    let mut bridge = setting.bridge();
    bridge.send_bytes(PING.as_bytes());
    assert!(bridge.end().success());
    assert_eq!(
        bridge.rest(),
        [json!({"jsonrpc": "2.0", "id": 1, "result": {}})]
    );
}
