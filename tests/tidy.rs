//! Fails the build on what the compiler lets through: a layer that reaches into another, a file too long to read, left-overs.
//!
//! Reads the source as text, without comments and literals where code is meant. Every rule is tried on a bad sample below:
//! a check that can't fail is a defect. It must never need a list of exceptions that grows: a rule that hurts is discussed
//! and changed here. Upstream: `checkstyle/import-control-*.xml`.
#![allow(clippy::unwrap_used)] // A surprise here is a failed run.

use std::fmt;
use std::path::Path;

#[path = "tidy/rust_text.rs"]
mod rust_text;
#[path = "tidy/samples.rs"]
mod samples;

use rust_text::{Part, Token};

/// Longer files are split.
const LINES_MAX: usize = 800;

/// One file, with its path from the root of the workspace.
#[derive(Debug)]
struct Source {
    path: String,
    text: String,
}

/// One breach of a rule.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    path: String,
    line: usize,
    rule: &'static str,
    why: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding {
            path,
            line,
            rule,
            why,
        } = self;
        write!(f, "{path}:{line}: [{rule}] {why}")
    }
}

#[test]
fn the_source_keeps_every_rule() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = Vec::new();
    read_sources(root, "", &mut sources);
    for expected in ["src/lib.rs", "codec/src/lib.rs", "tests/tidy.rs"] {
        assert!(
            sources.iter().any(|source| source.path == expected),
            "{expected} was not read: this check looks in the wrong place"
        );
    }
    let mut findings: Vec<Finding> = sources.iter().flat_map(check).collect();
    findings.sort_by(|one, other| (&one.path, one.line).cmp(&(&other.path, other.line)));
    let report: Vec<String> = findings.iter().map(Finding::to_string).collect();
    assert!(
        report.is_empty(),
        "{} breaches of the rules in tests/tidy.rs:\n{}",
        report.len(),
        report.join("\n")
    );
}

/// The compiler would not miss a fault that nothing deviates by, and no simulator could find it.
#[test]
fn every_fault_that_can_be_planted_has_its_place() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let room = std::fs::read_to_string(root.join("src/planted.rs")).unwrap();
    let (_, list) = room.split_once("    faults! {\n").unwrap();
    let (list, _) = list.split_once("\n    }\n").unwrap();
    let names: Vec<&str> = list
        .lines()
        .filter_map(|line| line.trim().strip_suffix(','))
        .filter(|line| !line.starts_with('/'))
        .collect();
    let mut sources = Vec::new();
    read_sources(&root.join("src"), "", &mut sources);
    let is_used = |name: &str| {
        let uses = [" ", ")", ","].map(|next| format!("planted!({name}{next}"));
        sources.iter().any(|source| {
            let text: String = source.text.split_whitespace().collect::<Vec<_>>().join(" ");
            let text = text.replace("( ", "(");
            uses.iter().any(|one| text.contains(one))
        })
    };
    let unused: Vec<&&str> = names.iter().filter(|name| !is_used(name)).collect();
    assert!(names.len() >= 20, "{names:?}");
    assert!(unused.is_empty(), "planted nowhere: {unused:?}");
}

/// Reads every `.rs` file below `root`/`folder`, build output and hidden folders left out.
fn read_sources(root: &Path, folder: &str, into: &mut Vec<Source>) {
    let mut entries: Vec<_> = std::fs::read_dir(root.join(folder))
        .unwrap()
        .map(|entry| entry.unwrap())
        .collect();
    entries.sort_by_key(|entry| entry.file_name());
    for entry in entries {
        let name = entry.file_name().into_string().unwrap();
        let path = if folder.is_empty() {
            name.clone()
        } else {
            format!("{folder}/{name}")
        };
        if entry.file_type().unwrap().is_dir() {
            if name != "target" && !name.starts_with('.') {
                read_sources(root, &path, into);
            }
        } else if name.ends_with(".rs") {
            let text = std::fs::read_to_string(entry.path()).unwrap();
            into.push(Source { path, text });
        }
    }
}

/// Every breach in one file.
fn check(source: &Source) -> Vec<Finding> {
    let file = Parsed::new(source);
    let mut findings = Vec::new();
    check_layers(&file, &mut findings);
    check_shape(&file, &mut findings);
    check_left_overs(&file, &mut findings);
    check_sleeps(&file, &mut findings);
    findings
}

