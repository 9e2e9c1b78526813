//! AlterUserScramCredentials, between bytes and the controller's values.
//!
//! The salted password ends here: what the controller gets, and what is written, are the keys made of it (RFC 5802). Must
//! never let it get any further, nor into a text. Upstream: `AlterUserScramCredentialsRequest`, `ScramFormatter`,
//! `ScramCredentialUtils`.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hmac::digest::InvalidLength;
use hmac::{Hmac, Mac};
use klamm_codec::messages::alter_user_scram_credentials_request::ScramCredentialUpsertion;
use klamm_codec::messages::alter_user_scram_credentials_response::AlterUserScramCredentialsResult;
use klamm_codec::messages::{AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse};
use klamm_codec::request::decode_request;
use klamm_codec::response::encode_response;
use klamm_codec::{CodecError, Frame, RequestHeader, StrBytes};
use sha2::{Digest, Sha256, Sha512};

use super::explanation;
use crate::effect::ScramResult;
use crate::event::{ScramAlteration, ScramChange};
use crate::model::{KafkaError, ScramCredential, ScramMechanism};

/// Deletions first, as in the request.
pub(in crate::api) fn alter_user_scram_credentials_request(
    header: &RequestHeader,
    payload: &Bytes,
) -> Result<Vec<ScramAlteration>, CodecError> {
    let asked: AlterUserScramCredentialsRequest = decode_request(header, payload)?;
    let deletions = asked.deletions.iter().map(|deletion| ScramAlteration {
        user: deletion.name.to_string(),
        mechanism: deletion.mechanism,
        change: ScramChange::Delete,
    });
    let upsertions = asked.upsertions.iter().map(|upsertion| ScramAlteration {
        user: upsertion.name.to_string(),
        mechanism: upsertion.mechanism,
        change: ScramChange::Upsert {
            iterations: upsertion.iterations,
            credential: credential(upsertion),
        },
    });
    Ok(deletions.chain(upsertions).collect())
}

/// `None`: nothing can be made of it.
fn credential(of: &ScramCredentialUpsertion) -> Option<ScramCredential> {
    if of.salt.is_empty() || of.salted_password.is_empty() {
        return None;
    }
    let keys = match ScramMechanism::from_code(of.mechanism)? {
        ScramMechanism::Sha256 => keys_sha_256(&of.salted_password),
        ScramMechanism::Sha512 => keys_sha_512(&of.salted_password),
    };
    let (stored_key, server_key) = keys.ok()?;
    Some(ScramCredential::new(format!(
        "salt={},stored_key={},server_key={},iterations={}",
        STANDARD.encode(&of.salt),
        STANDARD.encode(stored_key),
        STANDARD.encode(server_key),
        of.iterations
    )))
}

/// StoredKey and ServerKey.
type Keys = (Vec<u8>, Vec<u8>);

const CLIENT_KEY: &[u8] = b"Client Key";
const SERVER_KEY: &[u8] = b"Server Key";

fn keys_sha_256(salted_password: &[u8]) -> Result<Keys, InvalidLength> {
    let sign = |text: &[u8]| {
        let mac = Hmac::<Sha256>::new_from_slice(salted_password)?.chain_update(text);
        Ok(mac.finalize().into_bytes())
    };
    let stored_key = Sha256::digest(sign(CLIENT_KEY)?);
    Ok((stored_key.to_vec(), sign(SERVER_KEY)?.to_vec()))
}

fn keys_sha_512(salted_password: &[u8]) -> Result<Keys, InvalidLength> {
    let sign = |text: &[u8]| {
        let mac = Hmac::<Sha512>::new_from_slice(salted_password)?.chain_update(text);
        Ok(mac.finalize().into_bytes())
    };
    let stored_key = Sha512::digest(sign(CLIENT_KEY)?);
    Ok((stored_key.to_vec(), sign(SERVER_KEY)?.to_vec()))
}

