//! Worlds that follow from one number.

pub mod rival;
