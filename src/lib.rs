//! klamm
