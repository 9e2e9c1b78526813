//! Upstream's `ClientQuotaManagerTest` and `ControllerMutationQuotaManagerTest`, as far as they concern mutations.

use super::*;
use Charge::{Denied, Granted, GrantedAndThrottled};
use ConfigEntity::{Client, User, UserClient};

fn by(user: &str, client_id: &str, enforcement: QuotaEnforcement) -> Claimant {
    Claimant {
        user: user.to_owned(),
        client_id: client_id.to_owned(),
        enforcement,
    }
}

fn strict() -> Claimant {
    by("u", "c", QuotaEnforcement::Strict)
}

fn permissive() -> Claimant {
    by("u", "c", QuotaEnforcement::Permissive)
}

fn name(text: &str) -> SanitizedName {
    SanitizedName::of(text)
}

fn all() -> SanitizedName {
    SanitizedName::default_entity()
}

/// Ten a second, saved up for ten seconds: a bucket holds 100.
fn ten_a_second() -> ControllerMutationQuotas {
    let mut quotas = ControllerMutationQuotas::new(QuotaWindow {
        num: 10,
        size_seconds: 1,
    });
    quotas.set(User(name("u")), Some(10.0));
    quotas
}

#[test]
fn a_strict_quota_denies_while_anything_is_owed() {
    let mut quotas = ten_a_second();
    assert_eq!(quotas.charge(&strict(), 90, 0), Granted);
    // The last ten, and 80 that are not there.
    assert_eq!(quotas.charge(&strict(), 90, 0), Granted);
    assert_eq!(
        quotas.charge(&strict(), 1, 0),
        Denied { throttle_ms: 8_000 }
    );
    // What is denied costs nothing.
    assert_eq!(
        quotas.charge(&strict(), 99, 7_000),
        Denied { throttle_ms: 1_000 }
    );
    assert_eq!(quotas.charge(&strict(), 5, 8_000), Granted);
    assert_eq!(
        quotas.charge(&strict(), 5, 8_000),
        Denied { throttle_ms: 500 }
    );
}

#[test]
fn a_permissive_quota_grants_and_throttles_ever_longer() {
    let mut quotas = ten_a_second();
    assert_eq!(quotas.charge(&permissive(), 90, 0), Granted);
    assert_eq!(
        quotas.charge(&permissive(), 10, 0),
        Granted,
        "nothing is owed yet"
    );
    let throttled = |throttle_ms| GrantedAndThrottled { throttle_ms };
    assert_eq!(quotas.charge(&permissive(), 80, 0), throttled(8_000));
    assert_eq!(quotas.charge(&permissive(), 10, 2_000), throttled(7_000));
    // Both kinds of clients share a bucket.
    assert_eq!(
        quotas.charge(&strict(), 1, 2_000),
        Denied { throttle_ms: 7_000 }
    );
}

#[test]
fn a_bucket_holds_what_the_window_allows_and_no_more() {
    let mut quotas = ten_a_second();
    assert_eq!(quotas.charge(&strict(), 50, 0), Granted);
    assert_eq!(quotas.charge(&strict(), 101, 1_000_000), Granted);
    assert_eq!(
        quotas.charge(&strict(), 1, 1_000_000),
        Denied { throttle_ms: 100 }
    );
    let mut quotas = ControllerMutationQuotas::new(QuotaWindow::default());
    quotas.set(User(name("u")), Some(2.0));
    assert_eq!(quotas.charge(&strict(), 22, 5), Granted);
    assert_eq!(quotas.charge(&strict(), 1, 5), Granted);
    assert_eq!(quotas.charge(&strict(), 1, 5), Denied { throttle_ms: 500 });
}

#[test]
fn a_clock_that_seems_to_go_back_costs_nothing() {
    let mut quotas = ten_a_second();
    assert_eq!(quotas.charge(&strict(), 110, 5_000), Granted);
    assert_eq!(
        quotas.charge(&strict(), 1, 4_000),
        Denied { throttle_ms: 1_000 }
    );
}

#[test]
fn a_quota_that_changes_counts_at_once() {
    let mut quotas = ten_a_second();
    assert_eq!(quotas.charge(&strict(), 120, 0), Granted);
    quotas.set(User(name("u")), Some(1.0));
    assert_eq!(
        quotas.charge(&strict(), 1, 0),
        Denied {
            throttle_ms: 20_000
        }
    );
    quotas.set(User(name("u")), None);
    assert_eq!(quotas.charge(&strict(), 1_000_000, 0), Granted);
    quotas.set(User(name("u")), Some(100.0));
    assert_eq!(quotas.charge(&strict(), 1, 0), Denied { throttle_ms: 200 });
    quotas.replace(BTreeMap::new());
    assert_eq!(quotas.charge(&strict(), 1, 0), Granted);
}

#[test]
fn a_rate_of_nothing_denies_for_good_once_something_was_had() {
    let mut quotas = ten_a_second();
    quotas.set(User(name("u")), Some(0.0));
    assert_eq!(quotas.charge(&strict(), 1, 0), Granted);
    let throttle_ms = 2_147_483_647;
    assert_eq!(
        quotas.charge(&strict(), 1, 9_000_000),
        Denied { throttle_ms }
    );
}

