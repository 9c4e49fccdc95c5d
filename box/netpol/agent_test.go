package netpol

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func TestHasAddress(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0"}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "node-0"}}
	if hasAddress(node) == nil {
		t.Error("a node without an address is taken for a reported one")
	}
	node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "192.0.2.1"})
	if err := hasAddress(node); err != nil {
		t.Error(err)
	}
}

func TestWithoutManagedFields(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}}}
	if _, err := withoutManagedFields(pod); err != nil || pod.ManagedFields != nil || pod.Name != "p" {
		t.Errorf("%v %+v", err, pod.ObjectMeta)
	}
}

func TestGatherAsksOnceForABurst(t *testing.T) {
	policies := cache.NewStore(cache.MetaNamespaceKeyFunc)
	asked := make(chan struct{}, 10)
	changes := gather(policies, time.Millisecond, 0, func() { asked <- struct{}{} })
	handler := changes.handler(podMatters)
	before := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	after := before.DeepCopy()
	after.Status.PodIP = "10.244.0.7"

	handler.OnUpdate(before, after)
	if changes.pending {
		t.Error("a pod asked for a sync although there is no policy")
	}
	if err := policies.Add(&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "deny"}}); err != nil {
		t.Fatal(err)
	}
	handler.OnUpdate(before, before.DeepCopy())
	if changes.pending {
		t.Error("a pod asked for a sync although nothing changed")
	}
	changes.delay = 50 * time.Millisecond
	handler.OnUpdate(before, after)
	handler.OnDelete(after)
	<-asked
	select {
	case <-asked:
		t.Error("two syncs for one burst")
	case <-time.After(150 * time.Millisecond):
	}
}

func TestGatherRestsBetweenSyncs(t *testing.T) {
	policies := cache.NewStore(cache.MetaNamespaceKeyFunc)
	if err := policies.Add(&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "deny"}}); err != nil {
		t.Fatal(err)
	}
	asked := make(chan time.Time, 10)
	changes := gather(policies, time.Millisecond, 200*time.Millisecond, func() { asked <- time.Now() })
	changes.changed()
	first := <-asked
	changes.changed()
	if second := <-asked; second.Sub(first) < 150*time.Millisecond {
		t.Errorf("a sync %v after another", second.Sub(first))
	}
}

func TestPodMatters(t *testing.T) {
	base := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}}}
	change := func(edit func(*corev1.Pod)) *corev1.Pod { p := base.DeepCopy(); edit(p); return p }
	if podMatters(base, change(func(p *corev1.Pod) { p.Status.Message = "m" })) {
		t.Error("a message matters to no policy")
	}
	for name, after := range map[string]*corev1.Pod{
		"address": change(func(p *corev1.Pod) { p.Status.PodIP = "10.244.0.7" }),
		"phase":   change(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
		"labels":  change(func(p *corev1.Pod) { p.Labels["app"] = "b" }),
	} {
		if !podMatters(base, after) {
			t.Errorf("a change of %s does not matter", name)
		}
	}
}
