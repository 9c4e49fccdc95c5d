// Package daemon holds what the small node and control-plane programs of this
// module share: a command with a kubeconfig flag, a client, a context that
// ends with the process's signals, and one way to wait for the API.
//
// Waiting deserves its own function because an informer started against an API
// that does not answer yet, or that does not know the caller's role yet, backs
// off exponentially up to half a minute. A program that first asks a cheap
// question at a steady pace starts working as soon as the answer is yes.
package daemon

import (
	"context"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
)

const (
	probeInterval = 100 * time.Millisecond
	probeTimeout  = 2 * time.Second

	clientQPS   = 100
	clientBurst = 200
)

// Program is the part of a daemon that differs from the others.
type Program struct {
	Name  string
	Short string
	// Flags adds the program's own flags.
	Flags func(flags *flag.NamedFlagSets)
	// Validate checks the flags before anything is contacted; it may be nil.
	Validate func() error
	// Run works until its context ends.
	Run func(ctx context.Context, client kubernetes.Interface) error
}

// Command wraps a program as a command line in the manner of the other
// Kubernetes daemons: --kubeconfig, the usual logging flags, and its own.
func Command(program Program) *cobra.Command {
	var kubeconfig string
	logOptions := logs.NewOptions()
	command := &cobra.Command{
		Use:          program.Name,
		Short:        program.Short,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := logsapi.ValidateAndApply(logOptions, nil); err != nil {
				return err
			}
			if program.Validate != nil {
				if err := program.Validate(); err != nil {
					return err
				}
			}
			client, err := newClient(kubeconfig, program.Name)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(command.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			klog.InfoS("Starting", "program", program.Name)
			err = program.Run(ctx, client)
			if ctx.Err() != nil {
				return nil // asked to stop: whatever Run was interrupted in is not a failure
			}
			return err
		},
	}
	var sets flag.NamedFlagSets
	sets.FlagSet("client").StringVar(&kubeconfig, "kubeconfig", "", "Path to the kubeconfig file of this program's user.")
	logsapi.AddFlags(logOptions, sets.FlagSet("logs"))
	program.Flags(&sets)
	for _, set := range sets.FlagSets {
		command.Flags().AddFlagSet(set)
	}
	if err := command.MarkFlagRequired("kubeconfig"); err != nil {
		panic(err) // the flag was declared three lines above
	}
	return command
}

func newClient(kubeconfig, name string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS, config.Burst = clientQPS, clientBurst
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.ContentType = runtime.ContentTypeProtobuf
	return kubernetes.NewForConfig(rest.AddUserAgent(config, name))
}

// Await asks the question until it is answered without an error, at a steady
// pace. It logs a refusal once for as long as its text stays the same.
func Await(ctx context.Context, what string, question func(ctx context.Context) error) error {
	var logged string
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for {
		attempt, cancel := context.WithTimeout(ctx, probeTimeout)
		err := question(attempt)
		cancel()
		if err == nil {
			return nil
		}
		if text := err.Error(); text != logged {
			klog.InfoS("Waiting", "for", what, "reason", text)
			logged = text
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, ctx.Err())
		case <-ticker.C:
		}
	}
}
