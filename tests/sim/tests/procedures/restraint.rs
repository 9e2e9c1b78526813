//! Restraint under bad input: whatever stands in a node, it costs nothing but itself, and the message names the node.
//! The rows and their outcomes are in `restraint_table`.

use klamm::controller::ControllerSettings;
use klamm::effect::Answer;
use klamm::event::ControllerEvent;
use klamm_sim::world::World;

use crate::heard::Heard;
use crate::restraint_table::{Outcome, Row, When, rows};

const A_MINUTE_MS: u64 = 60_000;
/// No line of a log is longer: a node of a megabyte must not end up there.
const LINE_MAX: usize = 1_000;

/// Brokers 1 to 3, 3 dead, and dark-0 [3,1] without a leader: its election asks for configurations.
fn before(settings: ControllerSettings) -> World {
    let mut world = World::of_brokers(&[1, 2, 3], "3.9");
    world.start_klamm_with(settings);
    world.settle();
    world.create_topic("dark", &[&[3, 1]]);
    world.settle();
    world.leader_asks_isr("dark-0", &[3]);
    world.kill(3);
    world.settle();
    assert!(world.led_by("dark-0").starts_with("leader -1 isr [3] "));
    world
}

fn settings() -> ControllerSettings {
    ControllerSettings {
        token_expiry_check_interval_ms: Some(A_MINUTE_MS),
        ..World::settings()
    }
}

