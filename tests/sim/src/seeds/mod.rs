//! Small worlds from seeds: what lives in them, and what looks at them from outside.

pub mod checks;
pub mod life;
