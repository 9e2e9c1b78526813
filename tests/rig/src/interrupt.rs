//! What happens when somebody presses Ctrl-C: every child is killed, the runs' data is removed, and the rig ends.
//!
//! A rig that is killed with SIGKILL cannot do this; then the kernel ends the children and the next run sweeps the data.

use std::sync::Once;

use tokio::signal::unix::{SignalKind, signal};

use crate::{process, run};

/// The exit code of a program that SIGINT ended, as shells report it.
const INTERRUPTED: i32 = 130;

/// Arms the handler; only the first call does anything.
pub fn arm() {
    static ARMED: Once = Once::new();
    ARMED.call_once(|| {
        std::thread::spawn(|| {
            let Ok(runtime) = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
            else {
                return;
            };
            if runtime.block_on(interrupted()).is_some() {
                process::kill_all();
                run::remove_all_data();
                std::process::exit(INTERRUPTED);
            }
        });
    });
}

/// Resolves at the first signal that asks a program to end; `None` when they cannot be listened to.
async fn interrupted() -> Option<()> {
    let mut interrupt = signal(SignalKind::interrupt()).ok()?;
    let mut terminate = signal(SignalKind::terminate()).ok()?;
    let mut hang_up = signal(SignalKind::hangup()).ok()?;
    tokio::select! {
        heard = interrupt.recv() => heard,
        heard = terminate.recv() => heard,
        heard = hang_up.recv() => heard,
    }
}
