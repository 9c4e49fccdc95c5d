package localpath

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
)

func controllerWith(t *testing.T, objects ...runtime.Object) (*controller, *record.FakeRecorder) {
	t.Helper()
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	events := record.NewFakeRecorder(10)
	c := &controller{
		node:    "node-0",
		store:   store{root: filepath.Join(t.TempDir(), "volumes")},
		client:  client,
		claims:  factory.Core().V1().PersistentVolumeClaims().Lister(),
		volumes: factory.Core().V1().PersistentVolumes().Lister(),
		classes: factory.Storage().V1().StorageClasses().Lister(),
		events:  events,
	}
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	return c, events
}

func fastClass(provisioner string) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: provisioner}
}

func TestSyncClaimMakesDirectoryAndVolume(t *testing.T) {
	c, events := controllerWith(t, claimFor("node-0"), fastClass(ProvisionerName))
	if err := c.syncClaim(t.Context(), "shop/data"); err != nil {
		t.Fatal(err)
	}
	volume, err := c.client.CoreV1().PersistentVolumes().Get(t.Context(), "pvc-1234", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(volume.Spec.Local.Path)
	if err != nil || !info.IsDir() || info.Mode().Perm() != 0o777 {
		t.Fatalf("directory: %v %v", info, err)
	}
	for _, want := range []string{
		`Normal Provisioning External provisioner is provisioning volume for claim "shop/data"`,
		"Normal ProvisioningSucceeded Successfully provisioned volume pvc-1234",
	} {
		if got := <-events.Events; got != want {
			t.Errorf("event %q, want %q", got, want)
		}
	}
	if err := c.syncClaim(t.Context(), "shop/data"); err != nil || len(events.Events) != 0 {
		t.Errorf("provisioned twice: %v, %d events", err, len(events.Events))
	}
}

func TestSyncClaimLeavesOtherProvisionersAlone(t *testing.T) {
	c, events := controllerWith(t, claimFor("node-0"), fastClass("other.example/disk"))
	if err := c.syncClaim(t.Context(), "shop/data"); err != nil || len(events.Events) != 0 {
		t.Fatalf("%v, %d events", err, len(events.Events))
	}
}

func TestSyncClaimReportsRefusal(t *testing.T) {
	claim := claimFor("node-0")
	block := corev1.PersistentVolumeBlock
	claim.Spec.VolumeMode = &block
	c, events := controllerWith(t, claim, fastClass(ProvisionerName))
	if err := c.syncClaim(t.Context(), "shop/data"); err == nil {
		t.Fatal("a block volume was provisioned")
	}
	<-events.Events
	want := `Warning ProvisioningFailed failed to provision volume with StorageClass "fast": volume mode Block is not supported`
	if got := <-events.Events; got != want {
		t.Errorf("event %q, want %q", got, want)
	}
}

func TestSyncVolumeRemovesReleasedVolume(t *testing.T) {
	volume := buildVolume(claimFor("node-0"), fastClass(ProvisionerName), "node-0", "/x")
	volume.Status.Phase = corev1.VolumeReleased
	c, _ := controllerWith(t, volume)
	path, err := c.store.create(t.Context(), volume.Name, layout{bytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path, "row"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.syncVolume(t.Context(), volume.Name); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("data is still there: %v", err)
	}
	_, err = c.client.CoreV1().PersistentVolumes().Get(t.Context(), volume.Name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("object is still there: %v", err)
	}
}
