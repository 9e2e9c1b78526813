//! candidacy
