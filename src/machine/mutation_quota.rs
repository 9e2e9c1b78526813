//! Quotas on what clients create and delete, in partitions a second: which counts for whom, and a token bucket for each.
//!
//! Time is passed in. Must never let a client in that should wait, nor the other way round, because of what it is called:
//! names are compared as they stand in paths. Upstream: `ControllerMutationQuotaManager.scala`, `ClientQuotaManager.scala`,
//! `TokenBucket.java` (KIP-599).

use std::collections::BTreeMap;

use crate::event::{Claimant, QuotaEnforcement};
use crate::model::{ConfigEntity, EntityConfig, SanitizedName};

/// The key in a user's or client's configuration.
pub const RATE_KEY: &str = "controller_mutation_rate";
/// From so many buckets on those that nobody needs are looked for.
const BUCKETS_BEFORE_PURGE: usize = 1_000;
/// A bucket that was not used for so long is given up, as in Java.
const BUCKET_EXPIRY_MS: u64 = 3_600_000;

/// How long a client may save up what it doesn't use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaWindow {
    /// `controller.quota.window.num`.
    pub num: u32,
    /// `controller.quota.window.size.seconds`.
    pub size_seconds: u32,
}

impl Default for QuotaWindow {
    fn default() -> QuotaWindow {
        QuotaWindow {
            num: 11,
            size_seconds: 1,
        }
    }
}

impl QuotaWindow {
    fn seconds(self) -> f64 {
        f64::from(self.num) * f64::from(self.size_seconds)
    }
}

/// What becomes of a mutation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charge {
    /// It may be done.
    Granted,
    /// It may be done, and the client is to keep quiet for a while then.
    GrantedAndThrottled {
        /// How long.
        throttle_ms: u64,
    },
    /// It may not be done before the client has kept quiet for a while.
    Denied {
        /// How long.
        throttle_ms: u64,
    },
}

/// All quotas of a cluster, and what is left of them.
#[derive(Debug)]
pub struct ControllerMutationQuotas {
    window: QuotaWindow,
    /// Partitions a second.
    rates: BTreeMap<ConfigEntity, f64>,
    buckets: BTreeMap<BucketKey, TokenBucket>,
    purge_at: usize,
}

/// Whose bucket: a user's, a client's, or that of a user's clients of one id.
type BucketKey = (Option<SanitizedName>, Option<SanitizedName>);

impl ControllerMutationQuotas {
    /// No quotas at all.
    pub fn new(window: QuotaWindow) -> ControllerMutationQuotas {
        ControllerMutationQuotas {
            window,
            rates: BTreeMap::new(),
            buckets: BTreeMap::new(),
            purge_at: BUCKETS_BEFORE_PURGE,
        }
    }

    /// These, and no others, from now on. What was used up of them stays so.
    pub fn replace(&mut self, rates: BTreeMap<ConfigEntity, f64>) {
        self.rates = rates;
    }

    /// This one's from now on; `None`: it has none of its own.
    pub fn set(&mut self, entity: ConfigEntity, rate: Option<f64>) {
        match rate {
            Some(rate) => _ = self.rates.insert(entity, rate),
            None => _ = self.rates.remove(&entity),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.rates.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rates.is_empty()
    }

    /// Charges so many mutations, unless they are denied. The one that empties a bucket is granted however large it is, so
    /// that what is larger than the bucket can be had at all.
    pub fn charge(&mut self, by: &Claimant, mutations: usize, now_ms: u64) -> Charge {
        let Some((key, rate)) = self.quota_of(by) else {
            return Charge::Granted;
        };
        self.make_room(now_ms);
        let burst = rate * self.window.seconds();
        let bucket = self
            .buckets
            .entry(key)
            .or_insert_with(|| TokenBucket::full(rate, burst, now_ms));
        bucket.refill(rate, burst, now_ms);
        match by.enforcement {
            QuotaEnforcement::Strict => match bucket.throttle_ms() {
                Some(throttle_ms) => Charge::Denied { throttle_ms },
                None => {
                    bucket.spend(mutations);
                    Charge::Granted
                }
            },
            QuotaEnforcement::Permissive => {
                bucket.spend(mutations);
                match bucket.throttle_ms() {
                    Some(throttle_ms) => Charge::GrantedAndThrottled { throttle_ms },
                    None => Charge::Granted,
                }
            }
        }
    }

    /// The quota that counts for somebody, and whose bucket it is. The closest counts; a client without an id has none of
    /// those for clients.
    fn quota_of(&self, by: &Claimant) -> Option<(BucketKey, f64)> {
        use ConfigEntity::{Client, User, UserClient};
        if self.rates.is_empty() {
            return None;
        }
        let all = SanitizedName::default_entity;
        let user = || SanitizedName::of(&by.user);
        let client = (!by.client_id.is_empty()).then(|| SanitizedName::of(&by.client_id));
        let rate = |entity: ConfigEntity| self.rates.get(&entity).copied();
        let of_both = |user: SanitizedName| {
            let client = client.clone()?;
            let own = rate(UserClient(user.clone(), client));
            own.or_else(|| rate(UserClient(user, all())))
        };
        let shortened = client.as_ref().map(shortened);
        let both = || (Some(user()), shortened.clone());
        let alone = || (Some(user()), None);
        if let Some(rate) = of_both(user()) {
            return Some((both(), rate));
        }
        if let Some(rate) = rate(User(user())) {
            return Some((alone(), rate));
        }
        if let Some(rate) = of_both(all()) {
            return Some((both(), rate));
        }
        if let Some(rate) = rate(User(all())) {
            return Some((alone(), rate));
        }
        let of_client = rate(Client(client?)).or_else(|| rate(Client(all())))?;
        Some(((None, shortened.clone()), of_client))
    }

    /// Clients may call themselves what they want, each time anew: buckets that are as good as new ones go.
    fn make_room(&mut self, now_ms: u64) {
        if self.buckets.len() < self.purge_at {
            return;
        }
        self.buckets.retain(|_, bucket| bucket.is_needed(now_ms));
        self.purge_at = BUCKETS_BEFORE_PURGE.max(self.buckets.len() * 2);
    }
}

/// Enough of a name to tell clients apart; it may have 32 KiB.
fn shortened(name: &SanitizedName) -> SanitizedName {
    let text = name.as_str();
    SanitizedName::read(text.get(..SanitizedName::LENGTH_MAX).unwrap_or(text))
}

/// Fills steadily up to a bound; what is taken may leave less than nothing.
#[derive(Debug, Clone, PartialEq)]
struct TokenBucket {
    tokens: f64,
    rate: f64,
    burst: f64,
    filled_at_ms: u64,
}

impl TokenBucket {
    fn full(rate: f64, burst: f64, now_ms: u64) -> TokenBucket {
        TokenBucket {
            tokens: burst,
            rate,
            burst,
            filled_at_ms: now_ms,
        }
    }

