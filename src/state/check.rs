//! The whole-state check.
use super::ControllerContext;
/// Every invariant that does not hold, in words.
pub fn violations(_context: &ControllerContext) -> Vec<String> {
    todo!()
}
