//! Delegation tokens expire. Upstream: `DelegationTokenManagerTest.testRemoveTokenHmac`, `testPeriodicTokenExpiry`.

use klamm::controller::ControllerSettings;
use klamm_sim::clock::WORLD_BEGAN_AT_MS;
use klamm_sim::faults::{Call, Fault};
use klamm_sim::world::World;

const TOKENS: &str = "/delegation_token/tokens";
const CHANGES: &str = "/delegation_token/token_changes";
const AN_HOUR_MS: u64 = 3_600_000;

fn settings() -> ControllerSettings {
    ControllerSettings {
        token_expiry_check_interval_ms: Some(AN_HOUR_MS),
        ..World::settings()
    }
}

/// A token that was issued when the world began.
fn issue(world: &World, id: &str, expiry_ms: u64, max_ms: u64) {
    let at = |ms: u64| WORLD_BEGAN_AT_MS + i64::try_from(ms).unwrap();
    let text = format!(
        r#"{{"version":3,"owner":"User%3Aa","tokenRequester":"User%3Aa","renewers":[],"issueTimestamp":{WORLD_BEGAN_AT_MS},"maxTimestamp":{},"expiryTimestamp":{},"tokenId":"{id}"}}"#,
        at(max_ms),
        at(expiry_ms)
    );
    world
        .zookeeper
        .poke(&format!("{TOKENS}/{id}"), text.as_bytes());
}

/// Brokers 1 and 2 that know tokens: one for 30 minutes, one for 90, one for ten hours of which it was renewed for nine.
fn with_tokens(settings: ControllerSettings) -> World {
    let mut world = World::of_brokers(&[1, 2], "3.9");
    world.zookeeper.poke(CHANGES, b"");
    issue(&world, "short", AN_HOUR_MS / 2, 10 * AN_HOUR_MS);
    issue(&world, "longer", 24 * AN_HOUR_MS, AN_HOUR_MS * 3 / 2);
    issue(&world, "long", 9 * AN_HOUR_MS, 10 * AN_HOUR_MS);
    world.start_klamm_with(settings);
    world.settle();
    world
}

fn tokens(world: &World) -> Vec<String> {
    world.zookeeper.look_children(TOKENS)
}

/// What the notices say, in order.
fn changes(world: &World) -> Vec<String> {
    let names = world.zookeeper.look_children(CHANGES);
    let text = |name| world.zookeeper.look(&format!("{CHANGES}/{name}")).unwrap();
    names.into_iter().map(|name| text(name).text()).collect()
}

#[test]
fn a_token_goes_at_the_first_check_after_its_date_and_brokers_are_told() {
    let mut world = with_tokens(settings());
    assert_eq!(tokens(&world), ["long", "longer", "short"]);
    world.advance(AN_HOUR_MS - 1);
    assert_eq!(tokens(&world), ["long", "longer", "short"]);
    world.advance(1);
    assert_eq!(tokens(&world), ["long", "longer"]);
    assert_eq!(changes(&world), ["short"]);
    world.advance(AN_HOUR_MS);
    assert_eq!(tokens(&world), ["long"]);
    assert_eq!(changes(&world), ["short", "longer"]);
    world.advance(7 * AN_HOUR_MS);
    assert_eq!(tokens(&world), ["long"]);
    world.advance(AN_HOUR_MS);
    assert_eq!(tokens(&world), [""; 0]);
}

#[test]
fn without_a_secret_key_tokens_are_nobodys_business() {
    let mut world = with_tokens(World::settings());
    let calls = world.klamm().faults().calls();
    assert!(!calls.contains(&Call::DelegationTokens));
    world.advance(24 * AN_HOUR_MS);
    assert_eq!(tokens(&world), ["long", "longer", "short"]);
}

#[test]
fn a_token_that_is_renewed_in_the_same_moment_stays() {
    let mut world = with_tokens(settings());
    let renewed = Fault::meanwhile(|zookeeper| {
        let text = zookeeper.look("/delegation_token/tokens/short").unwrap();
        let path = "/delegation_token/tokens/short";
        zookeeper.poke(path, text.text().as_bytes());
    });
    world.klamm().faults().at_next(Call::Write, renewed);
    world.advance(AN_HOUR_MS);
    assert_eq!(world.klamm().faults().outstanding(), 0);
    assert_eq!(tokens(&world), ["long", "longer", "short"]);
    assert_eq!(changes(&world), [""; 0]);
}

#[test]
fn the_next_controller_looks_at_once_and_a_former_one_no_more() {
    let mut world = with_tokens(settings());
    let java = world.java_takes_role(2);
    world.settle();
    world.advance(4_000);
    assert!(!world.klamm().is_active());
    issue(&world, "over", 1_000, AN_HOUR_MS);
    java.close();
    world.settle();
    assert!(world.klamm().is_active());
    assert_eq!(tokens(&world), ["long", "longer", "short"]);
    let looks = |world: &mut World| {
        let calls = world.klamm().faults().calls();
        let looks = calls.iter().filter(|call| **call == Call::DelegationTokens);
        looks.count()
    };
    let before = looks(&mut world);
    world.advance(10 * AN_HOUR_MS);
    assert_eq!(looks(&mut world) - before, 10);
}

#[test]
fn broken_tokens_stay_and_cost_the_others_nothing() {
    let mut world = with_tokens(settings());
    for (id, text) in [("empty", ""), ("text", "x"), ("v9", r#"{"version":9}"#)] {
        let path = format!("{TOKENS}/{id}");
        world.zookeeper.poke(&path, text.as_bytes());
    }
    world.advance(AN_HOUR_MS);
    assert_eq!(tokens(&world), ["empty", "long", "longer", "text", "v9"]);
    assert!(world.klamm().is_active());
}

#[test]
fn a_cluster_that_has_granted_no_token_yet_is_left_as_it_is() {
    let mut world = World::of_brokers(&[1], "3.9");
    world.start_klamm_with(settings());
    world.advance(3 * AN_HOUR_MS);
    assert!(world.zookeeper.look("/delegation_token").is_none());
    // Nor do notices go where no broker listens.
    issue(&world, "short", 1, 2);
    world.advance(AN_HOUR_MS);
    assert_eq!(tokens(&world), [""; 0]);
    assert!(world.zookeeper.look(CHANGES).is_none());
}

#[test]
fn a_check_that_was_cut_off_or_refused_is_not_the_last() {
    type Make = fn() -> Fault;
    let cuts: [(&str, Make); 5] = [
        ("cut before", || Fault::LossBefore),
        ("cut after", || Fault::LossAfter),
        ("session lost before", || Fault::SessionLostBefore),
        ("session lost after", || Fault::SessionLostAfter),
        ("refused", || Fault::Refused("for a test")),
    ];
    for call in [Call::DelegationTokens, Call::Write] {
        for (how, cut) in cuts {
            let mut world = with_tokens(settings());
            world.klamm().faults().at_next(call, cut());
            world.advance(2 * AN_HOUR_MS);
            assert_eq!(world.klamm().faults().outstanding(), 0, "{call:?} {how}");
            assert_eq!(tokens(&world), ["long"], "{call:?} {how}");
            let told = changes(&world);
            assert_eq!(told.len(), 2, "{call:?} {how}: {told:?}");
        }
    }
}
