//! Host ports: one port of a protocol on one address belongs to one pod of a node.

use super::Auditor;
use karpenter_capi_model::pod::{HostPort, Pod};

impl Auditor<'_> {
    /// The placed pods take no port from each other, nor from `others`, which are there or are sure to come.
    pub(super) fn host_ports(&mut self, subject: &str, placed: &[&Pod], others: &[&Pod]) {
        for (index, pod) in placed.iter().enumerate() {
            let later = placed.iter().skip(index + 1);
            for other in others.iter().chain(later) {
                if let Some(port) = clash(pod, other) {
                    self.blame_pod(
                        pod,
                        format!(
                            "wants host port {}/{} on {subject}, which {} has",
                            port.port, port.protocol, other.name
                        ),
                    );
                }
            }
        }
    }
}

/// A port of `pod` that `other` has as well.
pub(super) fn clash<'p>(pod: &'p Pod, other: &Pod) -> Option<&'p HostPort> {
    pod.host_ports.iter().find(|port| other.host_ports.iter().any(|taken| collide(port, taken)))
}

fn collide(a: &HostPort, b: &HostPort) -> bool {
    a.port == b.port && a.protocol == b.protocol && (a.ip == b.ip || is_any(&a.ip) || is_any(&b.ip))
}

/// No address, `0.0.0.0` and `::` stand for all of a node's addresses.
fn is_any(ip: &str) -> bool {
    ip.is_empty() || ip == "0.0.0.0" || ip == "::"
}
