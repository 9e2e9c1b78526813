//! The rival alone and against klamm: terms that are won, cut off midway, fenced, given up and passed on.

use klamm::zk::{paths, znode};

use super::Rival;
use crate::chance::{Chance, Span};
use crate::pace::Pace;
use crate::world::{World, partition, protocol, seize_role};
use crate::zookeeper::{CreateMode, Op};
use klamm::model::BrokerId;

/// A world with a rival in broker 1.
struct Scene {
    world: World,
    rival: Rival,
}

impl Scene {
    fn of(world: World, release: &str, seed: Option<u64>) -> Scene {
        let pace = match seed {
            Some(seed) => {
                let chance = Chance::of(seed, "rival");
                Pace::drawn(&world.time, chance, Span::new(1, 10))
            }
            None => Pace::at_once(&world.time),
        };
        let rival = Rival::new(
            BrokerId(1),
            protocol(release),
            &world.cluster,
            &world.zookeeper,
            &world.time,
            pace,
        );
        Scene { world, rival }
    }

    /// Three brokers, and topics that nobody led yet.
    fn fresh(release: &str, seed: Option<u64>) -> Scene {
        let mut world = World::of_brokers(&[1, 2, 3], release);
        world.create_topic("t", &[&[1, 2, 3], &[2, 3, 1], &[3, 1, 2]]);
        Scene::of(world, release, seed)
    }

    /// The same with the rival in office.
    fn ruled(release: &str, seed: Option<u64>) -> Scene {
        let mut scene = Scene::fresh(release, seed);
        scene.rival.wants_role(true);
        scene.pass(2_000);
        assert!(scene.rival.holds_role());
        scene.world.assert_converged();
        scene
    }

    /// Lets time pass; everybody does what they have to.
    fn pass(&mut self, for_ms: u64) {
        let until_ms = self.world.time.now_ms() + for_ms;
        loop {
            let now_ms = self.world.time.now_ms();
            if self.rival.due_ms().is_some_and(|due_ms| due_ms <= now_ms) {
                self.rival.poll();
            }
            let any = self.rival.channels().deliver_one_each() | self.world.step();
            let klamms = self.world.klamms.iter().map(|k| k.queue.next_due_ms());
            let next = klamms.chain([self.rival.due_ms()]).flatten().min();
            match next.filter(|next_ms| *next_ms <= until_ms) {
                Some(next_ms) if !any => self.world.time.move_to(next_ms),
                None if !any => break,
                _ => {}
            }
        }
        self.world.time.move_to(until_ms);
    }

    fn led_by(&self) -> Vec<String> {
        (0..3)
            .map(|index| self.world.led_by(&format!("t-{index}")))
            .collect()
    }
}

#[test]
fn it_wins_a_vacant_role_and_every_broker_does_what_zookeeper_holds() {
    for release in ["1.1", "2.0", "2.1", "2.4", "2.8", "3.9"] {
        let scene = Scene::ruled(release, Some(1));
        assert_eq!(scene.world.controller(), Some(1), "{release}");
        assert_eq!(scene.world.controller_epoch(), 1, "{release}");
        assert_eq!(scene.led_by()[1], "leader 2 isr [2,3,1] le 0", "{release}");
    }
    assert!(Scene::ruled("2.4", None).rival.due_ms().is_none());
}

#[test]
fn the_same_seed_writes_the_same_tree() {
    let tree = |seed| {
        let mut scene = Scene::ruled("2.4", Some(seed));
        scene.world.bounce(2);
        scene.pass(2_000);
        (scene.world.zookeeper.dump(), scene.world.time.now_ms())
    };
    assert_eq!(tree(4), tree(4));
}

#[test]
fn a_broker_that_dies_loses_its_partitions_and_is_told_everything_when_it_comes_back() {
    for seed in [None, Some(2), Some(3)] {
        let mut scene = Scene::ruled("2.4", seed);
        scene.world.kill(2);
        scene.pass(2_000);
        scene.world.assert_converged();
        let without_2 = [
            "leader 1 isr [1,3] le 1",
            "leader 3 isr [3,1] le 1",
            "leader 3 isr [3,1] le 1",
        ];
        assert_eq!(scene.led_by(), without_2);
        scene.world.start_broker(2);
        scene.pass(2_000);
        scene.world.assert_converged();
        assert_eq!(scene.led_by(), without_2);
        scene.world.bounce(3);
        scene.pass(2_000);
        scene.world.assert_converged();
        assert_eq!(scene.led_by()[2], "leader 1 isr [1] le 2");
    }
}

#[test]
fn before_2_2_a_bounce_within_one_look_goes_unnoticed() {
    let mut scene = Scene::ruled("2.1", None);
    scene.world.bounce(3);
    scene.pass(100);
    assert_eq!(scene.led_by()[2], "leader 3 isr [3,1,2] le 0");
    assert!(!scene.world.differences(&[]).is_empty());
}

