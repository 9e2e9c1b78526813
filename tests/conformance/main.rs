//! The rig's stories as tests. A story lives in `tests/rig`; nothing of one may be written here.
