//! One authority per control plane and the certificates it signs.

use anyhow::{Context, Result, ensure};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// A certificate and its private key as PEM.
pub(super) struct Identity {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// The authority that everything in a control plane trusts.
pub(super) struct Authority {
    certificate: String,
    der: Vec<u8>,
    key: String,
    issuer: Issuer<'static, KeyPair>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Authority")
    }
}

/// The object identifier of an organisation name. rcgen holds one value per kind of name and takes this for another kind,
/// which makes room for a second group.
const ORGANIZATION: [u64; 4] = [2, 5, 4, 10];

impl Authority {
    pub(super) fn new() -> Result<Self> {
        let key = KeyPair::generate().context("generating the authority's key")?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "karpenter-capi-e2e");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).context("signing the authority's certificate")?;
        Ok(Self {
            certificate: certificate.pem(),
            der: certificate.der().to_vec(),
            key: key.serialize_pem(),
            issuer: Issuer::new(params, key),
        })
    }

    /// The certificate as PEM.
    pub(super) fn certificate(&self) -> &str {
        &self.certificate
    }

    /// The certificate as DER.
    pub(super) fn der(&self) -> &[u8] {
        &self.der
    }

    /// The private key as PEM, for the controller manager, which signs certificates too.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// A client certificate for a user with at most two groups.
    pub(super) fn client(&self, user: &str, groups: &[&str]) -> Result<Identity> {
        ensure!(
            groups.len() <= 2,
            "a client certificate made here holds at most two groups, but {user} has {}: bind roles to fewer groups",
            groups.len()
        );
        let mut params = CertificateParams::default();
        params.distinguished_name.remove(DnType::CommonName);
        let kinds = [DnType::OrganizationName, DnType::CustomDnType(ORGANIZATION.to_vec())];
        for (kind, group) in kinds.into_iter().zip(groups) {
            params.distinguished_name.push(kind, *group);
        }
        params.distinguished_name.push(DnType::CommonName, user);
        self.sign(params, ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// A server certificate for names and addresses.
    pub(super) fn server(&self, name: &str, alternatives: &[&str]) -> Result<Identity> {
        let alternatives: Vec<String> = alternatives.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(alternatives).context("a name for a server certificate")?;
        params.distinguished_name.push(DnType::CommonName, name);
        self.sign(params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    fn sign(&self, mut params: CertificateParams, purpose: ExtendedKeyUsagePurpose) -> Result<Identity> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate().context("generating a key")?;
        let certificate = params.signed_by(&key, &self.issuer).context("signing a certificate")?;
        Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

/// A key pair for service account tokens: private and public key as PEM.
pub(super) fn service_account_keys() -> Result<(String, String)> {
    let key = KeyPair::generate().context("generating the service account key")?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}
