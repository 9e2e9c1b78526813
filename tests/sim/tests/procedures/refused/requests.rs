//! ZooKeeper refuses what a whole request needs: its client hears of that, and isn't sent to look for another controller,
//! which would fare no better.

use super::*;

fn refuse_next(world: &mut World, call: Call) {
    world
        .klamm()
        .faults()
        .at_next(call, Fault::Refused("NoAuth"));
}

fn assert_all_refused(said: &[String], names: &[&str]) {
    let fits = |(line, name): (&String, &&str)| {
        line.starts_with(&format!("{name} -1 ")) && line.contains("ZooKeeper refused")
    };
    let all = said.len() == names.len() && said.iter().zip(names).all(fits);
    assert!(all, "{said:#?}");
}

#[test]
fn a_client_hears_what_zookeeper_refused_of_its_whole_request() {
    let mut world = led();
    refuse_next(&mut world, Call::Write);
    let said = create(&mut world, &["new", "newer"]);
    assert_all_refused(&said, &["new", "newer"]);
    refuse_next(&mut world, Call::Topics);
    let said = grow(&mut world, &[("t", 3), ("u", 2)]);
    assert_all_refused(&said, &["t", "u"]);
    refuse_next(&mut world, Call::Write);
    let said = delete(&mut world, &["t", "u"], PATIENCE_MS);
    assert_all_refused(&said, &["t", "u"]);
    refuse_next(&mut world, Call::EntityConfigs);
    let slot = scram::send(
        &mut world,
        &[scram::upsert("alice", 1), scram::upsert("bob", 1)],
    );
    world.settle();
    let said = self::said(&mut world, slot);
    assert_all_refused(&said, &["alice", "bob"]);
    assert!(world.klamm().is_active());
    assert_eq!(create(&mut world, &["new"]), ["new ok"]);
}

#[test]
fn a_broker_hears_that_zookeeper_refused_and_asks_the_same_controller_again() {
    let mut world = led();
    let refused = KafkaError::UNKNOWN_SERVER_ERROR;
    refuse_next(&mut world, Call::ProducerIdBlock);
    let answer = ask_producer_ids(&mut world);
    assert_eq!(answer, Answer::AllocateProducerIds(Err(refused)));
    refuse_next(&mut world, Call::Write);
    let answer = world.leader_asks_isr("t-0", &[1, 2]);
    assert_eq!(answer, Answer::AlterPartition(Err(refused)));
    world.leader_asks_isr("t-0", &[1, 2]);
    assert_eq!(world.led_by("t-0"), "leader 1 isr [1,2] le 0");
}
