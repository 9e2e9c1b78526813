//! What may be asked for, and what becomes of a reassignment at each look.

use super::*;
