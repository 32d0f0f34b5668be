package main

import (
	"context"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

// kafkaGoMember takes the generations of the library's ConsumerGroup one after the other.
type kafkaGoMember struct {
	*member
	wanted     groupWanted
	bootstrap  string
	guard      sync.Mutex
	generation *kafka.Generation
}

func (k kafkaGo) live(wanted groupWanted, lines <-chan string) error {
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID:      wanted.group,
		Brokers: addresses(k.bootstrap),
		Topics:  []string{wanted.topic},
		GroupBalancers: []kafka.GroupBalancer{map[string]kafka.GroupBalancer{
			"range":      kafka.RangeGroupBalancer{},
			"roundrobin": kafka.RoundRobinGroupBalancer{},
		}[wanted.assignor]},
		HeartbeatInterval: wanted.heartbeat(),
		SessionTimeout:    wanted.session,
		RebalanceTimeout:  rebalanceTimeout,
		JoinGroupBackoff:  100 * time.Millisecond,
		StartOffset:       kafka.FirstOffset,
	})
	if err != nil {
		return err
	}
	state := &kafkaGoMember{member: newMember(), wanted: wanted, bootstrap: k.bootstrap}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			generation, err := group.Next(ctx)
			if err == nil {
				state.begin(generation)
			}
		}
	}()
	for line := range lines {
		if line == "leave" {
			break
		}
		state.commitAgain()
	}
	cancel()
	err = group.Close()
	<-ended
	return err
}

func (k *kafkaGoMember) begin(generation *kafka.Generation) {
	given := generation.Assignments[k.wanted.topic]
	partitions := make([]int32, 0, len(given))
	for _, one := range given {
		partitions = append(partitions, int32(one.ID))
	}
	k.guard.Lock()
	k.generation = generation
	k.assigned(partitions, generation.ID, generation.MemberID)
	k.guard.Unlock()
	generation.Start(func(ctx context.Context) {
		var readers sync.WaitGroup
		for _, one := range given {
			readers.Add(1)
			go func() {
				defer readers.Done()
				k.readPartition(ctx, generation, one)
			}()
		}
		<-ctx.Done()
		readers.Wait()
		k.guard.Lock()
		defer k.guard.Unlock()
		k.generation = nil
		k.taken("revoked", partitions, generation.ID, generation.MemberID)
	})
}

func (k *kafkaGoMember) readPartition(ctx context.Context, generation *kafka.Generation, given kafka.PartitionAssignment) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:   addresses(k.bootstrap),
		Topic:     k.wanted.topic,
		Partition: given.ID,
		MinBytes:  1,
		MaxBytes:  10 << 20,
		MaxWait:   100 * time.Millisecond,
	})
	defer reader.Close()
	if err := reader.SetOffset(given.Offset); err != nil {
		return
	}
	for ctx.Err() == nil {
		message, err := reader.ReadMessage(ctx)
		if err != nil {
			continue
		}
		k.guard.Lock()
		k.read(int32(message.Partition), []int64{message.Offset})
		k.commit(map[int32]int64{int32(message.Partition): message.Offset + 1}, generation)
		k.guard.Unlock()
	}
}

func (k *kafkaGoMember) commitAgain() {
	k.guard.Lock()
	defer k.guard.Unlock()
	if k.generation == nil {
		k.commit(nil, nil)
	} else {
		k.commit(k.everything(), k.generation)
	}
}

func (k *kafkaGoMember) commit(offsets map[int32]int64, generation *kafka.Generation) {
	var number int32 = -1
	if generation != nil {
		number = generation.ID
	}
	k.member.commit(offsets, number, func() error {
		wanted := map[int]int64{}
		for partition, offset := range offsets {
			wanted[int(partition)] = offset
		}
		return generation.CommitOffsets(map[string]map[int]int64{k.wanted.topic: wanted})
	})
}