// ---------------------------------------------------------------------------------------------------------------------
// The rules

/// The three kinds of code, and what stands outside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pure,
    Flow,
    Shell,
    Test,
}

const PURE: &[&str] = &[
    "codec/src/",
    "src/config/",
    "src/config.rs",
    "src/decode/exchange.rs",
    "src/decode/json.rs",
    "src/decode/json/",
    "src/decode/sample.rs",
    "src/decode/selection.rs",
    "src/decode/text.rs",
    "src/decode/text/",
    "src/decode/words.rs",
    "src/effect.rs",
    "src/error.rs",
    "src/event/",
    "src/machine/",
    "src/model/",
    "src/state/",
    "src/zk/paths.rs",
    "src/zk/znode.rs",
    "src/zk/znode/",
];
const FLOW: &[&str] = &["src/controller/", "src/controller.rs", "src/port.rs"];

fn kind(path: &str) -> Kind {
    if is_below(path, PURE) {
        Kind::Pure
    } else if is_below(path, FLOW) {
        Kind::Flow
    } else if path.starts_with("src/") {
        Kind::Shell
    } else {
        Kind::Test
    }
}

fn is_below(path: &str, places: &[&str]) -> bool {
    places
        .iter()
        .any(|place| path == *place || (place.ends_with('/') && path.starts_with(place)))
}

/// Paths that may stand in some places only.
struct Ban {
    rule: &'static str,
    /// A path is banned if it is one of these, lies below one, or takes all of what lies above one.
    paths: &'static [&'static str],
    applies: fn(&str) -> bool,
    why: &'static str,
}

const BANS: &[Ban] = &[
    Ban {
        rule: "pure",
        paths: &[
            "tokio",
            "tracing",
            "rand",
            "getrandom",
            "futures",
            "futures_util",
            "zookeeper_client",
            "socket2",
            "axum",
            "std::net",
            "std::fs",
            "std::process",
            "std::thread",
            "std::env",
            "std::time::Instant",
            "std::time::SystemTime",
            "std::collections::HashMap",
            "std::collections::HashSet",
            "std::collections::hash_map",
            "std::collections::hash_set",
        ],
        applies: |path| kind(path) == Kind::Pure,
        why: "pure code decides on plain data alone, or a decision could not be replayed: no runtime, clock, chance, I/O, log or hash order; pass what it needs as an argument",
    },
    Ban {
        rule: "pure",
        paths: &["tokio_util"],
        applies: |path| kind(path) == Kind::Pure && !path.starts_with("codec/"),
        why: "pure code has no part in a runtime; framing belongs to codec",
    },
    Ban {
        rule: "pure",
        paths: &[
            "crate::broker",
            "crate::api",
            "crate::observe",
            "crate::controller",
            "crate::runtime",
            "crate::cli",
            "crate::port::Zk",
            "crate::port::Brokers",
            "crate::port::Replies",
            "crate::port::Clock",
            "crate::port::Ports",
        ],
        applies: |path| kind(path) == Kind::Pure,
        why: "pure code knows neither flow nor shell, and no port is in its reach: it takes plain values and returns plain values",
    },
    Ban {
        rule: "pure",
        paths: &["crate::zk"],
        applies: |path| kind(path) == Kind::Pure && !path.starts_with("src/zk/"),
        why: "pure code doesn't know how ZooKeeper is reached; what it reads and writes stands in effect.rs",
    },
    Ban {
        rule: "pure",
        paths: &[
            "crate::config",
            "crate::effect",
            "crate::event",
            "crate::machine",
            "crate::port",
            "crate::state",
            "crate::zk",
        ],
        applies: |path| path.starts_with("src/model/"),
        why: "model is the ground that all others stand on",
    },
    Ban {
        rule: "flow",
        paths: &[
            "tokio",
            "tokio_util",
            "futures",
            "futures_util",
            "zookeeper_client",
            "socket2",
            "std::net",
            "std::fs",
            "std::process",
            "std::thread",
            "std::time::Instant",
            "std::time::SystemTime",
            "crate::zk",
            "crate::broker",
            "crate::api",
            "crate::observe",
            "crate::runtime",
            "crate::cli",
        ],
        applies: |path| kind(path) == Kind::Flow,
        why: "a procedure waits and acts through the ports alone, one step after the other, so that the simulator can stand in for the world",
    },
    Ban {
        rule: "wire",
        paths: &["kafka_protocol", "klamm_codec"],
        applies: |path| {
            path.starts_with("src/")
                && !is_below(
                    path,
                    &[
                        "src/broker/",
                        "src/api/",
                        "src/decode/",
                        "src/observe/capture.rs",
                        "src/observe/capture/",
                    ],
                )
        },
        why: "Kafka's bytes are known in codec, src/broker, src/api, src/decode and src/observe/capture.rs only",
    },
    Ban {
        rule: "json",
        paths: &["serde_json"],
        applies: |path| {
            kind(path) != Kind::Test
                && !is_below(
                    path,
                    &[
                        "src/zk/znode.rs",
                        "src/zk/znode/",
                        "src/observe/",
                        "src/decode/json.rs",
                        "src/decode/json/",
                    ],
                )
        },
        why: "JSON is known in src/zk/znode.rs, src/observe and src/decode/json.rs only",
    },
    Ban {
        rule: "planted",
        paths: &["crate::planted"],
        applies: |path| {
            path.starts_with("src/")
                && !is_below(
                    path,
                    &[
                        "src/machine/",
                        "src/state/",
                        "src/controller/",
                        "src/planted.rs",
                    ],
                )
        },
        why: "faults are planted where decisions are made and carried out, and nowhere else",
    },
];

