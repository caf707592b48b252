//! The binary as its users meet it: arguments in; exit code, standard output and standard error out.

mod cases;
mod common;
mod document;
mod examples;
mod two_hundred_nodes;
mod usage;
