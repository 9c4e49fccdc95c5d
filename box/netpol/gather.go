package netpol

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// gatherFor is how long a change waits for others, and restFor how long the
// next sync waits after one. A sync starts tens of processes, and a cluster that
// starts makes many pod events, first at once and then for seconds.
const (
	gatherFor = 250 * time.Millisecond
	restFor   = time.Second
)

// gathered turns a burst of changes into one sync a moment later. Without any
// policy no change alters what a packet meets, and none asks for a sync.
// Nothing is missed: a policy is in the store before its own event asks for a
// sync of everything.
type gathered struct {
	policies cache.Store
	delay    time.Duration
	rest     time.Duration
	request  func()

	mutex   sync.Mutex
	pending bool
	last    time.Time
}

func gather(policies cache.Store, delay, rest time.Duration, request func()) *gathered {
	return &gathered{policies: policies, delay: delay, rest: rest, request: request}
}

func (g *gathered) changed() {
	if len(g.policies.ListKeys()) == 0 {
		return
	}
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.pending {
		return
	}
	g.pending = true
	time.AfterFunc(max(g.delay, g.rest-time.Since(g.last)), func() {
		g.mutex.Lock()
		g.pending = false
		g.last = time.Now()
		g.mutex.Unlock()
		g.request()
	})
}

// handler counts additions, removals, and updates that matter.
func (g *gathered) handler(matters func(old, new any) bool) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { g.changed() },
		DeleteFunc: func(any) { g.changed() },
		UpdateFunc: func(old, new any) {
			if matters(old, new) {
				g.changed()
			}
		},
	}
}

// podMatters holds for a change that a policy can see: where a pod is, whether
// it still runs, and its labels.
func podMatters(old, new any) bool {
	before, is := old.(*corev1.Pod)
	after, also := new.(*corev1.Pod)
	if !is || !also {
		return true
	}
	return before.Status.PodIP != after.Status.PodIP || before.Status.Phase != after.Status.Phase ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) || labelsMatter(old, new)
}

func labelsMatter(old, new any) bool {
	before, is := old.(metav1.Object)
	after, also := new.(metav1.Object)
	return !is || !also || !maps.Equal(before.GetLabels(), after.GetLabels())
}
