//! What each broker understands, as it last said.
//!
//! A handle that can be cloned and read by other threads; only the channels and surveys write it.
//! No upstream counterpart: the Java controller never asks a broker.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use klamm_codec::ApiKey;
use klamm_codec::version::BrokerVersions;

use crate::model::BrokerId;

/// The versions of each API that each broker understands, as it last said. Shared: the node's own listener advertises
/// what all of them have in common.
#[derive(Debug, Clone, Default)]
pub struct BrokerRanges {
    brokers: Arc<RwLock<BTreeMap<BrokerId, BrokerVersions>>>,
}

impl BrokerRanges {
    /// What one broker said.
    pub fn of(&self, broker: BrokerId) -> Option<BrokerVersions> {
        read(&self.brokers).get(&broker).cloned()
    }

    /// The APIs that every known broker offers, each with the versions that all of them understand; none at all while no
    /// broker is known.
    pub fn common(&self) -> BTreeMap<ApiKey, (i16, i16)> {
        let brokers = read(&self.brokers);
        let mut all = brokers.values();
        let Some(first) = all.next() else {
            return BTreeMap::new();
        };
        let mut common: BTreeMap<ApiKey, (i16, i16)> = first
            .ranges()
            .map(|(key, min, max)| (key, (min, max)))
            .collect();
        for broker in all {
            common.retain(|key, (min, max)| match broker.range(*key) {
                Some((their_min, their_max)) => {
                    *min = (*min).max(their_min);
                    *max = (*max).min(their_max);
                    min <= max
                }
                None => false,
            });
        }
        common
    }

    pub(super) fn set(&self, broker: BrokerId, versions: BrokerVersions) {
        write(&self.brokers).insert(broker, versions);
    }

    pub(super) fn forget(&self, broker: BrokerId) {
        write(&self.brokers).remove(&broker);
    }

    pub(super) fn keep_only(&self, brokers: &BTreeSet<BrokerId>) {
        write(&self.brokers).retain(|broker, _| brokers.contains(broker));
    }
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use klamm_codec::messages::ApiVersionsResponse;
    use klamm_codec::messages::api_versions_response::ApiVersion;

    type Listed<'a> = &'a [(i16, i16, i16)];

    fn ranges(brokers: &[(i32, Listed<'_>)]) -> BrokerRanges {
        let all = BrokerRanges::default();
        for (id, ranges) in brokers {
            let keys = ranges.iter().map(|(key, min, max)| {
                let api = ApiVersion::default().with_api_key(*key);
                api.with_min_version(*min).with_max_version(*max)
            });
            let said = ApiVersionsResponse::default().with_api_keys(keys.collect());
            all.set(BrokerId(*id), BrokerVersions::from_response(&said).unwrap());
        }
        all
    }

    #[test]
    fn what_brokers_have_in_common_is_what_each_of_them_understands() {
        let all = ranges(&[
            (1, &[(3, 0, 12), (4, 0, 7), (60, 0, 1), (10, 3, 4)]),
            (2, &[(3, 1, 9), (4, 0, 4), (10, 0, 2)]),
        ]);
        let common = all.common();
        assert_eq!(
            common.into_iter().collect::<Vec<_>>(),
            [(ApiKey(3), (1, 9)), (ApiKey(4), (0, 4))]
        );
    }

    #[test]
    fn a_broker_that_is_gone_no_longer_limits_the_others() {
        let all = ranges(&[(1, &[(3, 0, 12)]), (2, &[(3, 0, 9)])]);
        all.forget(BrokerId(2));
        assert_eq!(all.common(), [(ApiKey(3), (0, 12))].into());
        all.keep_only(&[BrokerId(7)].into());
        assert!(all.common().is_empty());
    }
}
