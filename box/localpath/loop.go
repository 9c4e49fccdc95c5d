package localpath

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	loopControl      = "/dev/loop-control"
	loopControlMajor = 10
	loopControlMinor = 237
	loopMajor        = 7

	// attachAttempts bounds the race with others on the machine, who may take
	// the free device between the question and the answer.
	attachAttempts = 50
)

// attachLoop gives the image a block device, which lasts as long as somebody
// has it open or mounted. A node may have a /dev of its own in which the kernel
// makes no device nodes, so missing ones are made here.
func attachLoop(image string) (*os.File, error) {
	backing, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer backing.Close()
	control, err := openDevice(loopControl, unix.S_IFCHR, loopControlMajor, loopControlMinor)
	if err != nil {
		return nil, err
	}
	defer control.Close()

	config := unix.LoopConfig{Fd: uint32(backing.Fd())}
	config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR
	copy(config.Info.File_name[:len(config.Info.File_name)-1], image)
	for range attachAttempts {
		number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("find a free loop device: %w", err)
		}
		device, err := openDevice(fmt.Sprintf("/dev/loop%d", number), unix.S_IFBLK, loopMajor, uint32(number))
		if err != nil {
			return nil, err
		}
		err = unix.IoctlLoopConfigure(int(device.Fd()), &config)
		if err == nil {
			return device, nil
		}
		device.Close()
		if !errors.Is(err, unix.EBUSY) {
			return nil, fmt.Errorf("configure %s: %w", device.Name(), err)
		}
	}
	return nil, fmt.Errorf("no loop device stayed free in %d attempts", attachAttempts)
}

func openDevice(path string, kind, major, minor uint32) (*os.File, error) {
	err := unix.Mknod(path, kind|0o660, int(unix.Mkdev(major, minor)))
	if err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("make %s: %w", path, err)
	}
	return os.OpenFile(path, os.O_RDWR, 0)
}
