use super::*;

#[test]
fn a_template_says_what_it_makes() {
    let template = InfrastructureTemplate::parse(&json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
        "kind": "AWSMachineTemplate",
        "metadata": { "name": "small", "namespace": "capi" },
        "spec": { "template": { "spec": { "instanceType": "m7g.large" } } },
        "status": {
            "capacity": { "cpu": "2", "memory": "8Gi", "pods": 110 },
            "nodeInfo": { "architecture": "arm64", "operatingSystem": "linux" },
        },
    }))
    .unwrap();
    assert_eq!(template.group(), "infrastructure.cluster.x-k8s.io");
    assert_eq!(template.capacity["pods"].0, "110");
    assert_eq!(template.capacity["memory"].0, "8Gi");
    assert_eq!(template.architecture.as_deref(), Some("arm64"));
    assert_eq!(template.operating_system.as_deref(), Some("linux"));
    assert_eq!(template.problems, Vec::<String>::new());
}

#[test]
fn a_template_is_read_as_far_as_it_can_be() {
    let template = InfrastructureTemplate::parse(&json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
        "kind": "TestMachineTemplate",
        "metadata": { "name": "small" },
        "status": { "capacity": { "cpu": "2", "memory": ["8Gi"] }, "nodeInfo": { "architecture": 64 } },
    }))
    .unwrap();
    assert_eq!(template.capacity.len(), 1);
    assert_eq!(template.architecture, None);
    assert_eq!(template.problems.len(), 2);
    assert!(template.problems[0].contains("status.capacity[memory]"), "{:?}", template.problems);
    assert!(template.problems[1].contains("status.nodeInfo.architecture"), "{:?}", template.problems);

    let bare =
        InfrastructureTemplate::parse(&json!({ "apiVersion": "g/v1", "kind": "K", "metadata": {} })).unwrap();
    assert!(bare.capacity.is_empty() && bare.problems.is_empty());
    assert_eq!(
        InfrastructureTemplate::parse(&json!({ "kind": "K" })),
        Err(TemplateError::Missing("metadata"))
    );
}
