//! Every rule of tidy on a bad sample that it must find, and on a good one beside it that it must leave alone.
//!
//! A rule without a bad sample here is a defect. Upstream: none.

use super::rust_text::{self, Part};
use super::{Finding, Source, check};

/// What tidy finds in `body` below a proper head, were it the file `path`: rule and line, the head being line 1.
fn found(path: &str, body: &str) -> Vec<(&'static str, usize)> {
    let source = Source {
        path: path.to_owned(),
        text: format!("//! A sample that opens as it should.\n{body}\n"),
    };
    let findings = check(&source);
    findings
        .iter()
        .map(|finding| (finding.rule, finding.line))
        .collect()
}

#[track_caller]
fn bad(path: &str, body: &str, rule: &'static str) {
    let findings = found(path, body);
    assert!(
        findings.iter().any(|(by, _)| *by == rule),
        "{path} passed rule {rule} with:\n{body}\n{findings:?}"
    );
}

#[track_caller]
fn good(path: &str, body: &str) {
    assert_eq!(found(path, body), [], "{path}:\n{body}");
}

#[test]
fn pure_code_that_reaches_for_the_world_is_found_in_every_pure_place() {
    for place in [
        "codec/src/frame.rs",
        "src/config/keys.rs",
        "src/error.rs",
        "src/model/ids.rs",
        "src/event/queue.rs",
        "src/state/context.rs",
        "src/machine/isr.rs",
        "src/effect.rs",
        "src/zk/znode.rs",
        "src/zk/paths.rs",
    ] {
        bad(place, "use tokio::sync::mpsc;", "pure");
    }
}

#[test]
fn pure_code_names_no_runtime_clock_chance_log_io_or_hash_order() {
    for body in [
        "use tokio::sync::mpsc;",
        "#[tokio::test]\nasync fn f() {}",
        "use tokio_util::sync::CancellationToken;",
        "fn f() { tracing::info!(\"x\"); }",
        "use std::time::Instant;",
        "use std::time::{Duration, SystemTime};",
        "fn f() { std::time::Instant::now(); }",
        "use std::time;\nfn f() { time::Instant::now(); }",
        "use std::time::*;",
        "use rand::Rng;",
        "fn f() { getrandom::fill(&mut [0]); }",
        "use std::{fmt, net::IpAddr};",
        "use std::fs;",
        "use std::process::Command;",
        "use std::thread;",
        "use std::collections::{BTreeMap, HashMap};",
        "use std::collections as c;\nfn f() -> c::HashSet<u8> { c::HashSet::new() }",
        "use std::collections::*;",
        "use crate::zk::client::Client;",
        "use crate::{broker::Channel, model::BrokerId};",
        "use crate::{model, api};",
        "fn f() { crate::observe::count(); }",
        "use crate::controller::KafkaController;",
        "use crate::port::{BrokerSurvey, Zk};",
        "use crate::port::*;",
        "use crate::*;",
        "use klamm_codec::Frame;",
        "use serde_json::Value;",
    ] {
        let findings = found("src/machine/sample.rs", body);
        assert!(!findings.is_empty(), "passed:\n{body}");
    }
}

#[test]
fn pure_code_on_plain_data_passes() {
    good(
        "src/machine/sample.rs",
        "use std::collections::{BTreeMap, BTreeSet};\nuse std::time::Duration;\nuse crate::port::BrokerSurvey;\nuse crate::model::{self, BrokerId};\nuse super::*;",
    );
    good(
        "src/machine/sample.rs",
        "// tokio::spawn in a comment, /* and */ std::fs\nconst A: &str = \"std::net::TcpStream HashMap\";\nconst B: &str = r#\"a \" use tokio::x; \"#;",
    );
    good(
        "codec/src/frame.rs",
        "use tokio_util::codec::Decoder;\nuse kafka_protocol::messages::ApiKey;",
    );
    good(
        "src/zk/znode.rs",
        "use crate::zk::paths;\nuse serde_json::Value;",
    );
    good(
        "src/zk/client.rs",
        "use tokio::time::Instant;\nuse std::collections::HashMap;",
    );
}

#[test]
fn the_model_stands_on_nothing_else() {
    bad("src/model/ids.rs", "use crate::effect::Read;", "pure");
    bad("src/model/ids.rs", "use crate::{state::Topic};", "pure");
    good("src/model/ids.rs", "use crate::model::BrokerId;");
    good("src/state/context.rs", "use crate::effect::Read;");
}

