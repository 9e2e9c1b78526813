//! What only a look before a takeover asks of ZooKeeper. Must never write.
//!
//! Upstream: `KafkaZkClient.getClusterId`.

use super::client::{Access, ZkClient, refused};
use super::{paths, znode};
use crate::effect::Read;
use crate::port::ZkFault;

impl ZkClient {
    /// Whether the chroot is there; without one it always is.
    ///
    /// # Errors
    /// When ZooKeeper can't be reached or refuses.
    pub async fn root_exists(&self) -> Result<bool, ZkFault> {
        let access = &mut Access::default();
        let looked = self.until_answered(access, async |wire| wire.client.check_stat("/").await);
        match looked.await? {
            Ok(stat) => Ok(stat.is_some()),
            Err(error) => Err(refused("/", error)),
        }
    }

    /// `/cluster/id`; missing where no broker ever started.
    ///
    /// # Errors
    /// When ZooKeeper can't be reached or refuses.
    pub async fn cluster_id(&self) -> Result<Read<String>, ZkFault> {
        self.read_one(paths::CLUSTER_ID, |data, _| {
            znode::decode_cluster_id(paths::CLUSTER_ID, data)
        })
        .await
    }
}
