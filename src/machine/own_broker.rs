//! How klamm shows itself among the brokers, and who of those registered is one.
//!
//! Must never let a klamm pass for a broker: whoever is genuine here gets leaders, replicas and requests.
//! Upstream has no counterpart: its controller is a broker.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::effect::Read;
use crate::model::{Broker, BrokerId, BrokerRegistration, Endpoint, Features};

/// klamm's own entry in `/brokers/ids` and in UpdateMetadata.
///
/// Its rack is null exactly when the brokers' racks are: brokers that auto-create topics fail cluster-wide on mixed
/// racks. A rack that exists already, because a new one would attract replicas.
pub fn own_broker(
    own_id: BrokerId,
    listeners: &[Endpoint],
    registered: &[BrokerRegistration],
) -> Broker {
    let rack = registered
        .iter()
        .filter_map(|registration| registration.broker.rack.clone())
        .min();
    Broker {
        id: own_id,
        endpoints: listeners.to_vec(),
        rack,
        features: Features::new(),
    }
}

/// The genuine brokers among those listed, and what is wrong with the registrations that can't be read.
pub fn genuine(
    listed: Vec<(BrokerId, Read<BrokerRegistration>)>,
    klamm_ids: &BTreeSet<BrokerId>,
    own_id: BrokerId,
) -> (Vec<BrokerRegistration>, Vec<String>) {
    let mut registered = Vec::with_capacity(listed.len());
    let mut broken = Vec::new();
    for (id, read) in listed {
        if id == own_id || klamm_ids.contains(&id) {
            continue;
        }
        match read {
            Read::Found(registration) => registered.push(registration),
            Read::Missing => {}
            Read::Broken(why) => broken.push(why),
        }
    }
    (registered, broken)
}

/// What klamm must rewrite in its registration, now that these brokers are registered; `None`: nothing.
pub fn changed_registration(current: &Broker, registered: &[BrokerRegistration]) -> Option<Broker> {
    let wanted = own_broker(current.id, &current.endpoints, registered);
    let same_parity = wanted.rack.is_some() == current.rack.is_some();
    let rack_exists = |rack: &Arc<str>| {
        registered
            .iter()
            .any(|r| r.broker.rack.as_ref() == Some(rack))
    };
    let keeps = same_parity && current.rack.as_ref().is_none_or(rack_exists);
    (!keeps).then_some(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::BrokerEpoch;

    fn broker(id: i32, rack: Option<&str>) -> BrokerRegistration {
        let broker = Broker {
            id: BrokerId(id),
            endpoints: vec![],
            rack: rack.map(Arc::from),
            features: Features::new(),
        };
        BrokerRegistration {
            broker,
            epoch: BrokerEpoch(i64::from(id)),
            json_version: 4,
        }
    }

    #[test]
    fn its_rack_is_null_exactly_when_the_brokers_racks_are() {
        let rack_among = |racks: &[Option<&str>]| {
            let registered: Vec<_> = racks
                .iter()
                .zip(1..)
                .map(|(rack, id)| broker(id, *rack))
                .collect();
            own_broker(BrokerId(900), &[], &registered).rack
        };
        assert_eq!(rack_among(&[]), None);
        assert_eq!(rack_among(&[None, None]), None);
        assert_eq!(rack_among(&[Some("b"), Some("a")]), Some(Arc::from("a")));
    }

    #[test]
    fn its_registration_follows_the_brokers_racks_but_not_without_need() {
        let me = own_broker(BrokerId(900), &[], &[broker(1, Some("a"))]);
        assert_eq!(
            changed_registration(&me, &[broker(1, Some("a")), broker(2, Some("0"))]),
            None
        );
        assert_eq!(
            changed_registration(&me, &[broker(2, None)]).map(|me| me.rack),
            Some(None)
        );
        assert_eq!(
            changed_registration(&me, &[broker(2, Some("c"))]).map(|me| me.rack),
            Some(Some(Arc::from("c")))
        );
        let rackless = own_broker(BrokerId(900), &[], &[]);
        assert_eq!(changed_registration(&rackless, &[broker(1, None)]), None);
    }

    #[test]
    fn no_klamm_passes_for_a_broker_and_a_broken_registration_costs_only_itself() {
        let listed = vec![
            (BrokerId(1), Read::Found(broker(1, None))),
            (
                BrokerId(2),
                Read::Broken("/brokers/ids/2: not JSON".to_owned()),
            ),
            (BrokerId(3), Read::Missing),
            (BrokerId(900), Read::Found(broker(900, None))),
            (BrokerId(901), Read::Found(broker(901, None))),
        ];
        let (registered, broken) = genuine(listed, &BTreeSet::from([BrokerId(901)]), BrokerId(900));
        assert_eq!(registered, vec![broker(1, None)]);
        assert_eq!(broken, vec!["/brokers/ids/2: not JSON".to_owned()]);
    }
}
