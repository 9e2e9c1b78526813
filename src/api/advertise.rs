//! Which versions ApiVersions lists.
//!
//! Some clients take one node's answer for the whole cluster, and Java clients up to 2.7 fail where Produce isn't listed
//! (they look at it for each node they connect to). So klamm lists what all genuine brokers have in common, what it only
//! answers with errors included, widens only what brokers ask their controller, and leaves out only what clients are
//! known to do without.
//! Upstream: `ApiVersionManager.scala`.

use std::collections::BTreeMap;

use klamm_codec::ApiKey;
use klamm_codec::version::BrokerVersions;

/// The versions of ApiVersions that are understood here.
pub(super) const API_VERSIONS: (i16, i16) = (0, 4);

/// What brokers ask their controller. Always listed in full: a broker takes a missing AllocateProducerIds for final and
/// never asks again.
const FOR_BROKERS: [(ApiKey, (i16, i16)); 3] = [
    (ApiKey::CONTROLLED_SHUTDOWN, (0, 3)),
    (ApiKey::ALTER_PARTITION, (0, 3)),
    (ApiKey::ALLOCATE_PRODUCER_IDS, (0, 0)),
];

/// What a 1.0 broker lists, and every later ZooKeeper-mode release still understands: stands in while no broker has
/// said what it understands. Each range starts at version 0.
const SINCE_1_0: [(ApiKey, i16); 38] = [
    (ApiKey::PRODUCE, 5),
    (ApiKey::FETCH, 6),
    (ApiKey::LIST_OFFSETS, 2),
    (ApiKey::METADATA, 5),
    (ApiKey::LEADER_AND_ISR, 1),
    (ApiKey::STOP_REPLICA, 0),
    (ApiKey::UPDATE_METADATA, 4),
    (ApiKey::CONTROLLED_SHUTDOWN, 1),
    (ApiKey::OFFSET_COMMIT, 3),
    (ApiKey::OFFSET_FETCH, 3),
    (ApiKey::FIND_COORDINATOR, 1),
    (ApiKey::JOIN_GROUP, 2),
    (ApiKey::HEARTBEAT, 1),
    (ApiKey::LEAVE_GROUP, 1),
    (ApiKey::SYNC_GROUP, 1),
    (ApiKey::DESCRIBE_GROUPS, 1),
    (ApiKey::LIST_GROUPS, 1),
    (ApiKey::SASL_HANDSHAKE, 1),
    (ApiKey::API_VERSIONS, 1),
    (ApiKey::CREATE_TOPICS, 2),
    (ApiKey::DELETE_TOPICS, 1),
    (ApiKey::DELETE_RECORDS, 0),
    (ApiKey::INIT_PRODUCER_ID, 0),
    (ApiKey::OFFSET_FOR_LEADER_EPOCH, 0),
    (ApiKey::ADD_PARTITIONS_TO_TXN, 0),
    (ApiKey::ADD_OFFSETS_TO_TXN, 0),
    (ApiKey::END_TXN, 0),
    (ApiKey::WRITE_TXN_MARKERS, 0),
    (ApiKey::TXN_OFFSET_COMMIT, 0),
    (ApiKey::DESCRIBE_ACLS, 0),
    (ApiKey::CREATE_ACLS, 0),
    (ApiKey::DELETE_ACLS, 0),
    (ApiKey::DESCRIBE_CONFIGS, 0),
    (ApiKey::ALTER_CONFIGS, 0),
    (ApiKey::ALTER_REPLICA_LOG_DIRS, 0),
    (ApiKey::DESCRIBE_LOG_DIRS, 0),
    (ApiKey::SASL_AUTHENTICATE, 0),
    (ApiKey::CREATE_PARTITIONS, 0),
];

/// What klamm lists where the brokers have `common` in common (nothing: not known yet), and where the client is paired
/// already, to a broker that understands `pair`: that one may have left the cluster since, and still answers.
pub(super) fn advertised(
    common: BTreeMap<ApiKey, (i16, i16)>,
    pair: Option<&BrokerVersions>,
) -> BTreeMap<ApiKey, (i16, i16)> {
    let mut ranges = if common.is_empty() {
        SINCE_1_0.map(|(key, max)| (key, (0, max))).into()
    } else {
        common
    };
    if let Some(pair) = pair {
        ranges.retain(|key, range| match pair.range(*key) {
            Some((min, max)) => {
                *range = (range.0.max(min), range.1.min(max));
                range.0 <= range.1
            }
            None => false,
        });
    }
    // 3.x brokers list it for the migration to KRaft, in which klamm takes no part.
    ranges.remove(&ApiKey::ENVELOPE);
    ranges.extend(FOR_BROKERS);
    ranges.entry(ApiKey::API_VERSIONS).or_insert(API_VERSIONS);
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_told_exactly_what_the_brokers_have_in_common() {
        let common = [
            (ApiKey::PRODUCE, (0, 8)),
            (ApiKey::METADATA, (1, 9)),
            (ApiKey::API_VERSIONS, (0, 3)),
        ];
        let mut listed = advertised(common.into(), None);
        for (key, range) in FOR_BROKERS {
            assert_eq!(listed.remove(&key), Some(range));
        }
        assert_eq!(listed, common.into());
    }

    #[test]
    fn brokers_find_all_that_they_ask_a_controller_even_where_no_broker_offers_it_in_full() {
        let common = [
            (ApiKey::CONTROLLED_SHUTDOWN, (0, 1)),
            (ApiKey::ENVELOPE, (0, 0)),
        ];
        let listed = advertised(common.into(), None);
        assert_eq!(listed.get(&ApiKey::CONTROLLED_SHUTDOWN), Some(&(0, 3)));
        assert_eq!(listed.get(&ApiKey::ALTER_PARTITION), Some(&(0, 3)));
        assert_eq!(listed.get(&ApiKey::ALLOCATE_PRODUCER_IDS), Some(&(0, 0)));
        assert_eq!(
            listed.get(&ApiKey::ENVELOPE),
            None,
            "klamm takes part in no migration"
        );
    }

    #[test]
    fn while_no_broker_is_known_old_clients_still_find_produce() {
        let listed = advertised(BTreeMap::new(), None);
        assert_eq!(listed.get(&ApiKey::PRODUCE), Some(&(0, 5)));
        assert_eq!(listed.get(&ApiKey::API_VERSIONS), Some(&(0, 1)));
        assert_eq!(
            listed.len(),
            SINCE_1_0.len() + 2,
            "one of the three for brokers is in both"
        );
    }
}
