// A whole Kubernetes cluster in one program, which is the one its name says.
//
// Linked together the programs share one copy of the Kubernetes libraries: the
// build is several times shorter than that of the parts and the file smaller
// than the sum, and every part is of the same version by construction. The
// programs that are not part of Kubernetes itself (a load balancer, storage on
// the node's disk, network policy) live in a folder each.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	_ "github.com/coredns/coredns/core/plugin"
	"github.com/coredns/coredns/coremain"
	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
	metrics "sigs.k8s.io/metrics-server/cmd/metrics-server/app"

	"box/loadbalancer"
	"box/localpath"
	"box/netpol"
)

// programs maps a file name to what runs under it.
var programs = map[string]func() int{
	"etcd":                     func() int { etcdmain.Main(os.Args); return 0 },
	"coredns":                  func() int { coremain.Run(); return 0 },
	"kubectl":                  runKubectl,
	"kube-apiserver":           command(apiserver.NewAPIServerCommand),
	"kube-controller-manager":  command(manager.NewControllerManagerCommand),
	"kube-scheduler":           command(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kube-proxy":               command(proxy.NewProxyCommand),
	"kubelet":                  command(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
	"metrics-server":           command(func() *cobra.Command { return metrics.NewMetricsServerCommand(make(chan struct{})) }),
	"cloud-controller-manager": command(loadbalancer.Command),
	"local-path-provisioner":   command(localpath.Command),
	"network-policy-agent":     command(netpol.Command),
}

// command builds a program's command only when it is the one that runs: their
// constructors register flags and metrics that would get in each other's way.
func command(build func() *cobra.Command) func() int {
	return func() int { return cli.Run(build()) }
}

func runKubectl() int {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err) // prints the error in kubectl's way and exits
	}
	return 0
}

func main() {
	run, known := programs[filepath.Base(os.Args[0])]
	if !known {
		names := slices.Sorted(maps.Keys(programs))
		fmt.Fprintln(os.Stderr, "link this program as one of:", strings.Join(names, ", "))
		os.Exit(2)
	}
	os.Exit(run())
}
