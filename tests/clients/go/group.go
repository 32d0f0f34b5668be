package main

import (
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	pollTime            = 50 * time.Millisecond
	connectTimeout      = 30 * time.Second
	rebalanceTimeout    = 30 * time.Second
	heartbeatsInSession = 8
)

type groupWanted struct {
	topic    string
	group    string
	assignor string
	instance string
	session  time.Duration
}

func (w groupWanted) heartbeat() time.Duration { return w.session / heartbeatsInSession }

// member is what a member of a group owns and how far it has read; its lines are those of README.md.
type member struct {
	guard     sync.Mutex
	owned     map[int32]bool
	positions map[int32]int64
}

func newMember() *member {
	return &member{owned: map[int32]bool{}, positions: map[int32]int64{}}
}

func (m *member) assigned(partitions []int32, generation int32, name string) {
	m.guard.Lock()
	defer m.guard.Unlock()
	for _, partition := range partitions {
		m.owned[partition] = true
	}
	m.sayOwned("assigned", partitions, generation, name)
}

// taken tells that partitions are `revoked` or `lost`.
func (m *member) taken(event string, partitions []int32, generation int32, name string) {
	m.guard.Lock()
	defer m.guard.Unlock()
	for _, partition := range partitions {
		delete(m.owned, partition)
		delete(m.positions, partition)
	}
	m.sayOwned(event, partitions, generation, name)
}

func (m *member) sayOwned(event string, partitions []int32, generation int32, name string) {
	say(map[string]any{
		"event":      event,
		"partitions": sorted(partitions),
		"owned":      sorted(keys(m.owned)),
		"generation": generation,
		"member":     name,
	})
}

func (m *member) read(partition int32, offsets []int64) {
	m.guard.Lock()
	defer m.guard.Unlock()
	m.positions[partition] = offsets[len(offsets)-1] + 1
	say(map[string]any{"event": "read", "partition": partition, "offsets": offsets})
}

// everything is how far it has read in all partitions that it owns.
func (m *member) everything() map[int32]int64 {
	m.guard.Lock()
	defer m.guard.Unlock()
	copied := map[int32]int64{}
	for partition, offset := range m.positions {
		copied[partition] = offset
	}
	return copied
}

// commit tells the outcome of act, unless there is nothing to do.
func (m *member) commit(offsets map[int32]int64, generation int32, act func() error) {
	shown := map[string]int64{}
	for partition, offset := range offsets {
		shown[strconv.Itoa(int(partition))] = offset
	}
	if len(offsets) == 0 {
		say(map[string]any{"event": "refused", "error": "it has nothing to commit", "committed": shown})
	} else if err := act(); err != nil {
		say(map[string]any{"event": "refused", "error": err.Error(), "committed": shown})
	} else {
		say(map[string]any{"event": "committed", "committed": shown, "generation": generation})
	}
}

func keys(set map[int32]bool) []int32 {
	found := make([]int32, 0, len(set))
	for key := range set {
		found = append(found, key)
	}
	return found
}

func sorted(partitions []int32) []int32 {
	copied := append([]int32{}, partitions...)
	slices.Sort(copied)
	return copied
}
