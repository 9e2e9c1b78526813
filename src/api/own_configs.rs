//! The configuration of broker N, which is klamm: it has none that could be changed over the wire.
//!
//! Tools ask every live broker: kafka-reassign-partitions deletes throttles on each of them and fails as a whole where
//! one refuses, so deleting what isn't there succeeds; setting something is refused, for nothing would heed it. What is
//! asked of topics and of the cluster's defaults is any broker's to answer. Java clients never mix the two in one
//! request. Upstream: `ConfigHelper.scala`, `ZkAdminManager.scala`.

use bytes::Bytes;
use klamm_codec::messages::describe_configs_response::DescribeConfigsResult;
use klamm_codec::messages::{
    AlterConfigsRequest, AlterConfigsResponse, DescribeConfigsRequest, DescribeConfigsResponse,
    IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, alter_configs_response,
    incremental_alter_configs_response,
};
use klamm_codec::request::decode_request;
use klamm_codec::response::encode_response;
use klamm_codec::{ApiKey, CodecError, Frame, RequestHeader, StrBytes};

use crate::model::{BrokerId, KafkaError};

const BROKER: i8 = 4;
const BROKER_LOGGER: i8 = 8;
/// IncrementalAlterConfigs: the operation that deletes.
const DELETE: i8 = 1;
const NOTHING_TO_SET: &str = "this node is a klamm: it takes its configuration from its file alone";

/// Who is to answer a request about configurations.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Configs {
    /// It is about klamm, and this is the answer.
    OfKlamm(Frame),
    /// It isn't about klamm: any broker may answer.
    OfOthers,
    /// It is about both, which no single node could answer.
    Mixed,
}

/// Answers DescribeConfigs, AlterConfigs and IncrementalAlterConfigs as far as they are about klamm.
pub(super) fn answer(
    own_id: BrokerId,
    header: &RequestHeader,
    payload: &Bytes,
) -> Result<Configs, CodecError> {
    match header.key {
        ApiKey::DESCRIBE_CONFIGS => describe(own_id, header, payload),
        ApiKey::ALTER_CONFIGS => alter(own_id, header, payload),
        _ => alter_incrementally(own_id, header, payload),
    }
}

fn describe(
    own_id: BrokerId,
    header: &RequestHeader,
    payload: &Bytes,
) -> Result<Configs, CodecError> {
    let request: DescribeConfigsRequest = decode_request(header, payload)?;
    let named = request
        .resources
        .iter()
        .map(|asked| (asked.resource_type, &asked.resource_name));
    judge(own_id, named, || {
        let results = request.resources.iter().map(|asked| {
            DescribeConfigsResult::default()
                .with_error_message(None)
                .with_resource_type(asked.resource_type)
                .with_resource_name(asked.resource_name.clone())
        });
        let response = DescribeConfigsResponse::default().with_results(results.collect());
        encode_response::<DescribeConfigsRequest>(header.version, header.correlation_id, &response)
    })
}

fn alter(own_id: BrokerId, header: &RequestHeader, payload: &Bytes) -> Result<Configs, CodecError> {
    use alter_configs_response::AlterConfigsResourceResponse;
    let request: AlterConfigsRequest = decode_request(header, payload)?;
    let named = request
        .resources
        .iter()
        .map(|asked| (asked.resource_type, &asked.resource_name));
    judge(own_id, named, || {
        let responses = request.resources.iter().map(|asked| {
            // It names all that shall be set.
            let (code, message) = verdict(asked.configs.is_empty());
            AlterConfigsResourceResponse::default()
                .with_error_code(code)
                .with_error_message(message)
                .with_resource_type(asked.resource_type)
                .with_resource_name(asked.resource_name.clone())
        });
        let response = AlterConfigsResponse::default().with_responses(responses.collect());
        encode_response::<AlterConfigsRequest>(header.version, header.correlation_id, &response)
    })
}

fn alter_incrementally(
    own_id: BrokerId,
    header: &RequestHeader,
    payload: &Bytes,
) -> Result<Configs, CodecError> {
    use incremental_alter_configs_response::AlterConfigsResourceResponse;
    let request: IncrementalAlterConfigsRequest = decode_request(header, payload)?;
    let named = request
        .resources
        .iter()
        .map(|asked| (asked.resource_type, &asked.resource_name));
    judge(own_id, named, || {
        let responses = request.resources.iter().map(|asked| {
            let mut operations = asked.configs.iter().map(|config| config.config_operation);
            let (code, message) = verdict(operations.all(|operation| operation == DELETE));
            AlterConfigsResourceResponse::default()
                .with_error_code(code)
                .with_error_message(message)
                .with_resource_type(asked.resource_type)
                .with_resource_name(asked.resource_name.clone())
        });
        let response =
            IncrementalAlterConfigsResponse::default().with_responses(responses.collect());
        encode_response::<IncrementalAlterConfigsRequest>(
            header.version,
            header.correlation_id,
            &response,
        )
    })
}

