package sqlitestore

import "testing"

// Network file systems are known by their numbers.
func TestNetworkFS(t *testing.T) {
	dir := t.TempDir()
	if err := refuseNetwork(dir); err != nil {
		t.Errorf("a local disk is refused: %v", err)
	}
	if networkFS[0x6969] != "NFS" || networkFS[0xff534d42] != "CIFS" || networkFS[0xef53] != "" {
		t.Error("NFS and CIFS are network file systems, ext4 is none")
	}
	if err := refuseNetwork(dir + "/nowhere"); err == nil {
		t.Error("a directory that does not exist is taken")
	}
}
