package redistest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"testing"
	"time"
)

const (
	clusterSize  = 3
	clusterSlots = 16384
)

// Cluster is three masters that share the 16384 slots: node 0 serves the first third, node 2 the last. The bus is real:
// a node that is paused or killed for longer than a second is seen as failed by the others.
type Cluster struct {
	nodes [clusterSize]*Server
	ids   [clusterSize]string
}

// StartCluster starts a cluster for one test; options go to every node. The nodes end with the test.
func StartCluster(t testing.TB, opts ...string) *Cluster {
	t.Helper()
	if err := ensureServer(); err != nil {
		t.Fatal(err)
	}
	dirs := [clusterSize]string{}
	for i := range dirs {
		dirs[i] = t.TempDir()
	}
	c, err := RunCluster(t.Context(), dirs, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.died(), c.Kill()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// RunCluster starts a cluster outside of a test, one node in each folder, and waits until every node serves. The caller
// ends it with Kill.
func RunCluster(ctx context.Context, dirs [3]string, opts ...string) (*Cluster, error) {
	c := &Cluster{}
	opts = append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "1000"}, opts...)
	for i := range c.nodes {
		var err error
		if c.nodes[i], err = Run(ctx, dirs[i], opts...); err != nil {
			return nil, errors.Join(err, c.Kill())
		}
	}
	if err := c.join(ctx); err != nil {
		return nil, errors.Join(err, c.Kill())
	}
	return c, nil
}