fn judge<'a>(
    own_id: BrokerId,
    named: impl Iterator<Item = (i8, &'a StrBytes)>,
    answer: impl FnOnce() -> Result<Frame, CodecError>,
) -> Result<Configs, CodecError> {
    let own_name = own_id.to_string();
    let ours = |(kind, name): (i8, &StrBytes)| {
        matches!(kind, BROKER | BROKER_LOGGER) && name.as_str() == own_name
    };
    let (mut of_klamm, mut of_others) = (false, false);
    for resource in named {
        match ours(resource) {
            true => of_klamm = true,
            false => of_others = true,
        }
    }
    match (of_klamm, of_others) {
        (true, false) => answer().map(Configs::OfKlamm),
        (true, true) => Ok(Configs::Mixed),
        (false, _) => Ok(Configs::OfOthers),
    }
}

fn verdict(changes_nothing: bool) -> (i16, Option<StrBytes>) {
    if changes_nothing {
        (KafkaError::NONE.0, None)
    } else {
        let message = StrBytes::from_static_str(NOTHING_TO_SET);
        (KafkaError::INVALID_REQUEST.0, Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use klamm_codec::messages::{
        alter_configs_request, describe_configs_request, incremental_alter_configs_request,
    };
    use klamm_codec::request::{Api, encode_request, parse_header};
    use klamm_codec::response::decode_response;

    const TOPIC: i8 = 2;

    fn ask<A: Api>(version: i16, request: &A) -> Configs {
        let payload = encode_request(version, 7, None, request).unwrap();
        let payload = payload.to_bytes().slice(4..);
        answer(BrokerId(100), &parse_header(&payload).unwrap(), &payload).unwrap()
    }

    fn said<A: Api>(version: i16, request: &A) -> A::Response {
        match ask(version, request) {
            Configs::OfKlamm(frame) => {
                decode_response::<A>(version, &frame.to_bytes().slice(4..)).unwrap()
            }
            other => panic!("{other:?}"),
        }
    }

    fn name(text: &'static str) -> StrBytes {
        StrBytes::from_static_str(text)
    }

    fn describe_request(resources: &[(i8, &'static str)]) -> DescribeConfigsRequest {
        let resources = resources.iter().map(|(kind, text)| {
            describe_configs_request::DescribeConfigsResource::default()
                .with_resource_type(*kind)
                .with_resource_name(name(text))
                .with_configuration_keys(None)
        });
        DescribeConfigsRequest::default().with_resources(resources.collect())
    }

    #[test]
    fn klamm_describes_itself_and_leaves_topics_and_defaults_to_a_broker() {
        for version in 0..=4 {
            let said = said(version, &describe_request(&[(BROKER, "100")]));
            assert_eq!(said.results.len(), 1);
            assert_eq!(said.results[0].error_code, 0, "v{version}");
            assert_eq!(said.results[0].resource_name, name("100"));
            let others = describe_request(&[(BROKER, ""), (TOPIC, "100"), (BROKER, "1")]);
            assert_eq!(ask(version, &others), Configs::OfOthers);
            let mixed = describe_request(&[(BROKER_LOGGER, "100"), (TOPIC, "t")]);
            assert_eq!(ask(version, &mixed), Configs::Mixed);
        }
    }

    #[test]
    fn deleting_a_throttle_on_klamm_succeeds_and_setting_one_is_refused() {
        use incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
        for (operation, expected) in [(DELETE, 0), (0, 42)] {
            let config = AlterableConfig::default()
                .with_name(name("leader.replication.throttled.rate"))
                .with_config_operation(operation)
                .with_value(None);
            let resource = AlterConfigsResource::default()
                .with_resource_type(BROKER)
                .with_resource_name(name("100"))
                .with_configs(vec![config]);
            let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
            for version in 0..=1 {
                let said = said(version, &request);
                assert_eq!(said.responses.len(), 1);
                assert_eq!(said.responses[0].error_code, expected, "v{version}");
            }
        }
    }

    #[test]
    fn an_empty_configuration_for_klamm_is_taken_and_any_other_is_refused() {
        use alter_configs_request::{AlterConfigsResource, AlterableConfig};
        let set = AlterableConfig::default()
            .with_name(name("x"))
            .with_value(Some(name("y")));
        for (configs, expected) in [(vec![], 0), (vec![set], 42)] {
            let resource = AlterConfigsResource::default()
                .with_resource_type(BROKER)
                .with_resource_name(name("100"))
                .with_configs(configs);
            let request = AlterConfigsRequest::default().with_resources(vec![resource]);
            for version in 0..=2 {
                let said = said(version, &request);
                assert_eq!(said.responses[0].error_code, expected, "v{version}");
            }
        }
    }
}
