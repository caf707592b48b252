//! Which CSI driver attaches a volume. Kubelets attach volumes of the old in-tree plugins through CSI drivers, and count them
//! against these drivers' limits.

use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::StorageClass;

/// In-tree plugins and the drivers that have taken their place.
const MIGRATED: [(&str, &str); 7] = [
    ("kubernetes.io/aws-ebs", EBS),
    ("kubernetes.io/azure-disk", AZURE_DISK),
    ("kubernetes.io/azure-file", AZURE_FILE),
    ("kubernetes.io/cinder", CINDER),
    ("kubernetes.io/gce-pd", GCE_PD),
    ("kubernetes.io/portworx-volume", PORTWORX),
    ("kubernetes.io/vsphere-volume", VSPHERE),
];

const EBS: &str = "ebs.csi.aws.com";
const AZURE_DISK: &str = "disk.csi.azure.com";
const AZURE_FILE: &str = "file.csi.azure.com";
const CINDER: &str = "cinder.csi.openstack.org";
const GCE_PD: &str = "pd.csi.storage.gke.io";
const PORTWORX: &str = "pxd.portworx.com";
const VSPHERE: &str = "csi.vsphere.vmware.com";

/// The driver of a volume that is there; None where it isn't attached by one.
pub(super) fn of_volume(volume: &PersistentVolume) -> Option<String> {
    let spec = volume.spec.as_ref()?;
    if let Some(csi) = &spec.csi {
        return Some(csi.driver.clone());
    }
    let in_tree = [
        (spec.aws_elastic_block_store.is_some(), EBS),
        (spec.azure_disk.is_some(), AZURE_DISK),
        (spec.azure_file.is_some(), AZURE_FILE),
        (spec.cinder.is_some(), CINDER),
        (spec.gce_persistent_disk.is_some(), GCE_PD),
        (spec.portworx_volume.is_some(), PORTWORX),
        (spec.vsphere_volume.is_some(), VSPHERE),
    ];
    in_tree.into_iter().find(|(found, _)| *found).map(|(_, driver)| driver.to_owned())
}

/// The driver of volumes that a class makes.
pub(super) fn of_class(class: &StorageClass) -> Option<String> {
    let provisioner = class.provisioner.as_str();
    let migrated = MIGRATED.iter().find(|(plugin, _)| *plugin == provisioner);
    let driver = migrated.map_or(provisioner, |(_, driver)| driver);
    (!driver.is_empty()).then(|| driver.to_owned())
}
