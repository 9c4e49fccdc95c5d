// Package loadbalancer is the part of a cloud controller manager that a bare
// network needs: it gives every Service of type LoadBalancer an address.
//
// Nothing has to be configured for the address to work. The service proxy of
// every node already accepts traffic for the addresses it finds in a Service's
// status, so a route for the range to any node is the whole load balancer.
// Health checks, and spreading clients over nodes, are given up with that.
//
// Truth lives in the Services' status. After a restart the controller first
// takes over every address it finds there, oldest Service first, and only then
// gives out new ones; there is no file and no finalizer that could go stale.
package loadbalancer

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"

	"box/daemon"
)

// Command is the command line of the controller.
func Command() *cobra.Command {
	var cidr string
	var addresses *pool
	return daemon.Command(daemon.Program{
		Name:  "cloud-controller-manager",
		Short: "Gives Services of type LoadBalancer an address from a range",
		Flags: func(sets *flag.NamedFlagSets) {
			sets.FlagSet("service").StringVar(&cidr, "load-balancer-cidr", "",
				"IPv4 range of the load balancer addresses.")
		},
		Validate: func() (err error) {
			if addresses, err = newPool(cidr); err != nil {
				return fmt.Errorf("--load-balancer-cidr: %w", err)
			}
			return nil
		},
		Run: func(ctx context.Context, client kubernetes.Interface) error {
			return run(ctx, client, addresses)
		},
	})
}

type controller struct {
	client   kubernetes.Interface
	services corelisters.ServiceLister
	events   record.EventRecorder
	queue    workqueue.TypedRateLimitingInterface[string]
	pool     *pool
}

func run(ctx context.Context, client kubernetes.Interface, addresses *pool) error {
	err := daemon.Await(ctx, "Services to be readable", func(ctx context.Context) error {
		_, err := client.CoreV1().Services("").List(ctx, metav1.ListOptions{Limit: 1})
		return err
	})
	if err != nil {
		return err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})

	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().Services()
	c := &controller{
		client:   client,
		services: informer.Lister(),
		events:   broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "service-controller"}),
		queue:    workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
		pool:     addresses,
	}
	defer c.queue.ShutDown()
	enqueue := func(object any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			c.queue.Add(key)
		}
	}
	if _, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, updated any) { enqueue(updated) },
		DeleteFunc: enqueue,
	}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.Informer().HasSynced) {
		return ctx.Err()
	}
	existing, err := c.services.List(labels.Everything())
	if err != nil {
		return err
	}
	adopt(c.pool, existing)

	go func() {
		<-ctx.Done()
		c.queue.ShutDown()
	}()
	for c.next(ctx) {
	}
	return nil
}

// adopt takes over the addresses that Services already show.
func adopt(addresses *pool, services []*corev1.Service) {
	services = slices.Clone(services)
	slices.SortFunc(services, func(a, b *corev1.Service) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
	for _, service := range services {
		if !wantsAddress(service) {
			continue
		}
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			addresses.claim(service.Namespace+"/"+service.Name, parse(ingress.IP))
		}
	}
}

func (c *controller) next(ctx context.Context) bool {
	key, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(key)
	switch err := c.sync(ctx, key); {
	case err == nil:
		c.queue.Forget(key)
	case apierrors.IsConflict(err):
		c.queue.AddRateLimited(key) // the newer version is on its way to the cache
	default:
		klog.ErrorS(err, "Service not settled", "service", key)
		c.queue.AddRateLimited(key)
	}
	return true
}

func (c *controller) sync(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	service, err := c.services.Services(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		c.release(key)
		return nil
	} else if err != nil {
		return err
	}
	desired, err := c.desired(key, service)
	if err != nil {
		c.events.Eventf(service, corev1.EventTypeWarning, "SyncLoadBalancerFailed", "Error syncing load balancer: %v", err)
		return err
	}
	if desired == nil || slices.EqualFunc(desired, service.Status.LoadBalancer.Ingress, sameIngress) {
		return nil
	}
	update := service.DeepCopy()
	update.Status.LoadBalancer.Ingress = desired
	if _, err := c.client.CoreV1().Services(namespace).UpdateStatus(ctx, update, metav1.UpdateOptions{}); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	if len(desired) == 0 {
		c.events.Event(service, corev1.EventTypeNormal, "DeletedLoadBalancer", "Deleted load balancer")
	} else {
		c.events.Event(service, corev1.EventTypeNormal, "EnsuredLoadBalancer", "Ensured load balancer")
	}
	klog.InfoS("Load balancer settled", "service", key, "ingress", desired)
	return nil
}

// desired is the ingress list the Service should show; nil means that it is
// not this controller's to write.
func (c *controller) desired(key string, service *corev1.Service) ([]corev1.LoadBalancerIngress, error) {
	if !wantsAddress(service) {
		c.release(key)
		ours := slices.ContainsFunc(service.Status.LoadBalancer.Ingress, func(ingress corev1.LoadBalancerIngress) bool {
			return c.pool.usable(parse(ingress.IP))
		})
		if !ours {
			return nil, nil
		}
		return []corev1.LoadBalancerIngress{}, nil
	}
	address, err := c.pool.acquire(key, parse(service.Spec.LoadBalancerIP))
	if err != nil {
		return nil, err
	}
	mode := corev1.LoadBalancerIPModeVIP
	return []corev1.LoadBalancerIngress{{IP: address.String(), IPMode: &mode}}, nil
}

// release gives the address back and wakes the Services that have none, or
// would rather have that one: what a Service gets must not depend on whether
// the controller was restarted in between.
func (c *controller) release(key string) {
	freed, ok := c.pool.release(key)
	if !ok {
		return
	}
	services, err := c.services.List(labels.Everything())
	if err != nil {
		klog.ErrorS(err, "Services not listed") // they retry by themselves, only later
		return
	}
	for _, service := range services {
		waits := len(service.Status.LoadBalancer.Ingress) == 0 || parse(service.Spec.LoadBalancerIP) == freed
		if wantsAddress(service) && waits {
			c.queue.Add(service.Namespace + "/" + service.Name)
		}
	}
}

// wantsAddress leaves Services of another load balancer class alone.
func wantsAddress(service *corev1.Service) bool {
	return service.Spec.Type == corev1.ServiceTypeLoadBalancer &&
		service.Spec.LoadBalancerClass == nil &&
		service.DeletionTimestamp == nil
}

func sameIngress(a, b corev1.LoadBalancerIngress) bool {
	return a.IP == b.IP && a.IPMode != nil && b.IPMode != nil && *a.IPMode == *b.IPMode
}

// parse returns the invalid address, which no range contains, for anything
// that is not one.
func parse(text string) netip.Addr {
	address, _ := netip.ParseAddr(text)
	return address
}