/// Layers: who may name whom.
fn check_layers(file: &Parsed<'_>, findings: &mut Vec<Finding>) {
    for ban in BANS.iter().filter(|ban| (ban.applies)(file.path)) {
        for (line, path) in &file.paths {
            if ban.paths.iter().any(|banned| reaches(path, banned)) {
                findings.push(file.finding(*line, ban.rule, format!("{path}: {}", ban.why)));
            }
        }
    }
    let banned_words: &[(&str, &str)] = match kind(file.path) {
        // However they are imported.
        Kind::Pure => &[
            ("HashMap", "its order changes from run to run; use BTreeMap"),
            ("HashSet", "its order changes from run to run; use BTreeSet"),
            (
                "Instant",
                "pure code has no clock; pass the time as an argument",
            ),
            (
                "SystemTime",
                "pure code has no clock; pass the time as an argument",
            ),
        ],
        Kind::Flow => &[
            (
                "spawn",
                "a procedure has one thread of control; the shell starts tasks",
            ),
            ("select", "a procedure waits for one thing at a time"),
        ],
        Kind::Shell | Kind::Test => &[],
    };
    let rule = match kind(file.path) {
        Kind::Flow => "flow",
        _ => "pure",
    };
    for token in &file.tokens {
        for (word, why) in banned_words {
            if token.text == *word {
                findings.push(file.finding(token.line, rule, format!("{word}: {why}")));
            }
        }
    }
}

/// Whether naming `path` gives a hold on `banned`.
fn reaches(path: &str, banned: &str) -> bool {
    let is_or_below = |path: &str, place: &str| {
        path == place
            || path
                .strip_prefix(place)
                .is_some_and(|rest| rest.starts_with("::"))
    };
    match path.strip_suffix("::*") {
        Some(all_of) => is_or_below(all_of, banned) || is_or_below(banned, all_of),
        None => is_or_below(path, banned),
    }
}

/// Files are short, and say on top what they are for.
fn check_shape(file: &Parsed<'_>, findings: &mut Vec<Finding>) {
    let lines = file.text.lines().count();
    if lines > LINES_MAX {
        let why = format!("{lines} lines; a file ends at {LINES_MAX}: split it by subject");
        findings.push(file.finding(LINES_MAX + 1, "length", why));
    }
    let head = file.text.lines().next().unwrap_or_default();
    let words = head
        .strip_prefix("//!")
        .map_or(0, |head| head.split_whitespace().count());
    if words < 3 {
        let why = "opens without a `//!` sentence that says its job, what it must never do, and its upstream counterpart";
        findings.push(file.finding(1, "head", why.to_owned()));
    }
}

