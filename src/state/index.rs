//! Indexes of the context.
