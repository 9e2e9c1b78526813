//! Records and what is made of them: produced, deleted, counted; groups and applications that read them; what brokers and
//! the cluster say of themselves.

use crate::tools::Tool;
use crate::tools::case::{Case, Chosen, Releases, case};

pub const PRODUCED: &[Case] = &[
    case(
        "produce",
        Tool::ProducerPerfTest,
        "--topic {t}-data --num-records 300 --record-size 100 --throughput -1 \
         --producer-props bootstrap.servers={bootstrap} acks=all",
    ),
    case(
        "produce-big",
        Tool::ProducerPerfTest,
        "--topic {t}-big --num-records 10000 --record-size 1000 --throughput -1 \
         --producer-props bootstrap.servers={bootstrap} acks=1 enable.idempotence=false",
    ),
    case(
        "produce-in-a-transaction",
        Tool::ProducerPerfTest,
        "--topic {t}-transacted --num-records 10 --record-size 100 --throughput -1 --transactional-id {t}-transaction \
         --transaction-duration-ms 100 --producer-props bootstrap.servers={bootstrap} acks=all",
    ),
];

const fn log_dirs(name: &'static str, arguments: &'static str) -> Case {
    case(name, Tool::LogDirs, arguments).looks()
}

const fn transactions(name: &'static str, arguments: &'static str) -> Case {
    case(name, Tool::Transactions, arguments)
        .looks()
        .ends_either_way()
}

const fn features(name: &'static str, arguments: &'static str) -> Case {
    case(name, Tool::Features, arguments)
}

/// The tool's commands became words of their own.
const FEATURES_BY_WORDS: Releases = Releases::since(3, 3);
const FEATURES_BY_FLAGS: Releases = Releases::before(3, 3);