#[test]
fn out_of_sync_replicas_lead_only_where_the_topic_allows_it() {
    let mut scene = Scene::ruled("3.9", Some(5));
    scene.world.create_topic("u", &[&[2, 3]]);
    scene.pass(1_000);
    scene.world.kill(3);
    scene.pass(1_000);
    scene.world.start_broker(3);
    scene.world.kill(2);
    scene.pass(1_000);
    assert_eq!(scene.world.led_by("u-0"), "leader -1 isr [2] le 2");
    scene.world.allow_unclean("u", true);
    scene.world.bounce(1);
    scene.pass(1_000);
    assert_eq!(
        scene.world.led_by("u-0"),
        "leader 3 isr [3] le 3 recovering"
    );
    scene.world.assert_converged();
}

#[test]
fn topics_partitions_in_sync_sets_and_elections_are_heard_of_in_office() {
    let mut scene = Scene::ruled("2.4", Some(6));
    scene.world.create_topic("u", &[&[3, 2]]);
    scene.pass(1_000);
    scene.world.add_partition("u", &[2, 1]);
    scene.world.add_partition("t", &[9, 2]);
    scene.pass(1_000);
    assert_eq!(scene.world.led_by("u-1"), "leader 2 isr [2,1] le 0");
    assert_eq!(scene.world.led_by("t-3"), "leader 2 isr [2] le 0");
    // A leader writes an in-sync set itself, while broker 3 is away and comes back as somebody's preferred leader.
    scene.world.kill(3);
    scene.world.start_broker(3);
    scene.pass(1_000);
    let of = partition("u-0");
    let state = scene.world.state("u-0").unwrap();
    let mut grown = state.leader_and_isr.clone();
    assert_eq!(grown.isr.as_i32s(), [2]);
    grown.isr = [2, 3].into();
    let data = znode::encode_state(&grown, state.controller_epoch);
    scene.world.zookeeper.poke(&paths::state(&of), &data);
    let notice = format!("{}/isr_change_0000000000", paths::ISR_CHANGE_NOTIFICATION);
    let says = znode::encode_isr_change(std::slice::from_ref(&of));
    scene.world.zookeeper.poke(&notice, &says);
    scene.pass(1_000);
    assert!(scene.world.zookeeper.look(&notice).is_none());
    let told = scene.world.cached_at(1, "u-0").unwrap();
    assert!(told.contains("isr [2,3]"), "{told}");

    let asked = br#"{"version":1,"partitions":[{"topic":"u","partition":0}]}"#;
    scene
        .world
        .zookeeper
        .poke(paths::PREFERRED_REPLICA_ELECTION, asked);
    scene.pass(1_000);
    assert!(
        scene
            .world
            .zookeeper
            .look(paths::PREFERRED_REPLICA_ELECTION)
            .is_none()
    );
    assert_eq!(scene.world.led_by("u-0"), "leader 3 isr [2,3] le 2");
    scene.world.assert_converged();
}

/// Stops a failover that has much to write after each of its moments, takes the role from it, and lets it go on: how
/// often it had written some but not all by then, and how often it wrote afterwards.
fn deposed_midway(release: &str) -> (usize, usize) {
    let (mut midway, mut late) = (0, 0);
    for stop_ms in (0..250).step_by(5) {
        let mut scene = Scene::ruled(release, Some(7));
        scene.world.kill(2);
        scene.pass(stop_ms);
        let changed = scene
            .led_by()
            .iter()
            .filter(|led| !led.contains("le 0"))
            .count();
        midway += usize::from(changed == 1 || changed == 2);
        let usurper = seize_role(&scene.world.zookeeper, BrokerId(3));
        let before = scene.led_by();
        scene.pass(2_000);
        late += usize::from(scene.led_by() != before);
        assert!(!scene.rival.holds_role());
        assert!(scene.rival.channels().open().is_empty());
        assert_eq!(scene.world.controller(), Some(3));
        usurper.close();
        scene.pass(2_000);
        assert!(scene.rival.holds_role(), "it contends again");
        scene.world.assert_converged();
    }
    (midway, late)
}

#[test]
fn deposed_in_the_midst_of_its_work_it_writes_nothing_that_takes_hold() {
    for release in ["2.1", "2.4", "3.9"] {
        let (midway, late) = deposed_midway(release);
        assert!(midway > 0, "{release}");
        assert_eq!(late, 0, "{release}");
    }
}

#[test]
fn up_to_2_0_nothing_fences_what_it_still_writes() {
    let (midway, late) = deposed_midway("2.0");
    assert!(midway > 0 && late > 0, "{midway}, {late}");
}

