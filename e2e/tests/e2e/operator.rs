//! The operator against a real control plane and real Cluster API controllers.

mod audit;
mod bad_input;
mod coexistence;
mod constrained;
mod crash;
mod crash_points;
mod doctor;
mod gates;
mod hands;
mod held_up;
mod hypershift;
mod launch;
mod leadership;
mod main_job;
mod outage;
mod process;
pub(crate) mod stage;
mod termination;
mod two_clusters;
mod unavailable;
