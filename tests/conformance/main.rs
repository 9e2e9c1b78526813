//! The rig's stories as tests. A story lives in `tests/rig`; nothing of one may be written here.
//!
//! Stories marked slow run through `cargo rig story` only.

use klamm_rig::stories::matrix::{self, MatrixCluster};
use klamm_rig::stories::{self, STORIES, Story};
use klamm_rig::teller::Voice;
use klamm_rig::tools::cases;
use klamm_rig::tools::suite::{self, Plan};

/// A test for each story, the cluster that it is told on, and the list of those that have one. The whole matrix runs
/// through `cargo rig story --all --matrix`; here each story has one of its clusters.
macro_rules! told {
    ($($test:ident => $name:literal on $cluster:ident),* $(,)?) => {
        $(
            #[test]
            fn $test() {
                tell($name, matrix::$cluster);
            }
        )*

        const TOLD: &[&str] = &[$($name),*];
    };
}

told! {
    klamm_takes_over_and_leads_through_death_and_return => "takeover" on MIXED,
    killing_klamm_costs_one_session_timeout => "klamm-killed" on V2_8,
    the_role_is_handed_back_and_taken_from_another_shell => "handback" on MIXED,
    a_deleted_controller_node_begins_a_new_term => "controller-deleted" on V3_9,
    two_klamms_never_fight => "standby" on MIXED,
    a_zombie_writes_nothing_and_is_not_obeyed => "zombie" on MIXED,
    nobody_waits_for_a_paused_broker => "paused-broker" on V2_8,
    a_controlled_shutdown_leaves_nothing_leaderless => "controlled-shutdown" on MIXED,
    a_broker_that_leads_a_thousand_partitions_leaves_gently => "thousand-led" on V3_9,
    brokers_get_producer_ids_from_klamm => "idempotent-producer" on V3_9,
    topics_of_the_old_tools_end_on_genuine_brokers => "topics-by-zookeeper" on MIXED,
    broken_topic_nodes_cost_only_themselves => "broken-topics" on V2_8,
    topics_are_deleted_and_what_waits_is_told => "topic-deletion" on MIXED,
    replicas_move_through_deaths_and_cancellations => "reassignment" on MIXED,
    broken_reassignment_nodes_cost_only_themselves => "broken-reassignments" on V3_9,
    leaders_return_to_the_preferred_replicas_when_asked_to => "preferred-election" on MIXED,
    leaders_return_to_the_preferred_replicas_by_themselves => "leader-balance" on MIXED,
    unclean_election_is_allowed_at_run_time => "unclean-election" on V2_8,
    a_failed_log_directory_costs_only_what_is_in_it => "failed-log-dir" on MIXED,
    the_id_of_a_genuine_broker_is_refused => "id-of-a-broker" on MIXED,
    a_configuration_with_security_is_refused => "secured-config" on MIXED,
    brokers_with_security_are_refused => "secured-brokers" on V2_8,
    a_check_tells_what_a_takeover_would_meet_and_writes_nothing => "check" on MIXED,
    java_clients_work_with_klamms_node_alone => "java-clients" on MIXED,
    klamm_leads_on_zookeeper_3_5 => "zookeeper-3.5" on V2_4,
    zookeeper_3_4_is_refused => "zookeeper-3.4" on V2_4,
}

/// Several JVMs at a time are enough for a small machine: a story waits until no other is being told.
fn tell(name: &str, cluster: MatrixCluster) {
    let story = Story::named(name).unwrap_or_else(|error| panic!("{error:#}"));
    let _alone = stories::wait_for_the_stage().unwrap_or_else(|error| panic!("{error:#}"));
    let report = story.run(&cluster.choice(), Voice::Quiet);
    assert!(
        report.passed(),
        "{name} on {}: {}\n{}",
        cluster.name,
        story.about,
        report.failure()
    );
}

/// A handful; `cargo rig tools` plays them all, with the tools of four releases.
#[test]
fn genuine_tools_say_the_same_under_klamm_as_under_the_java_controller() {
    let _alone = stories::wait_for_the_stage().unwrap_or_else(|error| panic!("{error:#}"));
    let cluster = matrix::MIXED.choice().mixed();
    let report = Plan::quick(&cluster)
        .and_then(|plan| suite::run(&plan, |_| {}))
        .unwrap_or_else(|error| panic!("{error:#}"));
    let failed: Vec<String> = report
        .verdicts
        .iter()
        .filter(|verdict| !verdict.faults.is_empty())
        .map(ToString::to_string)
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    // What klamm knows and what it logged is judged besides.
    assert_eq!(
        report.passed(),
        cases::QUICK.len() + 2,
        "a case was left out"
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