#[test]
fn up_to_2_0_a_candidate_that_loses_the_epoch_deletes_another_s_node() {
    let robbed = |stop_ms: u64, release: &str| {
        let mut scene = Scene::fresh(release, Some(8));
        scene.rival.wants_role(true);
        scene.pass(stop_ms);
        let usurper = seize_role(&scene.world.zookeeper, BrokerId(3));
        scene.pass(1_000);
        let stands = scene.world.zookeeper.look(paths::CONTROLLER).unwrap();
        stands.stat().owner != Some(usurper.id())
    };
    assert!((0..60).any(|stop_ms| robbed(stop_ms, "2.0")));
    assert!(!(0..60).any(|stop_ms| robbed(stop_ms, "2.1")));
}

#[test]
fn it_gives_the_role_up_by_shutting_down_or_by_an_operator_s_hand() {
    let (mut sessions_closed, mut nodes_deleted) = (0, 0);
    for seed in 0..10 {
        let mut scene = Scene::ruled("2.8", Some(seed));
        let session = scene.rival.session().unwrap();
        scene.rival.wants_role(false);
        scene.pass(1_000);
        assert_eq!(scene.world.controller(), None);
        assert!(!scene.rival.holds_role());
        match scene.world.zookeeper.is_alive(session.id()) {
            true => nodes_deleted += 1,
            false => sessions_closed += 1,
        }
        scene.rival.wants_role(true);
        scene.pass(1_000);
        assert!(scene.rival.holds_role());
        assert_eq!(scene.world.controller_epoch(), 2);
    }
    assert!(sessions_closed > 0 && nodes_deleted > 0);
}

#[test]
fn a_session_that_ends_ends_the_term_and_a_crash_leaves_the_node_until_then() {
    let mut scene = Scene::ruled("2.4", Some(9));
    scene.rival.expire();
    scene.pass(1_000);
    assert!(scene.rival.holds_role());
    assert_eq!(scene.world.controller_epoch(), 2);

    let cut = scene.rival.session().unwrap();
    scene.world.zookeeper.disconnect(cut.id());
    scene.world.create_topic("u", &[&[1]]);
    scene.world.zookeeper.reconnect(cut.id());
    scene.pass(1_000);
    assert_eq!(scene.world.led_by("u-0"), "leader 1 isr [1] le 0");

    // Cut in the midst of its work: it begins anew in another session.
    scene.world.kill(2);
    scene.pass(10);
    scene.world.zookeeper.disconnect(cut.id());
    scene.pass(1_000);
    assert!(scene.rival.holds_role() && !scene.world.zookeeper.is_alive(cut.id()));
    assert_eq!(scene.world.controller_epoch(), 3);
    scene.world.assert_converged();

    scene.rival.crash();
    scene.world.create_topic("v", &[&[1]]);
    scene.pass(1_000);
    assert_eq!(scene.world.controller(), Some(1));
    assert_eq!(scene.world.led_by("v-0"), "none");
    assert!(!scene.rival.holds_role() && scene.rival.due_ms().is_none());
    scene.rival.expire();
    assert_eq!(scene.world.controller(), None);
    scene.rival.wants_role(true);
    scene.pass(1_000);
    assert!(scene.rival.holds_role());
    scene.world.assert_converged();
}

#[test]
fn klamm_and_the_rival_pass_the_role_back_and_forth() {
    for (release, seed) in [("2.4", Some(10)), ("3.9", Some(11)), ("2.8", None)] {
        let mut world = World::led(&[1, 2, 3], release);
        world.create_topic("t", &[&[1, 2, 3], &[2, 3, 1], &[3, 1, 2]]);
        let mut scene = Scene::of(world, release, seed);
        scene.rival.wants_role(true);
        scene.pass(1_000);
        assert!(!scene.rival.holds_role());
        for round in 0..3 {
            // As a hand-back does; and the role changes hands again while a broker's return is being dealt with.
            let hold = Op::create(paths::KLAMM_HOLD, b"{}", CreateMode::Persistent);
            let handed_back = [Op::delete(paths::CONTROLLER, None), hold];
            let hand = scene.world.zookeeper.connect_deaf();
            hand.multi(&handed_back).unwrap();
            scene.pass(2_500);
            assert!(scene.rival.holds_role(), "{release}, round {round}");
            assert_eq!(scene.world.alive_at(3), [1, 2, 3], "klamm is gone");
            scene.world.assert_converged();
            scene.world.kill(2);
            scene.pass(20);
            scene.world.start_broker(2);
            scene.pass(20);
            scene.world.zookeeper.uproot(paths::KLAMM_HOLD);
            // klamm doesn't wrestle: it waits longer each time.
            scene.pass(900_000);
            assert!(scene.world.klamm().is_active(), "{release}, round {round}");
            assert!(!scene.rival.holds_role());
            scene.world.assert_converged();
        }
    }
}
