//! Child processes that never outlive the rig, and what can be done to them: kill, stop, pause, resume, restart.
//!
//! A child is started through `setpriv --pdeathsig KILL`: the kernel kills it when the thread that started it is gone,
//! even if the rig itself was killed with SIGKILL. That is why all of them are started by one thread that lives as long
//! as the process. Each child leads a process group of its own, so that Ctrl-C at a terminal reaches the rig alone,
//! which then ends them in order.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// Pace of the loops that wait for a process to end.
const POLL: Duration = Duration::from_millis(10);

/// What to start and where its output goes. Kept by the process, so that it can be restarted as it was.
#[derive(Debug, Clone)]
pub struct Launch {
    /// As the story calls it: `broker 2`, `klamm 900`.
    pub name: String,
    pub program: PathBuf,
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
    /// Takes standard error, and standard output too unless it is piped. Appended to over restarts.
    pub log: PathBuf,
    pub talk: Talk,
}

/// Whether the rig talks with the child over its standard input and output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Talk {
    /// No input; output goes to the log.
    None,
    Piped,
}

/// What we did to the process last: an end that we did not bring about is somebody's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Runs,
    Paused,
    Ended,
}

/// One child process; killed when dropped.
#[derive(Debug)]
pub struct Process {
    launch: Launch,
    child: Child,
    wish: Wish,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts `launch`.
    ///
    /// # Errors
    /// When its log cannot be opened or the program cannot be started.
    pub fn start(launch: Launch) -> Result<Self> {
        let child = spawn_child(&launch)?;
        Ok(Self {
            launch,
            child,
            wish: Wish::Runs,
            status: None,
        })
    }

    pub fn name(&self) -> &str {
        &self.launch.name
    }

    pub fn log(&self) -> &PathBuf {
        &self.launch.log
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The pipes of a child started with [`Talk::Piped`]; they can be taken once.
    pub fn take_pipes(&mut self) -> Option<(ChildStdin, ChildStdout)> {
        Some((self.child.stdin.take()?, self.child.stdout.take()?))
    }

    pub fn is_alive(&mut self) -> bool {
        self.reap().is_none()
    }

    /// Whether it is alive and not paused.
    pub fn is_running(&mut self) -> bool {
        self.wish == Wish::Runs && self.is_alive()
    }

    /// How the process ended, if it did so although nobody asked it to.
    pub fn ended_by_itself(&mut self) -> Option<ExitStatus> {
        let wish = self.wish;
        self.reap().filter(|_| wish != Wish::Ended)
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill(&mut self) -> Result<()> {
        self.wish = Wish::Ended;
        if self.is_alive() {
            self.signal(Signal::SIGKILL)?;
            self.wait_end(Duration::from_secs(30))?;
        }
        Ok(())
    }

    /// SIGTERM, and waits for the process to end by itself.
    ///
    /// # Errors
    /// When it is still there after `timeout`; it is killed then.
    pub fn stop(&mut self, timeout: Duration) -> Result<ExitStatus> {
        self.ask_to_stop()?;
        match self.wait_end(timeout) {
            Ok(status) => Ok(status),
            Err(error) => {
                self.kill()?;
                Err(error)
            }
        }
    }

    /// SIGTERM without waiting.
    pub fn ask_to_stop(&mut self) -> Result<()> {
        self.wish = Wish::Ended;
        if self.is_alive() {
            self.signal(Signal::SIGTERM)
        } else {
            Ok(())
        }
    }

    /// SIGSTOP: the process holds its connections and answers nothing.
    pub fn pause(&mut self) -> Result<()> {
        self.signal(Signal::SIGSTOP)?;
        self.wish = Wish::Paused;
        Ok(())
    }

    /// SIGCONT.
    pub fn resume(&mut self) -> Result<()> {
        self.signal(Signal::SIGCONT)?;
        self.wish = Wish::Runs;
        Ok(())
    }

    /// Starts it again, as it was started before.
    ///
    /// # Errors
    /// When it is still alive, or cannot be started.
    pub fn restart(&mut self) -> Result<()> {
        if self.is_alive() {
            bail!("{} is to be started again but still runs", self.launch.name);
        }
        self.child = spawn_child(&self.launch)?;
        self.status = None;
        self.wish = Wish::Runs;
        Ok(())
    }

    /// Waits for the process to end by its own decision, which the story expects.
    ///
    /// # Errors
    /// When it is still there after `timeout`.
    pub fn wait_end(&mut self, timeout: Duration) -> Result<ExitStatus> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.reap() {
                self.wish = Wish::Ended;
                return Ok(status);
            }
            if started.elapsed() > timeout {
                bail!(
                    "{} (pid {}) still runs after {:.1} s; its log: {}",
                    self.launch.name,
                    self.pid(),
                    timeout.as_secs_f64(),
                    self.launch.log.display()
                );
            }
            std::thread::sleep(POLL);
        }
    }

