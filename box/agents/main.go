// The small programs of a cluster that are not part of Kubernetes itself: a
// load balancer for its front doors, storage on the nodes' disks, and network
// policy.
package main

import (
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/version"

	"box/loadbalancer"
	"box/localpath"
	"box/multicall"
	"box/netpol"
)

func main() {
	multicall.Run(map[string]func() int{
		"cloud-controller-manager": multicall.Command(loadbalancer.Command),
		"local-path-provisioner":   multicall.Command(localpath.Command),
		"network-policy-agent":     multicall.Command(netpol.Command),
	})
}
