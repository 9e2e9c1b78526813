//! That the in-memory server keeps what the genuine one promises.

use super::*;

/// A session that writes down all it hears.
fn listener(zookeeper: &ZooKeeper) -> (ZkSession, Rc<RefCell<Vec<WatchedEvent>>>) {
    let heard = Rc::new(RefCell::new(Vec::new()));
    let ears = heard.clone();
    let session = zookeeper.connect(move |event| ears.borrow_mut().push(event));
    (session, heard)
}

fn take(heard: &Rc<RefCell<Vec<WatchedEvent>>>) -> Vec<WatchedEvent> {
    std::mem::take(&mut *heard.borrow_mut())
}

fn node(event: NodeEvent) -> WatchedEvent {
    WatchedEvent::Node(event)
}

#[test]
fn versions_count_writes_and_guard_them() {
    let zk = ZooKeeper::new().connect_deaf();
    let (_, made) = zk.create("/a", b"1", CreateMode::Persistent).unwrap();
    assert_eq!(made.version, 0);
    assert_eq!(zk.set("/a", b"2", Some(0)).unwrap().version, 1);
    assert_eq!(zk.set("/a", b"3", Some(0)), Err(ZkError::BadVersion));
    assert_eq!(zk.set("/a", b"3", None).unwrap().version, 2);
    let (data, stat) = zk.get("/a").unwrap();
    assert_eq!((data.as_slice(), stat.version), (b"3".as_slice(), 2));
    assert_eq!(stat.czxid, made.czxid);
    assert!(stat.mzxid > made.mzxid);
    assert_eq!(zk.delete("/a", Some(1)), Err(ZkError::BadVersion));
    assert_eq!(zk.delete("/a", Some(2)), Ok(()));
    assert_eq!(zk.get("/a"), Err(ZkError::NoNode));
    assert_eq!(zk.set("/a", b"", None), Err(ZkError::NoNode));
}

#[test]
fn a_node_needs_a_parent_and_a_parent_keeps_its_children() {
    let zk = ZooKeeper::new().connect_deaf();
    let create = |path| zk.create(path, b"", CreateMode::Persistent).map(|_| ());
    assert_eq!(create("/a/b"), Err(ZkError::NoNode));
    assert_eq!(create("/a"), Ok(()));
    assert_eq!(create("/a"), Err(ZkError::NodeExists));
    assert_eq!(create("/a/b"), Ok(()));
    assert_eq!(zk.delete("/a", None), Err(ZkError::NotEmpty));
    assert_eq!(create("a"), Err(ZkError::BadArguments));
    zk.create("/e", b"", CreateMode::Ephemeral).unwrap();
    assert_eq!(create("/e/b"), Err(ZkError::NoChildrenForEphemerals));
}

#[test]
fn a_transaction_happens_whole_under_one_zxid() {
    let zk = ZooKeeper::new().connect_deaf();
    zk.create("/epoch", b"1", CreateMode::Persistent).unwrap();
    let done = zk
        .multi(&[
            Op::check("/epoch", 0),
            Op::create("/a", b"", CreateMode::Persistent),
            Op::create("/a/b", b"", CreateMode::Persistent),
            Op::set("/epoch", b"2", Some(0)),
        ])
        .unwrap();
    assert_eq!(done.len(), 4);
    let czxid = |path| zk.get(path).unwrap().1.czxid;
    assert_eq!(czxid("/a"), czxid("/a/b"));
    assert_eq!(zk.get("/epoch").unwrap().1.mzxid, czxid("/a"));
}

#[test]
fn a_failed_transaction_names_the_first_culprit_and_leaves_nothing() {
    let zookeeper = ZooKeeper::new();
    let (zk, heard) = listener(&zookeeper);
    zk.create("/epoch", b"1", CreateMode::Persistent).unwrap();
    zk.create("/old", b"x", CreateMode::Persistent).unwrap();
    zk.watch_recursively("/").unwrap();
    let before = zookeeper.dump();
    let failed = zk.multi(&[
        Op::create("/a", b"", CreateMode::Persistent),
        Op::create("/seq", b"", CreateMode::PersistentSequential),
        Op::set("/epoch", b"2", None),
        Op::delete("/old", None),
        Op::check("/missing", 0),
        Op::check("/epoch", 7),
    ]);
    assert_eq!(
        failed,
        Err(ZkMultiError {
            index: 4,
            error: ZkError::NoNode
        })
    );
    assert_eq!(zookeeper.dump(), before);
    assert_eq!(take(&heard), []);
    let (path, _) = zk
        .create("/seq", b"", CreateMode::PersistentSequential)
        .unwrap();
    assert_eq!(path, "/seq0000000002");
}

