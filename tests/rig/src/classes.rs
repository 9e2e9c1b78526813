//! Java programs of the rig, compiled once per release of Kafka's client and state of their source.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::jars::Jars;
use crate::workspace;

/// Compiles the class `name` against the jars of a release, and returns the folder to put into the class path.
///
/// # Errors
/// When javac refuses it.
pub fn compile(jars: &Jars, name: &str, source: &str) -> Result<PathBuf> {
    let home = workspace::cache_dir()?.join("classes");
    let classes = home.join(format!("{}-{:016x}", jars.version, fingerprint(source)));
    if classes.exists() {
        return Ok(classes);
    }
    fs::create_dir_all(&home).with_context(|| format!("cannot create {}", home.display()))?;
    let _lock = crate::jars::lock(&home.join("lock"))?;
    if classes.exists() {
        return Ok(classes);
    }
    let partial = home.join(".partial");
    fs::remove_dir_all(&partial).ok();
    fs::create_dir_all(&partial).with_context(|| format!("cannot create {}", partial.display()))?;
    let file = partial.join(format!("{name}.java"));
    fs::write(&file, source).with_context(|| format!("cannot write {}", file.display()))?;
    run_javac(jars, &file, &partial)?;
    fs::rename(&partial, &classes)
        .with_context(|| format!("cannot put {} in place", classes.display()))?;
    Ok(classes)
}

fn run_javac(jars: &Jars, source: &Path, into: &Path) -> Result<()> {
    let output = Command::new("javac")
        .arg("-cp")
        .arg(jars.class_path())
        .arg("-d")
        .arg(into)
        .arg(source)
        .output()
        .context("cannot start javac")?;
    ensure!(
        output.status.success(),
        "javac refuses {}:\n{}",
        source.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// FNV-1a: tells one state of a source from another.
pub(crate) fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
