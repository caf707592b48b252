//! Reading a kubeconfig, and saying which file and field is wrong.

use std::path::{Path, PathBuf};

use kube::Config;
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError, LoadDataError};

use super::Role;

/// Why a cluster can't even be tried.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AccessError {
    /// No kubeconfig, and no pod.
    #[error(
        "no access to the {role}: {flag} is not set, and this process doesn't run in a pod of Kubernetes \
         (KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set); set {flag} to a kubeconfig"
    )]
    Nowhere { role: Role, flag: &'static str },
    /// The pod's service account can't be used.
    #[error(
        "no access to the {role} with the pod's service account: {problem}; set serviceAccountName and automountServiceAccountToken"
    )]
    Pod { role: Role, problem: String },
    /// The file can't be read.
    #[error("kubeconfig {path} of the {role} can't be read; check {flag}")]
    Unreadable {
        path: String,
        role: Role,
        flag: &'static str,
        source: std::io::Error,
    },
    /// It isn't YAML, or not a kubeconfig. The parser's own words may quote the file, so they are left out.
    #[error(
        "kubeconfig {path} of the {role} is not a valid kubeconfig{place}; \
         `kubectl config view --kubeconfig {path}` shows what kubectl makes of it"
    )]
    Malformed { path: String, role: Role, place: String },
    /// A field is missing or wrong.
    #[error("kubeconfig {path} of the {role}: {problem}")]
    Field {
        path: String,
        role: Role,
        problem: String,
    },
    /// A client can't be made.
    #[error("{0}")]
    Client(String),
}

fn flag(role: Role) -> &'static str {
    match role {
        Role::Workload => "--kubeconfig (KUBECONFIG)",
        Role::Management => "--cluster-api-kubeconfig (CLUSTER_API_KUBECONFIG)",
    }
}

/// Reads a kubeconfig; as with kubectl, a list of files separated by colons is merged.
pub(super) async fn load(role: Role, path: &Path) -> Result<Config, AccessError> {
    let in_words = |error: KubeconfigError| in_words(role, path, error);
    let kubeconfig = read(path).map_err(in_words)?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(in_words)
}

fn read(path: &Path) -> Result<Kubeconfig, KubeconfigError> {
    let mut files: Vec<PathBuf> = vec![path.to_owned()];
    if !path.exists() {
        files = std::env::split_paths(path)
            .filter(|part| !part.as_os_str().is_empty())
            .collect();
    }
    let mut merged = Kubeconfig::default();
    for file in files {
        merged = merged.merge(Kubeconfig::read_from(file)?)?;
    }
    Ok(merged)
}

pub(super) fn of_the_pod(role: Role) -> Result<Config, AccessError> {
    Config::incluster().map_err(|error| match error {
        InClusterError::ReadEnvironmentVariable(_) => AccessError::Nowhere {
            role,
            flag: flag(role),
        },
        other => AccessError::Pod {
            role,
            problem: other.to_string(),
        },
    })
}

fn in_words(role: Role, path: &Path, error: KubeconfigError) -> AccessError {
    let path = path.display().to_string();
    let problem = match error {
        KubeconfigError::ReadConfig(source, file) => {
            return AccessError::Unreadable {
                path: file.display().to_string(),
                role,
                flag: flag(role),
                source,
            };
        }
        KubeconfigError::Parse(error) => {
            let place = error.location().map_or_else(String::new, |location| {
                format!(" (line {}, column {})", location.line(), location.column())
            });
            return AccessError::Malformed { path, role, place };
        }
        KubeconfigError::CurrentContextNotSet => {
            "current-context is not set; set it to the name of an entry of contexts[]".to_owned()
        }
        KubeconfigError::LoadContext(name) => {
            format!("current-context is {name:?}, but contexts[] has no entry of that name; correct one of them")
        }
        KubeconfigError::LoadClusterOfContext(name) => {
            format!("the current context names cluster {name:?}, but clusters[] has no entry of that name; correct one of them")
        }
        KubeconfigError::MissingClusterUrl => {
            "clusters[].cluster.server of the current context is missing; it is the address of the API server".to_owned()
        }
        KubeconfigError::ParseClusterUrl(_) => {
            "clusters[].cluster.server of the current context is no address; write it like https://10.0.0.1:6443".to_owned()
        }
        KubeconfigError::ParseProxyUrl(_) => {
            "clusters[].cluster.proxy-url (or HTTPS_PROXY) is no address; write it like http://proxy:3128".to_owned()
        }
        KubeconfigError::LoadCertificateAuthority(error) => data("clusters[].cluster.certificate-authority", &error),
        KubeconfigError::LoadClientCertificate(error) => data("users[].user.client-certificate", &error),
        KubeconfigError::LoadClientKey(error) => data("users[].user.client-key", &error),
        KubeconfigError::ParseCertificates(_) => {
            "clusters[].cluster.certificate-authority-data (or certificate-authority) holds no certificates in PEM form".to_owned()
        }
        KubeconfigError::KindMismatch | KubeconfigError::ApiVersionMismatch => {
            "kind and apiVersion must be Config and v1 in every file".to_owned()
        }
        KubeconfigError::FindPath => "there is no such file".to_owned(),
        #[expect(unreachable_patterns, reason = "one more variant exists when the client is built with proxy support")]
        _ => "it can't be used".to_owned(),
    };
    AccessError::Field { path, role, problem }
}

fn data(field: &str, error: &LoadDataError) -> String {
    match error {
        LoadDataError::DecodeBase64(_) => format!("{field}-data isn't base64"),
        LoadDataError::ReadFile(source, file) => {
            format!(
                "{field} names the file {}, which can't be read: {source}",
                file.display()
            )
        }
        LoadDataError::NoBase64DataOrFile => format!("{field} and {field}-data are both missing"),
    }
}