#[test]
fn a_procedure_acts_through_the_ports_alone() {
    for body in [
        "use tokio::time;",
        "use futures_util::future::join_all;",
        "use std::net::TcpStream;",
        "use std::thread;",
        "use std::time::Instant;",
        "fn f() { tokio::spawn(async {}); }",
        "use crate::shell::spawn;",
        "async fn f() { select! { } }",
        "use crate::zk::Client;",
        "use crate::{effect::Term, broker::Channels};",
        "use zookeeper_client::Client;",
    ] {
        bad("src/controller/brokers.rs", body, "flow");
        bad("src/port.rs", body, "flow");
    }
    good(
        "src/controller/brokers.rs",
        "use tracing::info;\nuse crate::port::{Brokers, Zk};\nuse crate::machine::membership;\nasync fn f() { selected(); respawned(); }",
    );
}

#[test]
fn bytes_and_json_are_known_where_they_belong() {
    for place in [
        "src/zk/client.rs",
        "src/observe/http.rs",
        "src/runtime.rs",
        "src/controller/mod.rs",
    ] {
        bad(place, "use kafka_protocol::messages::ApiKey;", "wire");
        bad(place, "use klamm_codec::Frame;", "wire");
    }
    good(
        "src/broker/wire.rs",
        "use klamm_codec::Frame;\nuse kafka_protocol::messages::ApiKey;",
    );
    good("src/api/wire.rs", "use klamm_codec::Frame;");
    good(
        "tests/rig/src/client.rs",
        "use klamm_codec::Frame;\nuse serde_json::Value;",
    );
    for place in [
        "src/zk/client.rs",
        "src/broker/wire.rs",
        "src/machine/isr.rs",
        "codec/src/lib.rs",
    ] {
        bad(place, "fn f() { serde_json::from_str(\"\"); }", "json");
    }
    good("src/observe/http.rs", "use serde_json::json;");
    good("src/decode/text.rs", "use klamm_codec::ApiKey;");
    good("src/decode/json.rs", "use serde_json::Value;");
    bad("src/decode/text.rs", "use serde_json::Value;", "json");
    bad("src/decode/text/body.rs", "use std::fs::File;", "pure");
}

#[test]
fn a_file_ends_at_800_lines() {
    let body = |lines: usize| "// line\n".repeat(lines - 1).trim_end().to_owned();
    good("src/runtime.rs", &body(800));
    assert_eq!(found("src/runtime.rs", &body(801)), [("length", 801)]);
}

#[test]
fn a_file_says_on_top_what_it_is_for() {
    for text in [
        "",
        "use std::fmt;",
        "// A comment but no document.",
        "//! sample",
        "\n//! Too late for a head.",
    ] {
        let source = Source {
            path: "src/runtime.rs".to_owned(),
            text: text.to_owned(),
        };
        let rules: Vec<&str> = check(&source).iter().map(|finding| finding.rule).collect();
        assert_eq!(rules, ["head"], "{text}");
    }
}

#[test]
fn left_overs_are_found_wherever_they_are() {
    for body in [
        "fn f() { todo!() }",
        "fn f() { unimplemented!(\"later\") }",
        "// TODO: later",
        "/* FIXME */",
        "/// XXX why?",
        "#[ignore]\nfn f() {}",
        "#[ignore = \"slow\"]\nfn f() {}",
        "#[allow(dead_code)]\nfn f() {}",
        "#![allow(unused, dead_code)]",
        "#[expect(dead_code)]\nfn f() {}",
        "//! Under construction.",
    ] {
        for place in [
            "src/runtime.rs",
            "src/machine/isr.rs",
            "tests/rig/src/lib.rs",
            "benches/decide.rs",
        ] {
            bad(place, body, "left-over");
        }
    }
    good(
        "src/runtime.rs",
        "const WORD: &str = \"TODO todo!() #[ignore]\";\nfn todo_list() { ignore(todo); }",
    );
}

