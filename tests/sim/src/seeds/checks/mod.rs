//! What must hold in every world, judged from outside: by ZooKeeper, by what brokers were told, by what producers heard.

pub mod records;
