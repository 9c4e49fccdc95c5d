package localpath

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

const (
	retryFirst = 100 * time.Millisecond
	retryLimit = 15 * time.Second
)

// queue holds the names of objects to look at, and keeps the ones that failed.
type queue struct {
	workqueue.TypedRateLimitingInterface[string]
}

func newQueue() queue {
	return queue{workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryFirst, retryLimit))}
}

func (q queue) add(object any) {
	if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
		q.Add(key)
	}
}

// work runs until the queue is shut down.
func (q queue) work(ctx context.Context, sync func(ctx context.Context, key string) error) {
	for {
		key, shutdown := q.Get()
		if shutdown {
			return
		}
		if err := sync(ctx, key); err != nil {
			klog.ErrorS(err, "Not settled", "object", key)
			q.AddRateLimited(key)
		} else {
			q.Forget(key)
		}
		q.Done(key)
	}
}

// controller serves the claims and volumes of one node.
type controller struct {
	node    string
	store   store
	client  kubernetes.Interface
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	classes storagelisters.StorageClassLister
	events  record.EventRecorder

	claimQueue  queue
	volumeQueue queue
}

// syncClaim provisions a claim that was given to this node.
func (c *controller) syncClaim(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	claim, err := c.claims.PersistentVolumeClaims(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return err
	}
	if !claimIsFor(claim, c.node) {
		return nil
	}
	class, err := c.classes.Get(*claim.Spec.StorageClassName)
	if apierrors.IsNotFound(err) {
		// The class may be newer than this cache; ask once more, rather than later.
		class, err = c.client.StorageV1().StorageClasses().Get(ctx, *claim.Spec.StorageClassName, metav1.GetOptions{})
	}
	if err != nil {
		return err
	}
	if class.Provisioner != ProvisionerName {
		return nil
	}
	// The cache may not know yet what the last call created; the API does.
	_, err = c.client.CoreV1().PersistentVolumes().Get(ctx, volumeName(claim), metav1.GetOptions{})
	if err == nil {
		return nil // provisioned, and on its way to be bound
	} else if !apierrors.IsNotFound(err) {
		return err
	}
	c.events.Eventf(claim, corev1.EventTypeNormal, "Provisioning",
		"External provisioner is provisioning volume for claim %q", key)
	volume, err := c.provision(ctx, claim, class)
	if err != nil {
		c.events.Eventf(claim, corev1.EventTypeWarning, "ProvisioningFailed",
			"failed to provision volume with StorageClass %q: %v", class.Name, err)
		return err
	}
	c.events.Eventf(claim, corev1.EventTypeNormal, "ProvisioningSucceeded",
		"Successfully provisioned volume %s", volume.Name)
	klog.InfoS("Volume provisioned", "claim", key, "volume", volume.Name, "path", volume.Spec.Local.Path)
	return nil
}

func (c *controller) provision(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass,
) (*corev1.PersistentVolume, error) {
	if err := refuse(claim); err != nil {
		return nil, err
	}
	plan, err := planLayout(class.Parameters, claim.Spec.Resources.Requests[corev1.ResourceStorage])
	if err != nil {
		return nil, err
	}
	path, err := c.store.create(ctx, volumeName(claim), plan)
	if err != nil {
		return nil, err
	}
	volume := buildVolume(claim, class, c.node, path)
	created, err := c.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return volume, nil
	}
	return created, err
}

// syncVolume takes down a volume of this node that nobody claims any more.
func (c *controller) syncVolume(ctx context.Context, name string) error {
	volume, err := c.volumes.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return err
	}
	if !volumeIsDone(volume, c.node) {
		return nil
	}
	if err := c.store.remove(volume.Name); err != nil {
		c.events.Event(volume, corev1.EventTypeWarning, "VolumeFailedDelete", err.Error())
		return fmt.Errorf("remove volume: %w", err)
	}
	err = c.client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name,
		metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(volume.UID))})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete volume object: %w", err)
	}
	klog.InfoS("Volume removed", "volume", volume.Name)
	return nil
}
