package sqlitestore

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// networkFS are file systems on which the locks and the shared memory of SQLite do not work between machines, by the magic number of statfs(2).
var networkFS = map[uint32]string{
	0x6969: "NFS", 0xff534d42: "CIFS", 0xfe534d42: "SMB2", 0x517b: "SMB", 0x5346414f: "AFS", 0x73757245: "Coda", 0x00c36400: "Ceph",
	0x01021997: "9p", 0x0bd00bd0: "Lustre", 0x786f4256: "vboxsf", 0x47504653: "GPFS", 0x19830326: "BeeGFS", 0x7461636f: "OCFS2", 0x01161970: "GFS2",
}

const fuse = 0x65735546

func fsMagic(dir string) (uint32, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return uint32(st.Type), nil
}

// refuseNetwork says why the file system of dir will not do.
func refuseNetwork(dir string) error {
	magic, err := fsMagic(dir)
	if err != nil {
		return fmt.Errorf("statfs %s: %w", dir, err)
	}
	if name := networkFS[magic]; name != "" {
		return fmt.Errorf("%s is on a network file system (%s), where SQLite loses data: put the store on a local disk, or use a Redis store", dir, name)
	}
	return nil
}

// suspectFS warns of a file system that may be a network one.
func suspectFS(dir string) string {
	if magic, err := fsMagic(dir); err == nil && magic == fuse {
		return dir + " is on a FUSE file system: make sure that it is a local one with working locks"
	}
	return ""
}
