//! What goes wrong between this process and an API server, sorted by what one can do about it.

use std::error::Error;
use std::fmt;
use std::io;

use kube::client::AuthError;

/// A request that a layer of the client itself didn't send, or gave up.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct HeldBack(pub &'static str);

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// No connection came about: name resolution, routing, nobody listens.
    Unreachable(String),
    /// A connection came about, but no answer in time.
    NoAnswer,
    /// The client can't talk through the proxy that it is told to take.
    Proxy,
    /// Certificates.
    Tls(String),
    /// 401.
    Unauthorized,
    /// 403, with the API server's message, which names verb and resource.
    Forbidden(String),
    /// The kubeconfig's way to get credentials failed.
    Credentials(String),
    /// Something answered, but not as an API server does.
    NotKubernetes,
    /// Anything else.
    Other(String),
}

impl Trouble {
    /// Sorts an error of the client.
    pub fn of(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => match status.code {
                401 => Self::Unauthorized,
                403 => Self::Forbidden(status.message.clone()),
                code if status.reason.is_empty() || status.reason.starts_with("Failed to parse") => {
                    if status.status.is_none() {
                        Self::NotKubernetes
                    } else {
                        Self::Other(format!("answer {code}"))
                    }
                }
                code => Self::Other(format!("{} ({code} {})", status.message, status.reason)),
            },
            kube::Error::Auth(error) => Self::Credentials(credentials(error)),
            kube::Error::RustlsTls(error) => Self::Tls(error.to_string()),
            kube::Error::ProxyProtocolUnsupported { .. } | kube::Error::ProxyProtocolDisabled { .. } => {
                Self::Proxy
            }
            kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => Self::NotKubernetes,
            other => Self::in_chain(other),
        }
    }

    /// Looks through the causes for one that says what it is.
    fn in_chain(error: &(dyn Error + 'static)) -> Self {
        let mut cause = Some(error);
        let mut deepest = error;
        while let Some(error) = cause {
            deepest = error;
            if let Some(error) = error.downcast_ref::<AuthError>() {
                return Self::Credentials(credentials(error));
            }
            if let Some(error) = error.downcast_ref::<HeldBack>() {
                return Self::Other(error.to_string());
            }
            if let Some(error) = error.downcast_ref::<rustls::Error>() {
                return Self::Tls(error.to_string());
            }
            if let Some(error) = error.downcast_ref::<io::Error>() {
                return Self::of_io(error);
            }
            cause = error.source();
        }
        Self::Unreachable(deepest.to_string())
    }

    fn of_io(error: &io::Error) -> Self {
        // The other side hung up in the middle of the handshake; the library has only its text to say so.
        if error.kind() == io::ErrorKind::UnexpectedEof && error.to_string().starts_with("tls") {
            return Self::Tls("the other side broke it off".to_owned());
        }
        // An error inside an io::Error isn't its source, so that it has to be asked for.
        match error.get_ref() {
            Some(inner) if inner.is::<rustls::Error>() => Self::Tls(inner.to_string()),
            Some(inner) => match inner.downcast_ref::<io::Error>() {
                Some(inner) => Self::of_io(inner),
                None if error.kind() == io::ErrorKind::TimedOut => Self::NoAnswer,
                None => Self::in_chain(inner),
            },
            None if error.kind() == io::ErrorKind::TimedOut => Self::NoAnswer,
            None => Self::Unreachable(error.to_string()),
        }
    }
}

/// What a credential plugin printed may hold a token, so its output is left out.
fn credentials(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecStart(source) => {
            format!("the command of users[].user.exec can't be run: {source}")
        }
        AuthError::AuthExecRun { out, .. } => {
            format!("the command of users[].user.exec failed with {}", out.status)
        }
        AuthError::AuthExecParse(_) | AuthError::ExecPluginFailed | AuthError::AuthExec(_) => {
            "the command of users[].user.exec gave no usable credentials".to_owned()
        }
        AuthError::MissingCommand => "users[].user.exec.command is missing".to_owned(),
        AuthError::ReadTokenFile(source, path) => {
            format!("the token file {} can't be read: {source}", path.display())
        }
        AuthError::InvalidBearerToken(_) => {
            "users[].user.token has characters that no token may have".to_owned()
        }
        AuthError::InvalidBasicAuth(_) => "users[].user.username or password can't be used".to_owned(),
        _ => "the credentials of users[].user can't be used".to_owned(),
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(problem) => write!(f, "the API server can't be reached: {problem}"),
            Self::Proxy => f.write_str("a proxy is set for the API server, but proxies aren't supported"),
            Self::NoAnswer => f.write_str("the API server doesn't answer"),
            Self::Tls(problem) => write!(f, "the TLS connection to the API server failed: {problem}"),
            Self::Unauthorized => {
                f.write_str("the API server doesn't accept our credentials (401 Unauthorized)")
            }
            Self::Forbidden(message) => {
                write!(f, "the API server doesn't permit it (403 Forbidden): {message}")
            }
            Self::Credentials(problem) => write!(f, "no credentials: {problem}"),
            Self::NotKubernetes => f.write_str("something answers that isn't a Kubernetes API server"),
            Self::Other(problem) => f.write_str(problem),
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn status(code: u16, reason: &str) -> Trouble {
        Trouble::of(&kube::Error::Api(Box::new(Status {
            code,
            reason: reason.into(),
            message: "nodepools is forbidden".into(),
            ..Status::default()
        })))
    }

    fn service(error: io::Error) -> Trouble {
        Trouble::of(&kube::Error::Service(Box::new(error)))
    }

    #[test]
    fn the_answers_code_gives_the_trouble() {
        assert_eq!(status(401, "Unauthorized"), Trouble::Unauthorized);
        assert_eq!(status(403, "Forbidden"), Trouble::Forbidden("nodepools is forbidden".into()));
        assert_eq!(
            status(500, "InternalError"),
            Trouble::Other("nodepools is forbidden (500 InternalError)".into())
        );
    }

    #[test]
    fn a_certificate_problem_is_found_however_deep_it_is() {
        let inner =
            io::Error::other(rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer));
        let trouble = service(io::Error::other(inner));
        assert!(
            matches!(&trouble, Trouble::Tls(problem) if problem.contains("UnknownIssuer")),
            "{trouble:?}"
        );
    }

    #[test]
    fn refused_and_timed_out_are_told_apart() {
        assert!(matches!(service(io::ErrorKind::ConnectionRefused.into()), Trouble::Unreachable(_)));
        assert_eq!(service(io::ErrorKind::TimedOut.into()), Trouble::NoAnswer);
    }

    #[test]
    fn output_of_a_credential_plugin_is_not_repeated() {
        let output = std::process::Output {
            status: std::process::ExitStatus::default(),
            stdout: b"token-that-is-secret".to_vec(),
            stderr: b"password-that-is-secret".to_vec(),
        };
        let error =
            AuthError::AuthExecRun { cmd: "aws --token token-that-is-secret".into(), out: Box::new(output) };
        let text = Trouble::of(&kube::Error::Auth(error)).to_string();
        assert!(text.contains("users[].user.exec") && !text.contains("secret"), "{text}");
    }
}
