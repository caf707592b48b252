package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	fakeprovider "sigs.k8s.io/karpenter/pkg/cloudprovider/fake"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	karpscheduling "sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/test"
	"sigs.k8s.io/karpenter/pkg/utils/nodepool"
)

// world is everything that one run may change.
type world struct {
	ctx           context.Context
	clock         clock.Clock
	client        client.Client
	cluster       *state.Cluster
	recorder      events.Recorder
	nodePools     []*v1.NodePool
	instanceTypes map[string][]*cloudprovider.InstanceType
	pods          []*corev1.Pod
	daemonPods    []*corev1.Pod
}

func newWorld(d *document) (*world, error) {
	clock := clocktesting.NewFakeClock(d.Now)
	w := &world{
		ctx:           contextOf(d.Options),
		clock:         clock,
		client:        clientOf(d),
		recorder:      events.NewRecorder(&record.FakeRecorder{}),
		nodePools:     copies(d.NodePools),
		instanceTypes: map[string][]*cloudprovider.InstanceType{},
		pods:          copies(d.Pods),
		daemonPods:    copies(d.DaemonSetPods),
	}
	nodepool.OrderByWeight(w.nodePools)
	for _, pool := range w.nodePools {
		if types := d.instanceTypesOf(pool.Name); len(types) > 0 {
			w.instanceTypes[pool.Name] = types
		}
	}
	provider := fakeprovider.NewCloudProvider()
	provider.InstanceTypesForNodePool = w.instanceTypes
	w.cluster = state.NewCluster(clock, w.client, provider)
	for _, claim := range copies(d.NodeClaims) {
		w.cluster.UpdateNodeClaim(claim)
	}
	for _, node := range copies(d.Nodes) {
		if err := w.cluster.UpdateNode(w.ctx, node); err != nil {
			return nil, err
		}
	}
	for _, pod := range copies(d.BoundPods) {
		if err := w.cluster.UpdatePod(w.ctx, pod); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func contextOf(o solveOptions) context.Context {
	flags := test.Options()
	flags.MinValuesPolicy = o.minValues()
	if o.PreferencePolicy != "" {
		flags.PreferencePolicy = o.PreferencePolicy
	}
	return options.ToContext(injection.WithControllerName(context.Background(), "provisioner"), flags)
}

// clientOf has all objects but the pods that want a place: the scheduler is given those.
func clientOf(d *document) client.Client {
	var objects []client.Object
	add := func(more ...client.Object) { objects = append(objects, more...) }
	for _, pool := range d.NodePools {
		add(pool.DeepCopy())
	}
	for _, node := range d.Nodes {
		add(node.DeepCopy())
	}
	for _, claim := range d.NodeClaims {
		add(claim.DeepCopy())
	}
	for _, pod := range d.BoundPods {
		add(pod.DeepCopy())
	}
	for _, object := range d.objects {
		add(object.DeepCopyObject().(client.Object))
	}
	one := func(value string) []string { return []string{value} }
	return fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
			return one(o.(*corev1.Pod).Spec.NodeName)
		}).
		WithIndex(&corev1.Node{}, "spec.providerID", func(o client.Object) []string {
			return one(o.(*corev1.Node).Spec.ProviderID)
		}).
		WithIndex(&v1.NodeClaim{}, "status.providerID", func(o client.Object) []string {
			return one(o.(*v1.NodeClaim).Status.ProviderID)
		}).
		WithIndex(&storagev1.VolumeAttachment{}, "spec.nodeName", func(o client.Object) []string {
			return one(o.(*storagev1.VolumeAttachment).Spec.NodeName)
		}).
		Build()
}

// volumeRequirements gives what pods' volumes ask of nodes, and the pods whose volumes could be read. As in upstream's
// provisioner the others take no part in the topology.
func (w *world) volumeRequirements() (map[types.UID][]karpscheduling.Requirements, []*corev1.Pod) {
	topology := scheduling.NewVolumeTopology(w.client)
	found := map[types.UID][]karpscheduling.Requirements{}
	var readable []*corev1.Pod
	for _, pod := range w.pods {
		alternatives, err := topology.GetRequirements(w.ctx, pod)
		if err != nil {
			continue
		}
		if len(alternatives) > 0 {
			found[pod.UID] = alternatives
		}
		readable = append(readable, pod)
	}
	return found, readable
}

func copies[T interface{ DeepCopy() T }](list []T) []T {
	copied := make([]T, 0, len(list))
	for _, each := range list {
		copied = append(copied, each.DeepCopy())
	}
	return copied
}
