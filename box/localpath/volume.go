package localpath

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// ProvisionerName is what a StorageClass names to be served here, and the
	// component that the events come from.
	ProvisionerName = "storage.local/path"

	selectedNodeAnnotation  = "volume.kubernetes.io/selected-node"
	provisionedByAnnotation = "pv.kubernetes.io/provisioned-by"

	typeParameter       = "type"
	fsTypeParameter     = "fsType"
	inodesParameter     = "inodes"
	typeDirectory       = "directory"
	typeFilesystem      = "filesystem"
	defaultFSType       = "ext4"
	minimumFilesystem   = 1 << 20
	filesystemSubfolder = "volume"
)

// extFamily are the file systems whose tools take the options used here.
var extFamily = []string{"ext2", "ext3", "ext4"}

// layout is how a volume lies on the disk: a plain directory, which shares the
// node's space with all others, or a file system of its own that can fill up.
type layout struct {
	filesystem string // empty for a plain directory
	bytes      int64
	inodes     int64 // 0 leaves the number to mkfs
}

// planLayout reads a class's parameters; it refuses what it does not know, so
// that a misspelt parameter is an event on the claim and not a silent default.
func planLayout(parameters map[string]string, request resource.Quantity) (layout, error) {
	plan := layout{bytes: request.Value()}
	for name := range parameters {
		if !slices.Contains([]string{typeParameter, fsTypeParameter, inodesParameter}, name) {
			return layout{}, fmt.Errorf("unknown parameter %q", name)
		}
	}
	switch kind := parameters[typeParameter]; kind {
	case "", typeDirectory:
		if parameters[fsTypeParameter] != "" || parameters[inodesParameter] != "" {
			return layout{}, fmt.Errorf("parameters %s and %s need %s: %s",
				fsTypeParameter, inodesParameter, typeParameter, typeFilesystem)
		}
		return plan, nil
	case typeFilesystem:
	default:
		return layout{}, fmt.Errorf("parameter %s: %q is neither %s nor %s", typeParameter, kind, typeDirectory, typeFilesystem)
	}
	if plan.bytes < minimumFilesystem {
		return layout{}, fmt.Errorf("%s is too small for a file system", request.String())
	}
	plan.filesystem = parameters[fsTypeParameter]
	if plan.filesystem == "" {
		plan.filesystem = defaultFSType
	}
	if !slices.Contains(extFamily, plan.filesystem) {
		return layout{}, fmt.Errorf("parameter %s: %q is not one of %v", fsTypeParameter, plan.filesystem, extFamily)
	}
	if text := parameters[inodesParameter]; text != "" {
		inodes, err := strconv.ParseInt(text, 10, 64)
		if err != nil || inodes < 1 {
			return layout{}, fmt.Errorf("parameter %s: %q is not a positive number", inodesParameter, text)
		}
		plan.inodes = inodes
	}
	return plan, nil
}

// claimIsFor says whether the scheduler gave this unbound claim to the node.
func claimIsFor(claim *corev1.PersistentVolumeClaim, node string) bool {
	return claim.Annotations[selectedNodeAnnotation] == node &&
		claim.Spec.VolumeName == "" &&
		claim.Spec.StorageClassName != nil &&
		claim.DeletionTimestamp == nil
}

// refuse names what a claim asks for that a local path cannot be.
func refuse(claim *corev1.PersistentVolumeClaim) error {
	switch {
	case claim.Spec.VolumeMode != nil && *claim.Spec.VolumeMode == corev1.PersistentVolumeBlock:
		return fmt.Errorf("volume mode Block is not supported")
	case claim.Spec.Selector != nil:
		return fmt.Errorf("claim selector is not supported")
	case claim.Spec.DataSource != nil || claim.Spec.DataSourceRef != nil:
		return fmt.Errorf("data source is not supported")
	}
	return nil
}

func volumeName(claim *corev1.PersistentVolumeClaim) string {
	return "pvc-" + string(claim.UID)
}

// volumePath is where the pod's data lies. A file system's data lies one level
// below its mount point: while it is not mounted the path does not exist, and
// a pod waits instead of writing to the disk underneath; and a database finds
// an empty directory rather than lost+found.
func volumePath(root, name string, plan layout) string {
	if plan.filesystem != "" {
		return filepath.Join(root, name, filesystemSubfolder)
	}
	return filepath.Join(root, name)
}

func buildVolume(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, node, path string) *corev1.PersistentVolume {
	reclaim := corev1.PersistentVolumeReclaimDelete
	if class.ReclaimPolicy != nil {
		reclaim = *class.ReclaimPolicy
	}
	mode := corev1.PersistentVolumeFilesystem
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        volumeName(claim),
			Annotations: map[string]string{provisionedByAnnotation: ProvisionerName},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes:                   claim.Spec.AccessModes,
			VolumeMode:                    &mode,
			StorageClassName:              class.Name,
			PersistentVolumeReclaimPolicy: reclaim,
			MountOptions:                  class.MountOptions,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}},
			ClaimRef: &corev1.ObjectReference{
				Kind:            "PersistentVolumeClaim",
				APIVersion:      "v1",
				Namespace:       claim.Namespace,
				Name:            claim.Name,
				UID:             claim.UID,
				ResourceVersion: claim.ResourceVersion,
			},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key:      corev1.LabelHostname,
					Operator: corev1.NodeSelectorOpIn,
					Values:   []string{node},
				}}}},
			}},
		},
	}
}

// volumeIsDone says whether a volume of this node has lost its claim for good
// and is to go with its data.
func volumeIsDone(volume *corev1.PersistentVolume, node string) bool {
	return volume.Annotations[provisionedByAnnotation] == ProvisionerName &&
		volume.Status.Phase == corev1.VolumeReleased &&
		volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete &&
		volume.DeletionTimestamp == nil &&
		volumeIsOn(volume, node)
}

func volumeIsOn(volume *corev1.PersistentVolume, node string) bool {
	if volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return false
	}
	for _, term := range volume.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, expression := range term.MatchExpressions {
			if expression.Key == corev1.LabelHostname &&
				expression.Operator == corev1.NodeSelectorOpIn &&
				slices.Contains(expression.Values, node) {
				return true
			}
		}
	}
	return false
}
