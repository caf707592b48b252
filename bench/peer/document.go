package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	karpscheduling "sigs.k8s.io/karpenter/pkg/scheduling"
)

// anyPool is the entry of instanceTypes for NodePools that have none of their own.
const anyPool = "*"

// document is a solve document: a cluster and the pods that want a place in it.
type document struct {
	Now                time.Time                 `json:"now"`
	Options            solveOptions              `json:"options"`
	WellKnownLabels    []string                  `json:"wellKnownLabels"`
	ReservationIDLabel string                    `json:"reservationIDLabel"`
	NodePools          []*v1.NodePool            `json:"nodePools"`
	InstanceTypes      map[string][]instanceType `json:"instanceTypes"`
	Pods               []*corev1.Pod             `json:"pods"`
	DaemonSetPods      []*corev1.Pod             `json:"daemonSetPods"`
	Nodes              []*corev1.Node            `json:"nodes"`
	NodeClaims         []*v1.NodeClaim           `json:"nodeClaims"`
	BoundPods          []*corev1.Pod             `json:"boundPods"`
	Objects            []json.RawMessage         `json:"objects"`

	objects []client.Object
}

type solveOptions struct {
	PreferencePolicy     options.PreferencePolicy `json:"preferencePolicy"`
	MinValuesPolicy      options.MinValuesPolicy  `json:"minValuesPolicy"`
	ReservedOfferingMode string                   `json:"reservedOfferingMode"`
	MaxInstanceTypes     int                      `json:"maxInstanceTypes"`
}

type requirement struct {
	Key      string                      `json:"key"`
	Operator corev1.NodeSelectorOperator `json:"operator"`
	Values   []string                    `json:"values"`
}

type overhead struct {
	KubeReserved      corev1.ResourceList `json:"kubeReserved"`
	SystemReserved    corev1.ResourceList `json:"systemReserved"`
	EvictionThreshold corev1.ResourceList `json:"evictionThreshold"`
}

type offering struct {
	Requirements        []requirement       `json:"requirements"`
	Price               float64             `json:"price"`
	Available           *bool               `json:"available"`
	ReservationCapacity int                 `json:"reservationCapacity"`
	CapacityOverride    corev1.ResourceList `json:"capacityOverride"`
	OverheadOverride    *overhead           `json:"overheadOverride"`
}

type instanceType struct {
	Name         string              `json:"name"`
	Requirements []requirement       `json:"requirements"`
	Offerings    []offering          `json:"offerings"`
	Capacity     corev1.ResourceList `json:"capacity"`
	Overhead     overhead            `json:"overhead"`
}

func read(in io.Reader) (*document, error) {
	d := &document{Now: time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)}
	if err := json.NewDecoder(in).Decode(d); err != nil {
		return nil, err
	}
	decoder := serializer.NewCodecFactory(scheme.Scheme).UniversalDeserializer()
	for i, raw := range d.Objects {
		object, _, err := decoder.Decode(raw, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("objects[%d]: %w", i, err)
		}
		d.objects = append(d.objects, object.(client.Object))
	}
	for _, pods := range [][]*corev1.Pod{d.Pods, d.DaemonSetPods, d.BoundPods} {
		for _, pod := range pods {
			completePod(pod)
		}
	}
	for _, pool := range d.NodePools {
		completePool(pool)
	}
	d.declareLabels()
	return d, nil
}

// completePod adds what the API server would have.
func completePod(pod *corev1.Pod) {
	if pod.Namespace == "" {
		pod.Namespace = corev1.NamespaceDefault
	}
	if pod.UID == "" {
		pod.UID = types.UID(pod.Namespace + "/" + pod.Name)
	}
}

// completePool makes a NodePool one that its controllers have found to be ready.
func completePool(pool *v1.NodePool) {
	if pool.UID == "" {
		pool.UID = types.UID(pool.Name)
	}
	if pool.Generation == 0 {
		pool.Generation = 1
	}
	if pool.Spec.Template.Spec.NodeClassRef == nil {
		pool.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{
			Group: "karpenter.test.sh", Kind: "TestNodeClass", Name: "default",
		}
	}
	pool.StatusConditions().SetTrue(v1.ConditionTypeValidationSucceeded)
	pool.StatusConditions().SetTrue(v1.ConditionTypeNodeClassReady)
}

