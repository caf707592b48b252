//! The operator against a real control plane and real Cluster API controllers.

mod bad_input;
mod crash;
mod crash_points;
mod main_job;
pub(crate) mod stage;
mod unavailable;
