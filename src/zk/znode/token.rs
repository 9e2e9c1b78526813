//! `/delegation_token`: JSON to values.
//!
//! Must never hold what a token is worth: only until when it is good. Upstream: `DelegationTokenManager.fromBytes`,
//! `DelegationTokenInfoZNode` in `ZkData.scala`.

use serde::Deserialize;

use super::{judged, parse};
use crate::effect::{DelegationTokenZnode, Read, TokenId};

#[derive(Deserialize)]
struct TokenJson {
    version: i32,
    #[serde(rename = "maxTimestamp")]
    max_timestamp: i64,
    #[serde(rename = "expiryTimestamp")]
    expiry_timestamp: i64,
}

/// Reads `/delegation_token/tokens/ID`, in the forms of 1.1 to 3.9 (versions 1 to 3).
pub fn decode_token(
    path: &str,
    data: &[u8],
    version: i32,
    czxid: i64,
) -> Read<DelegationTokenZnode> {
    let read = || {
        let json: TokenJson = parse(data)?;
        match json.version {
            1..=3 => Ok(DelegationTokenZnode {
                max_timestamp_ms: json.max_timestamp,
                expiry_timestamp_ms: json.expiry_timestamp,
                version,
                czxid,
            }),
            other => Err(format!("version {other} is unknown")),
        }
    };
    judged(
        path,
        "the token never expires like this; delete the node, and ask for another token",
        read(),
    )
}

/// `/delegation_token/token_changes/token_change_*`: the token's id, as plain text.
pub fn encode_token_change(token: &TokenId) -> Vec<u8> {
    token.0.clone().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "/delegation_token/tokens/a1";

    fn read(text: &str) -> Read<DelegationTokenZnode> {
        decode_token(PATH, text.as_bytes(), 4, 9)
    }

    #[test]
    fn tokens_of_every_release_are_read() {
        let expected = Read::Found(DelegationTokenZnode {
            max_timestamp_ms: 1_700_000_700_000,
            expiry_timestamp_ms: 1_700_000_600_000,
            version: 4,
            czxid: 9,
        });
        for version in 1..=3 {
            let requester = if version == 3 {
                r#""tokenRequester":"User%3Ab","#
            } else {
                ""
            };
            let text = format!(
                r#"{{"version":{version},"owner":"User%3Aa",{requester}"renewers":[],"issueTimestamp":1700000000000,"maxTimestamp":1700000700000,"expiryTimestamp":1700000600000,"tokenId":"a1"}}"#
            );
            assert_eq!(read(&text), expected);
        }
    }

    #[test]
    fn what_is_no_token_is_broken_and_names_the_path() {
        for bad in [
            "",
            "null",
            "x",
            "{}",
            r#"{"version":0,"maxTimestamp":1,"expiryTimestamp":1}"#,
            r#"{"version":4,"maxTimestamp":1,"expiryTimestamp":1}"#,
            r#"{"version":1,"maxTimestamp":1}"#,
            r#"{"version":1,"maxTimestamp":"1","expiryTimestamp":1}"#,
            r#"{"version":1,"maxTimestamp":1,"expiryTimestamp":1e400}"#,
            r#"{"version":1,"maxTimestamp":null,"expiryTimestamp":1}"#,
        ] {
            let Read::Broken(why) = read(bad) else {
                panic!("`{bad}` was read");
            };
            assert!(why.starts_with(PATH), "{why}");
        }
    }
}