    /// The rate may have changed: it counts for the time that has passed as well, as in Java.
    fn refill(&mut self, rate: f64, burst: f64, now_ms: u64) {
        self.rate = rate;
        self.burst = burst;
        self.tokens = self.tokens_at(now_ms);
        self.filled_at_ms = now_ms;
    }

    fn tokens_at(&self, now_ms: u64) -> f64 {
        let passed_ms = now_ms.saturating_sub(self.filled_at_ms);
        (self.tokens + self.rate * (passed_ms as f64 / 1_000.0)).min(self.burst)
    }

    fn spend(&mut self, mutations: usize) {
        self.tokens -= mutations as f64;
    }

    /// Until nothing is owed any more; `None`: nothing is.
    fn throttle_ms(&self) -> Option<u64> {
        if self.tokens >= 0.0 {
            return None;
        }
        let ms = (-self.tokens / self.rate * 1_000.0).round();
        // A rate of nothing makes it infinite. The wire has 31 bits for it.
        Some(ms.clamp(1.0, f64::from(i32::MAX)) as u64)
    }

    fn is_needed(&self, now_ms: u64) -> bool {
        let is_full = self.tokens_at(now_ms) >= self.burst;
        let is_old = now_ms.saturating_sub(self.filled_at_ms) > BUCKET_EXPIRY_MS;
        !is_full && !is_old
    }
}

/// What a configuration says, in partitions a second; `None`: nothing.
///
/// # Errors
/// No number that could be a rate.
pub fn rate(config: &EntityConfig) -> Result<Option<f64>, String> {
    let Some(value) = config.0.get(RATE_KEY) else {
        return Ok(None);
    };
    match value.trim().parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate >= 0.0 => Ok(Some(rate)),
        _ => {
            let shown: String = value.chars().take(100).collect();
            Err(format!(
                "{RATE_KEY} is `{shown}`, which is no number of partitions a second (0 or more); set it again with kafka-configs"
            ))
        }
    }
}

/// Those whose configurations can be read, and what is wrong with the others.
pub fn readable(entities: Vec<ConfigEntity>) -> (Vec<ConfigEntity>, Vec<String>) {
    let fits = |entity: &ConfigEntity| match entity {
        ConfigEntity::BrokerDefault => true,
        ConfigEntity::User(name) | ConfigEntity::Client(name) => !name.is_too_long(),
        ConfigEntity::UserClient(user, client) => {
            user.as_str().len() + client.as_str().len() <= SanitizedName::LENGTH_MAX
        }
    };
    let (fitting, long): (Vec<_>, Vec<_>) = entities.into_iter().partition(fits);
    let complaint = |entity: ConfigEntity| {
        let begin: String = entity.path().chars().take(100).collect();
        format!(
            "/config/{begin}…: the name is longer than {} bytes; its quotas are not heeded. Remove the node",
            SanitizedName::LENGTH_MAX
        )
    };
    (fitting, long.into_iter().map(complaint).collect())
}

#[cfg(test)]
mod tests;
