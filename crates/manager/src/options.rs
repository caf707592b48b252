//! Flags and environment variables.
//!
//! Names and defaults are upstream Karpenter's wherever the meaning is the same. A flag is stronger than its variable, a variable
//! that is empty counts as not set, and of a flag that is given twice the last one counts.

mod values;

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::Resettable;
use clap::error::ErrorKind;
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser};
use karpenter_capi_access::{Place, Wording};
use karpenter_capi_controllers::{DEFAULT_FEATURE_GATES, FeatureGates, SchedulerConfig};

use crate::election::Timing;

pub(crate) use values::{LogFormat, LogLevel, LogOutput, LogOutputs, MinValues, Preferences};
use values::{duration, object_name, scheduler_config};

/// How messages call what says where the workload cluster is.
pub(crate) const WORKLOAD: Wording =
    Wording { kubeconfig: "--kubeconfig (KUBECONFIG)", context: "--context (KUBE_CONTEXT)", rights: RIGHTS };
/// The same for the management cluster.
pub(crate) const MANAGEMENT: Wording = Wording {
    kubeconfig: "--cluster-api-kubeconfig (CLUSTER_API_KUBECONFIG)",
    context: "--cluster-api-context (CLUSTER_API_CONTEXT)",
    rights: RIGHTS,
};
const RIGHTS: &str = "give this identity the roles of config/rbac";

const COMPATIBILITY: &str = "Accepted for compatibility with Karpenter, without effect";

/// A Karpenter for Cluster API: watches pods that find no place and scales MachineDeployments for them.
#[derive(Debug, Parser)]
#[command(name = "karpenter-capi-manager", version, args_override_self = true, max_term_width = 120)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) clusters: ClusterOptions,
    #[command(flatten)]
    pub(crate) election: ElectionOptions,
    #[command(flatten)]
    pub(crate) serving: ServingOptions,
    #[command(flatten)]
    pub(crate) logging: LoggingOptions,
    #[command(flatten)]
    pub(crate) behaviour: BehaviourOptions,
    #[command(flatten)]
    pub(crate) compatibility: CompatibilityOptions,
}

/// Which clusters, and how they are reached.
#[derive(Debug, Args)]
#[command(next_help_heading = "Clusters")]
pub(crate) struct ClusterOptions {
    /// Kubeconfig of the workload cluster, where pods and nodes are; without it, the service account of the pod that this runs in
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Kubeconfig of the management cluster, where Cluster API's objects are; without it, the workload cluster is taken
    #[arg(long, env = "CLUSTER_API_KUBECONFIG", value_name = "FILE")]
    pub(crate) cluster_api_kubeconfig: Option<PathBuf>,
    /// Context of --kubeconfig [default: its current-context]
    #[arg(long, env = "KUBE_CONTEXT", value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Context of --cluster-api-kubeconfig, or of --kubeconfig where only that is set [default: its current-context]
    #[arg(long, env = "CLUSTER_API_CONTEXT", value_name = "NAME")]
    pub(crate) cluster_api_context: Option<String>,
    /// Namespace of Cluster API's Cluster
    #[arg(long, env = "CLUSTER_NAMESPACE", value_name = "NAME", value_parser = object_name)]
    pub(crate) cluster_namespace: String,
    /// Name of Cluster API's Cluster
    #[arg(long, env = "CLUSTER_NAME", value_name = "NAME", value_parser = object_name)]
    pub(crate) cluster_name: String,
    /// Namespace of the HyperShift NodePools that own replicas: MachineDeployments that HyperShift made are scaled there
    #[arg(long, env = "HYPERSHIFT_NAMESPACE", value_name = "NAME", value_parser = object_name)]
    pub(crate) hypershift_namespace: Option<String>,
    /// Requests a second to each cluster, in the long run; 0 for no limit
    #[arg(long, env = "KUBE_CLIENT_QPS", value_name = "NUMBER", default_value_t = 200)]
    pub(crate) kube_client_qps: u32,
    /// Requests to each cluster that may go out at once
    #[arg(long, env = "KUBE_CLIENT_BURST", value_name = "NUMBER", default_value_t = 300,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) kube_client_burst: u32,
    /// How often kubeconfigs are looked at for changes; 0 for never
    #[arg(long, env = "KUBECONFIG_POLL_INTERVAL", value_name = "DURATION", default_value = "5s", value_parser = duration)]
    pub(crate) kubeconfig_poll_interval: Duration,
    /// How long to wait at the start for API servers, CRDs and the Cluster
    #[arg(long, env = "STARTUP_TIMEOUT", value_name = "DURATION", default_value = "2m", value_parser = duration)]
    pub(crate) startup_timeout: Duration,
}