#[test]
fn sequential_names_count_all_children_ever_made() {
    let zk = ZooKeeper::new().connect_deaf();
    zk.create("/n", b"", CreateMode::Persistent).unwrap();
    let next = || {
        zk.create("/n/isr_change_", b"", CreateMode::PersistentSequential)
            .unwrap()
            .0
    };
    assert_eq!(next(), "/n/isr_change_0000000000");
    assert_eq!(next(), "/n/isr_change_0000000001");
    zk.delete("/n/isr_change_0000000001", None).unwrap();
    assert_eq!(next(), "/n/isr_change_0000000002");
}

#[test]
fn ephemeral_nodes_go_with_their_session_and_come_back_with_another_czxid() {
    let zookeeper = ZooKeeper::new();
    let (broker, heard) = listener(&zookeeper);
    let (watcher, seen) = listener(&zookeeper);
    let (_, first) = broker.create("/id", b"", CreateMode::Ephemeral).unwrap();
    assert_eq!(first.owner, Some(broker.id()));
    watcher.exists_and_watch("/id").unwrap();
    zookeeper.expire(broker.id());
    assert_eq!(take(&heard), [WatchedEvent::Session(SessionEvent::Expired)]);
    assert_eq!(take(&seen), [node(NodeEvent::Deleted("/id".into()))]);
    assert_eq!(broker.get("/id"), Err(ZkError::SessionExpired));
    assert!(!zookeeper.is_alive(broker.id()));
    let again = zookeeper.connect_deaf();
    let (_, second) = again.create("/id", b"", CreateMode::Ephemeral).unwrap();
    assert!(second.czxid > first.czxid);
    again.close();
    assert!(zookeeper.look("/id").is_none());
}

#[test]
fn one_shot_watches_fire_once_and_only_where_armed() {
    let zookeeper = ZooKeeper::new();
    let (zk, heard) = listener(&zookeeper);
    let other = zookeeper.connect_deaf();
    assert_eq!(zk.get_and_watch("/a"), Err(ZkError::NoNode));
    other.create("/a", b"", CreateMode::Persistent).unwrap();
    assert_eq!(take(&heard), [], "a read of a missing node arms nothing");
    other.delete("/a", None).unwrap();

    assert_eq!(zk.exists_and_watch("/a"), Ok(None));
    other.create("/a", b"", CreateMode::Persistent).unwrap();
    other.set("/a", b"1", None).unwrap();
    assert_eq!(take(&heard), [node(NodeEvent::Created("/a".into()))]);

    zk.get_and_watch("/a").unwrap();
    zk.get("/a").unwrap();
    other.set("/a", b"2", None).unwrap();
    other.set("/a", b"3", None).unwrap();
    assert_eq!(take(&heard), [node(NodeEvent::DataChanged("/a".into()))]);

    zk.children_and_watch("/a").unwrap();
    zk.get_and_watch("/a").unwrap();
    other.create("/a/b", b"", CreateMode::Persistent).unwrap();
    other.delete("/a/b", None).unwrap();
    other.delete("/a", None).unwrap();
    assert_eq!(
        take(&heard),
        [
            node(NodeEvent::ChildrenChanged("/a".into())),
            node(NodeEvent::Deleted("/a".into())),
        ]
    );
}

#[test]
fn a_recursive_watch_stays_and_hears_of_everything_below() {
    let zookeeper = ZooKeeper::new();
    let (zk, heard) = listener(&zookeeper);
    let other = zookeeper.connect_deaf();
    zk.watch_recursively("/t").unwrap();
    other.create("/t", b"", CreateMode::Persistent).unwrap();
    other.create("/t/a", b"", CreateMode::Persistent).unwrap();
    other.create("/tt", b"", CreateMode::Persistent).unwrap();
    other.set("/t/a", b"1", None).unwrap();
    other.set("/t/a", b"2", None).unwrap();
    other.delete("/t/a", None).unwrap();
    assert_eq!(
        take(&heard),
        [
            node(NodeEvent::Created("/t".into())),
            node(NodeEvent::Created("/t/a".into())),
            node(NodeEvent::DataChanged("/t/a".into())),
            node(NodeEvent::DataChanged("/t/a".into())),
            node(NodeEvent::Deleted("/t/a".into())),
        ]
    );
}

