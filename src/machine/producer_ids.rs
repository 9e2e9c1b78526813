//! producer_ids
