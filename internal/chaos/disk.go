package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// disk is a small file system of its own, which can be filled to the last byte.
type disk struct {
	dir string
	mu  sync.Mutex
	up  bool
}

// diskSize is enough for the largest campaign's ledger; it takes memory only
// for what is written.
const diskSize = "1g"

// newDisk mounts one at a folder, which needs the rights of root. Without them
// the folder is made on the disk that is there, and cannot be filled.
func newDisk(dir string) (*disk, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := syscall.Mount("chaos", dir, "tmpfs", 0, "size="+diskSize+",mode=0700"); err != nil {
		return nil, fmt.Errorf("mount a file system: %w", err)
	}
	return &disk{dir: dir, up: true}, nil
}

func (d *disk) filler() string { return filepath.Join(d.dir, "filler") }

// fill takes all space that is left.
func (d *disk) fill() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var st syscall.Statfs_t
	if err := syscall.Statfs(d.dir, &st); err != nil {
		return err
	}
	f, err := os.Create(d.filler())
	if err != nil {
		return err
	}
	if err := syscall.Fallocate(int(f.Fd()), 0, 0, int64(st.Bavail)*st.Bsize); err != nil {
		return errors.Join(err, f.Close(), os.Remove(d.filler()))
	}
	// What somebody gave back meanwhile.
	page := make([]byte, 4096)
	for {
		if _, err := f.WriteAt(page, int64(st.Bavail)*st.Bsize); err != nil {
			break
		}
		st.Bavail++
	}
	return f.Close()
}

// free gives it back.
func (d *disk) free() {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = os.Remove(d.filler()) // not there: nothing to give back
}

func (d *disk) close() error {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.up {
		return nil
	}
	d.up = false
	// Detached, so that a process which still has a file open is no obstacle.
	return syscall.Unmount(d.dir, syscall.MNT_DETACH)
}
