package main

import (
	"math"

	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	karpscheduling "sigs.k8s.io/karpenter/pkg/scheduling"
)

// outcome is what a solve decided, in numbers.
type outcome struct {
	PodsPlaced int     `json:"podsPlaced"`
	PodErrors  int     `json:"podErrors"`
	NodeClaims int     `json:"nodeClaims"`
	TotalPrice float64 `json:"totalPrice"`
}

func outcomeOf(results scheduling.Results) outcome {
	o := outcome{PodErrors: len(results.PodErrors), NodeClaims: len(results.NewNodeClaims)}
	for _, claim := range results.NewNodeClaims {
		o.PodsPlaced += len(claim.Pods)
		if price := cheapest(claim); price < math.Inf(1) {
			o.TotalPrice += price
		}
	}
	for _, node := range results.ExistingNodes {
		o.PodsPlaced += len(node.Pods)
	}
	return o
}

// cheapest is the price of the cheapest offering that can be had and that the claim's requirements leave.
func cheapest(claim *scheduling.NodeClaim) float64 {
	price := math.Inf(1)
	for _, each := range claim.InstanceTypeOptions {
		for _, one := range each.Offerings {
			fits := one.Available &&
				claim.Requirements.IsCompatible(one.Requirements, karpscheduling.AllowUndefinedWellKnownLabels)
			if fits {
				price = min(price, one.Price)
			}
		}
	}
	return price
}
