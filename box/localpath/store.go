package localpath

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	imageSuffix   = ".img"
	partialSuffix = ".partial"

	// imageDriver mounts every member of the family, whichever features it has.
	imageDriver = "ext4"
)

// store is the part of the node's disk that volumes live on. Its operations
// may be repeated after any interruption: an image gets its name only when its
// file system is complete, and what exists already is left as it is.
type store struct {
	root string
}

func (s store) image(name string) string { return filepath.Join(s.root, name+imageSuffix) }
func (s store) mount(name string) string { return filepath.Join(s.root, name) }

// create makes the volume and returns the directory for the pod.
func (s store) create(ctx context.Context, name string, plan layout) (string, error) {
	if err := os.MkdirAll(s.root, 0o755); err != nil {
		return "", err
	}
	if plan.filesystem != "" {
		if err := s.createImage(ctx, name, plan); err != nil {
			return "", err
		}
		if err := s.mountImage(name); err != nil {
			return "", err
		}
	}
	path := volumePath(s.root, name, plan)
	if err := os.Mkdir(path, 0o777); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return path, os.Chmod(path, 0o777) // whatever the umask made of it
}

func (s store) createImage(ctx context.Context, name string, plan layout) error {
	if _, err := os.Stat(s.image(name)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	partial := s.image(name) + partialSuffix
	file, err := os.Create(partial)
	if err != nil {
		return err
	}
	if err := errors.Join(file.Truncate(plan.bytes), file.Close()); err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "mkfs."+plan.filesystem, mkfsArguments(partial, plan)...)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("mkfs.%s: %w: %s", plan.filesystem, err, strings.TrimSpace(string(output)))
	}
	return os.Rename(partial, s.image(name))
}

// mkfsArguments asks for a file system whose whole size is there from the
// start: no blocks kept for root, no tables filled in later in the background.
// A sparse file reads as zeros, so no zeros need to be written to it either.
func mkfsArguments(image string, plan layout) []string {
	arguments := []string{"-q", "-F", "-m", "0",
		"-E", "lazy_itable_init=0,lazy_journal_init=0,assume_storage_prezeroed=1,nodiscard"}
	if plan.inodes > 0 {
		arguments = append(arguments, "-N", strconv.FormatInt(plan.inodes, 10))
	}
	return append(arguments, image)
}

func (s store) mountImage(name string) error {
	point := s.mount(name)
	if err := os.Mkdir(point, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	mounted, err := isMountPoint(point)
	if err != nil || mounted {
		return err
	}
	device, err := attachLoop(s.image(name))
	if err != nil {
		return fmt.Errorf("attach %s: %w", s.image(name), err)
	}
	// The mount holds the device from here on; with the last user of both gone
	// the kernel detaches it by itself, also when the node is killed.
	defer device.Close()
	if err := unix.Mount(device.Name(), point, imageDriver, 0, ""); err != nil {
		return fmt.Errorf("mount %s on %s: %w", device.Name(), point, err)
	}
	return nil
}

// mountAll brings back what a stopped or restored node had mounted. One bad
// image must not keep the others away.
func (s store) mountAll() error {
	images, err := filepath.Glob(filepath.Join(s.root, "*"+imageSuffix))
	if err != nil {
		return err
	}
	var failures []error
	for _, image := range images {
		failures = append(failures, s.mountImage(strings.TrimSuffix(filepath.Base(image), imageSuffix)))
	}
	return errors.Join(failures...)
}

func (s store) remove(name string) error {
	point := s.mount(name)
	mounted, err := isMountPoint(point)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if mounted {
		if err := unix.Unmount(point, 0); err != nil {
			return fmt.Errorf("unmount %s: %w", point, err)
		}
	}
	for _, path := range []string{s.image(name), s.image(name) + partialSuffix} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return os.RemoveAll(point)
}

// isMountPoint compares devices, which suffices because an image is never the
// device that holds it.
func isMountPoint(path string) (bool, error) {
	var here, above unix.Stat_t
	if err := unix.Lstat(path, &here); err != nil {
		return false, err
	}
	if err := unix.Lstat(filepath.Dir(path), &above); err != nil {
		return false, err
	}
	return here.Dev != above.Dev, nil
}