/// Which of several replicas works.
#[derive(Debug, Args)]
#[command(next_help_heading = "Leader election")]
pub(crate) struct ElectionOptions {
    /// Work without a Lease; only safe where there is one replica
    #[arg(long, env = "DISABLE_LEADER_ELECTION", value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1,
          require_equals = true, default_value = "false", default_missing_value = "true")]
    pub(crate) disable_leader_election: bool,
    /// Name of the Lease; `karpenter-capi-` and the name of the Cluster if not given
    #[arg(long, env = "LEADER_ELECTION_NAME", value_name = "NAME", value_parser = object_name)]
    pub(crate) leader_election_name: Option<String>,
    /// Namespace of the Lease in the workload cluster [default: that of the pod's service account where the workload cluster
    /// is the pod's own, else kube-system]
    #[arg(long, env = "LEADER_ELECTION_NAMESPACE", value_name = "NAME", value_parser = object_name)]
    pub(crate) leader_election_namespace: Option<String>,
    /// How long a Lease that isn't renewed stays its holder's; whole seconds
    #[arg(long, env = "LEADER_ELECTION_LEASE_DURATION", value_name = "DURATION", default_value = "15s", value_parser = duration)]
    pub(crate) leader_election_lease_duration: Duration,
    /// How long its holder works on after the last renewal
    #[arg(long, env = "LEADER_ELECTION_RENEW_DEADLINE", value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub(crate) leader_election_renew_deadline: Duration,
    /// Time between two attempts to get or renew the Lease
    #[arg(long, env = "LEADER_ELECTION_RETRY_PERIOD", value_name = "DURATION", default_value = "2s", value_parser = duration)]
    pub(crate) leader_election_retry_period: Duration,
}

/// What is served over HTTP.
#[derive(Debug, Args)]
#[command(next_help_heading = "Health and metrics")]
pub(crate) struct ServingOptions {
    /// Address that both ports listen on
    #[arg(long, env = "BIND_ADDRESS", value_name = "IP", default_value = "0.0.0.0")]
    pub(crate) bind_address: IpAddr,
    /// Port of /metrics; 0 for none
    #[arg(long, env = "METRICS_PORT", value_name = "PORT", default_value_t = 8080)]
    pub(crate) metrics_port: u16,
    /// Port of /healthz and /readyz; 0 for none
    #[arg(long, env = "HEALTH_PROBE_PORT", value_name = "PORT", default_value_t = 8081)]
    pub(crate) health_probe_port: u16,
    /// Leave out the metrics that mirror the state of NodePools and MachineDeployments
    #[arg(long, env = "DISABLE_CLUSTER_STATE_OBSERVABILITY", value_name = "BOOL", action = ArgAction::Set,
          num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub(crate) disable_cluster_state_observability: bool,
}

/// What is logged, and where to.
#[derive(Debug, Args)]
#[command(next_help_heading = "Logging")]
pub(crate) struct LoggingOptions {
    /// The least important lines that are written; the variable `RUST_LOG` refines it for single modules
    #[arg(long = "log-level", env = "LOG_LEVEL", value_name = "LEVEL", default_value = "info")]
    pub(crate) level: LogLevel,
    /// For people or for programs
    #[arg(long = "log-format", env = "LOG_FORMAT", value_name = "FORMAT", default_value = "text")]
    pub(crate) format: LogFormat,
    /// stdout, stderr or both, separated by a comma
    #[arg(
        long = "log-output-paths",
        env = "LOG_OUTPUT_PATHS",
        value_name = "OUTPUTS",
        default_value = "stdout"
    )]
    pub(crate) outputs: LogOutputs,
}