/// Nothing is left for later.
fn check_left_overs(file: &Parsed<'_>, findings: &mut Vec<Finding>) {
    let why = "a left-over: finish it, or take it out";
    for pair in file.tokens.windows(2) {
        let [token, next] = pair else { continue };
        if ["todo", "unimplemented"].contains(&token.text) && next.text == "!" {
            findings.push(file.finding(token.line, "left-over", format!("{}!: {why}", token.text)));
        }
        if token.text == "[" && next.text == "ignore" {
            let why =
                "#[ignore]: a test that doesn't run proves nothing; slow ones go through cargo rig";
            findings.push(file.finding(token.line, "left-over", why.to_owned()));
        }
    }
    for token in file.tokens.iter().filter(|token| token.text == "dead_code") {
        let why = "dead_code: what nobody uses is taken out";
        findings.push(file.finding(token.line, "left-over", why.to_owned()));
    }
    for (number, comment) in file.comments.lines().enumerate() {
        for word in comment.split(|c: char| !c.is_alphanumeric()) {
            if ["TODO", "FIXME", "XXX"].contains(&word) {
                findings.push(file.finding(number + 1, "left-over", format!("{word}: {why}")));
            }
        }
        if comment.contains("Under construction") {
            findings.push(file.finding(number + 1, "left-over", why.to_owned()));
        }
    }
}

/// The comment that allows a sleep, on its line or the one above: the pause between two looks at what is waited for.
/// A constant of such a name says the same.
const POLL_PACE: &str = "poll pace";

/// Tests observe; they don't sleep and hope.
fn check_sleeps(file: &Parsed<'_>, findings: &mut Vec<Finding>) {
    let comments: Vec<&str> = file.comments.lines().collect();
    let is_marked = |line: usize| {
        [line.saturating_sub(1), line.saturating_sub(2)]
            .into_iter()
            .any(|index| {
                comments
                    .get(index)
                    .is_some_and(|text| text.contains(POLL_PACE))
            })
    };
    let text_at = |position: usize| file.tokens.get(position).map_or("", |token| token.text);
    for (position, token) in file.tokens.iter().enumerate() {
        let before = position.checked_sub(1).map_or("", text_at);
        let is_call = ["sleep", "sleep_until"].contains(&token.text)
            && text_at(position + 1) == "("
            && ![".", "fn"].contains(&before);
        let is_paced = is_pace(text_at(position + 2)) && text_at(position + 3) == ")";
        if is_call && !is_paced && file.is_test_code(token.line) && !is_marked(token.line) {
            let why = format!(
                "a sleep in a test: wait for what is to be seen; where that needs a pause between two looks, name it PACE or POLL, or say `// {POLL_PACE}`"
            );
            findings.push(file.finding(token.line, "sleep", why));
        }
    }
}

/// Whether a constant is named as the pause between two looks.
fn is_pace(name: &str) -> bool {
    ["PACE", "POLL"].contains(&name) || name.ends_with("_PACE") || name.ends_with("_POLL")
}

// ---------------------------------------------------------------------------------------------------------------------
// A file taken apart

/// A file, and what stands in it.
struct Parsed<'a> {
    path: &'a str,
    text: &'a str,
    /// The comments, everything else blank, lines kept.
    comments: String,
    tokens: Vec<Token<'a>>,
    /// Every path that the code names, groups in `use` spelled out, with its line.
    paths: Vec<(usize, String)>,
    /// The line where `#[cfg(test)] mod` begins.
    tests_from: Option<usize>,
}

impl<'a> Parsed<'a> {
    fn new(source: &'a Source) -> Parsed<'a> {
        let parts = rust_text::split(&source.text);
        let tokens = rust_text::tokens(&source.text, &parts);
        Parsed {
            path: &source.path,
            text: &source.text,
            comments: rust_text::only(&source.text, &parts, Part::Comment),
            paths: rust_text::paths(&tokens),
            tests_from: rust_text::tests_from(&tokens),
            tokens,
        }
    }

    fn finding(&self, line: usize, rule: &'static str, why: String) -> Finding {
        Finding {
            path: self.path.to_owned(),
            line,
            rule,
            why,
        }
    }

    fn is_test_code(&self, line: usize) -> bool {
        kind(self.path) == Kind::Test
            || self.path.ends_with("/tests.rs")
            || self.path.contains("/tests/")
            || self.tests_from.is_some_and(|from| line >= from)
    }
}
