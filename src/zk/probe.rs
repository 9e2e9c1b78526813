//! What a ZooKeeper server can do, found out without writing anything.
//!
//! Each question goes over a session of its own: old servers cut the connection on requests that they don't know.

use std::fmt;

use zookeeper_client::{Acls, CheckWriteError, Client, CreateMode, Error};

/// What the servers can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerVersion {
    /// No reads in groups, no persistent watches.
    V3_5,
    /// All that klamm uses.
    V3_6OrLater,
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ServerVersion::V3_5 => "3.5",
            ServerVersion::V3_6OrLater => "3.6 or later",
        })
    }
}

/// What a server said to a question.
pub(super) enum Answer {
    Yes,
    No,
    /// It said nothing that answers it.
    Unclear(Error),
}

/// Whether nodes can be created in transactions as the client library does it, which takes ZooKeeper 3.5. The
/// transaction begins with a check that can't hold, so a server that understands it refuses that and writes nothing.
pub(super) async fn creates_in_transactions(client: &Client) -> Answer {
    let transaction = || {
        let mut writer = client.new_check_writer("/", Some(i32::MAX))?;
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        writer.add_create("/klamm-probe", &[], &options)?;
        Ok(writer.commit())
    };
    let outcome = match transaction() {
        Ok(committing) => committing.await,
        Err(source) => Err(CheckWriteError::RequestFailed { source }),
    };
    match outcome {
        Err(CheckWriteError::CheckFailed { .. } | CheckWriteError::OperationFailed { .. })
        | Ok(_) => Answer::Yes,
        Err(CheckWriteError::RequestFailed {
            source: Error::MarshallingError | Error::Unimplemented,
        }) => Answer::No,
        Err(CheckWriteError::RequestFailed { source }) => Answer::Unclear(source),
    }
}

/// Whether nodes can be read in groups. The same release, 3.6, brought persistent watches.
pub(super) async fn reads_in_groups(client: &Client) -> Answer {
    let mut reader = client.new_multi_reader();
    if let Err(error) = reader.add_get_data("/") {
        return Answer::Unclear(error);
    }
    match reader.commit().await {
        Ok(_) => Answer::Yes,
        Err(Error::Unimplemented | Error::MarshallingError) => Answer::No,
        Err(error) => Answer::Unclear(error),
    }
}