/// How the operator decides.
#[derive(Debug, Args)]
#[command(next_help_heading = "Behaviour")]
pub(crate) struct BehaviourOptions {
    /// Pods are collected until none has come for so long
    #[arg(long, env = "BATCH_IDLE_DURATION", value_name = "DURATION", default_value = "1s", value_parser = duration)]
    pub(crate) batch_idle_duration: Duration,
    /// Pods are collected for at most so long
    #[arg(long, env = "BATCH_MAX_DURATION", value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub(crate) batch_max_duration: Duration,
    /// Whether pods' preferences count as long as something fits them
    #[arg(long, env = "PREFERENCE_POLICY", value_name = "POLICY", default_value = "Respect")]
    pub(crate) preference_policy: Preferences,
    /// Whether minValues of a NodePool may be undercut
    #[arg(long, env = "MIN_VALUES_POLICY", value_name = "POLICY", default_value = "Strict")]
    pub(crate) min_values_policy: MinValues,
    /// Processor time that this process may expect, in thousandths of a core; it sets how much is done at once. 0 and less: 1000
    #[arg(
        long,
        env = "CPU_REQUESTS",
        value_name = "MILLICORES",
        default_value_t = 1000,
        allow_negative_numbers = true
    )]
    pub(crate) cpu_requests: i32,
    /// What kube-scheduler's configuration gives to pods that say nothing: a file with podTopologySpread.defaultConstraints, or its
    /// text
    #[arg(long, env = "SCHEDULER_CONFIG", value_name = "FILE", default_value = "", hide_default_value = true,
          value_parser = scheduler_config)]
    pub(crate) scheduler_config: SchedulerConfig,
    /// Optional features, Name=true or Name=false, separated by commas
    #[arg(long, env = "FEATURE_GATES", value_name = "GATES", default_value = DEFAULT_FEATURE_GATES)]
    pub(crate) feature_gates: FeatureGates,
}

/// What upstream's manifests may set and what changes nothing here.
#[derive(Debug, Args)]
#[command(next_help_heading = COMPATIBILITY)]
pub(crate) struct CompatibilityOptions {
    /// Name of the Service in front of the metrics port
    #[arg(long, env = "KARPENTER_SERVICE", value_name = "NAME")]
    pub(crate) karpenter_service: Option<String>,
    /// Go's profiler
    #[arg(long, env = "ENABLE_PROFILING", value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1,
          require_equals = true, default_value = "false", default_missing_value = "true")]
    pub(crate) enable_profiling: bool,
    /// Caches are always filled before leading
    #[arg(long, env = "DISABLE_CONTROLLER_WARMUP", value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1,
          require_equals = true, default_value = "true", default_missing_value = "true")]
    pub(crate) disable_controller_warmup: bool,
    /// Limit for Go's garbage collector, in bytes
    #[arg(long, env = "MEMORY_LIMIT", value_name = "BYTES", default_value_t = -1, allow_negative_numbers = true)]
    pub(crate) memory_limit: i64,
    /// Where errors of the logger itself go
    #[arg(long, env = "LOG_ERROR_OUTPUT_PATHS", value_name = "OUTPUTS", default_value = "stderr")]
    pub(crate) log_error_output_paths: String,
    /// Pods that ask for dynamic resources are passed over
    #[arg(long, env = "IGNORE_DRA_REQUESTS", value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1,
          require_equals = true, default_value = "true", default_missing_value = "true")]
    pub(crate) ignore_dra_requests: bool,
}

impl ClusterOptions {
    fn contradiction(&self) -> Option<String> {
        if self.context.is_some() && self.kubeconfig.is_none() {
            return Some(
                "--context is set, but --kubeconfig, whose context it is, isn't: set both or neither".into(),
            );
        }
        if self.cluster_api_context.is_some() && self.management().is_none() {
            return Some(
                "--cluster-api-context is set, but neither --cluster-api-kubeconfig nor --kubeconfig, whose context it is: set one of them, or \
                 leave the context out"
                    .into(),
            );
        }
        None
    }

