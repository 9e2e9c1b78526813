//! The cluster's id: JSON to text. Upstream: `ClusterIdZNode`.

use serde::Deserialize;

use super::{judged, parse};
use crate::effect::Read;

#[derive(Deserialize)]
struct ClusterIdJson {
    id: String,
}

/// Reads `/cluster/id`.
pub fn decode_cluster_id(path: &str, data: &[u8]) -> Read<String> {
    let read = || Ok(parse::<ClusterIdJson>(data)?.id);
    judged(
        path,
        "brokers that start don't understand it either: restore it from a broker's meta.properties",
        read(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_read_as_brokers_write_it_and_nothing_else_is_taken_for_one() {
        let data = br#"{"version":"1","id":"rT9Kg2uNQq-oB0SE2WPXMg"}"#;
        assert_eq!(
            decode_cluster_id("/cluster/id", data),
            Read::Found("rT9Kg2uNQq-oB0SE2WPXMg".to_owned())
        );
        for data in [&b""[..], b"x", b"{}", br#"{"id":5}"#] {
            let Read::Broken(why) = decode_cluster_id("/cluster/id", data) else {
                panic!("{data:?}")
            };
            assert!(why.starts_with("/cluster/id: "), "{why}");
        }
    }
}
