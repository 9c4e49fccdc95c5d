package localpath

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func claimFor(node string) *corev1.PersistentVolumeClaim {
	class := "fast"
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "data", UID: "1234",
			Annotations: map[string]string{"volume.kubernetes.io/selected-node": node},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class,
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("64Mi")},
			},
		},
	}
}

func TestPlanLayout(t *testing.T) {
	for name, test := range map[string]struct {
		parameters map[string]string
		request    string
		want       layout
		failure    string
	}{
		"directory by default":    {nil, "1Gi", layout{bytes: 1 << 30}, ""},
		"directory by name":       {map[string]string{"type": "directory"}, "1Ki", layout{bytes: 1 << 10}, ""},
		"file system":             {map[string]string{"type": "filesystem"}, "64Mi", layout{"ext4", 64 << 20, 0}, ""},
		"file system with inodes": {map[string]string{"type": "filesystem", "fsType": "ext2", "inodes": "200"}, "64Mi", layout{"ext2", 64 << 20, 200}, ""},
		"unknown parameter":       {map[string]string{"typ": "filesystem"}, "64Mi", layout{}, `unknown parameter "typ"`},
		"unknown type":            {map[string]string{"type": "block"}, "64Mi", layout{}, "neither"},
		"unknown file system":     {map[string]string{"type": "filesystem", "fsType": "../sh"}, "64Mi", layout{}, "not one of"},
		"inodes without a table":  {map[string]string{"inodes": "200"}, "64Mi", layout{}, "need type: filesystem"},
		"no inodes at all":        {map[string]string{"type": "filesystem", "inodes": "0"}, "64Mi", layout{}, "not a positive number"},
		"too small":               {map[string]string{"type": "filesystem"}, "512Ki", layout{}, "too small"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := planLayout(test.parameters, resource.MustParse(test.request))
			if test.failure != "" {
				if err == nil || !strings.Contains(err.Error(), test.failure) {
					t.Fatalf("error %v does not contain %q", err, test.failure)
				}
				return
			}
			if err != nil || got != test.want {
				t.Fatalf("got %+v, %v; want %+v", got, err, test.want)
			}
		})
	}
}

func TestClaimIsFor(t *testing.T) {
	for name, change := range map[string]func(*corev1.PersistentVolumeClaim){
		"another node":  func(c *corev1.PersistentVolumeClaim) { c.Annotations[selectedNodeAnnotation] = "node-1" },
		"not scheduled": func(c *corev1.PersistentVolumeClaim) { c.Annotations = nil },
		"bound":         func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "other" },
		"no class":      func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil },
		"going away":    func(c *corev1.PersistentVolumeClaim) { now := metav1.Now(); c.DeletionTimestamp = &now },
	} {
		claim := claimFor("node-0")
		if !claimIsFor(claim, "node-0") {
			t.Fatal("the plain claim is not served")
		}
		if change(claim); claimIsFor(claim, "node-0") {
			t.Errorf("served although: %s", name)
		}
	}
}

func TestBuildVolume(t *testing.T) {
	retain := corev1.PersistentVolumeReclaimRetain
	class := &storagev1.StorageClass{
		ObjectMeta:    metav1.ObjectMeta{Name: "fast"},
		Provisioner:   ProvisionerName,
		ReclaimPolicy: &retain,
		MountOptions:  []string{"noatime"},
	}
	volume := buildVolume(claimFor("node-0"), class, "node-0", "/srv/pvc-1234")

	if volume.Name != "pvc-1234" || volume.Annotations["pv.kubernetes.io/provisioned-by"] != "storage.local/path" {
		t.Errorf("identity: %s %v", volume.Name, volume.Annotations)
	}
	spec := volume.Spec
	if spec.ClaimRef.Namespace != "shop" || spec.ClaimRef.Name != "data" || spec.ClaimRef.UID != "1234" {
		t.Errorf("claim: %+v", spec.ClaimRef)
	}
	if size := spec.Capacity[corev1.ResourceStorage]; size.String() != "64Mi" {
		t.Errorf("capacity: %s", size.String())
	}
	if spec.PersistentVolumeReclaimPolicy != retain || !slices.Equal(spec.MountOptions, []string{"noatime"}) || spec.StorageClassName != "fast" {
		t.Errorf("class: %+v", spec)
	}
	if spec.Local.Path != "/srv/pvc-1234" || !volumeIsOn(volume, "node-0") || volumeIsOn(volume, "node-1") {
		t.Errorf("place: %+v %+v", spec.Local, spec.NodeAffinity)
	}
	class.ReclaimPolicy = nil
	if policy := buildVolume(claimFor("node-0"), class, "node-0", "/x").Spec.PersistentVolumeReclaimPolicy; policy != corev1.PersistentVolumeReclaimDelete {
		t.Errorf("default reclaim policy: %s", policy)
	}
}

func TestVolumeIsDone(t *testing.T) {
	released := func() *corev1.PersistentVolume {
		volume := buildVolume(claimFor("node-0"), &storagev1.StorageClass{}, "node-0", "/x")
		volume.Status.Phase = corev1.VolumeReleased
		return volume
	}
	if !volumeIsDone(released(), "node-0") {
		t.Fatal("a released volume stays")
	}
	for name, change := range map[string]func(*corev1.PersistentVolume){
		"bound": func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeBound },
		"retained": func(v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		},
		"not ours":   func(v *corev1.PersistentVolume) { v.Annotations = nil },
		"elsewhere":  func(v *corev1.PersistentVolume) { v.Spec.NodeAffinity = nil },
		"going away": func(v *corev1.PersistentVolume) { now := metav1.Now(); v.DeletionTimestamp = &now },
	} {
		volume := released()
		if change(volume); volumeIsDone(volume, "node-0") {
			t.Errorf("removed although: %s", name)
		}
	}
}

func TestMkfsArguments(t *testing.T) {
	plain := mkfsArguments("/x.img", layout{"ext4", 1 << 20, 0})
	if slices.Contains(plain, "-N") || plain[len(plain)-1] != "/x.img" {
		t.Errorf("plain: %v", plain)
	}
	counted := strings.Join(mkfsArguments("/x.img", layout{"ext4", 1 << 20, 128}), " ")
	if !strings.Contains(counted, "-m 0 ") || !strings.Contains(counted, "-N 128 /x.img") {
		t.Errorf("counted: %s", counted)
	}
}
