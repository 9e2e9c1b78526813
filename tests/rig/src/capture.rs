//! Captures: placeholder
