//! A log file that rolls every hour: `controller.log` becomes `controller.log.2026-11-29-23`.
//!
//! Upstream counterpart: log4j's DailyRollingFileAppender with Kafka's hourly pattern. Nothing is ever deleted, and a
//! file that can't be rolled is written on: a log must not stop the controller.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::log_format::CivilTime;

/// An open log file.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: File,
    /// The hour that the file's lines are of.
    hour: String,
}

impl LogFile {
    /// Opens or creates a file in a directory, which is created too. Lines are added at its end.
    ///
    /// # Errors
    /// What the system says, with the path in front.
    pub fn open(directory: &Path, name: &str, now: CivilTime) -> io::Result<Self> {
        let path = directory.join(name);
        let told =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        std::fs::create_dir_all(directory).map_err(told)?;
        let written = std::fs::metadata(&path).and_then(|metadata| metadata.modified());
        let file = append_to(&path).map_err(told)?;
        let hour = written.map_or(now, CivilTime::of).hour_name();
        Ok(Self { path, file, hour })
    }

    /// Adds a line, in a new file if its hour is another than that of the lines before.
    ///
    /// # Errors
    /// What the system says; the next line is tried all the same.
    pub fn write_line(&mut self, line: &str, now: CivilTime) -> io::Result<()> {
        let hour = now.hour_name();
        if hour != self.hour {
            self.roll();
            self.hour = hour;
        }
        self.file.write_all(line.as_bytes())
    }

    fn roll(&mut self) {
        let mut rolled = self.path.clone().into_os_string();
        rolled.push(format!(".{}", self.hour));
        let rolled = PathBuf::from(rolled);
        // A file of that name is of the same hour, from before a restart perhaps: both keep their lines.
        if rolled.exists() || std::fs::rename(&self.path, &rolled).is_err() {
            return;
        }
        match append_to(&self.path) {
            Ok(file) => self.file = file,
            // Go on under the old name rather than lose lines.
            Err(_) => drop(std::fs::rename(&rolled, &self.path)),
        }
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    /// A directory of its own below the build directory, gone when dropped.
    pub(crate) struct Scratch(pub(crate) PathBuf);

    impl Scratch {
        pub(crate) fn new(name: &str) -> Self {
            let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/tmp");
            let path = root.join(format!("log-{}-{name}", std::process::id()));
            std::fs::remove_dir_all(&path).ok();
            Self(path)
        }

        fn files(&self) -> Vec<(String, String)> {
            let mut files: Vec<_> = std::fs::read_dir(&self.0)
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .map(|path| {
                    (
                        path.file_name().unwrap().to_str().unwrap().to_owned(),
                        std::fs::read_to_string(&path).unwrap(),
                    )
                })
                .collect();
            files.sort();
            files
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).ok();
        }
    }

    fn hour(hours: u64) -> CivilTime {
        CivilTime::of(UNIX_EPOCH + Duration::from_secs(hours * 3600 + 5))
    }

    fn expected(files: &[(&str, &str)]) -> Vec<(String, String)> {
        files
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect()
    }

    #[test]
    fn each_hour_has_its_file() {
        let scratch = Scratch::new("rolls");
        let mut log = LogFile::open(&scratch.0, "controller.log", hour(0)).unwrap();
        log.write_line("a\n", hour(0)).unwrap();
        log.write_line("b\n", hour(0)).unwrap();
        log.write_line("c\n", hour(1)).unwrap();
        log.write_line("d\n", hour(30)).unwrap();
        assert_eq!(
            scratch.files(),
            expected(&[
                ("controller.log", "d\n"),
                ("controller.log.1970-01-01-00", "a\nb\n"),
                ("controller.log.1970-01-01-01", "c\n"),
            ])
        );
    }

    #[test]
    fn a_restart_goes_on_and_no_line_is_lost_where_a_name_is_taken() {
        let scratch = Scratch::new("restart");
        let mut log = LogFile::open(&scratch.0, "controller.log", hour(0)).unwrap();
        log.write_line("a\n", hour(0)).unwrap();
        drop(log);
        let now = CivilTime::of(std::time::SystemTime::now());
        let mut log = LogFile::open(&scratch.0, "controller.log", now).unwrap();
        std::fs::write(
            scratch.0.join(format!("controller.log.{}", log.hour)),
            "old\n",
        )
        .unwrap();
        log.write_line("b\n", hour(9)).unwrap();
        let files = scratch.files();
        assert_eq!(files[0], ("controller.log".to_owned(), "a\nb\n".to_owned()));
        assert_eq!(files[1].1, "old\n");
    }

    #[test]
    fn a_directory_that_cannot_be_is_named() {
        let error =
            LogFile::open(Path::new("/dev/null/logs"), "controller.log", hour(0)).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("/dev/null/logs/controller.log: "),
            "{error}"
        );
    }
}
