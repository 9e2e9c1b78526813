//! Topics: made, grown and deleted, and what is refused of that.

use crate::tools::Tool;
use crate::tools::case::{Case, Chosen, Releases, case};

const fn topics(name: &'static str, arguments: &'static str) -> Case {
    case(name, Tool::Topics, arguments)
}

pub const MADE: &[Case] = &[
    topics(
        "topics-create",
        "{server} --create --topic {t}-chosen --partitions 3 --replication-factor 2",
    ),
    topics(
        "topics-create-given",
        "{server} --create --topic {t}-given --replica-assignment 1:2,2:3,3:1",
    ),
    topics(
        "topics-create-config",
        "{server} --create --topic {t}-config --replica-assignment 1:2:3 --config retention.ms=60000000 \
         --config cleanup.policy=compact",
    ),
    topics("topics-create-defaults", "{server} --create --topic {t}-defaults")
        .on(Releases::since(2, 4))
        .by_zookeeper(Releases::NONE),
    topics(
        "topics-create-data",
        "{server} --create --topic {t}-data --replica-assignment 2:3",
    ),
    topics(
        "topics-create-big",
        "{server} --create --topic {t}-big --replica-assignment 1",
    ),
    topics(
        "topics-create-transacted",
        "{server} --create --topic {t}-transacted --replica-assignment 3:2",
    ),
    topics(
        "topics-create-changelog",
        "{server} --create --topic {t}-app-store-changelog --replica-assignment 3:2",
    ),
    topics(
        "topics-create-dotted",
        "{server} --create --topic {t}.dotted --replica-assignment 3",
    ),
    topics(
        "topics-create-colliding",
        "{server} --create --topic {t}_dotted --replica-assignment 3",
    )
    .refused(),
    topics(
        "topics-create-existing",
        "{server} --create --topic {t}-given --partitions 3 --replication-factor 2",
    )
    .refused(),
    topics(
        "topics-create-if-not-exists",
        "{server} --create --if-not-exists --topic {t}-given --partitions 3 --replication-factor 2",
    )
    .ends_either_way(),
    topics(
        "topics-create-bad-name",
        "{server} --create --topic {t}/bad --partitions 1 --replication-factor 1",
    )
    .refused(),
    topics(
        "topics-create-long-name",
        "{server} --create --topic {t}-abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabc\
         defghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghij\
         klmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz --partitions 1 --replication-factor 1",
    )
    .refused(),
    topics(
        "topics-create-too-many-replicas",
        "{server} --create --topic {t}-many --partitions 1 --replication-factor 4",
    )
    .by_zookeeper(Releases::NONE)
    .refused(),
    topics(
        "topics-create-far-too-many-replicas",
        "{server} --create --topic {t}-many --partitions 1 --replication-factor 5",
    )
    .refused(),
    // Up to 2.8 the tool itself places replicas, on whatever is registered in ZooKeeper.
    topics(
        "topics-create-a-replica-for-klamm",
        "{server} --create --topic {t}-many --partitions 1 --replication-factor 4",
    )
    .by_bootstrap(Releases::NONE)
    .refused(),
    topics(
        "topics-describe-a-replica-for-klamm",
        "{server} --describe --topic {t}-many",
    )
    .by_bootstrap(Releases::NONE)
    .looks()
    .chosen(Chosen::Replicas)
    .ends_either_way(),
    topics(
        "topics-delete-a-replica-for-klamm",
        "{server} --delete --topic {t}-many",
    )
    .by_bootstrap(Releases::NONE)
    .ends_either_way(),
    topics(
        "topics-create-no-partitions",
        "{server} --create --topic {t}-none --partitions 0 --replication-factor 1",
    )
    .refused(),
    topics(
        "topics-create-no-replicas",
        "{server} --create --topic {t}-none --partitions 1 --replication-factor 0",
    )
    .refused(),
    topics(
        "topics-create-unknown-config",
        "{server} --create --topic {t}-odd --partitions 1 --replication-factor 1 --config no.such.key=1",
    )
    .refused(),
    topics(
        "topics-create-bad-config",
        "{server} --create --topic {t}-odd --partitions 1 --replication-factor 1 --config retention.ms=soon",
    )
    .refused(),
    topics(
        "topics-create-uneven",
        "{server} --create --topic {t}-odd --replica-assignment 1:2,3",
    )
    .refused(),
    topics(
        "topics-create-twice-on-one",
        "{server} --create --topic {t}-odd --replica-assignment 1:1",
    )
    .refused(),
    topics("topics-list", "{server} --list").looks(),
    topics("topics-describe", "{server} --describe --topic {t}-given").looks(),
    topics("topics-describe-chosen", "{server} --describe --topic {t}-chosen")
        .looks()
        .chosen(Chosen::Replicas),
    topics("topics-describe-defaults", "{server} --describe --topic {t}-defaults")
        .on(Releases::since(2, 4))
        .by_zookeeper(Releases::NONE)
        .looks()
        .chosen(Chosen::Replicas),
    topics("topics-describe-config", "{server} --describe --topic {t}-config").looks(),
    topics("topics-describe-missing", "{server} --describe --topic {t}-missing")
        .looks()
        .ends_either_way(),
    topics(
        "topics-describe-under-replicated",
        "{server} --describe --under-replicated-partitions",
    )
    .looks(),
    topics(
        "topics-describe-unavailable",
        "{server} --describe --unavailable-partitions",
    )
    .looks(),
    topics(
        "topics-describe-overrides",
        "{server} --describe --topics-with-overrides",
    )
    .looks(),
    topics("topics-grow", "{server} --alter --topic {t}-chosen --partitions 5"),
    topics("topics-describe-grown", "{server} --describe --topic {t}-chosen")
        .looks()
        .chosen(Chosen::Replicas),
    topics(
        "topics-grow-given",
        "{server} --alter --topic {t}-given --partitions 4 --replica-assignment 1:2,2:3,3:1,2:1",
    ),
    topics("topics-describe-grown-given", "{server} --describe --topic {t}-given").looks(),
    topics("topics-shrink", "{server} --alter --topic {t}-chosen --partitions 2").refused(),
    topics("topics-grow-by-none", "{server} --alter --topic {t}-chosen --partitions 5").refused(),
    topics(
        "topics-grow-uneven",
        "{server} --alter --topic {t}-given --partitions 5 --replica-assignment 1:2,2:3,3:1,2:1,3",
    )
    .refused(),
    topics(
        "topics-grow-on-unknown",
        "{server} --alter --topic {t}-given --partitions 5 --replica-assignment 1:2,2:3,3:1,2:1,3:77",
    )
    .refused(),
    topics("topics-grow-missing", "{server} --alter --topic {t}-missing --partitions 5").refused(),
];

pub const DELETED: &[Case] = &[
    topics("topics-delete", "{server} --delete --topic {t}-chosen"),
    topics(
        "topics-delete-again",
        "{server} --delete --topic {t}-chosen",
    )
    .refused(),
    topics(
        "topics-describe-deleted",
        "{server} --describe --topic {t}-chosen",
    )
    .looks()
    .ends_either_way(),
    topics(
        "topics-delete-missing",
        "{server} --delete --topic {t}-missing",
    )
    .refused(),
    topics("topics-delete-rest", "{server} --delete --topic {t}[-.].*"),
    topics("topics-list-after", "{server} --list").looks(),
];
