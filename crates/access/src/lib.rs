//! How the two clusters are reached: kubeconfigs, clients, which kinds are served there, and in plain words what is wrong with any of it.
//!
//! Nothing of a kubeconfig but paths, names and the server's address is ever printed.

pub mod kinds;
mod kubeconfig;
mod trouble;

use std::fmt;
use std::time::Duration;

use kube::{Client, Config};

pub use kubeconfig::{AccessError, Place};
pub use trouble::{HeldBack, Trouble};

/// Name resolution, TCP and TLS together may take so long.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Which of the two clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
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
pub enum Origin {
    /// A kubeconfig.
    File(Place),
    /// The service account of the pod that this process runs in.
    Pod,
}

/// What a program calls the things that messages about a cluster name.
#[derive(Clone, Copy, Debug)]
pub struct Wording {
    /// The flag (and variable) for the kubeconfig.
    pub kubeconfig: &'static str,
    /// The flag (and variable) for its context.
    pub context: &'static str,
    /// What helps against a 403.
    pub rights: &'static str,
}

/// A cluster and how it is reached.
#[derive(Clone, Debug)]
pub struct Access {
    /// Which of the two it is.
    pub role: Role,
    /// Where that is described.
    pub origin: Origin,
    wording: Wording,
    config: Config,
    /// Of the files that `config` was read from; 0 where there are none.
    fingerprint: u64,
}

impl Access {
    /// Reads the kubeconfig, or what Kubernetes gives to the pod where there is none.
    pub async fn load(role: Role, kubeconfig: Option<Place>, wording: Wording) -> Result<Self, AccessError> {
        // The fingerprint first: what changes while the file is read is seen as a change later.
        let (origin, mut config, fingerprint) = match kubeconfig {
            Some(place) => {
                let fingerprint = place.fingerprint();
                let config = kubeconfig::load(role, &place, wording).await?;
                (Origin::File(place), config, fingerprint)
            }
            None => (Origin::Pod, kubeconfig::of_the_pod(role, wording)?, 0),
        };
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        // The client would try answers 429 and 503 again for minutes. An eviction that a disruption budget refuses is a 429, and the
        // caller has to know of it at once; every caller backs off by itself.
        config.default_retry = false;
        Ok(Self { role, origin, wording, config, fingerprint })
    }

    /// Whether the kubeconfig, or a file that it names, isn't any longer what it was when it was read. The pod's own access never
    /// changes: the client reads the service account's token again by itself.
    pub fn has_changed(&self) -> bool {
        match &self.origin {
            Origin::File(place) => place.fingerprint() != self.fingerprint,
            Origin::Pod => false,
        }
    }

    /// The access as it is described now.
    pub async fn load_again(&self) -> Result<Self, AccessError> {
        let place = match &self.origin {
            Origin::File(place) => Some(place.clone()),
            Origin::Pod => None,
        };
        Self::load(self.role, place, self.wording).await
    }

    /// The same access for another purpose.
    #[must_use]
    pub fn as_role(&self, role: Role) -> Self {
        Self { role, ..self.clone() }
    }

    /// A client with nothing added: not limited, not fenced.
    pub fn client(&self) -> Result<Client, AccessError> {
        Client::try_from(self.config()).map_err(|error| self.no_client(&error))
    }

    /// What a client is made of.
    pub fn config(&self) -> Config {
        self.config.clone()
    }

    /// The namespace that the context names; `default` without one.
    pub fn default_namespace(&self) -> &str {
        &self.config.default_namespace
    }

    /// The error for a client that can't be made.
    pub fn no_client(&self, error: &kube::Error) -> AccessError {
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
    pub fn explain(&self, trouble: &Trouble) -> String {
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
            (Trouble::Forbidden(_), _) => self.wording.rights,
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

/// One request, which gets so long.
pub async fn within<T>(
    limit: Duration,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Trouble> {
    match tokio::time::timeout(limit, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(Trouble::of(&error)),
        Err(_) => Err(Trouble::NoAnswer),
    }
}
