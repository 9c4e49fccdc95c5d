// A whole Kubernetes cluster in one program, which is the one its name says.
//
// Linked together the programs share one copy of the Kubernetes libraries: the
// build is several times shorter than that of the parts, the file smaller than
// the sum, and every part is of the same version by construction. Beside it
// stand kubectl and the node's small agents, since each process pays for the
// start-up work of every package that is linked into it.
package main

import (
	"context"
	"os"

	_ "github.com/coredns/coredns/core/plugin"
	"github.com/coredns/coredns/coremain"
	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
	metrics "sigs.k8s.io/metrics-server/cmd/metrics-server/app"

	"box/multicall"
)

func main() {
	multicall.Run(map[string]func() int{
		"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
		"coredns":                 func() int { coremain.Run(); return 0 },
		"kube-apiserver":          multicall.Command(apiserver.NewAPIServerCommand),
		"kube-controller-manager": multicall.Command(manager.NewControllerManagerCommand),
		"kube-scheduler":          multicall.Command(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
		"kube-proxy":              multicall.Command(proxy.NewProxyCommand),
		"kubelet":                 multicall.Command(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
		"metrics-server": multicall.Command(func() *cobra.Command {
			return metrics.NewMetricsServerCommand(make(chan struct{}))
		}),
	})
}
