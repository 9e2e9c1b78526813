//! sanitise
