//! Who wrote what to ZooKeeper: its own transaction log, read with ZooKeeper's own tool.
//!
//! The strongest witness that a process wrote nothing: every write that was applied stands in it with its session.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::cluster::Cluster;
use crate::process::{Launch, Process, Talk};

/// One applied transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    pub session: i64,
    pub zxid: i64,
    /// As the tool names it: `create`, `setData`, `delete`, `multi`, `createSession`, `closeSession`, `error` …
    pub kind: String,
    pub detail: String,
}

impl Transaction {
    /// Whether it changed a node on behalf of its session. Refused requests are in the log too, as errors.
    pub fn is_write(&self) -> bool {
        match self.kind.as_str() {
            "createSession" | "closeSession" | "error" => false,
            "multi" => !self.detail.starts_with("error:"),
            _ => true,
        }
    }
}

/// All transactions so far, in order.
///
/// # Errors
/// When the log cannot be read.
pub fn transactions(cluster: &Cluster) -> Result<Vec<Transaction>> {
    let folder = cluster.run.data("zookeeper").join("version-2");
    let mut logs: Vec<_> = fs::read_dir(&folder)
        .with_context(|| format!("cannot list {}", folder.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("log."))
        })
        .collect();
    logs.sort();
    ensure!(
        !logs.is_empty(),
        "{} holds no transaction log",
        folder.display()
    );
    let output = cluster.run.log("zookeeper-transactions.log");
    fs::remove_file(&output).ok();
    let mut transactions = Vec::new();
    for log in logs {
        let mut tool = Process::start(Launch {
            name: "the transaction log's reader".to_owned(),
            program: "java".into(),
            arguments: vec![
                "-cp".to_owned(),
                cluster.zookeeper.jars.class_path(),
                "org.apache.zookeeper.server.persistence.TxnLogToolkit".to_owned(),
                log.display().to_string(),
            ],
            environment: Vec::new(),
            log: output.clone(),
            talk: Talk::None,
        })?;
        let status = tool.wait_end(Duration::from_secs(60))?;
        ensure!(
            status.success(),
            "{} cannot be read; see {}",
            log.display(),
            output.display()
        );
    }
    let text = fs::read(&output).with_context(|| format!("cannot read {}", output.display()))?;
    transactions.extend(
        String::from_utf8_lossy(&text)
            .lines()
            .filter_map(transaction),
    );
    transactions.sort_by_key(|transaction: &Transaction| transaction.zxid);
    Ok(transactions)
}

/// Reads `… session 0x1 cxid 0x2 zxid 0x3 setData …`; other lines are the rest of a node's data.
fn transaction(line: &str) -> Option<Transaction> {
    let (_, rest) = line.split_once(" session 0x")?;
    let (session, rest) = rest.split_once(" cxid 0x")?;
    let (_, rest) = rest.split_once(" zxid 0x")?;
    let (zxid, rest) = rest.split_once(' ')?;
    let (kind, detail) = rest.split_once(' ').unwrap_or((rest, ""));
    Some(Transaction {
        session: hexadecimal(session)?,
        zxid: hexadecimal(zxid)?,
        kind: kind.to_owned(),
        detail: detail.to_owned(),
    })
}

/// Session ids are printed as if they had no sign.
fn hexadecimal(text: &str) -> Option<i64> {
    u64::from_str_radix(text, 16).ok().map(u64::cast_signed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_request_is_told_from_a_write() {
        let log = "\
ZooKeeper Transactional Log File with dbid 0 txnlog format version 2
11/30/26, 2:51:29 AM UTC session 0x10000266e0a0000 cxid 0x0 zxid 0x1 createSession 4000
11/30/26, 2:51:29 AM UTC session 0x10000266e0a0000 cxid 0x1 zxid 0x2 create /a,x,[31,s{'world,'anyone}
],true,1
11/30/26, 2:51:29 AM UTC session 0xf0000266e0a0000 cxid 0x2 zxid 0x3 multi check:   /a   ;create:   /b
11/30/26, 2:51:29 AM UTC session 0x10000266e0a0000 cxid 0x3 zxid 0x4 multi error:\u{fffd};error:\u{fffd}
11/30/26, 2:51:29 AM UTC session 0x10000266e0a0000 cxid 0x4 zxid 0x5 error -103
11/30/26, 2:51:29 AM UTC session 0x10000266e0a0000 cxid 0x7 zxid 0x8 closeSession v{'/a}
EOF reached after 8 txns.";
        let found: Vec<Transaction> = log.lines().filter_map(transaction).collect();
        let writes: Vec<i64> = found
            .iter()
            .filter(|found| found.is_write())
            .map(|found| found.zxid)
            .collect();
        assert_eq!(writes, [2, 3]);
        assert_eq!(found[0].session, 0x0100_0026_6e0a_0000);
    }
}
