//! How the two clusters are reached: kubeconfigs, clients, and in plain words what is wrong with either.
//!
//! Nothing of a kubeconfig but paths, names and the server's address is ever printed.

mod kubeconfig;
mod trouble;

use std::fmt;
use std::time::Duration;

use kube::client::ClientBuilder;
use kube::{Client, Config};
use tower::limit::RateLimitLayer;

use crate::fence::{Fence, FenceLayer};

pub(crate) use kubeconfig::{AccessError, Place};
pub(crate) use trouble::Trouble;

/// Name resolution, TCP and TLS together may take so long.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Which of the two clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Where pods, nodes, NodePools and NodeClaims are.
    Workload,
    /// Where Cluster API's objects are.
    Management,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Workload => "workload cluster",
            Self::Management => "management cluster",
        })
    }
}

/// Where the access to a cluster is described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A kubeconfig.
    File(Place),
    /// The service account of the pod that this process runs in.
    Pod,
}

/// The most that a client sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Requests a second in the long run; 0 for no limit.
    pub(crate) per_second: u32,
    /// Requests at once.
    pub(crate) burst: u32,
}

/// A cluster and how it is reached.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) role: Role,
    pub(crate) origin: Origin,
    config: Config,
    /// Of the files that `config` was read from; 0 where there are none.
    fingerprint: u64,
}

impl Access {
    /// Reads the kubeconfig, or what Kubernetes gives to the pod where there is none.
    pub(crate) async fn load(role: Role, kubeconfig: Option<Place>) -> Result<Self, AccessError> {
        // The fingerprint first: what changes while the file is read is seen as a change later.
        let (origin, mut config, fingerprint) = match kubeconfig {
            Some(place) => {
                let fingerprint = place.fingerprint();
                let config = kubeconfig::load(role, &place).await?;
                (Origin::File(place), config, fingerprint)
            }
            None => (Origin::Pod, kubeconfig::of_the_pod(role)?, 0),
        };
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        // The client would try answers 429 and 503 again for minutes. An eviction that a disruption budget refuses is a 429, and the
        // caller has to know of it at once; every caller backs off by itself.
        config.default_retry = false;
        Ok(Self { role, origin, config, fingerprint })
    }

    /// Whether the kubeconfig, or a file that it names, isn't any longer what it was when it was read. The pod's own access never
    /// changes: the client reads the service account's token again by itself.
    pub(crate) fn has_changed(&self) -> bool {
        match &self.origin {
            Origin::File(place) => place.fingerprint() != self.fingerprint,
            Origin::Pod => false,
        }
    }

    /// The access as it is described now.
    pub(crate) async fn load_again(&self) -> Result<Self, AccessError> {
        let place = match &self.origin {
            Origin::File(place) => Some(place.clone()),
            Origin::Pod => None,
        };
        Self::load(self.role, place).await
    }

    /// The same access for another purpose.
    pub(crate) fn as_role(&self, role: Role) -> Self {
        Self { role, ..self.clone() }
    }

    /// A client for the process itself: not limited, not fenced.
    pub(crate) fn client(&self) -> Result<Client, AccessError> {
        Client::try_from(self.config.clone()).map_err(|error| self.no_client(&error))
    }

    /// The controllers' client.
    pub(crate) fn fenced_client(&self, limits: Limits, fence: Fence) -> Result<Client, AccessError> {
        let builder = ClientBuilder::try_from(self.config.clone()).map_err(|error| self.no_client(&error))?;
        // The limit outside: what has waited for its turn is held against the fence when it really goes out.
        Ok(builder.with_layer(&FenceLayer(fence)).with_layer(&limits.layer()).build())
    }

    fn no_client(&self, error: &kube::Error) -> AccessError {
        AccessError::Client(self.explain(&Trouble::of(error)))
    }

    /// The server's address without anything secret in it.
    fn server(&self) -> String {
        let address = &self.config.cluster_url;
        let scheme = address.scheme_str().unwrap_or("https");
        let host = address.host().unwrap_or("?");
        match address.port_u16() {
            Some(port) => format!("{scheme}://{host}:{port}"),
            None => format!("{scheme}://{host}"),
        }
    }

    /// What is wrong and what to do about it, for a request that failed.
    pub(crate) fn explain(&self, trouble: &Trouble) -> String {
        let remedy = match (trouble, &self.origin) {
            (Trouble::Unreachable(_) | Trouble::NoAnswer, Origin::File(_)) => {
                "check clusters[].cluster.server there, and that the network lets this process through"
            }
            (Trouble::Unreachable(_) | Trouble::NoAnswer, Origin::Pod) => {
                "check that network policies let this pod reach the API server"
            }
            (Trouble::Proxy, _) => {
                "remove clusters[].cluster.proxy-url from the kubeconfig and HTTPS_PROXY from the environment"
            }
            (Trouble::Tls(_), Origin::File(_)) => {
                "check clusters[].cluster.server, certificate-authority-data (or certificate-authority) and tls-server-name, and the client certificate of users[].user there"
            }
            (Trouble::Tls(_), Origin::Pod) => {
                "check that the pod's service account volume holds the API server's certificate authority"
            }
            (Trouble::Unauthorized | Trouble::Credentials(_), Origin::File(_)) => {
                "check the users[].user entry of the current context there: its token or certificate may be out of date, or of another cluster"
            }
            (Trouble::Unauthorized | Trouble::Credentials(_), Origin::Pod) => {
                "check the pod's service account and its projected token"
            }
            (Trouble::Forbidden(_), _) => "give this identity the roles of config/rbac",
            (Trouble::NotKubernetes, _) => "check that it is the address of a Kubernetes API server",
            (Trouble::Other(_), _) => "look at the API server's own log",
        };
        format!("{self}: {trouble}; {remedy}")
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = self.server();
        match &self.origin {
            Origin::File(place) => write!(f, "{} at {server} (kubeconfig {place})", self.role),
            Origin::Pod => write!(f, "{} at {server} (the pod's own cluster)", self.role),
        }
    }
}

impl Limits {
    /// As many requests as `burst` within the time that so many take in the long run.
    fn layer(self) -> RateLimitLayer {
        if self.per_second == 0 {
            return RateLimitLayer::new(u64::MAX, Duration::from_secs(1));
        }
        let burst = self.burst.max(1);
        let window = Duration::from_secs_f64(f64::from(burst) / f64::from(self.per_second));
        RateLimitLayer::new(u64::from(burst), window)
    }
}