#[test]
fn a_cut_connection_delays_one_shot_watches_and_loses_recursive_ones() {
    let zookeeper = ZooKeeper::new();
    let (zk, heard) = listener(&zookeeper);
    let other = zookeeper.connect_deaf();
    other.create("/a", b"", CreateMode::Persistent).unwrap();
    zk.create("/mine", b"", CreateMode::Ephemeral).unwrap();
    zk.get_and_watch("/a").unwrap();
    zk.watch_recursively("/a").unwrap();

    zookeeper.disconnect(zk.id());
    assert_eq!(zk.get("/a"), Err(ZkError::ConnectionLoss));
    other.set("/a", b"1", None).unwrap();
    other.create("/a/b", b"", CreateMode::Persistent).unwrap();
    assert_eq!(
        take(&heard),
        [WatchedEvent::Session(SessionEvent::Disconnected)]
    );

    zookeeper.reconnect(zk.id());
    assert_eq!(
        take(&heard),
        [
            WatchedEvent::Session(SessionEvent::SyncConnected),
            node(NodeEvent::DataChanged("/a".into())),
        ]
    );
    other.create("/a/c", b"", CreateMode::Persistent).unwrap();
    assert_eq!(take(&heard), []);
    assert!(zookeeper.look("/mine").is_some());
}

#[test]
fn a_request_beyond_the_limit_is_refused_whole() {
    let zookeeper = ZooKeeper::new();
    zookeeper.set_request_limit_bytes(200);
    let zk = zookeeper.connect_deaf();
    let big = Op::create("/a", &[0; 100], CreateMode::Persistent);
    assert!(zk.multi(std::slice::from_ref(&big)).is_ok());
    let failed = zk
        .multi(&[Op::set("/a", &[0; 100], None), big])
        .unwrap_err();
    assert!(matches!(failed.error, ZkError::RequestTooLarge { .. }));
    assert_eq!(zookeeper.look("/a").unwrap().stat().version, 0);
}

#[test]
fn a_sink_may_talk_to_the_server() {
    let zookeeper = ZooKeeper::new();
    let hand = zookeeper.clone();
    let zk = zookeeper.connect(move |_| hand.poke("/answer", b"seen"));
    zk.exists_and_watch("/question").unwrap();
    zookeeper.poke("/question", b"");
    assert_eq!(zookeeper.look("/answer").unwrap().text(), "seen");
}

#[test]
fn a_follower_shows_and_tells_what_it_has_applied_and_a_session_never_sees_less_than_before() {
    let zookeeper = ZooKeeper::new();
    let follower = zookeeper.add_follower();
    let heard = Rc::new(RefCell::new(Vec::new()));
    let ears = heard.clone();
    let session = zookeeper.connect(move |event| ears.borrow_mut().push(event));
    zookeeper.connect_to(session.id(), follower);
    assert_eq!(session.exists_and_watch("/a"), Ok(None));
    zookeeper.poke("/a", b"1");
    assert_eq!(session.exists("/a"), Ok(None));
    assert!(heard.borrow().is_empty());
    assert_eq!(zookeeper.lag_of(follower), 1);

    zookeeper.follow(follower, 1);
    let created = WatchedEvent::Node(NodeEvent::Created("/a".to_owned()));
    assert_eq!(*heard.borrow(), [created]);
    assert_eq!(session.get("/a").map(|(data, _)| data), Ok(b"1".to_vec()));

    // Its own write is there when it is answered, and all that came before it.
    zookeeper.poke("/a", b"2");
    assert!(session.create("/b", b"", CreateMode::Persistent).is_ok());
    assert_eq!(session.get("/a").map(|(data, _)| data), Ok(b"2".to_vec()));
    let looked = zookeeper.look("/b").map(|node| node.stat());
    assert_eq!(session.exists("/b"), Ok(looked));

    // It moves from the leader to a follower that lags: the follower comes up to what was seen.
    let other = zookeeper.connect_deaf();
    zookeeper.poke("/c", b"");
    assert!(other.exists("/c").unwrap().is_some());
    zookeeper.connect_to(other.id(), follower);
    assert!(other.exists("/c").unwrap().is_some());
}
