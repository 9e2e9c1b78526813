//! Configurations of topics and brokers, quotas, SCRAM credentials; access control lists where there is no authorizer.

use crate::tools::Tool;
use crate::tools::case::{Case, Chosen, Releases, case};

const fn configs(name: &'static str, arguments: &'static str) -> Case {
    case(name, Tool::Configs, arguments)
}

/// What the tool has always done by the brokers' own listener.
const fn of_brokers(name: &'static str, arguments: &'static str) -> Case {
    configs(name, arguments)
        .by_bootstrap(Releases::since(1, 1))
        .by_zookeeper(Releases::NONE)
}

/// A quota by ZooKeeper: by the brokers it depends on which of a mixed cluster is asked.
const fn by_zookeeper(name: &'static str, arguments: &'static str) -> Case {
    configs(name, arguments).by_bootstrap(Releases::NONE)
}

const fn by_api(name: &'static str, arguments: &'static str) -> Case {
    configs(name, arguments)
        .by_zookeeper(Releases::NONE)
        .on_clusters_of_one_release()
}

const fn acls(name: &'static str, arguments: &'static str) -> Case {
    case(name, Tool::Acls, arguments)
}

pub const CONFIGS: &[Case] = &[
    configs(
        "topic-config-alter",
        "{server} --alter --entity-type topics --entity-name {t}-config \
         --add-config retention.bytes=1000000,segment.bytes=1048576",
    ),
    configs(
        "topic-config-describe",
        "{server} --describe --entity-type topics --entity-name {t}-config",
    )
    .looks(),
    configs(
        "topic-config-bad-value",
        "{server} --alter --entity-type topics --entity-name {t}-config --add-config retention.ms=soon",
    )
    .refused()
    .on_clusters_of_one_release(),
    configs(
        "topic-config-unknown",
        "{server} --alter --entity-type topics --entity-name {t}-config --add-config no.such.key=1",
    )
    .refused(),
    configs(
        "topic-config-missing-topic",
        "{server} --alter --entity-type topics --entity-name {t}-missing --add-config retention.ms=1000",
    )
    .refused(),
    configs(
        "topic-config-remove",
        "{server} --alter --entity-type topics --entity-name {t}-config --delete-config retention.bytes",
    ),
    configs(
        "topic-config-describe-after",
        "{server} --describe --entity-type topics --entity-name {t}-config",
    )
    .looks(),
    of_brokers("brokers-describe", "{server} --describe --entity-type brokers")
        .on(Releases::since(2, 6))
        .looks(),
    of_brokers(
        "broker-config-alter",
        "{server} --alter --entity-type brokers --entity-name 2 --add-config log.cleaner.threads=2",
    ),
    of_brokers(
        "broker-config-describe",
        "{server} --describe --entity-type brokers --entity-name 2",
    )
    .looks()
    .until("log.cleaner.threads=2"),
    of_brokers(
        "broker-config-refused",
        "{server} --alter --entity-type brokers --entity-name 2 --add-config log.cleaner.threads=none",
    )
    .refused(),
    of_brokers(
        "broker-config-static",
        "{server} --alter --entity-type brokers --entity-name 2 --add-config broker.id=7",
    )
    .refused(),
    of_brokers(
        "broker-config-remove",
        "{server} --alter --entity-type brokers --entity-name 2 --delete-config log.cleaner.threads",
    ),
    of_brokers(
        "broker-default-alter",
        "{server} --alter --entity-type brokers --entity-default --add-config log.cleaner.io.max.bytes.per.second=1000000",
    ),
    of_brokers(
        "broker-default-describe",
        "{server} --describe --entity-type brokers --entity-default",
    )
    .looks()
    .until("log.cleaner.io.max.bytes.per.second"),
    of_brokers(
        "broker-default-remove",
        "{server} --alter --entity-type brokers --entity-default --delete-config log.cleaner.io.max.bytes.per.second",
    )
    // The tool asks some broker for what there is to remove, which may not have heard of it yet.
    .until("Completed"),
    by_zookeeper(
        "quota-alter",
        "{server} --alter --entity-type clients --entity-name {t}-client --add-config producer_byte_rate=1048576",
    ),
    by_zookeeper(
        "quota-describe",
        "{server} --describe --entity-type clients --entity-name {t}-client",
    )
    .looks(),
    by_zookeeper(
        "quota-remove",
        "{server} --alter --entity-type clients --entity-name {t}-client --delete-config producer_byte_rate",
    ),
    by_api(
        "quota-alter-by-api",
        "{server} --alter --entity-type clients --entity-name {t}-client --add-config controller_mutation_rate=100",
    ),
    by_api(
        "quota-describe-by-api",
        "{server} --describe --entity-type clients --entity-name {t}-client",
    )
    .looks()
    .until("controller_mutation_rate"),
    by_api(
        "quota-bad-value-by-api",
        "{server} --alter --entity-type clients --entity-name {t}-client --add-config producer_byte_rate=-1",
    )
    .refused(),
    by_api(
        "quota-remove-by-api",
        "{server} --alter --entity-type clients --entity-name {t}-client --delete-config controller_mutation_rate",
    ),
    by_zookeeper(
        "scram-alter",
        "{server} --alter --entity-type users --entity-name {t}-alice \
         --add-config SCRAM-SHA-256=[iterations=4096,password=secret]",
    ),
    by_zookeeper(
        "scram-describe",
        "{server} --describe --entity-type users --entity-name {t}-alice",
    )
    .looks()
    .chosen(Chosen::Secrets),
    by_zookeeper(
        "scram-remove",
        "{server} --alter --entity-type users --entity-name {t}-alice --delete-config SCRAM-SHA-256",
    ),
    configs(
        "scram-alter-by-api",
        "{server} --alter --entity-type users --entity-name {t}-bob \
         --add-config SCRAM-SHA-256=[iterations=4096,password=secret]",
    )
    .by_bootstrap(Releases::since(2, 7))
    .by_zookeeper(Releases::NONE)
    .ends_either_way(),
    by_api(
        "scram-describe-by-api",
        "{server} --describe --entity-type users --entity-name {t}-bob",
    )
    .by_bootstrap(Releases::since(2, 7))
    .looks(),
    by_api(
        "scram-too-few-iterations-by-api",
        "{server} --alter --entity-type users --entity-name {t}-bob \
         --add-config SCRAM-SHA-256=[iterations=10,password=secret]",
    )
    .by_bootstrap(Releases::since(2, 7))
    .refused(),
    by_api(
        "scram-remove-by-api",
        "{server} --alter --entity-type users --entity-name {t}-bob --delete-config SCRAM-SHA-256",
    )
    .by_bootstrap(Releases::since(2, 7)),
    by_api(
        "scram-remove-missing-by-api",
        "{server} --alter --entity-type users --entity-name {t}-nobody --delete-config SCRAM-SHA-256",
    )
    .by_bootstrap(Releases::since(2, 7))
    .refused(),
    acls("acls-list", "{server} --list")
        .by_zookeeper(Releases::NONE)
        .refused(),
    acls(
        "acls-add",
        "{server} --add --allow-principal User:{t}-alice --operation Read --topic {t}-given --force",
    )
    .by_zookeeper(Releases::NONE)
    .refused(),
    acls(
        "acls-remove",
        "{server} --remove --allow-principal User:{t}-alice --operation Read --topic {t}-given --force",
    )
    .by_zookeeper(Releases::NONE)
    .ends_either_way(),
    acls(
        "acls-add-by-zookeeper",
        "--authorizer-properties zookeeper.connect={zookeeper} --add --allow-principal User:{t}-alice \
         --operation Read --topic {t}-given --force",
    )
    .by_bootstrap(Releases::NONE),
    acls(
        "acls-list-by-zookeeper",
        "--authorizer-properties zookeeper.connect={zookeeper} --list --topic {t}-given",
    )
    .by_bootstrap(Releases::NONE)
    .looks(),
    acls(
        "acls-remove-by-zookeeper",
        "--authorizer-properties zookeeper.connect={zookeeper} --remove --topic {t}-given --force",
    )
    .by_bootstrap(Releases::NONE),
];