    /// Where the access to the workload cluster is described; none is the pod's own.
    pub(crate) fn workload(&self) -> Option<Place> {
        let path = self.kubeconfig.clone()?;
        let context = self.context.clone();
        Some(Place { path, context })
    }

    /// The same for the management cluster; none is the access to the workload cluster.
    pub(crate) fn management(&self) -> Option<Place> {
        let own = self.cluster_api_kubeconfig.clone();
        let shared = self.cluster_api_context.as_ref().and(self.kubeconfig.clone());
        let context = self.cluster_api_context.clone();
        Some(Place { path: own.or(shared)?, context })
    }
}

impl ElectionOptions {
    /// The order that makes sure that a leader has stopped before anybody else may begin.
    fn contradiction(&self) -> Option<String> {
        let (lease, renew, retry) = (
            self.leader_election_lease_duration,
            self.leader_election_renew_deadline,
            self.leader_election_retry_period,
        );
        let whole = lease.subsec_nanos() == 0 && i32::try_from(lease.as_secs()).is_ok();
        let ordered = retry > Duration::ZERO && retry.saturating_mul(2) <= renew && renew < lease;
        (!whole || !ordered).then(|| {
            format!(
                "--leader-election-lease-duration {lease:?}, --leader-election-renew-deadline {renew:?} and \
                 --leader-election-retry-period {retry:?} don't go together: the first must be whole seconds and longer than the second, and the \
                 second at least twice the third, which isn't 0"
            )
        })
    }

    pub(crate) fn timing(&self) -> Timing {
        Timing {
            lease: self.leader_election_lease_duration,
            renew_within: self.leader_election_renew_deadline,
            retry: self.leader_election_retry_period,
        }
    }
}

impl Options {
    /// Reads the command line (its first word is the program's name) and the environment.
    pub(crate) fn from_arguments(
        arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> Result<Self, clap::Error> {
        let mut command = Self::command().mut_args(|argument| {
            let variable = argument.get_env().and_then(std::env::var_os);
            if variable.is_some_and(|value| value.is_empty()) {
                argument.env(Resettable::Reset)
            } else {
                argument
            }
        });
        let mut matches = command.try_get_matches_from_mut(arguments)?;
        let options = Self::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))?;
        match options.contradiction() {
            None => Ok(options),
            Some(message) => Err(command.error(ErrorKind::ValueValidation, message)),
        }
    }

    /// What no single flag can tell.
    fn contradiction(&self) -> Option<String> {
        let serving = &self.serving;
        if serving.metrics_port == serving.health_probe_port && serving.metrics_port != 0 {
            return Some(format!(
                "--metrics-port and --health-probe-port are both {}; give them different ports, or 0 to switch one off",
                serving.metrics_port
            ));
        }
        if let Some(message) = self.election.contradiction().or_else(|| self.clusters.contradiction()) {
            return Some(message);
        }
        None
    }

    /// Settings that were made but change nothing, each a sentence.
    pub(crate) fn without_effect(&self) -> Vec<String> {
        let compatibility = &self.compatibility;
        let mut sentences = self.behaviour.feature_gates.without_effect();
        if compatibility.enable_profiling {
            sentences
                .push("--enable-profiling has no effect: there is no Go profiler in this program".into());
        }
        if !compatibility.ignore_dra_requests {
            sentences.push(
                "--ignore-dra-requests=false has no effect: pods that ask for dynamic resources are still passed over".into(),
            );
        }
        if self.behaviour.batch_idle_duration > self.behaviour.batch_max_duration {
            sentences.push(
                "--batch-idle-duration is longer than --batch-max-duration, which ends every batch first"
                    .into(),
            );
        }
        sentences
    }

    /// [`BehaviourOptions::cpu_requests`] with its default for what can't be.
    pub(crate) fn cpu_requests_millicores(&self) -> u32 {
        u32::try_from(self.behaviour.cpu_requests).ok().filter(|millicores| *millicores > 0).unwrap_or(1000)
    }
}

#[cfg(test)]
mod tests;