/// What a row's node needs around it.
fn put(world: &mut World, row: &Row) {
    if let Some((topic, _)) = row.path.split_once("/partitions/") {
        world
            .zookeeper
            .poke(topic, br#"{"version":1,"partitions":{"0":[1,2,77]}}"#);
    }
    world.zookeeper.poke(&row.path, &row.content);
}

/// What makes the controller look at every node.
fn look(world: &mut World) {
    world.settle();
    let notice = br#"{"version":2,"entity_path":"topics/dark"}"#;
    world.notify_config_change(notice);
    world.notify_config_change(br#"{"version":2,"entity_path":"brokers/<default>"}"#);
    let (from, reply_to) = (world.incarnation(1), world.klamm().open_slot());
    let event = ControllerEvent::AllocateProducerIds { from, reply_to };
    world.klamm().queue.put(event);
    world.bounce(2);
    world.settle();
    world.advance(A_MINUTE_MS);
    let answer = world.answer_to(reply_to);
    assert!(matches!(answer, Answer::AllocateProducerIds(_)));
}

/// A healthy topic is made, and led.
#[track_caller]
fn assert_leads(world: &mut World, topic: &str, about: &str) {
    world.create_topic(topic, &[&[1, 2]]);
    world.settle();
    let state = world.led_by(&format!("{topic}-0"));
    assert_eq!(state, "leader 1 isr [1,2] le 0", "{about}");
}

/// In what a row's outcome differs from what it should be.
fn difference(world: &World, row: &Row, heard: &[String]) -> Option<String> {
    let names_it = |line: &&String| {
        let after = line.split_once(&row.path).map(|(_, after)| after);
        after.is_some_and(|after| !after.starts_with(|c: char| c.is_ascii_digit()))
    };
    let said: Vec<&String> = heard.iter().filter(names_it).collect();
    let is_there = world.zookeeper.look(&row.path).is_some();
    let expected = match row.outcome {
        Outcome::Named => (true, true),
        Outcome::Removed => (true, false),
        Outcome::Served => (false, false),
        Outcome::Taken => (false, true),
    };
    let (path, what) = (&row.path, row.what);
    if (!said.is_empty(), is_there) != expected {
        return Some(format!(
            "{path} ({what}) should be {:?}; there: {is_there}, said: {said:?}",
            row.outcome
        ));
    }
    let longest = said.iter().map(|line| line.len()).max();
    (longest > Some(LINE_MAX)).then(|| format!("{path} ({what}): a line of {longest:?} bytes"))
}

#[test]
fn a_broken_node_costs_nothing_but_itself_and_is_named() {
    let mut wrong = Vec::new();
    for row in rows().iter().filter(|row| row.node.when == When::Always) {
        let about = format!("row {}: {} ({})", row.number, row.path, row.what);
        let mut world = before(settings());
        let (heard, _guard) = Heard::listen();
        put(&mut world, row);
        world.settle();
        assert_leads(&mut world, "healthy", &about);
        look(&mut world);
        assert_leads(&mut world, "later", &about);
        assert_eq!(world.controller_epoch(), 1, "{about}");
        assert!(world.klamm().is_active(), "{about}");
        wrong.extend(difference(&world, row, &heard.lines()));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_takeover_among_broken_nodes_is_a_takeover() {
    let mut wrong = Vec::new();
    for row in rows() {
        let about = format!("{} ({}) at a takeover", row.path, row.what);
        let mut world = before(settings());
        world.klamm().kill();
        world.klamm().expire_session();
        put(&mut world, &row);
        let (heard, _guard) = Heard::listen();
        world.start_klamm_with(settings());
        world.settle();
        assert!(world.klamm().is_active(), "{about}");
        assert_leads(&mut world, "healthy", &about);
        look(&mut world);
        assert_leads(&mut world, "later", &about);
        assert_eq!(world.controller_epoch(), 2, "{about}");
        // Notices from before a takeover are removed, or passed over, unread.
        let is_notice = row.path.contains("_notification/") || row.path.contains("/config_change_");
        if !is_notice {
            wrong.extend(difference(&world, &row, &heard.lines()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn all_of_it_together_costs_no_more_and_a_minute_later_neither() {
    let mut world = before(settings());
    let (heard, _guard) = Heard::listen();
    let rows = rows();
    // Of nodes that there is one of, the last row stays.
    for row in &rows {
        put(&mut world, row);
    }
    world.settle();
    assert_leads(&mut world, "healthy", "all at once");
    look(&mut world);
    assert_leads(&mut world, "later", "after the sweep");
    let lines = heard.lines();
    let mut own_nodes = rows.iter().filter(|row| row.path != row.node.path);
    let wrong: Vec<String> = own_nodes
        .by_ref()
        .filter(|row| row.node.when == When::Always)
        .filter_map(|row| difference(&world, row, &lines))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let said = lines.len();
    world.advance(A_MINUTE_MS);
    assert_leads(&mut world, "latest", "a minute later");
    assert_eq!(world.controller_epoch(), 1);
    assert_eq!(heard.lines().len(), said, "everything is said once a term");

    world.klamm().kill();
    world.klamm().expire_session();
    world.start_klamm_with(settings());
    world.settle();
    assert!(world.klamm().is_active());
    assert_leads(&mut world, "after", "the next term");
    assert_eq!(world.controller_epoch(), 2);
}

/// Who writes the epoch deposes the controller. Under one that makes no sense nobody can tell whose term it is: nothing is
/// written until it is repaired. klamm keeps `/controller` meanwhile: Java brokers would take and drop it all the time.
#[test]
fn under_an_epoch_that_makes_no_sense_nothing_is_written_until_it_is_repaired() {
    for broken in [
        "",
        "{",
        "null",
        "one",
        "-1",
        "99999999999",
        "1.5",
        "{\"epoch\":1}",
    ] {
        let mut world = before(settings());
        let (heard, _guard) = Heard::listen();
        world.zookeeper.poke("/controller_epoch", broken.as_bytes());
        world.create_topic("healthy", &[&[1, 2]]);
        world.advance(A_MINUTE_MS);
        assert_eq!(world.led_by("healthy-0"), "none", "`{broken}`");
        let lines = heard.lines();
        let named = lines.iter().any(|line| line.contains("/controller_epoch"));
        assert!(named, "`{broken}`: {lines:#?}");
        world.zookeeper.poke("/controller_epoch", b"7");
        world.advance(A_MINUTE_MS);
        assert!(world.klamm().is_active(), "`{broken}`");
        assert_eq!(world.controller_epoch(), 8);
        assert_eq!(world.led_by("healthy-0"), "leader 1 isr [1,2] le 0");
    }
}
