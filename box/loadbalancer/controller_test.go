package loadbalancer

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
)

func service(name, address string, age time.Duration) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age))},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
	}
	if address != "" {
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
	}
	return s
}

func controllerWith(t *testing.T, services ...*corev1.Service) *controller {
	t.Helper()
	client := fake.NewClientset()
	for _, s := range services {
		if _, err := client.CoreV1().Services(s.Namespace).Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	c := &controller{
		client:   client,
		services: factory.Core().V1().Services().Lister(),
		events:   record.NewFakeRecorder(10),
		queue:    workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
		pool:     mustPool(t, "192.0.2.0/26"),
	}
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	adopt(c.pool, services)
	return c
}

func (c *controller) status(ctx context.Context, t *testing.T, name string) []corev1.LoadBalancerIngress {
	t.Helper()
	if err := c.sync(ctx, "shop/"+name); err != nil {
		t.Fatal(err)
	}
	s, err := c.client.CoreV1().Services("shop").Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s.Status.LoadBalancer.Ingress
}

func TestSyncGivesAddress(t *testing.T) {
	c := controllerWith(t, service("web", "", 0))
	got := c.status(t.Context(), t, "web")
	if len(got) != 1 || got[0].IP != "192.0.2.10" || got[0].IPMode == nil || *got[0].IPMode != corev1.LoadBalancerIPModeVIP {
		t.Errorf("got %+v", got)
	}
}

func TestRestartKeepsAddresses(t *testing.T) {
	c := controllerWith(t, service("new", "", 0), service("young", "192.0.2.10", time.Hour), service("old", "192.0.2.10", 2*time.Hour))
	// Asked in the least favourable order: the one without an address first.
	for _, step := range []struct{ name, address string }{{"new", "192.0.2.11"}, {"young", "192.0.2.12"}, {"old", "192.0.2.10"}} {
		if got := c.status(t.Context(), t, step.name); len(got) != 1 || got[0].IP != step.address {
			t.Errorf("%s: got %+v, want %s", step.name, got, step.address)
		}
	}
}

func TestTypeChangeClearsAddress(t *testing.T) {
	changed := service("web", "192.0.2.10", 0)
	changed.Spec.Type = corev1.ServiceTypeClusterIP
	foreign := service("other", "203.0.113.9", 0)
	foreign.Spec.Type = corev1.ServiceTypeClusterIP
	c := controllerWith(t, changed, foreign)
	if got := c.status(t.Context(), t, "web"); len(got) != 0 {
		t.Errorf("kept %+v", got)
	}
	if got := c.status(t.Context(), t, "other"); len(got) != 1 {
		t.Error("an address of somebody else was cleared")
	}
}

func TestOtherClassIsLeftAlone(t *testing.T) {
	s := service("web", "", 0)
	class := "example.com/other"
	s.Spec.LoadBalancerClass = &class
	if got := controllerWith(t, s).status(t.Context(), t, "web"); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestFreedAddressWakesThoseWhoWantIt(t *testing.T) {
	gone := service("gone", "192.0.2.5", time.Hour)
	wants := service("wants", "192.0.2.10", 0)
	wants.Spec.LoadBalancerIP = "192.0.2.5"
	c := controllerWith(t, gone, wants, service("waits", "", 0), service("content", "192.0.2.11", 0))
	c.release("shop/gone")
	woken := map[string]bool{}
	for c.queue.Len() > 0 {
		key, _ := c.queue.Get()
		woken[key] = true
	}
	if len(woken) != 2 || !woken["shop/wants"] || !woken["shop/waits"] {
		t.Errorf("woken: %v", woken)
	}
}