func (c *Cluster) join(ctx context.Context) error {
	bus := make([]string, clusterSize)
	for i, n := range c.nodes {
		id, err := n.Do(ctx, "CLUSTER", "MYID")
		if err != nil {
			return err
		}
		if c.ids[i], err = id.ToString(); err != nil {
			return err
		}
		if bus[i], err = n.config(ctx, "cluster-port"); err != nil {
			return err
		}
		low, high := i*clusterSlots/clusterSize, (i+1)*clusterSlots/clusterSize-1
		for _, args := range [][]string{
			{"CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i + 1)},
			{"CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(low), strconv.Itoa(high)},
		} {
			if _, err := n.Do(ctx, args...); err != nil {
				return err
			}
		}
	}
	for i := 1; i < clusterSize; i++ {
		if _, err := c.nodes[0].Do(ctx, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(c.nodes[i].port), bus[i]); err != nil {
			return err
		}
	}
	return c.WaitOK(ctx)
}

// config is one value of CONFIG GET.
func (s *Server) config(ctx context.Context, name string) (string, error) {
	msg, err := s.Do(ctx, "CONFIG", "GET", name)
	if err != nil {
		return "", err
	}
	m, err := msg.AsStrMap()
	if err != nil {
		return "", err
	}
	return m[name], nil
}

// WaitOK waits until every running node reports the state ok, all slots and all peers.
func (c *Cluster) WaitOK(ctx context.Context) error {
	for i, n := range c.nodes {
		if n.Pid() == 0 {
			continue
		}
		err := until(ctx, fmt.Sprintf("node %d", i), func(ctx context.Context) error {
			msg, err := n.Do(ctx, "CLUSTER", "INFO")
			if err != nil {
				return err
			}
			text, err := msg.ToString()
			if err != nil {
				return err
			}
			info := fields(text)
			if info["cluster_state"] != "ok" || info["cluster_slots_ok"] != strconv.Itoa(clusterSlots) ||
				info["cluster_known_nodes"] != strconv.Itoa(clusterSize) {
				return errors.New(text)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Node is the server of node i, 0 to 2.
func (c *Cluster) Node(i int) *Server { return c.nodes[i] }

// Addrs is the addresses of all nodes.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, clusterSize)
	for i, n := range c.nodes {
		addrs[i] = n.Addr()
	}
	return addrs
}

// URL is redis://first?addr=second&addr=third, the form that the client library reads.
func (c *Cluster) URL() string {
	addrs := c.Addrs()
	u := url.URL{Scheme: "redis", Host: addrs[0], RawQuery: url.Values{"addr": addrs[1:]}.Encode()}
	return u.String()
}

// Kill ends all nodes.
func (c *Cluster) Kill() error {
	var errs []error
	for _, n := range c.nodes {
		if n != nil {
			errs = append(errs, n.Kill())
		}
	}
	return errors.Join(errs...)
}

func (c *Cluster) died() error {
	var errs []error
	for _, n := range c.nodes {
		errs = append(errs, n.died())
	}
	return errors.Join(errs...)
}

// Slot is the slot of a key; a hash tag counts.
func (c *Cluster) Slot(ctx context.Context, key string) (int, error) {
	msg, err := c.nodes[0].Do(ctx, "CLUSTER", "KEYSLOT", key)
	if err != nil {
		return 0, err
	}
	n, err := msg.ToInt64()
	return int(n), err
}

// Owner is the node that serves a slot, as that node itself sees it.
func (c *Cluster) Owner(ctx context.Context, slot int) (int, error) {
	for i := range c.nodes {
		if id, err := c.ownerSeenBy(ctx, i, slot); err != nil {
			return 0, err
		} else if id == c.ids[i] {
			return i, nil
		}
	}
	return 0, fmt.Errorf("redistest: no node says that it serves slot %d", slot)
}

func (c *Cluster) ownerSeenBy(ctx context.Context, node, slot int) (string, error) {
	msg, err := c.nodes[node].Do(ctx, "CLUSTER", "SLOTS")
	if err != nil {
		return "", err
	}
	ranges, err := msg.ToArray()
	if err != nil {
		return "", err
	}
	for _, r := range ranges { // [low, high, [host, port, id, ...], replicas...]
		f, err := r.ToArray()
		if err != nil {
			return "", err
		}
		if len(f) < 3 {
			return "", fmt.Errorf("redistest: CLUSTER SLOTS: a range of %d fields", len(f))
		}
		low, errLow := f[0].ToInt64()
		high, errHigh := f[1].ToInt64()
		master, errMaster := f[2].ToArray()
		if err := errors.Join(errLow, errHigh, errMaster); err != nil {
			return "", err
		}
		if int64(slot) >= low && int64(slot) <= high && len(master) >= 3 {
			return master[2].ToString()
		}
	}
	return "", nil
}

// BeginMove opens the migration of a slot: from answers ASK for keys that it does not have, to takes them after ASKING.
func (c *Cluster) BeginMove(ctx context.Context, slot, from, to int) error {
	if _, err := c.nodes[to].Do(ctx, "CLUSTER", "SETSLOT", strconv.Itoa(slot), "IMPORTING", c.ids[from]); err != nil {
		return err
	}
	_, err := c.nodes[from].Do(ctx, "CLUSTER", "SETSLOT", strconv.Itoa(slot), "MIGRATING", c.ids[to])
	return err
}

// MoveKeys moves up to n keys of an open slot and says how many it moved; 0 means that none are left.
func (c *Cluster) MoveKeys(ctx context.Context, slot, from, to, n int) (int, error) {
	msg, err := c.nodes[from].Do(ctx, "CLUSTER", "GETKEYSINSLOT", strconv.Itoa(slot), strconv.Itoa(n))
	if err != nil {
		return 0, err
	}
	keys, err := msg.AsStrSlice()
	if err != nil || len(keys) == 0 {
		return 0, err
	}
	return len(keys), c.MigrateKeys(ctx, from, to, keys...)
}

// MigrateKeys moves the named keys of an open slot; those that do not exist are passed over.
func (c *Cluster) MigrateKeys(ctx context.Context, from, to int, keys ...string) error {
	timeout := strconv.Itoa(int(startTimeout / time.Millisecond))
	args := []string{"MIGRATE", "127.0.0.1", strconv.Itoa(c.nodes[to].port), "", "0", timeout, "KEYS"}
	_, err := c.nodes[from].Do(ctx, append(args, keys...)...)
	return err
}

// FinishMove gives the slot to its new owner, whatever keys were left behind, and waits until all nodes know.
func (c *Cluster) FinishMove(ctx context.Context, slot, from, to int) error {
	order := []int{to, from}
	for i := range c.nodes {
		if i != from && i != to {
			order = append(order, i)
		}
	}
	for _, i := range order {
		if _, err := c.nodes[i].Do(ctx, "CLUSTER", "SETSLOT", strconv.Itoa(slot), "NODE", c.ids[to]); err != nil {
			return err
		}
	}
	for i := range c.nodes {
		err := until(ctx, fmt.Sprintf("slot %d on node %d", slot, i), func(ctx context.Context) error {
			id, err := c.ownerSeenBy(ctx, i, slot)
			if err == nil && id != c.ids[to] {
				err = fmt.Errorf("it sees %q as the owner", id)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// CancelMove closes an open migration without a change of owner; keys that were moved already stay where they are, so
// move them back first.
func (c *Cluster) CancelMove(ctx context.Context, slot, from, to int) error {
	for _, i := range []int{from, to} {
		if _, err := c.nodes[i].Do(ctx, "CLUSTER", "SETSLOT", strconv.Itoa(slot), "STABLE"); err != nil {
			return err
		}
	}
	return nil
}

// MoveSlot moves a slot with all its keys, as an operator's tool does, ten keys at a time.
func (c *Cluster) MoveSlot(ctx context.Context, slot, from, to int) error {
	if err := c.BeginMove(ctx, slot, from, to); err != nil {
		return err
	}
	for {
		n, err := c.MoveKeys(ctx, slot, from, to, 10)
		if err != nil {
			return err
		}
		if n == 0 {
			return c.FinishMove(ctx, slot, from, to)
		}
	}
}