/// Which rate counts for user `u` and client `c`, and whether it is shared by the user's other clients, and by the client's
/// other users.
#[test]
fn the_closest_quota_counts_in_upstreams_order() {
    let order = [
        (UserClient(name("u"), name("c")), false, false),
        (UserClient(name("u"), all()), false, false),
        (User(name("u")), true, false),
        (UserClient(all(), name("c")), false, false),
        (UserClient(all(), all()), false, false),
        (User(all()), true, false),
        (Client(name("c")), false, true),
        (Client(all()), false, true),
    ];
    for first in 0..order.len() {
        let mut quotas = ControllerMutationQuotas::new(QuotaWindow::default());
        for (place, (entity, ..)) in order.iter().enumerate().skip(first) {
            quotas.set(entity.clone(), Some(1.0 + place as f64));
        }
        let of =
            |user: &str, client: &str| quotas.quota_of(&by(user, client, QuotaEnforcement::Strict));
        let (key, rate) = of("u", "c").unwrap();
        assert_eq!(rate, 1.0 + first as f64, "{:?}", order[first].0);
        let (_, shared_by_clients, shared_by_users) = order[first];
        let shares = |other: Option<(BucketKey, f64)>| other.is_some_and(|(it, _)| it == key);
        assert_eq!(shares(of("u", "d")), shared_by_clients, "{first}");
        assert_eq!(shares(of("v", "c")), shared_by_users, "{first}");
    }
    let nothing = ControllerMutationQuotas::new(QuotaWindow::default());
    assert!(nothing.quota_of(&strict()).is_none());
}

#[test]
fn a_client_without_an_id_has_its_users_quota_and_none_of_clients() {
    let mut quotas = ControllerMutationQuotas::new(QuotaWindow::default());
    let nameless = by("u", "", QuotaEnforcement::Strict);
    for entity in [
        UserClient(name("u"), all()),
        UserClient(all(), all()),
        Client(all()),
    ] {
        quotas.set(entity, Some(1.0));
    }
    assert!(quotas.quota_of(&nameless).is_none());
    quotas.set(User(all()), Some(2.0));
    assert_eq!(quotas.quota_of(&nameless).unwrap().1, 2.0);
}

#[test]
fn names_are_compared_as_they_stand_in_paths() {
    let mut quotas = ControllerMutationQuotas::new(QuotaWindow::default());
    quotas.set(Client(SanitizedName::read("a%20b")), Some(1.0));
    let of = |client: &str| quotas.quota_of(&by("u", client, QuotaEnforcement::Strict));
    assert!(of("a b").is_some());
    assert!(of("a%20b").is_none());
    quotas.set(Client(all()), Some(2.0));
    // A client that calls itself so is one of all.
    let (key, _) = quotas
        .quota_of(&by("u", "<default>", QuotaEnforcement::Strict))
        .unwrap();
    assert_eq!(key, (None, Some(SanitizedName::read("%3Cdefault%3E"))));
}

#[test]
fn clients_that_call_themselves_anew_each_time_fill_no_memory() {
    let mut quotas = ControllerMutationQuotas::new(QuotaWindow::default());
    quotas.set(Client(all()), Some(1.0));
    let debtor = by("u", "debtor", QuotaEnforcement::Strict);
    quotas.charge(&debtor, 10_000, 0);
    let long = "x".repeat(30_000);
    for number in 0..10_000_u64 {
        let client = by("u", &format!("{number}{long}"), QuotaEnforcement::Strict);
        quotas.charge(&client, 1, number * 100);
    }
    assert!(
        quotas.buckets.len() <= BUCKETS_BEFORE_PURGE,
        "{}",
        quotas.buckets.len()
    );
    let longest = quotas
        .buckets
        .keys()
        .filter_map(|(_, client)| client.as_ref());
    assert!(longest.map(|name| name.as_str().len()).max() <= Some(SanitizedName::LENGTH_MAX));
    let denied = quotas.charge(&debtor, 1, 1_000_000);
    assert!(
        matches!(denied, Denied { .. }),
        "who owes is not forgotten: {denied:?}"
    );
}

#[test]
fn a_rate_is_a_number_from_nothing_on() {
    let config = |value: &str| EntityConfig([(RATE_KEY.to_owned(), value.to_owned())].into());
    for (value, expected) in [("10", 10.0), (" 0.5 ", 0.5), ("0", 0.0), ("1e3", 1_000.0)] {
        assert_eq!(rate(&config(value)), Ok(Some(expected)), "{value}");
    }
    for bad in ["", "x", "-1", "NaN", "Infinity", "1,5"] {
        let why = rate(&config(bad)).unwrap_err();
        assert!(why.starts_with(RATE_KEY), "{why}");
    }
    assert_eq!(rate(&EntityConfig::default()), Ok(None));
    assert!(rate(&config(&"9".repeat(100_000))).unwrap_err().len() < 300);
}

#[test]
fn names_that_are_too_long_to_be_read_are_left_out_and_told() {
    let long = SanitizedName::read(&"x".repeat(SanitizedName::LENGTH_MAX));
    let longer = SanitizedName::read(&"x".repeat(SanitizedName::LENGTH_MAX + 1));
    let fine = [
        ConfigEntity::BrokerDefault,
        User(long.clone()),
        Client(long.clone()),
    ];
    let bad = [
        User(longer.clone()),
        Client(longer),
        UserClient(name("u"), long),
    ];
    let (fits, complaints) = readable([fine.as_slice(), &bad].concat());
    assert_eq!(fits, fine);
    assert_eq!(complaints.len(), bad.len());
    assert!(
        complaints
            .iter()
            .all(|why| why.len() < 300 && why.starts_with("/config/"))
    );
}
