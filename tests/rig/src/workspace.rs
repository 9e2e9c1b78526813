//! Where things are: the workspace, its target directory, the rig's cache and its runs.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Places the cache of jars and compiled Java classes elsewhere, so that several clones can share it.
pub const CACHE_VARIABLE: &str = "KLAMM_RIG_DIR";

/// The root of the workspace that the rig was built from.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest
        .ancestors()
        .nth(2)
        .unwrap_or(manifest)
        .to_path_buf()
}

/// The directory of the running build profile, `target/debug` or `target/release`: klamm's binary lies there.
///
/// # Errors
/// When the rig runs from a place that cargo did not build into.
pub fn profile_dir() -> Result<PathBuf> {
    let executable =
        std::env::current_exe().context("cannot tell where the rig's own executable is")?;
    executable
        .ancestors()
        .skip(1)
        .find(|directory| {
            directory
                .parent()
                .is_some_and(|target| target.join("CACHEDIR.TAG").exists())
        })
        .map(Path::to_path_buf)
        .with_context(|| {
            format!(
                "{} does not lie in a cargo target directory",
                executable.display()
            )
        })
}

/// cargo's target directory.
///
/// # Errors
/// As [`profile_dir`].
pub fn target_dir() -> Result<PathBuf> {
    let profile = profile_dir()?;
    Ok(profile.parent().unwrap_or(&profile).to_path_buf())
}

/// Where jars and compiled Java classes are kept between runs: `target/rig`, or what [`CACHE_VARIABLE`] names.
///
/// # Errors
/// As [`profile_dir`].
pub fn cache_dir() -> Result<PathBuf> {
    match std::env::var_os(CACHE_VARIABLE) {
        Some(directory) if !directory.is_empty() => Ok(PathBuf::from(directory)),
        _ => Ok(target_dir()?.join("rig")),
    }
}

/// Where each run keeps its logs, configuration and data.
///
/// # Errors
/// As [`profile_dir`].
pub fn runs_dir() -> Result<PathBuf> {
    Ok(target_dir()?.join("rig").join("runs"))
}
