//! How many partitions and features one request of a client may name.
//!
//! An answer says much more of each than the question, and a frame has room for millions: refused whole, before anything is
//! made of them. Must never stand in the way of a tool that means all of a cluster at once. Topics are counted where they
//! are created, credentials with what else is known of them. Upstream: none; Java takes what fits into a frame.

use crate::model::{ApiError, KafkaError};

/// `kafka-leader-election --path-to-json-file` and `kafka-reassign-partitions` name all that they are about in one request,
/// and no cluster that ZooKeeper carries has more partitions: Kafka 1.1 was announced with 200,000 of them, and klamm is
/// measured with 100,000.
pub const PARTITIONS_IN_REQUEST_MAX: usize = 200_000;
/// No release has more than a handful of features.
pub const FEATURES_IN_REQUEST_MAX: usize = 1_000;

/// Whether a request names no more partitions than one may; one that stands there twice counts twice.
///
/// # Errors
/// It does: nothing of it is looked at.
pub fn check_partitions(partitions: usize) -> Result<(), KafkaError> {
    if partitions > PARTITIONS_IN_REQUEST_MAX {
        return Err(KafkaError::INVALID_REQUEST);
    }
    Ok(())
}

/// Whether a request names no more features than one may.
///
/// # Errors
/// It does: nothing of it is looked at.
pub fn check_features(features: usize) -> Result<(), ApiError> {
    if features > FEATURES_IN_REQUEST_MAX {
        let why = format!(
            "the request names more than {FEATURES_IN_REQUEST_MAX} features, which no cluster has; name those that are to change"
        );
        return Err(ApiError::new(KafkaError::INVALID_REQUEST, why));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_may_name_all_partitions_of_the_largest_cluster_and_no_more() {
        assert_eq!(check_partitions(PARTITIONS_IN_REQUEST_MAX), Ok(()));
        let more = check_partitions(PARTITIONS_IN_REQUEST_MAX + 1);
        assert_eq!(more, Err(KafkaError::INVALID_REQUEST));
        assert_eq!(check_features(FEATURES_IN_REQUEST_MAX), Ok(()));
        let more = check_features(FEATURES_IN_REQUEST_MAX + 1);
        assert_eq!(
            more.map_err(|why| why.error),
            Err(KafkaError::INVALID_REQUEST)
        );
    }
}
