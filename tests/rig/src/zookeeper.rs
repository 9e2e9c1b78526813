//! A genuine ZooKeeper server out of the jars of a Kafka release: 3.4 with 1.1.1, 3.5 with 2.4.1, 3.8 with 3.9.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::jars::Jars;
use crate::process::{Launch, Process, Talk};
use crate::run::Run;
use crate::wait::{self, Seen};

pub const CLIENT_PORT: u16 = 2181;
const TICK_MS: u32 = 500;

/// The server's process and where it listens.
#[derive(Debug)]
pub struct ZooKeeper {
    pub process: Process,
    /// `host:port` for clients.
    pub connect: String,
    pub jars: Jars,
}

impl ZooKeeper {
    /// Starts the server and waits until it serves.
    ///
    /// # Errors
    /// When it does not start, or does not serve within a minute.
    pub fn start(run: &Run, jars: Jars) -> Result<Self> {
        let config = run.conf("zoo.cfg");
        let data = run.data("zookeeper");
        fs::create_dir_all(&data).with_context(|| format!("cannot create {}", data.display()))?;
        let text = format!(
            "tickTime={TICK_MS}\ndataDir={}\nclientPort={CLIENT_PORT}\nclientPortAddress={}\n\
             maxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\n",
            data.display(),
            run.address
        );
        fs::write(&config, text).with_context(|| format!("cannot write {}", config.display()))?;
        // No fsync per write: no story takes the machine's power away. No snapshot, so that the whole history stays in
        // the transaction log for those who ask who wrote what.
        let launch = Launch {
            name: "ZooKeeper".to_owned(),
            program: "java".into(),
            arguments: vec![
                "-Xmx192m".to_owned(),
                "-XX:+UseSerialGC".to_owned(),
                "-XX:TieredStopAtLevel=1".to_owned(),
                "-Dzookeeper.forceSync=no".to_owned(),
                "-Dzookeeper.jmx.log4j.disable=true".to_owned(),
                "-Dzookeeper.snapCount=100000000".to_owned(),
                crate::broker::log4j_flag(run)?,
                "-cp".to_owned(),
                jars.class_path(),
                "org.apache.zookeeper.server.quorum.QuorumPeerMain".to_owned(),
                config.display().to_string(),
            ],
            environment: Vec::new(),
            log: run.log("zookeeper.log"),
            talk: Talk::None,
        };
        let process = Process::start(launch)?;
        let mut zookeeper = Self {
            process,
            connect: run.address.port(CLIENT_PORT),
            jars,
        };
        zookeeper.wait_serving()?;
        Ok(zookeeper)
    }

    /// Stops the server; what it holds stays on disk.
    pub fn stop(&mut self) -> Result<()> {
        self.process.stop(Duration::from_secs(20)).map(|_| ())
    }

    /// Starts it again on its data and waits until it serves.
    pub fn restart(&mut self) -> Result<()> {
        self.process.restart()?;
        self.wait_serving()
    }

    fn wait_serving(&mut self) -> Result<()> {
        let connect = self.connect.clone();
        wait::until("ZooKeeper to serve", Duration::from_secs(60), || {
            if let Some(status) = self.process.ended_by_itself() {
                return Ok(Seen::Never(format!(
                    "it ended with {status}; its log: {}",
                    self.process.log().display()
                )));
            }
            let answer = four_letter_word(&connect, "srvr")?;
            Ok(if answer.contains("Mode:") {
                Seen::Done(())
            } else {
                Seen::Not(answer)
            })
        })
        .map(|_| ())
    }
}

/// Asks ZooKeeper one of its four-letter words.
///
/// # Errors
/// When it does not listen or answer.
pub fn four_letter_word(connect: &str, word: &str) -> Result<String> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(connect)
        .with_context(|| format!("cannot connect to {connect}"))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(word.as_bytes())?;
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .with_context(|| format!("{connect} does not answer `{word}`"))?;
    Ok(answer)
}
