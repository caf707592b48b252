//! Every chore of the project: `cargo xtask <chore>`.
fn main() {}
