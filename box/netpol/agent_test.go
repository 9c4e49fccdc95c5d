package netpol

import (
	"testing"

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

func TestWhileAny(t *testing.T) {
	policies := cache.NewStore(cache.MetaNamespaceKeyFunc)
	calls := 0
	handler := whileAny(policies, cache.ResourceEventHandlerFuncs{UpdateFunc: func(any, any) { calls++ }})
	pod := &corev1.Pod{}
	handler.OnUpdate(pod, pod)
	if calls != 0 {
		t.Error("a pod asked for a sync although there is no policy")
	}
	if err := policies.Add(&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "deny"}}); err != nil {
		t.Fatal(err)
	}
	handler.OnUpdate(pod, pod)
	if calls != 1 {
		t.Error("a pod did not ask for a sync although there is a policy")
	}
}