#[test]
fn faults_are_planted_where_decisions_are_made_and_carried_out() {
    for body in [
        "use crate::planted::planted;",
        "fn f() { crate::planted::plant(None); }",
        "use crate::{model, planted};",
    ] {
        for place in ["src/zk/write.rs", "src/runtime/mod.rs", "src/model/ids.rs"] {
            bad(place, body, "planted");
        }
    }
    for place in [
        "src/machine/isr.rs",
        "src/state/context.rs",
        "src/controller/mod.rs",
    ] {
        good(place, "use crate::planted::planted;");
    }
}

#[test]
fn tests_observe_and_do_not_sleep() {
    for body in [
        "fn f() { std::thread::sleep(d); }",
        "fn f() { thread::sleep(d); }",
        "async fn f() { tokio::time::sleep(d).await; }",
        "async fn f() { time::sleep_until(d).await; }",
        "use std::thread::sleep;\nfn f() { sleep(d); }",
        "// poll pace\n\nfn f() { thread::sleep(d); }",
        "fn f() { thread::sleep(PACED); }",
        "fn f() { thread::sleep(PACE * 100); }",
    ] {
        for place in [
            "tests/rig/src/lib.rs",
            "tests/sim/src/zk.rs",
            "benches/decide.rs",
            "src/broker/tests.rs",
        ] {
            bad(place, body, "sleep");
        }
        bad(
            "src/runtime.rs",
            &format!("#[cfg(test)]\nmod tests {{ {body} }}"),
            "sleep",
        );
    }
    good(
        "tests/rig/src/lib.rs",
        "fn f() { thread::sleep(d); } // poll pace",
    );
    good(
        "tests/rig/src/lib.rs",
        "fn f() {\n    // poll pace: the broker logs no event\n    thread::sleep(d);\n}",
    );
    good("tests/rig/src/lib.rs", "fn f() { thread::sleep(PACE); }");
    good("tests/rig/src/lib.rs", "fn f() { sleep(SAMPLE_POLL); }");
    good(
        "tests/sim/src/clock.rs",
        "fn sleep(d: u64) {}\nfn f() { clock.sleep(d); }",
    );
    good(
        "src/runtime.rs",
        "async fn f() { tokio::time::sleep(d).await; }\n#[cfg(test)]\nmod tests {}",
    );
}

#[test]
fn a_finding_names_file_line_rule_and_reason() {
    let source = Source {
        path: "src/machine/isr.rs".to_owned(),
        text: "//! A sample that opens as it should.\n\nuse std::fmt;\nuse tracing::info;\n"
            .to_owned(),
    };
    let findings: Vec<String> = check(&source).iter().map(Finding::to_string).collect();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(
        findings[0].starts_with("src/machine/isr.rs:4: [pure] tracing::info: pure code "),
        "{findings:?}"
    );
}

#[test]
fn code_comments_and_literals_are_told_apart() {
    let table = [
        ("a // b", "a"),
        ("a /* b /* c */ d */ e", "a e"),
        ("a \"b \\\" c\" d", "a d"),
        ("a r\"\\\" b", "a b"),
        ("a br##\"b \"# c\"## d", "a d"),
        ("'\"' a '\\'' b", "a b"),
        ("f<'a>(x: &'a str) 'b'", "f<'a>(x: &'a str)"),
        ("for r in x", "for r in x"),
        ("a /* never ends", "a"),
        ("a \"never ends\\", "a"),
        ("'\u{e9}' a", "a"),
    ];
    for (text, code) in table {
        let parts = rust_text::split(text);
        let shown = rust_text::only(text, &parts, Part::Code);
        assert_eq!(shown.chars().count(), text.chars().count(), "{text}");
        let words: Vec<&str> = shown.split_whitespace().collect();
        assert_eq!(words.join(" "), code, "{text}");
    }
}

#[test]
fn groups_in_a_use_are_spelled_out() {
    let text = "pub use a::{self, b::{c, d as e}, f::*};\nfn x() { g::h::<T>(); ::i::j!(); }";
    let parts = rust_text::split(text);
    let paths = rust_text::paths(&rust_text::tokens(text, &parts));
    let expected = ["a", "a::b::c", "a::b::d", "a::f::*", "g::h", "i::j"];
    let shown: Vec<&str> = paths.iter().map(|(_, path)| path.as_str()).collect();
    assert_eq!(shown, expected);
    assert_eq!(paths.iter().map(|(line, _)| *line).max(), Some(2));
}
