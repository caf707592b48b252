//! Programs that are built from Go modules once and kept in a cache folder: the control plane of the end-to-end suite, and what
//! the benches compare with.

mod module;

pub use module::{GoProgram, Module, Rendering, Stamp, last_lines, sources};
