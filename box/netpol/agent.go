// Package netpol enforces NetworkPolicy on one node.
//
// The work is done by kube-router's policy controller, used as a library: it
// turns policies into iptables chains and ipsets, so the kernel decides about
// every packet and a stopped agent leaves the last rules in force. It was
// chosen over agents that take packets to user space by a queue because not
// every kernel has the nftables queue expression, and because rules can be read
// on the node with iptables-save.
//
// What this package adds is the life around the controller: kube-router's own
// command also builds the router and the service proxy, which pull in a BGP
// daemon and IPVS that are of no use beside kube-proxy. A change of a policy
// asks for a sync at once. Changes of pods and namespaces are gathered for a
// moment, and count only while there are policies; the periodic sync only
// repairs what others removed.
//
// Two things are the node's to provide: net.bridge.bridge-nf-call-iptables=1,
// or traffic between two pods of the node never meets the rules, and a start
// after kube-proxy's first sync, since both write the filter table.
package netpol

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	controller "github.com/cloudnativelabs/kube-router/v2/pkg/controllers/netpol"
	"github.com/cloudnativelabs/kube-router/v2/pkg/healthcheck"
	"github.com/cloudnativelabs/kube-router/v2/pkg/options"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"

	"box/daemon"
)

// bridgeCall decides whether frames that a bridge forwards pass iptables.
const bridgeCall = "/proc/sys/net/bridge/bridge-nf-call-iptables"

// Command is the command line of the agent.
func Command() *cobra.Command {
	config := options.NewKubeRouterConfig()
	config.RunFirewall = true
	config.EnableIPv4 = true
	return daemon.Command(daemon.Program{
		Name:  "network-policy-agent",
		Short: "Enforces NetworkPolicy on this node",
		Flags: func(sets *flag.NamedFlagSets) {
			flags := sets.FlagSet("policy")
			flags.StringVar(&config.HostnameOverride, "hostname-override", "", "Name of this node.")
			flags.StringSliceVar(&config.ClusterIPCIDRs, "service-cluster-ip-range", []string{"10.96.0.0/16"},
				"Range of the Services' cluster addresses.")
			flags.StringSliceVar(&config.LoadBalancerCIDRs, "load-balancer-cidr", nil,
				"Ranges of the Services' load balancer addresses.")
			flags.StringVar(&config.NodePortRange, "service-node-port-range", config.NodePortRange,
				"Range of the Services' node ports.")
			flags.DurationVar(&config.IPTablesSyncPeriod, "iptables-sync-period", time.Minute,
				"How often the rules are repaired when nothing changes.")
		},
		Validate: func() error { return validate(config) },
		Run: func(ctx context.Context, client kubernetes.Interface) error {
			return run(ctx, client, config)
		},
	})
}

func validate(config *options.KubeRouterConfig) error {
	if config.HostnameOverride == "" {
		return errors.New("--hostname-override is required")
	}
	return nil
}

func run(ctx context.Context, client kubernetes.Interface, config *options.KubeRouterConfig) error {
	warnAboutBridge()
	err := daemon.Await(ctx, "NetworkPolicies and this node's address", func(ctx context.Context) error {
		if _, err := client.NetworkingV1().NetworkPolicies("").List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
			return err
		}
		node, err := client.CoreV1().Nodes().Get(ctx, config.HostnameOverride, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return hasAddress(node)
	})
	if err != nil {
		return err
	}
	// The library prefers this variable to the machine's host name, which need not be the node's name.
	if err := os.Setenv("NODE_NAME", config.HostnameOverride); err != nil {
		return err
	}

	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	namespaces := factory.Core().V1().Namespaces().Informer()
	policies := factory.Networking().V1().NetworkPolicies().Informer()
	for _, informer := range []cache.SharedIndexInformer{pods, namespaces, policies} {
		if err := informer.SetTransform(withoutManagedFields); err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced, namespaces.HasSynced, policies.HasSynced) {
		return ctx.Err()
	}

	tables, sets, err := controller.NewIPTablesHandlers(config)
	if err != nil {
		return err
	}
	var setMutex sync.Mutex
	policy, err := controller.NewNetworkPolicyController(
		client, config, pods, policies, namespaces, &setMutex, tables, sets)
	if err != nil {
		return fmt.Errorf("create the policy controller: %w", err)
	}
	changes := gather(policies.GetStore(), gatherFor, restFor, policy.RequestFullSync)
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		policies:   policy.NetworkPolicyEventHandler,
		pods:       changes.handler(podMatters),
		namespaces: changes.handler(labelsMatter),
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}

	heartbeats := make(chan *healthcheck.ControllerHeartbeat)
	go func() { // the controller waits until its heartbeat is taken
		for range heartbeats {
		}
	}()
	var running sync.WaitGroup
	running.Add(1)
	go policy.Run(heartbeats, ctx.Done(), &running)
	<-ctx.Done()
	running.Wait()
	return nil
}

// hasAddress holds for a Node that its kubelet has reported on: the controller
// tells this node's pods from others by the node's address.
func hasAddress(node *corev1.Node) error {
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			return nil
		}
	}
	return fmt.Errorf("node %s has no internal address yet", node.Name)
}

func warnAboutBridge() {
	value, err := os.ReadFile(bridgeCall)
	if err != nil || strings.TrimSpace(string(value)) != "1" {
		klog.InfoS("Traffic between pods of this node is not filtered", "sysctl", bridgeCall, "value", strings.TrimSpace(string(value)), "err", err)
	}
}

// withoutManagedFields halves the memory of the caches.
func withoutManagedFields(object any) (any, error) {
	if accessor, ok := object.(metav1.Object); ok {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}