// declareLabels makes known which labels the cloud decides: the built-in ones and those of the document. Upstream's fake cloud
// provider has declared its own by being imported; a document that doesn't name them doesn't mean them.
func (d *document) declareLabels() {
	for key := range v1.WellKnownLabels {
		switch key {
		case v1.NodePoolLabelKey, v1.CapacityTypeLabelKey, corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
			corev1.LabelInstanceTypeStable, corev1.LabelArchStable, corev1.LabelOSStable, corev1.LabelWindowsBuild:
		default:
			v1.WellKnownLabels.Delete(key)
		}
	}
	v1.WellKnownLabels.Insert(d.WellKnownLabels...)
	if d.ReservationIDLabel != "" {
		v1.WellKnownLabels.Insert(d.ReservationIDLabel)
		cloudprovider.ReservationIDLabel = d.ReservationIDLabel
		cloudprovider.ReservedCapacityLabels.Insert(d.ReservationIDLabel)
	}
}

// instanceTypesOf converts the types of one NodePool. Each run has its own, as the scheduler keeps results in them.
func (d *document) instanceTypesOf(pool string) []*cloudprovider.InstanceType {
	types, ok := d.InstanceTypes[pool]
	if !ok {
		types = d.InstanceTypes[anyPool]
	}
	converted := make([]*cloudprovider.InstanceType, 0, len(types))
	for _, each := range types {
		converted = append(converted, each.convert())
	}
	return converted
}

func (t instanceType) convert() *cloudprovider.InstanceType {
	converted := &cloudprovider.InstanceType{
		Name:         t.Name,
		Requirements: requirementsOf(t.Requirements),
		Capacity:     t.Capacity.DeepCopy(),
		Overhead:     t.Overhead.convert(),
	}
	for _, each := range t.Offerings {
		one := &cloudprovider.Offering{
			Requirements:        requirementsOf(each.Requirements),
			Price:               each.Price,
			Available:           each.Available == nil || *each.Available,
			ReservationCapacity: each.ReservationCapacity,
			CapacityOverride:    each.CapacityOverride,
		}
		if each.OverheadOverride != nil {
			one.OverheadOverride = each.OverheadOverride.convert()
		}
		converted.Offerings = append(converted.Offerings, one)
	}
	return converted
}

func (o overhead) convert() *cloudprovider.InstanceTypeOverhead {
	return &cloudprovider.InstanceTypeOverhead{
		KubeReserved:      o.KubeReserved,
		SystemReserved:    o.SystemReserved,
		EvictionThreshold: o.EvictionThreshold,
	}
}

func requirementsOf(list []requirement) karpscheduling.Requirements {
	all := karpscheduling.NewRequirements()
	for _, one := range list {
		all.Add(karpscheduling.NewRequirement(one.Key, one.Operator, append([]string(nil), one.Values...)...))
	}
	return all
}

// forScheduler leaves the number of workers at one: more make it slower in wall time too, and use more CPU time by far.
func (o solveOptions) forScheduler() []scheduling.Options {
	list := []scheduling.Options{scheduling.NumConcurrentReconciles(1), scheduling.MinValuesPolicy(o.minValues())}
	if o.ReservedOfferingMode != "Fallback" {
		list = append(list, scheduling.DisableReservedCapacityFallback)
	}
	if o.PreferencePolicy == options.PreferencePolicyIgnore {
		list = append(list, scheduling.IgnorePreferences)
	}
	return list
}

func (o solveOptions) minValues() options.MinValuesPolicy {
	if o.MinValuesPolicy == "" {
		return options.MinValuesPolicyStrict
	}
	return o.MinValuesPolicy
}

func (o solveOptions) mostInstanceTypes() int {
	if o.MaxInstanceTypes == 0 {
		return scheduling.MaxInstanceTypes
	}
	return o.MaxInstanceTypes
}
