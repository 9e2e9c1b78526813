//! The rig's stories as tests. A story lives in `tests/rig`; nothing of one may be written here.
//!
//! Stories marked slow run through `cargo rig story` only.

use klamm_rig::stories::{self, Choice, STORIES, Story};
use klamm_rig::teller::Voice;

/// A test for each story, and the list of those that have one.
macro_rules! told {
    ($($test:ident => $name:literal),* $(,)?) => {
        $(
            #[test]
            fn $test() {
                tell($name);
            }
        )*

        const TOLD: &[&str] = &[$($name),*];
    };
}

told! {
    klamm_takes_over_and_leads_through_death_and_return => "takeover",
    killing_klamm_costs_one_session_timeout => "klamm-killed",
    the_role_is_handed_back_and_taken_from_another_shell => "handback",
    a_deleted_controller_node_begins_a_new_term => "controller-deleted",
    two_klamms_never_fight => "standby",
    a_zombie_writes_nothing_and_is_not_obeyed => "zombie",
    nobody_waits_for_a_paused_broker => "paused-broker",
    a_controlled_shutdown_leaves_nothing_leaderless => "controlled-shutdown",
    brokers_get_producer_ids_from_klamm => "idempotent-producer",
    topics_of_the_old_tools_end_on_genuine_brokers => "topics-by-zookeeper",
    broken_topic_nodes_cost_only_themselves => "broken-topics",
    topics_are_deleted_and_what_waits_is_told => "topic-deletion",
    the_id_of_a_genuine_broker_is_refused => "id-of-a-broker",
    a_configuration_with_security_is_refused => "secured-config",
    brokers_with_security_are_refused => "secured-brokers",
    klamm_leads_on_zookeeper_3_5 => "zookeeper-3.5",
    zookeeper_3_4_is_refused => "zookeeper-3.4",
}

/// Several JVMs at a time are enough for a small machine: a story waits until no other is being told.
fn tell(name: &str) {
    let story = Story::named(name).unwrap_or_else(|error| panic!("{error:#}"));
    let _alone = stories::wait_for_the_stage().unwrap_or_else(|error| panic!("{error:#}"));
    let report = story.run(&Choice::default(), Voice::Quiet);
    assert!(
        report.passed(),
        "{name}: {}\n{}",
        story.about,
        report.failure()
    );
}

#[test]
fn every_story_that_is_not_slow_is_a_test() {
    let quick: Vec<&str> = STORIES
        .iter()
        .filter(|story| !story.is_slow())
        .map(|story| story.name)
        .collect();
    assert_eq!(TOLD, quick);
}
