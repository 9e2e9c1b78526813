//! The clusters that every story must pass on.

use super::{Choice, Leading};
use crate::version::{Ibp, KafkaVersion};

/// One of the clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatrixCluster {
    /// As it is called on the command line and in reports.
    pub name: &'static str,
    brokers: [KafkaVersion; 3],
    ibp: Ibp,
}

pub const V3_9: MatrixCluster =
    of_one_release("3.9.2 at IBP 3.9", KafkaVersion::V3_9_2, Ibp::new(3, 9));
pub const V2_8: MatrixCluster =
    of_one_release("2.8.2 at IBP 2.8", KafkaVersion::V2_8_2, Ibp::new(2, 8));
pub const V2_4: MatrixCluster =
    of_one_release("2.4.1 at IBP 2.4", KafkaVersion::V2_4_1, Ibp::new(2, 4));
/// One broker of each era.
pub const MIXED: MatrixCluster = MatrixCluster {
    name: "2.4.1, 2.8.2 and 3.9.2 at IBP 2.4",
    brokers: [
        KafkaVersion::V2_4_1,
        KafkaVersion::V2_8_2,
        KafkaVersion::V3_9_2,
    ],
    ibp: Ibp::new(2, 4),
};

/// All of them.
pub const MATRIX: [MatrixCluster; 4] = [V3_9, V2_8, V2_4, MIXED];

const fn of_one_release(name: &'static str, version: KafkaVersion, ibp: Ibp) -> MatrixCluster {
    MatrixCluster {
        name,
        brokers: [version; 3],
        ibp,
    }
}

impl MatrixCluster {
    /// As whoever tells a story may choose it.
    pub fn choice(&self) -> Choice {
        Choice {
            brokers: Some(self.brokers.to_vec()),
            ibp: Some(self.ibp),
            leading: Leading::Klamm,
        }
    }
}