    fn reap(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
            if self.status.is_some() {
                lock_live().remove(&self.child.id());
            }
        }
        self.status
    }

    fn signal(&mut self, signal: Signal) -> Result<()> {
        killpg(group_of(self.child.id()), signal).with_context(|| {
            format!(
                "cannot send {signal} to {} (pid {})",
                self.launch.name,
                self.pid()
            )
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nothing to tell anybody here: the death signal takes what this could not.
        self.kill().ok();
    }
}

/// Kills every child at once; for the end of an interrupted rig.
pub fn kill_all() {
    for pid in lock_live().iter() {
        killpg(group_of(*pid), Signal::SIGKILL).ok();
    }
}

fn group_of(pid: u32) -> Pid {
    // A process id always fits: the kernel's limit is 2^22.
    Pid::from_raw(i32::try_from(pid).unwrap_or(i32::MAX))
}

/// The pids of the children that may be alive.
fn lock_live() -> std::sync::MutexGuard<'static, BTreeSet<u32>> {
    static LIVE: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn spawn_child(launch: &Launch) -> Result<Child> {
    let log = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&launch.log)
        .with_context(|| format!("cannot open {}", launch.log.display()))?;
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "--"])
        .arg(&launch.program)
        .args(&launch.arguments)
        .envs(launch.environment.iter().map(|(key, value)| (key, value)))
        .process_group(0);
    connect(&mut command, launch.talk, log)?;
    let child = spawn_by_the_lasting_thread(command).with_context(|| {
        format!(
            "cannot start {} ({})",
            launch.name,
            launch.program.display()
        )
    })?;
    lock_live().insert(child.id());
    Ok(child)
}

fn connect(command: &mut Command, talk: Talk, log: File) -> Result<()> {
    match talk {
        Talk::None => {
            command
                .stdin(Stdio::null())
                .stdout(log.try_clone()?)
                .stderr(log);
        }
        Talk::Piped => {
            command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(log);
        }
    }
    Ok(())
}

type Order = (Command, SyncSender<io::Result<Child>>);

/// The death signal follows the *thread* that forked, and a test's thread ends with its test.
fn spawn_by_the_lasting_thread(command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<Mutex<Sender<Order>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (orders, taken) = channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, answer) in taken {
                answer.send(command.spawn()).ok();
            }
        });
        Mutex::new(orders)
    });
    let gone = || io::Error::other("the thread that starts children is gone");
    let (answer, child) = sync_channel(1);
    spawner
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .send((command, answer))
        .map_err(|_| gone())?;
    child.recv().map_err(|_| gone())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Process {
        let log =
            std::env::temp_dir().join(format!("klamm-rig-process-{}.log", std::process::id()));
        Process::start(Launch {
            name: "shell".to_owned(),
            program: "/bin/sh".into(),
            arguments: vec!["-c".to_owned(), script.to_owned()],
            environment: Vec::new(),
            log,
            talk: Talk::None,
        })
        .unwrap()
    }

    #[test]
    fn an_end_nobody_asked_for_is_told_from_one_that_was() {
        let mut quits = shell("exit 3");
        let started = Instant::now();
        while quits.is_alive() && started.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(POLL);
        }
        assert_eq!(
            quits.ended_by_itself().and_then(|status| status.code()),
            Some(3)
        );

        let mut killed = shell("exec sleep 60");
        assert!(killed.is_alive());
        killed.kill().unwrap();
        assert!(killed.ended_by_itself().is_none());
    }

    /// Names the test below as the one to run in a process of its own, and the file where the child's pid goes.
    const INNER_VARIABLE: &str = "KLAMM_RIG_TEST_CHILD_PID_FILE";

    /// Not a test by itself: the process that is killed in the one below.
    #[test]
    fn a_rig_that_waits_to_be_killed() {
        let Some(path) = std::env::var_os(INNER_VARIABLE) else {
            return;
        };
        let child = shell("exec sleep 600");
        fs::write(&path, child.pid().to_string()).unwrap();
        loop {
            std::thread::park();
        }
    }

    #[test]
    fn a_rig_that_is_killed_leaves_no_child_behind() {
        let path = std::env::temp_dir().join(format!("klamm-rig-child-{}.pid", std::process::id()));
        let mut rig = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "process::tests::a_rig_that_waits_to_be_killed"])
            .env(INNER_VARIABLE, &path)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let started = Instant::now();
        let child = loop {
            let pid = fs::read_to_string(&path)
                .ok()
                .and_then(|text| text.parse::<u32>().ok());
            if let Some(pid) = pid {
                break pid;
            }
            assert!(
                started.elapsed() < Duration::from_secs(20),
                "the inner rig started no child"
            );
            std::thread::sleep(POLL);
        };
        let runs = |pid: u32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.contains("State:") && !status.contains("State:\tZ")
        };
        assert!(runs(child));
        rig.kill().unwrap();
        rig.wait().unwrap();
        let killed = Instant::now();
        while runs(child) {
            assert!(
                killed.elapsed() < Duration::from_secs(10),
                "the child outlives its rig"
            );
            std::thread::sleep(POLL);
        }
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_process_that_ignores_sigterm_is_killed_and_told_of() {
        let mut deaf = shell("trap '' TERM; while :; do sleep 0.05; done");
        // The trap is set once the shell runs; until then SIGTERM would work.
        let started = Instant::now();
        let ignores_sigterm = |pid: u32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let mask = status
                .lines()
                .find_map(|line| line.strip_prefix("SigIgn:"))
                .map(str::trim)
                .unwrap_or("0");
            u64::from_str_radix(mask, 16).unwrap() & (1 << 14) != 0
        };
        while !ignores_sigterm(deaf.pid()) && started.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(POLL);
        }
        assert!(deaf.stop(Duration::from_millis(200)).is_err());
        assert!(!deaf.is_alive());
    }
}
