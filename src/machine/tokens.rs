//! Delegation tokens: which of them are over.
//!
//! Must never judge what can't be understood: such a token stays. Upstream: `DelegationTokenManagerZk.expireTokens`.

use crate::effect::{DelegationTokenZnode, Read, TokenId, ZkWrite};

/// What is to be done about the tokens that there are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Expiry {
    /// The removal of each that is over, in order.
    pub writes: Vec<ZkWrite>,
    /// What can't be understood, each with its path.
    pub broken: Vec<String>,
}

/// Finds the tokens that are over at `now_ms`: not renewed in time, or as old as they may get.
pub fn expired(tokens: Vec<(TokenId, Read<DelegationTokenZnode>)>, now_ms: i64) -> Expiry {
    let mut expiry = Expiry::default();
    for (token, read) in tokens {
        match read {
            Read::Found(read) if read.max_timestamp_ms.min(read.expiry_timestamp_ms) < now_ms => {
                let write = ZkWrite::ExpireDelegationToken { token, read };
                expiry.writes.push(write);
            }
            Read::Found(_) | Read::Missing => {}
            Read::Broken(why) => expiry.broken.push(why),
        }
    }
    expiry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_over_once_either_of_its_dates_has_passed() {
        let token = |max_timestamp_ms, expiry_timestamp_ms| DelegationTokenZnode {
            max_timestamp_ms,
            expiry_timestamp_ms,
            version: 3,
            czxid: 5,
        };
        let table = [
            (1_000, 1_000, false),
            (1_000, 999, true),
            (999, 1_000, true),
            (999, i64::MAX, true),
            (i64::MAX, i64::MAX, false),
            (i64::MAX, -1, true),
        ];
        for (max, expiry, is_over) in table {
            let id = TokenId("id".to_owned());
            let read = token(max, expiry);
            let found = expired(vec![(id.clone(), Read::Found(read))], 1_000);
            let write = ZkWrite::ExpireDelegationToken { token: id, read };
            let expected = if is_over { vec![write] } else { vec![] };
            assert_eq!(found.writes, expected, "{max} {expiry}");
        }
    }

    #[test]
    fn what_cannot_be_understood_stays() {
        let id = |id: &str| TokenId(id.to_owned());
        let tokens = vec![
            (id("gone"), Read::Missing),
            (id("bad"), Read::Broken("/x: bad".to_owned())),
        ];
        let found = expired(tokens, i64::MAX);
        assert_eq!(found.writes, []);
        assert_eq!(found.broken, ["/x: bad"]);
    }
}