/// The answer; `asked` are the users as in the request. An error of the whole stands with each of them, once.
pub(in crate::api) fn alter_user_scram_credentials_response(
    header: &RequestHeader,
    asked: Vec<String>,
    answer: Result<Vec<ScramResult>, KafkaError>,
) -> Result<Frame, CodecError> {
    let said = |user: String, error: KafkaError, message: Option<String>| {
        AlterUserScramCredentialsResult::default()
            .with_user(StrBytes::from_string(user))
            .with_error_code(error.0)
            .with_error_message(message.map(explanation))
    };
    let results = match answer {
        Ok(results) => results
            .into_iter()
            .map(|(user, result)| match result {
                Ok(()) => said(user, KafkaError::NONE, None),
                Err(refused) => said(user, refused.error, Some(refused.message)),
            })
            .collect(),
        Err(error) => {
            let users: BTreeSet<String> = asked.into_iter().collect();
            let users = users.into_iter();
            users.map(|user| said(user, error, None)).collect()
        }
    };
    let response = AlterUserScramCredentialsResponse::default().with_results(results);
    encode_response::<AlterUserScramCredentialsRequest>(
        header.version,
        header.correlation_id,
        &response,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ApiError;
    use klamm_codec::messages::alter_user_scram_credentials_request::ScramCredentialDeletion;
    use klamm_codec::request::{encode_request, parse_header};
    use klamm_codec::response::decode_response;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn text(of: &str) -> StrBytes {
        StrBytes::from_string(of.to_owned())
    }

    fn upsertion(mechanism: i8, salt: &str, salted_password: &str) -> ScramCredentialUpsertion {
        let bytes = |base64: &str| Bytes::from(STANDARD.decode(base64).unwrap());
        ScramCredentialUpsertion::default()
            .with_name(text("u"))
            .with_mechanism(mechanism)
            .with_iterations(4096)
            .with_salt(bytes(salt))
            .with_salted_password(bytes(salted_password))
    }

    /// RFC 7677: user `user`, password `pencil`; the keys were made of it with another program.
    #[test]
    fn the_keys_of_a_known_password_are_those_that_brokers_make() {
        let made = credential(&upsertion(
            1,
            "W22ZaJ0SNY7soEsUEjb6gQ==",
            "xKSVEDI6tPlSysH6mUQZOeeOp01r6B3fcJbodRPcYV0=",
        ));
        assert_eq!(
            made.unwrap().as_str(),
            "salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key=WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=,server_key=wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=,iterations=4096"
        );
        let made = credential(&upsertion(
            2,
            "W22ZaJ0SNY7soEsUEjb6gQ==",
            "8W7+G+Z/HQlQLr1e2SYv3f+6Wjd6tPC2h+XtW6D1Boa4pK4WZHbairO5UdL6kji2OZj0VGG8M6RkgUlJzsljHQ==",
        ));
        assert_eq!(
            made.unwrap().as_str(),
            "salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key=6AAub3065EYRmyFpM2RNwqK+eGnrkYuEWbXn19LsEmBqzu8QaCXNc1FwpnX9NhH2hK/60dzj9DoO5DvVkOHbvg==,server_key=jZHbYjC1aHh0/hKbxyBuGFjDrgjgKTT1esA7awWiKcRZ0o/0b1yWEebBeSVkkCFewf91nLDfKF24mvD5nmE6rA==,iterations=4096"
        );
    }

    #[test]
    fn nothing_is_made_of_an_empty_password_or_salt_or_of_a_mechanism_that_is_unknown() {
        assert!(credential(&upsertion(1, "YQ==", "YQ==")).is_some());
        for (mechanism, salt, password) in [(1, "", "YQ=="), (2, "YQ==", ""), (3, "YQ==", "YQ==")] {
            assert_eq!(credential(&upsertion(mechanism, salt, password)), None);
        }
    }

    proptest! {
        #[test]
        fn a_request_is_read_as_it_was_meant(
            deletions in vec((".{0,20}", any::<i8>()), 0..4),
            upsertions in vec((".{0,20}", any::<i8>(), any::<i32>(), vec(any::<u8>(), 0..70)), 0..4),
        ) {
            let sent = AlterUserScramCredentialsRequest::default()
                .with_deletions(deletions.iter().map(|(user, mechanism)| {
                    ScramCredentialDeletion::default().with_name(text(user)).with_mechanism(*mechanism)
                }).collect())
                .with_upsertions(upsertions.iter().map(|(user, mechanism, iterations, password)| {
                    ScramCredentialUpsertion::default()
                        .with_name(text(user))
                        .with_mechanism(*mechanism)
                        .with_iterations(*iterations)
                        .with_salt(Bytes::from_static(b"salt"))
                        .with_salted_password(Bytes::from(password.clone()))
                }).collect());
            let payload = encode_request(0, 3, Some("c"), &sent).unwrap().to_bytes().slice(4..);
            let header = parse_header(&payload).unwrap();
            let read = alter_user_scram_credentials_request(&header, &payload).unwrap();
            let users = read.iter().map(|one| (one.user.as_str(), one.mechanism));
            let meant = deletions.iter().map(|(user, mechanism)| (user.as_str(), *mechanism));
            let meant = meant.chain(upsertions.iter().map(|(user, mechanism, ..)| (user.as_str(), *mechanism)));
            prop_assert!(users.eq(meant));
            for (one, (_, mechanism, iterations, password)) in read[deletions.len()..].iter().zip(&upsertions) {
                let ScramChange::Upsert { iterations: read, credential } = &one.change else {
                    panic!("{one:?}");
                };
                prop_assert_eq!(read, iterations);
                prop_assert_eq!(credential.is_some(), (1..=2).contains(mechanism) && !password.is_empty());
            }
        }

        #[test]
        fn an_answer_is_read_as_it_was_said(
            results in vec((".{0,20}", prop::option::of((1_i16..120, ".{0,40}"))), 0..4),
        ) {
            let (header, _) = empty_request();
            let said: Vec<ScramResult> = results.iter().map(|(user, refused)| {
                let refused = refused.clone().map(|(code, why)| ApiError::new(KafkaError(code), why));
                (user.clone(), refused.map_or(Ok(()), Err))
            }).collect();
            let frame = alter_user_scram_credentials_response(&header, Vec::new(), Ok(said)).unwrap();
            let seen = decode_response::<AlterUserScramCredentialsRequest>(0, &frame.to_bytes().slice(4..)).unwrap();
            let seen: Vec<_> = seen.results.iter().map(|result| {
                let refused = (result.error_code != 0).then(|| {
                    (result.error_code, result.error_message.as_ref().unwrap().to_string())
                });
                (result.user.to_string(), refused)
            }).collect();
            prop_assert_eq!(seen, results);
        }
    }

    fn empty_request() -> (RequestHeader, Bytes) {
        let request = AlterUserScramCredentialsRequest::default();
        let payload = encode_request(0, 3, Some("c"), &request).unwrap();
        let payload = payload.to_bytes().slice(4..);
        (parse_header(&payload).unwrap(), payload)
    }

    #[test]
    fn who_is_not_the_controller_says_so_of_each_user_once() {
        let (header, _) = empty_request();
        let asked = ["v", "u", "v"].map(str::to_owned).to_vec();
        let refusal = Err(KafkaError::NOT_CONTROLLER);
        let frame = alter_user_scram_credentials_response(&header, asked, refusal).unwrap();
        let payload = frame.to_bytes().slice(4..);
        let seen = decode_response::<AlterUserScramCredentialsRequest>(0, &payload).unwrap();
        let seen: Vec<_> = seen
            .results
            .iter()
            .map(|result| (result.user.to_string(), result.error_code))
            .collect();
        assert_eq!(seen, [("u".to_owned(), 41), ("v".to_owned(), 41)]);
    }
}
