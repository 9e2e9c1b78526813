//! Only the test binary beside this file matters; cargo wants a library or a binary in a package.
