// Package localpath is a dynamic provisioner for storage on the node itself.
//
// It runs on every node and serves the claims that the scheduler gave to its
// node, so a StorageClass must have the binding mode WaitForFirstConsumer. That
// spares a central provisioner with helper pods: a claim is on the start path
// of every stateful pod, and a directory is made here in milliseconds.
//
// By default a volume is a directory, which shares the node's disk and knows
// no limit. A class with "type: filesystem" makes each volume a file system of
// exactly the requested size in an image file (fsType and inodes are optional),
// so that a full disk or an empty inode table is real, and is one volume's.
//
// Sizes cannot be changed later, and snapshots, cloning and raw block volumes
// are not offered.
package localpath

import (
	"context"
	"errors"
	"path/filepath"
	"sync"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"

	"box/daemon"
)

// Command is the command line of the provisioner.
func Command() *cobra.Command {
	var node, root string
	return daemon.Command(daemon.Program{
		Name:  "local-path-provisioner",
		Short: "Provisions volumes on this node's disk",
		Flags: func(sets *flag.NamedFlagSets) {
			flags := sets.FlagSet("storage")
			flags.StringVar(&node, "node-name", "", "Name of this node, as in its label kubernetes.io/hostname.")
			flags.StringVar(&root, "root", "/var/local-path-provisioner", "Directory that holds the volumes.")
		},
		Validate: func() error {
			if node == "" {
				return errors.New("--node-name is required")
			}
			if !filepath.IsAbs(root) {
				return errors.New("--root must be an absolute path")
			}
			return nil
		},
		Run: func(ctx context.Context, client kubernetes.Interface) error {
			return run(ctx, client, node, store{root: filepath.Clean(root)})
		},
	})
}

func run(ctx context.Context, client kubernetes.Interface, node string, disk store) error {
	// Pods may be waiting for their volumes already, and this needs no API.
	if err := disk.mountAll(); err != nil {
		klog.ErrorS(err, "Some volumes are not mounted")
	}
	err := daemon.Await(ctx, "PersistentVolumes to be readable", func(ctx context.Context) error {
		_, err := client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{Limit: 1})
		return err
	})
	if err != nil {
		return err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})

	factory := informers.NewSharedInformerFactory(client, 0)
	claims := factory.Core().V1().PersistentVolumeClaims()
	volumes := factory.Core().V1().PersistentVolumes()
	classes := factory.Storage().V1().StorageClasses()
	c := &controller{
		node:        node,
		store:       disk,
		client:      client,
		claims:      claims.Lister(),
		volumes:     volumes.Lister(),
		classes:     classes.Lister(),
		events:      broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: ProvisionerName, Host: node}),
		claimQueue:  newQueue(),
		volumeQueue: newQueue(),
	}
	for informer, queue := range map[cache.SharedIndexInformer]queue{
		claims.Informer(): c.claimQueue, volumes.Informer(): c.volumeQueue,
	} {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    queue.add,
			UpdateFunc: func(_, updated any) { queue.add(updated) },
		}); err != nil {
			return err
		}
	}
	classesSynced := classes.Informer().HasSynced
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), claims.Informer().HasSynced, volumes.Informer().HasSynced, classesSynced) {
		return ctx.Err()
	}
	klog.InfoS("Serving claims", "node", node, "root", disk.root)

	var workers sync.WaitGroup
	workers.Go(func() { c.claimQueue.work(ctx, c.syncClaim) })
	workers.Go(func() { c.volumeQueue.work(ctx, c.syncVolume) })
	<-ctx.Done()
	c.claimQueue.ShutDown()
	c.volumeQueue.ShutDown()
	workers.Wait()
	return nil
}