pub const LOOKED_AT: &[Case] = &[
    log_dirs(
        "log-dirs",
        "--bootstrap-server {bootstrap} --describe --topic-list {t}-given,{t}-data",
    ),
    log_dirs(
        "log-dirs-of-some",
        "--bootstrap-server {bootstrap} --describe --broker-list 1,3 --topic-list {t}-given",
    ),
    case(
        "delete-records",
        Tool::DeleteRecords,
        "--bootstrap-server {bootstrap} --offset-json-file {file}",
    )
    .file(r#"{"version":1,"partitions":[{"topic":"{t}-data","partition":0,"offset":100}]}"#),
    case(
        "delete-records-beyond",
        Tool::DeleteRecords,
        "--bootstrap-server {bootstrap} --offset-json-file {file}",
    )
    .file(r#"{"version":1,"partitions":[{"topic":"{t}-data","partition":0,"offset":100000}]}"#)
    .ends_either_way(),
    case(
        "broker-api-versions",
        Tool::BrokerApiVersions,
        "--bootstrap-server {bootstrap}",
    )
    .looks(),
    features(
        "features-describe",
        "--bootstrap-server {bootstrap} describe",
    )
    .on(FEATURES_BY_WORDS)
    .looks()
    .on_clusters_of_one_release(),
    features(
        "features-upgrade-metadata",
        "--bootstrap-server {bootstrap} upgrade --metadata 3.9",
    )
    .on(FEATURES_BY_WORDS)
    .refused(),
    features(
        "features-upgrade-unknown",
        "--bootstrap-server {bootstrap} upgrade --feature no.such.feature=1",
    )
    .on(FEATURES_BY_WORDS)
    .refused(),
    features(
        "features-disable-unknown",
        "--bootstrap-server {bootstrap} disable --feature no.such.feature",
    )
    .on(FEATURES_BY_WORDS)
    .refused(),
    features(
        "features-describe-by-flag",
        "--bootstrap-server {bootstrap} --describe",
    )
    .on(FEATURES_BY_FLAGS)
    .looks()
    .ends_either_way()
    .on_clusters_of_one_release(),
    features(
        "features-upgrade-all",
        "--bootstrap-server {bootstrap} --upgrade-all",
    )
    .on(FEATURES_BY_FLAGS)
    .ends_either_way()
    .on_clusters_of_one_release(),
    features(
        "features-downgrade-all",
        "--bootstrap-server {bootstrap} --downgrade-all",
    )
    .on(FEATURES_BY_FLAGS)
    .ends_either_way()
    .on_clusters_of_one_release(),
    transactions("transactions-list", "--bootstrap-server {bootstrap} list")
        .chosen(Chosen::Figures),
    transactions(
        "transactions-describe",
        "--bootstrap-server {bootstrap} describe --transactional-id {t}-transaction",
    )
    .chosen(Chosen::Figures),
    transactions(
        "transactions-describe-missing",
        "--bootstrap-server {bootstrap} describe --transactional-id {t}-nobody",
    ),
    transactions(
        "transactions-describe-producers",
        "--bootstrap-server {bootstrap} describe-producers --topic {t}-data --partition 0",
    )
    .chosen(Chosen::Figures),
    transactions(
        "transactions-find-hanging",
        "--bootstrap-server {bootstrap} find-hanging --broker-id 3",
    ),
];

const fn groups(name: &'static str, arguments: &'static str) -> Case {
    case(name, Tool::ConsumerGroups, arguments)
}

pub const GROUPS: &[Case] = &[
    groups(
        "groups-reset",
        "--bootstrap-server {bootstrap} --group {t}-group --reset-offsets --to-earliest --topic {t}-data --execute",
    ),
    groups("groups-list", "--bootstrap-server {bootstrap} --list").looks(),
    groups(
        "groups-describe",
        "--bootstrap-server {bootstrap} --describe --group {t}-group",
    )
    .looks(),
    groups(
        "groups-describe-members",
        "--bootstrap-server {bootstrap} --describe --group {t}-group --members",
    )
    .looks(),
    groups(
        "groups-describe-state",
        "--bootstrap-server {bootstrap} --describe --group {t}-group --state",
    )
    .looks(),
    groups(
        "groups-describe-missing",
        "--bootstrap-server {bootstrap} --describe --group {t}-nobody",
    )
    .looks()
    .ends_either_way(),
    groups(
        "groups-reset-dry",
        "--bootstrap-server {bootstrap} --group {t}-group --reset-offsets --shift-by 50 --topic {t}-data --dry-run",
    )
    .looks(),
    groups(
        "groups-reset-to-end",
        "--bootstrap-server {bootstrap} --group {t}-group --reset-offsets --to-latest --topic {t}-data --execute",
    ),
    groups(
        "groups-delete-offsets",
        "--bootstrap-server {bootstrap} --group {t}-group --delete-offsets --topic {t}-data",
    )
    .on(Releases::since(2, 4)),
    groups(
        "groups-reset-again",
        "--bootstrap-server {bootstrap} --group {t}-group --reset-offsets --to-offset 200 --topic {t}-data --execute",
    ),
    groups(
        "groups-delete",
        "--bootstrap-server {bootstrap} --delete --group {t}-group",
    ),
    groups(
        "groups-delete-missing",
        "--bootstrap-server {bootstrap} --delete --group {t}-nobody",
    )
    .ends_either_way(),
    case(
        "streams-reset-dry",
        Tool::StreamsApplicationReset,
        "--bootstrap-servers {bootstrap} --application-id {t}-app --input-topics {t}-data --dry-run",
    ),
    case(
        "streams-reset",
        Tool::StreamsApplicationReset,
        "--bootstrap-servers {bootstrap} --application-id {t}-app --input-topics {t}-data",
    ),
    case(
        "streams-reset-missing-topic",
        Tool::StreamsApplicationReset,
        "--bootstrap-servers {bootstrap} --application-id {t}-app --input-topics {t}-missing",
    )
    .ends_either_way(),
    groups(
        "groups-delete-application",
        "--bootstrap-server {bootstrap} --delete --group {t}-app",
    )
    .ends_either_way(),
];
