//! isr
