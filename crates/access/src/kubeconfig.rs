//! Reading a kubeconfig, and saying which file and field is wrong.

use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use kube::Config;
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError, LoadDataError};

use super::{Role, Wording};

/// Why a cluster can't even be tried.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// No kubeconfig, and no pod.
    #[error(
        "no access to the {role}: {flag} is not set, and this process doesn't run in a pod of Kubernetes \
         (KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set); set {flag} to a kubeconfig"
    )]
    Nowhere {
        /// Which cluster.
        role: Role,
        /// The flag that says where the kubeconfig is.
        flag: &'static str,
    },
    /// The pod's service account can't be used.
    #[error(
        "no access to the {role} with the pod's service account: {problem}; set serviceAccountName and automountServiceAccountToken"
    )]
    Pod {
        /// Which cluster.
        role: Role,
        /// What is wrong.
        problem: String,
    },
    /// The file can't be read.
    #[error("kubeconfig {path} of the {role} can't be read; check {flag}")]
    Unreadable {
        /// Of the kubeconfig.
        path: String,
        /// Which cluster.
        role: Role,
        /// The flag that says where the kubeconfig is.
        flag: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// It isn't YAML, or not a kubeconfig. The parser's own words may quote the file, so they are left out.
    #[error(
        "kubeconfig {path} of the {role} is not a valid kubeconfig{place}; \
         `kubectl config view --kubeconfig {path}` shows what kubectl makes of it"
    )]
    Malformed {
        /// Of the kubeconfig.
        path: String,
        /// Which cluster.
        role: Role,
        /// Line and column, if they are known.
        place: String,
    },
    /// A field is missing or wrong.
    #[error("kubeconfig {path} of the {role}: {problem}")]
    Field {
        /// Of the kubeconfig.
        path: String,
        /// Which cluster.
        role: Role,
        /// What is wrong.
        problem: String,
    },
    /// A client can't be made.
    #[error("{0}")]
    Client(String),
}

/// Keys of this process, so that a fingerprint tells nothing of a file to anybody else.
static FINGERPRINTS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// A kubeconfig and a context of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// One file, or several separated by colons.
    pub path: PathBuf,
    /// None: the file's `current-context`.
    pub context: Option<String>,
}

impl Place {
    /// A number that changes with the content of the kubeconfig and of the certificates and keys that it names, however the files
    /// are exchanged. Token files are left out: the client reads them again by itself.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = FINGERPRINTS.build_hasher();
        for file in files(&self.path) {
            std::fs::read(file).ok().hash(&mut hasher);
        }
        let named = read(&self.path).map(|kubeconfig| named_files(&kubeconfig));
        for file in named.unwrap_or_default() {
            std::fs::read(file).ok().hash(&mut hasher);
        }
        hasher.finish()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        match &self.context {
            Some(context) => write!(f, ", context {context}"),
            None => Ok(()),
        }
    }
}

fn named_files(kubeconfig: &Kubeconfig) -> Vec<String> {
    let clusters = kubeconfig.clusters.iter().filter_map(|named| named.cluster.as_ref());
    let users = kubeconfig.auth_infos.iter().filter_map(|named| named.auth_info.as_ref());
    let authorities = clusters.map(|cluster| &cluster.certificate_authority);
    let identities = users.flat_map(|user| [&user.client_certificate, &user.client_key]);
    authorities.chain(identities).flatten().cloned().collect()
}

/// Reads a kubeconfig; as with kubectl, a list of files separated by colons is merged.
pub(super) async fn load(role: Role, place: &Place, wording: Wording) -> Result<Config, AccessError> {
    let in_words = |error: KubeconfigError| in_words(role, place, wording, error);
    let kubeconfig = read(&place.path).map_err(in_words)?;
    let options = KubeConfigOptions { context: place.context.clone(), ..KubeConfigOptions::default() };
    Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(in_words)
}

fn files(path: &Path) -> Vec<PathBuf> {
    if path.exists() {
        return vec![path.to_owned()];
    }
    std::env::split_paths(path).filter(|part| !part.as_os_str().is_empty()).collect()
}

fn read(path: &Path) -> Result<Kubeconfig, KubeconfigError> {
    let mut merged = Kubeconfig::default();
    for file in files(path) {
        merged = merged.merge(Kubeconfig::read_from(file)?)?;
    }
    Ok(merged)
}

pub(super) fn of_the_pod(role: Role, wording: Wording) -> Result<Config, AccessError> {
    Config::incluster().map_err(|error| match error {
        InClusterError::ReadEnvironmentVariable(_) => AccessError::Nowhere { role, flag: wording.kubeconfig },
        other => AccessError::Pod { role, problem: other.to_string() },
    })
}

fn in_words(role: Role, place: &Place, wording: Wording, error: KubeconfigError) -> AccessError {
    let path = place.path.display().to_string();
    let problem = match error {
        KubeconfigError::ReadConfig(source, file) => {
            return AccessError::Unreadable {
                path: file.display().to_string(),
                role,
                flag: wording.kubeconfig,
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
        KubeconfigError::LoadContext(name) if place.context.is_some() => {
            format!("contexts[] has no entry of the name {name:?} that {} asks for; correct one of them", wording.context)
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
            format!("{field} names the file {}, which can't be read: {source}", file.display())
        }
        LoadDataError::NoBase64DataOrFile => format!("{field} and {field}-data are both missing"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KUBECONFIG: &str = "apiVersion: v1\nkind: Config\nclusters:\n- name: c\n  cluster:\n    server: https://127.0.0.1:1\n\
        users:\n- name: u\n  user:\n    client-certificate: tls.crt\n";

    fn place(path: PathBuf) -> Place {
        Place { path, context: None }
    }

    #[test]
    fn the_fingerprint_follows_the_content_and_not_the_time_of_writing() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path().join("kubeconfig"));
        let missing = place.fingerprint();
        std::fs::write(&place.path, KUBECONFIG).unwrap();
        let first = place.fingerprint();
        assert_ne!(missing, first);
        std::fs::write(&place.path, KUBECONFIG).unwrap();
        assert_eq!(first, place.fingerprint());
        std::fs::write(&place.path, KUBECONFIG.replace(":1\n", ":2\n")).unwrap();
        assert_ne!(first, place.fingerprint());
    }

    #[test]
    fn the_fingerprint_sees_an_exchanged_link_as_a_mounted_secret_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (version, text) in [("1", KUBECONFIG.to_owned()), ("2", KUBECONFIG.replace(":1\n", ":2\n"))] {
            std::fs::create_dir(at(version)).unwrap();
            std::fs::write(at(version).join("kubeconfig"), text).unwrap();
        }
        std::os::unix::fs::symlink("1", at("..data")).unwrap();
        std::os::unix::fs::symlink("..data/kubeconfig", at("kubeconfig")).unwrap();
        let place = place(at("kubeconfig"));
        let first = place.fingerprint();
        std::os::unix::fs::symlink("2", at("..new")).unwrap();
        std::fs::rename(at("..new"), at("..data")).unwrap();
        assert_ne!(first, place.fingerprint());
    }

    #[test]
    fn the_fingerprint_sees_a_renewed_certificate_that_the_kubeconfig_names() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path().join("kubeconfig"));
        std::fs::write(&place.path, KUBECONFIG).unwrap();
        let without = place.fingerprint();
        std::fs::write(folder.path().join("tls.crt"), "first").unwrap();
        let first = place.fingerprint();
        std::fs::write(folder.path().join("tls.crt"), "second").unwrap();
        assert!(without != first && first != place.fingerprint());
    }
}
