//! Listens to what the controller logs, in the thread of the test.

use std::sync::{Arc, Mutex};

use tracing::Level;
use tracing::subscriber::DefaultGuard;

/// What was logged.
#[derive(Clone, Default)]
pub(crate) struct Heard(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Heard {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Heard {
    /// Listens to warnings and errors until the guard goes.
    pub(crate) fn listen() -> (Heard, DefaultGuard) {
        Heard::listen_from(Level::WARN)
    }

    /// Listens to what is at least as grave as `level` until the guard goes.
    pub(crate) fn listen_from(level: Level) -> (Heard, DefaultGuard) {
        let heard = Heard::default();
        let into = heard.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_writer(move || into.clone())
            .with_ansi(false)
            .finish();
        (heard, tracing::subscriber::set_default(subscriber))
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned();
        text.lines().map(str::to_owned).collect()
    }

    /// Whether some line holds all of these.
    pub(crate) fn says(&self, words: &[&str]) -> bool {
        let holds = |line: &String| words.iter().all(|word| line.contains(word));
        self.lines().iter().any(holds)
    }

    /// Asserts that some line holds all of these.
    #[track_caller]
    pub(crate) fn assert_says(&self, words: &[&str]) {
        assert!(self.says(words), "{words:?} is not in {:#?}", self.lines());
    }
}
